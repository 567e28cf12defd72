"""Denoising of video files, frame after frame."""

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np

from ..api.denoising import denoise
from ..api.estimating import estimate_noise
from ..api.sequences import denoise_frames
from ..files.atomic import expect_new
from ..files.video import open_clip, rewrite
from ..files.video.pixels import Images, Parts, Pixels, images_of, parts_of, planar
from .batch import INSTEAD_OF_EXISTING
from .filmstrip import FrameSample
from .words import recorded_warnings

_EVERY = 8  # frames, of which one counts in what was removed


@dataclass(frozen=True)
class DenoisedClip:
    """The result of denoising a video file."""

    frames: int
    removed: float
    """The root mean square of what was removed, in the units of the pixels; of Y'CbCr, from the luma."""
    warnings: list[str]
    """What was doubtful about the options."""
    notes: list[str]
    """What could not be preserved."""
    seconds: float
    sample: FrameSample
    """Frames for the report."""


def clean_clip(
    source: Path,
    target: Path,
    *,
    overwrite: bool,
    frames: str,
    codec: str | None,
    quality: int | None,
    sigma: float | list[float] | None,
    strength: float = 1.0,
    colour: float = 1.0,
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
    sample = FrameSample()

    def change(noisy: Iterator[Images], parts: Parts) -> Generator[Images, None, None]:
        # All parts of a frame are read when the first of them is needed, and wait until the others are.
        streams = tee(noisy, len(parts.planes))
        kept: deque[Pixels] = deque()

        def part(number: int) -> Iterator[Pixels]:
            for k, images in enumerate(streams[number]):
                if number == 0 and k % _EVERY == 0:
                    kept.append(images[0])
                yield images[number]

        run: Any = _one_by_one if frames == "independent" else denoise_frames
        with ExitStack() as stack:
            denoised = [
                stack.enter_context(
                    closing(
                        run(
                            part(number),
                            sigma_of(sigma, parts, number),
                            **layout,
                            **_amounts(strength, colour, parts, number),
                            **options,
                        )
                    )
                )
                for number, layout in enumerate(map(partial(_layout, parts.peak), parts.planes))
            ]
            for k, images in enumerate(zip(*denoised, strict=True)):
                if k % _EVERY == 0:
                    squares.append(float(np.mean((images[0] - kept.popleft()) ** 2)))
                yield images

    def seen(done: int, total: int | None) -> None:
        speed = done / (time.perf_counter() - start)
        progress(min(done / total, 1.0) if total else 0.0, f"{speed:.2g} frames/s")

    target.parent.mkdir(parents=True, exist_ok=True)
    with recorded_warnings() as warnings:
        written = rewrite(
            source, target, change, codec=codec, quality=quality, seen=seen, viewer=sample
        )
    removed = math.sqrt(sum(squares) / max(len(squares), 1))
    seconds = time.perf_counter() - start
    return DenoisedClip(written.frames, removed, warnings, list(written.notes), seconds, sample)


def sigma_of(
    sigma: float | list[float] | None, parts: Parts, number: int
) -> float | list[float] | None:
    """Return the standard deviation of the noise in a part of the frames: luma, or chroma.

    A single number is that of the luma.  Chroma is the mean of several pixels, in which there is less.
    """
    if sigma is None or len(parts.planes) == 1:
        return sigma
    if isinstance(sigma, list):
        if len(sigma) != 3:
            raise ValueError(f"sigma has {len(sigma)} values; expected 1, or 3 for luma and chroma")
        return sigma[0] if number == 0 else sigma[1:]
    return sigma if number == 0 else sigma / math.sqrt(math.prod(parts.shrink))


def _amounts(strength: float, colour: float, parts: Parts, number: int) -> dict[str, float]:
    """Return how much is removed from a part of the frames; chroma has the strength of colours."""
    if len(parts.planes) == 1:
        return {"strength": strength, "colour": colour}
    return {"strength": strength if number == 0 else min(max(strength * colour, 0.01), 100.0)}


def _layout(peak: int, planes: tuple[int, ...]) -> dict[str, Any]:
    return {"channel_axis": 0 if len(planes) > 1 else None, "data_range": peak}


def _one_by_one(
    frames: Iterator[Pixels], sigma: Any, **options: Any
) -> Generator[Pixels, None, None]:
    """Denoise each frame on its own."""
    for frame in frames:
        yield denoise(frame, sigma, **options)


def noise_in_clip(path: Path, kind: str) -> tuple[Any, int, int]:
    """Estimate the noise in the first frame of a video, or in its luma.

    Returns the noise, the number of the frame (from 1), and the number of frames.
    """
    with open_clip(path) as clip:
        frame = planar(next(clip.frames()))
        parts = parts_of(frame)
        channel_axis = 0 if len(parts.planes[0]) > 1 else None
        model = estimate_noise(images_of(frame, parts)[0], channel_axis=channel_axis, kind=kind)
        return model, 1, clip.count or 1
