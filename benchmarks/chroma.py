"""Chroma of 4:2:0, whose similar patches are those of the luma, compared with those of its own: PSNR, and time.

The noise is white in red, green and blue, as before a camera converts them.
"""

import time
from pathlib import Path

import numpy as np

import nlridge
from nlridge.files.video.pixels import Parts, luma_of

from .images import psnr, with_noise
from .results import record

_MATRIX = np.array([[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]])
_PARTS = Parts(((0,), (1, 2)), 8, (2, 2))
_METHODS = ("fast", "standard", "best")


def run(options):
    files = sorted((Path(options.data) / "video").glob("*.npy")) if options.data else []
    print("\nchroma of 4:2:0, ten frames: PSNR (dB), and milliseconds of the processor a frame\n")
    print("| clip | sigma | method | its own patches | those of the luma | gain | ratio of times |")
    print("|---|---|---|---|---|---|---|")
    for seed, file in enumerate(files):
        clip = np.load(file)[:10].astype(float)
        truth = _chroma(clip)
        for sigma in options.video_sigma:
            noisy = with_noise(clip, sigma, seed)
            chroma = _chroma(noisy)
            lumas = [luma_of((frame @ _MATRIX[0],), _PARTS) for frame in noisy]
            for method in _METHODS:
                results = [
                    _measured(chroma, truth, sigma, method, options.repeat, similar)
                    for similar in (None, lumas)
                ]
                (own, before), (by_luma, after) = results
                print(
                    f"| {file.stem} | {sigma:g} | {method} | {own:.2f}, {1e3 * before:.0f} | "
                    f"{by_luma:.2f}, {1e3 * after:.0f} | {by_luma - own:+.2f} | {after / before:.2f} |",
                    flush=True,
                )
                values = {"own": own, "by luma": by_luma, "ratio of times": after / before}
                row = f"{file.stem}, sigma {sigma:g}, {method}"
                record(options, "chroma", {row: {k: round(float(v), 3) for k, v in values.items()}})


def _chroma(clip):
    """Both chroma planes of frames of red, green and blue, at half the size."""
    frames, height, width, _ = clip.shape
    chroma = np.moveaxis(128 + clip @ _MATRIX[1:].T, -1, 1).astype(np.float32)
    return chroma.reshape(frames, 2, height // 2, 2, width // 2, 2).mean((3, 5))


def _measured(chroma, truth, sigma, method, repeat, similar):
    """PSNR, and the least seconds of the processor a frame."""
    levels = sigma / 2 * np.sqrt(np.square(_MATRIX[1:]).sum(axis=1))
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        denoised = nlridge.denoise_frames(
            chroma,
            levels,
            method=method,
            channel_axis=0,
            data_range=255,
            workers=1,
            similar=similar,
        )
        result = np.stack(list(denoised))
        seconds.append((time.process_time() - start) / len(chroma))
    return psnr(result, truth), min(seconds)
