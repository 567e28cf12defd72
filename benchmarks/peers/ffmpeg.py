"""Filters of FFmpeg, run by the program that the package imageio-ffmpeg brings: "ffmpeg,filter=nlmeans".

Filters that know no more than 8 bits get rounded and clipped pixels, others 16 bits with room for noise on both sides.
"""

import math
import subprocess
from functools import partial
from typing import NamedTuple

import numpy as np


class Filter(NamedTuple):
    """A filter, and what `python -m benchmarks --only strengths` found to suit it."""

    graph: str
    """The filter in FFmpeg's words, with the strength in braces."""
    strengths: dict[int, float]
    """The best strength at some levels of noise, on other images than those of the comparison."""
    is_deep: bool = True
    """Whether it knows 16 bits."""
    most: float = math.inf
    """The largest strength that it accepts."""


FILTERS = {
    "dctdnoiz": Filter("dctdnoiz=s={}", {15: 21.8, 25: 37.1, 50: 77.4}, is_deep=False),
    "nlmeans": Filter("nlmeans=s={}", {15: 10.5, 25: 16.6, 50: 30}, is_deep=False, most=30),
    "fftdnoiz": Filter("fftdnoiz=sigma={}:overlap=0.8", {15: 4.24, 25: 12.2, 50: 66.8}, most=100),
    "vaguedenoiser": Filter(
        "vaguedenoiser=threshold={}:percent=100", {15: 6.37, 25: 12.7, 50: 31.3}
    ),
    "bm3d": Filter("bm3d=sigma={}", {15: 13.6, 25: 23.8, 50: 51.6}),
}
_REPEATED = 10  # frames in a measurement of time


def denoiser(filter: str = "nlmeans", strength: float = 0.0):
    """`strength` replaces the one that suits the noise."""
    if filter not in FILTERS:
        raise ValueError(f"the filter is {filter!r}; expected {', '.join(FILTERS)}")
    graph, strengths, is_deep, most = FILTERS[filter]

    def graph_for(sigma):
        chosen = strength or np.interp(sigma, list(strengths), list(strengths.values()))
        return graph.format(round(min(float(chosen), most), 3))

    def call(noisy, sigma):
        return _run(graph_for(sigma), noisy[None], is_deep)[0]

    def processor_seconds(noisy, sigma):
        """Without what the program takes to start, to read and to write."""
        repeated = f"loop=loop={_REPEATED - 1}:size=1"
        start, whole = (
            _children_seconds(partial(_run, f"{repeated},{what}", noisy[None], is_deep))
            for what in ("null", graph_for(sigma))
        )
        return (whole - start) / _REPEATED

    call.processor_seconds = processor_seconds
    return call


def _program():
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        raise ImportError("ffmpeg needs imageio-ffmpeg: pip install imageio-ffmpeg") from None
    return get_ffmpeg_exe()


def _run(graph, frames, is_deep):
    """The frames, (frames, height, width), after a filter."""
    height, width = frames.shape[1:]
    scale, zero, dtype, pixels = (64, 256, "<u2", "gray16le") if is_deep else (1, 0, "u1", "gray")
    stored = np.clip(np.rint((frames + zero) * scale), 0, np.iinfo(dtype).max).astype(dtype)
    one_thread = ("-threads", "1", "-filter_threads", "1", "-filter_complex_threads", "1")
    raw = ("-f", "rawvideo", "-pix_fmt", pixels)
    done = subprocess.run(
        [_program(), "-loglevel", "error", *one_thread, *raw, "-s", f"{width}x{height}", "-i", "-",
         "-filter_complex", graph, *one_thread, *raw, "-"],
        input=stored.tobytes(), capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"ffmpeg says: {done.stderr.decode(errors='replace').strip()}")
    result = np.frombuffer(done.stdout, dtype).reshape(-1, height, width)
    return result.astype(np.float32) / scale - zero


def _children_seconds(function):
    """The seconds of the processor that programs take that a function starts."""
    import resource  # not on Windows

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    function()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
