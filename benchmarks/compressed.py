"""Frames of clips that were compressed by H.264, with noise and without: blind, luma and chroma apart as in files.

Without noise, the frames should stay as they are, so PSNR is that to the compressed frames; with noise, it is that to the
clip before noise and compression.
"""

import io
from pathlib import Path

import numpy as np

import nlridge
from nlridge.files.video.pixels import Parts, luma_of

from .images import psnr, with_noise

_PARTS = Parts(((0,), (1, 2)), 8, (2, 2))
_FRAMES = 6
_QUALITIES = (16, 24, 30)  # the constant rate factors of x264, from fine to coarse


def run(options):
    files = sorted((Path(options.data) / "video").glob("*.npy")) if options.data else []
    print(f"\n{_FRAMES} frames of H.264, blind: PSNR (dB) before and after, and the noise found\n")
    print("| clip | sigma | crf | luma | chroma | noise of luma | noise of chroma |")
    print("|---|---|---|---|---|---|---|")
    for seed, file in enumerate(files):
        clip = np.load(file)[:_FRAMES]
        # FFmpeg converts colors in whole vectors, beyond the end of rows of any other length.
        clip = clip[:, : clip.shape[1] // 64 * 64, : clip.shape[2] // 64 * 64]
        for sigma in (0, *options.video_sigma):
            noisy = np.rint(with_noise(clip, sigma, seed).clip(0, 255)).astype(np.uint8)
            for quality in _QUALITIES:
                stored = _compressed(noisy, quality)
                truth = stored if sigma == 0 else [_planes(frame) for frame in _frames_of(clip)]
                values, noises = zip(*(_part(stored, truth, part) for part in (0, 1)), strict=True)
                row = [file.stem, f"{sigma:g}", quality, *values, *noises]
                print(f"| {' | '.join(map(str, row))} |", flush=True)


def _part(stored, truth, part):
    """PSNR of the luma, or of the chroma, before and after, and the noise found."""
    noisy, clean = ([planes[part] for planes in frames] for frames in (stored, truth))
    guide = {"similar": (luma_of((y,), _PARTS) for y, _ in stored)} if part else {}
    axis = 0 if part else None
    denoised = nlridge.denoise_frames(iter(noisy), method="fast", channel_axis=axis, **guide)
    result = np.stack(list(denoised))
    before = "same" if stored is truth else f"{psnr(np.stack(noisy), np.stack(clean)):.2f}"
    return f"{before}, {psnr(result, np.stack(clean)):.2f}", denoised.noise


def _compressed(clip, quality):
    import av

    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=25, options={"crf": str(quality)})
        stream.height, stream.width = clip.shape[1:3]
        stream.pix_fmt, stream.thread_count = "yuv420p", 1  # the same frames each time
        for frame in _frames_of(clip):
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file) as container:
        return [_planes(frame) for frame in container.decode(video=0)]


def _frames_of(clip):
    import av

    return [av.VideoFrame.from_ndarray(np.ascontiguousarray(frame)) for frame in clip]


def _planes(frame):
    """The luma, and both chroma planes at half the size."""
    height, width = frame.height, frame.width
    rows = frame.reformat(format="yuv420p").to_ndarray()
    return rows[:height], rows[height:].reshape(2, height // 2, width // 2)
