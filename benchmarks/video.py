"""Videos and volumes: quality and time next to other packages, hard clips, and the memory of a long video.

Clips are those of DATA/video, (frames, height, width, 3), and volumes those of DATA/volumes. Only the first ten frames of
a clip are used. The noise of the i-th clip is that of `numpy.random.default_rng(i)`.
"""

import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

import nlridge

from . import chroma, compressed
from .clips import hard_clips, noise_of
from .images import psnr, with_noise
from .progress import shown
from .results import record

_METHODS = ("preview", "fast", "standard", "best")
_ALONE = "frame by frame, standard"
_OPENCV = "OpenCV fastNlMeansDenoisingMulti"
_BM4D = "bm4d package"
_LUMA = np.array([0.299, 0.587, 0.114])
_STRENGTHS = (0.6, 0.8, 1.0, 1.2)  # h of OpenCV, in units of sigma


def add_arguments(parser):
    parser.add_argument(
        "--video",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="what to measure with videos (default: all)",
    )
    parser.add_argument(
        "--video-sigma",
        type=float,
        nargs="+",
        default=[20, 40],
        help="noise levels for videos (default: %(default)s)",
    )
    parser.add_argument(
        "--video-frames",
        type=int,
        default=1000,
        help="length of the long video in frames (default: %(default)s)",
    )
    parser.add_argument(
        "--video-method",
        choices=_METHODS,
        default="fast",
        help="method for the long video (default: %(default)s)",
    )


def run(options):
    for name in options.video:
        PARTS[name](options)


def _clips(options):
    """Print PSNR and seconds for clips in gray and in color."""
    files = sorted((Path(options.data) / "video").glob("*.npy")) if options.data else []
    clips = [np.load(file)[:10].astype(float) for file in files]
    _compare("gray clips", [clip @ _LUMA for clip in clips], _rows(None, "time_axis"), options)
    _compare("color clips", clips, _rows(-1, "time_axis"), options)


def _volumes(options):
    """Print PSNR and seconds for volumes."""
    files = sorted((Path(options.data) / "volumes").glob("*.npy")) if options.data else []
    volumes = [np.load(file).astype(float) for file in files]
    _compare("volumes", volumes, _rows(None, "depth_axis"), options)


def _rows(channel_axis, axis):
    """What is compared: functions of noisy frames, sigma and the number of workers."""

    def denoised(noisy, sigma, workers, **arguments):
        return nlridge.denoise(
            noisy, sigma, channel_axis=channel_axis, data_range=255, workers=workers, **arguments
        )

    def blind(noisy, sigma, workers):
        return denoised(noisy, None, workers, **{axis: 0})

    rows = {name: partial(denoised, method=name, **{axis: 0}) for name in _METHODS}
    rows["standard, noise not given"] = blind
    rows[_ALONE] = partial(denoised, stack_axis=0)
    try:
        if axis == "time_axis":
            return rows | {f"{_OPENCV}, h = {k} sigma": _opencv(k) for k in _STRENGTHS}
        return rows | {_BM4D: _bm4d()}
    except ImportError as error:
        print(f"{error.name}: not installed")
        return rows


def _opencv(strength):
    """OpenCV with h as a multiple of sigma."""
    import cv2

    def call(noisy, sigma, workers):
        cv2.setNumThreads(workers)
        rounded = list(np.clip(noisy + 0.5, 0, 255).astype(np.uint8))
        function, h = cv2.fastNlMeansDenoisingMulti, [strength * sigma]
        if noisy.ndim == 4:
            function, h = cv2.fastNlMeansDenoisingColoredMulti, 2 * h
        last = len(rounded) - 1
        # Five frames, and fewer at both ends of a clip.
        lengths = [1 + 2 * min(2, k, last - k) for k in range(len(rounded))]
        return np.array([function(rounded, k, n, None, *h) for k, n in enumerate(lengths)])

    return call


def _bm4d():
    from bm4d import bm4d

    return lambda noisy, sigma, workers: bm4d(noisy, sigma)


def _compare(what, truths, rows, options):
    if not truths:
        print(f"\n{what}: none in DATA")
        return
    if options.methods:
        rows = {name: rows[name] for name in rows if name in (*options.methods, _ALONE)}
    for call in rows.values():  # compile and load
        call(with_noise(truths[0][:8, :64, :64], 20, 0), 20, 2)
    for sigma in options.video_sigma:
        quality, seconds = {}, {}
        for seed, truth in enumerate(truths):
            noisy = with_noise(truth, sigma, seed)
            for name, call in shown(rows.items(), f"{what}, sigma {sigma:g}"):
                for workers in (2,) if name.startswith((_OPENCV, _BM4D)) else (2, 1):
                    times = []
                    for _ in range(options.repeat):
                        start = time.perf_counter(), time.process_time()
                        clean = call(noisy, sigma, workers)
                        end = time.perf_counter(), time.process_time()
                        times.append(np.subtract(end, start) / len(truth))
                    seconds.setdefault((name, workers), []).append(np.min(times, axis=0))
                quality.setdefault(name, []).append(psnr(clean, truth))
        print(
            f"\n{what}, sigma {sigma:g}, {len(truths)} in all: mean PSNR, and its gain over frame by frame; seconds a "
            f"frame on two workers and on one (least of {options.repeat}); time on two workers, and processor time, relative "
            "to frame by frame, and to the other package at its best\n"
        )
        print(
            "| | dB | gain | 2 workers | 1 worker | 1 / 2 | to by frame, processor | to other, processor |"
        )
        print("|---|---|---|---|---|---|---|---|")
        dB = {name: np.mean(values) for name, values in quality.items()}
        record(
            options,
            "video",
            {
                f"{what}, sigma {sigma:g}": {
                    name: round(float(value), 3) for name, value in dB.items()
                }
            },
        )
        mean = {key: np.mean(values, axis=0) for key, values in seconds.items()}
        others = [name for name in rows if name.startswith((_OPENCV, _BM4D))]
        other = max(others, key=dB.get, default=_ALONE)
        for name in rows:
            two, _ = mean[name, 2]
            alone = "– | –"
            if (name, 1) in mean:
                one, _ = mean[name, 1]
                alone = f"{one:.3f} | {one / two:.2f}"
            ratios = (mean[name, 2] / mean[row, 2] for row in (_ALONE, other))
            print(
                f"| {name} | {dB[name]:.2f} | {dB[name] - dB[_ALONE]:+.2f} | {two:.3f} | {alone} |",
                " | ".join(f"{ratio:.3f}, {processor:.3f}" for ratio, processor in ratios),
                "|",
                flush=True,
            )


def _nasty(options):
    """Print by how much hard clips are better than frame by frame, for each method."""
    for sigma in options.video_sigma:
        print(
            f"\nhard clips, sigma {sigma:g}: PSNR, and how much better that is than frame by frame with the same "
            "method: whole clip, least frame\n"
        )
        print("| clip |", " | ".join(_METHODS), "|")
        print("|---" * (1 + len(_METHODS)) + "|")
        least = {}
        for name, clip in shown(hard_clips().items(), f"sigma {sigma:g}"):
            noisy = (clip + noise_of(name, clip, sigma)).astype(np.float32)
            cells = []
            for method in _METHODS:
                together, alone = (
                    nlridge.denoise(noisy, sigma, method=method, data_range=255, **axis)
                    for axis in ({"time_axis": 0}, {"stack_axis": 0})
                )
                margin = psnr(together, clip) - psnr(alone, clip)
                frames = min(map(_margin, together, alone, clip))
                least[method] = min(least.get(method, (np.inf, "")), (margin, name))
                cells.append(f"{psnr(together, clip):.2f}: {margin:+.2f}, {frames:+.2f}")
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
        for method, (margin, name) in least.items():
            print(f"{method}: least margin {margin:+.2f} dB ({name})", flush=True)


def _margin(together, alone, truth):
    return psnr(together, truth) - psnr(alone, truth)


def _memory(options):
    """Stream a long video of 1920 x 1080 through `denoise_frames` in a new process."""
    program = _STREAM.format(count=options.video_frames, method=options.video_method)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=dict(os.environ),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    costs = json.loads(done.stdout)
    print(
        f"\n{options.video_frames} frames of 1920 x 1080, gray, {options.video_method}, {os.cpu_count()} cores: "
        f"peak memory {costs['early']:.0f} MB after 50 frames, {costs['peak']:.0f} MB in the end (an idle process with "
        f"compiled kernels: {costs['before']:.0f} MB); {costs['seconds']:.0f} s, "
        f"{options.video_frames * 1.92 * 1.08 / costs['seconds']:.2f} megapixels a second",
        flush=True,
    )


_STREAM = """
import json, resource, sys, time
import numpy as np, nlridge
scale = 1 / 2**20 if sys.platform == "darwin" else 1 / 2**10
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
random = np.random.default_rng(0)
small = [random.normal(100, 20, (64, 64)).astype(np.float32) for _ in range(3)]
for _ in nlridge.denoise_frames(small, 20, method="{method}", data_range=255):
    pass
rows, columns = np.arange(1080)[:, None], np.arange(1920)
scene = 120 + 60 * np.sin(rows / 9) * np.cos(columns / 13) + 40 * ((rows // 40 + columns // 60) % 2)
noise = random.normal(0, 20, (1100, 2000)).astype(np.float32)
before = peak()
def frames():
    for k in range({count}):
        y, x = random.integers(0, 20), random.integers(0, 80)
        yield np.roll(scene, 2 * k, 1).astype(np.float32) + noise[y : y + 1080, x : x + 1920]
start, early = time.perf_counter(), 0
for k, _ in enumerate(nlridge.denoise_frames(frames(), 20, method="{method}", data_range=255)):
    if k == 50 or early == 0 and k == {count} - 1:
        early = peak()
assert k == {count} - 1
seconds = time.perf_counter() - start
print(json.dumps(dict(before=before, early=early, peak=peak(), seconds=seconds)))
"""

PARTS = {
    "clips": _clips,
    "chroma": chroma.run,
    "compressed": compressed.run,
    "volumes": _volumes,
    "nasty": _nasty,
    "memory": _memory,
}
