"""Denoising of video files, frame after frame."""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..api.denoising import denoise
from ..api.estimating import estimate_noise
from ..api.sequences import denoise_frames
from ..files.atomic import expect_new
from ..files.video import open_clip, rewrite
from ..files.video.pixels import Channels, Pixels, channels_of, pixels_of, planar
from .batch import INSTEAD_OF_EXISTING
from .printing import recorded_warnings

_EVERY = 8  # frames, of which one counts in what was removed


@dataclass(frozen=True)
class DenoisedClip:
    """The result of denoising a video file."""

    frames: int
    removed: float
    """The root mean square of what was removed, in the units of the pixels."""
    warnings: list[str]
    """What was doubtful about the options."""
    notes: list[str]
    """What could not be preserved."""
    seconds: float


def clean_clip(
    source: Path,
    target: Path,
    *,
    overwrite: bool,
    frames: str,
    codec: str | None,
    quality: int | None,
    progress: Callable[[float, str], None],
    **options: Any,
) -> DenoisedClip:
    """Read, denoise and write a video file; `progress` is called with the fraction that is done and words on the speed.

    Frames are denoised together, unless `frames` is "independent".
    """
    if frames == "depth":
        raise ValueError("frames is depth; expected auto, time or independent for a video")
    expect_new("output", target, overwrite=overwrite, alternatives=INSTEAD_OF_EXISTING)
    start = time.perf_counter()
    squares: list[float] = []

    def change(noisy: Iterator[Pixels], channels: Channels) -> Generator[Pixels, None, None]:
        kept: deque[Pixels] = deque()

        def watched() -> Iterator[Pixels]:
            for number, frame in enumerate(noisy):
                if number % _EVERY == 0:
                    kept.append(frame)
                yield frame

        layout = {"channel_axis": channels.channel_axis, "data_range": channels.peak}
        run: Any = _one_by_one if frames == "independent" else denoise_frames
        with closing(run(watched(), **options, **layout)) as denoised:
            for number, frame in enumerate(denoised):
                if number % _EVERY == 0:
                    squares.append(float(np.mean((frame - kept.popleft()) ** 2)))
                yield frame

    def seen(done: int, total: int | None) -> None:
        speed = done / (time.perf_counter() - start)
        progress(min(done / total, 1.0) if total else 0.0, f"{speed:.2g} frames/s")

    target.parent.mkdir(parents=True, exist_ok=True)
    with recorded_warnings() as warnings:
        written = rewrite(source, target, change, codec=codec, quality=quality, seen=seen)
    removed = math.sqrt(sum(squares) / max(len(squares), 1))
    seconds = time.perf_counter() - start
    return DenoisedClip(written.frames, removed, warnings, list(written.notes), seconds)


def _one_by_one(frames: Iterator[Pixels], **options: Any) -> Generator[Pixels, None, None]:
    """Denoise each frame on its own."""
    for frame in frames:
        yield denoise(frame, **options)


def noise_in_clip(path: Path, kind: str) -> tuple[Any, int, int]:
    """Estimate the noise in the first frame of a video; returns it with the number of the frame, and of all frames."""
    with open_clip(path) as clip:
        frame = planar(next(clip.frames()))
        channels = channels_of(frame)
        model = estimate_noise(
            pixels_of(frame, channels), channel_axis=channels.channel_axis, kind=kind
        )
        return model, 1, clip.count or 1
