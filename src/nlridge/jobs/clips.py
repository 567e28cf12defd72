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

from ..algorithm.tuning import DEFAULT
from ..api.details import denoise_with_details, why_unchanged
from ..api.estimating import estimate_noise
from ..api.sequences import denoise_frames
from ..files.atomic import expect_new
from ..files.video import open_clip, rewrite
from ..files.video.pixels import Images, Parts, Pixels, images_of, parts_of, planar
from ..noise import Noise
from ..planning.plan import share_of
from .filmstrip import FrameSample
from .grain import level_in, plain_words
from .paths import INSTEAD_OF_EXISTING
from .words import recorded_warnings

_EVERY = 8  # frames, of which one counts in what was removed


@dataclass(frozen=True)
class DenoisedClip:
    """The result of denoising a video file."""

    frames: int
    noise: Noise
    """The noise of the frames, or of the first one if they are independent; of Y'CbCr, that of the luma."""
    noise_given: bool
    level: float
    """The root mean square of the standard deviation of the noise, in the units of the pixels."""
    peak: int
    """The largest value that a pixel can have."""
    removed: float
    """The root mean square of what was removed, in the same units."""
    unchanged: str
    """Why next to nothing was removed; empty if something was."""
    chroma_noise: Noise | None
    """The noise of the chroma planes, which are denoised apart; None if there are none."""
    together: str
    """"time" if the frames were denoised together, otherwise empty."""
    warnings: list[str]
    """What was doubtful about the options."""
    notes: list[str]
    """What could not be preserved."""
    seconds: float
    sample: FrameSample
    """Frames for the report."""

    @property
    def in_words(self) -> str:
        """How strong the noise is; compression removes so much of it that no ISO speed tells of the rest."""
        return plain_words(self.noise, self.level, (0.0, self.peak), given=self.noise_given)


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
    noises: list[Noise] = []  # of each part
    squares: list[tuple[float, float]] = []  # of the level of the noise, and of what was removed
    dtype, peak = np.dtype(np.uint8), 255
    sample = FrameSample()

    def change(noisy: Iterator[Images], parts: Parts) -> Generator[Images, None, None]:
        # All parts of a frame are read when the first of them is needed, and wait until the others are.
        streams = tee(noisy, len(parts.planes))
        kept: deque[Pixels] = deque()
        nonlocal dtype, peak
        peak = parts.peak

        def part(number: int) -> Iterator[Pixels]:
            for k, images in enumerate(streams[number]):
                if number == 0 and k % _EVERY == 0:
                    kept.append(images[0])
                yield images[number]

        run = _one_by_one if frames == "independent" else _together
        with ExitStack() as stack:
            denoised = [
                stack.enter_context(
                    closing(
                        run(
                            part(number),
                            sigma_of(sigma, parts, number),
                            **layout,
                            **amounts_of(strength, colour, parts, number),
                            **options,
                        )
                    )
                )
                for number, layout in enumerate(map(partial(_layout, parts.peak), parts.planes))
            ]
            for k, pairs in enumerate(zip(*denoised, strict=True)):
                images, models = zip(*pairs, strict=True)
                if k == 0:
                    noises.extend(models)
                if k % _EVERY == 0:
                    before = kept.popleft()
                    dtype = before.dtype
                    removed = np.mean(np.square(images[0] - before))
                    level = level_in(models[0], images[0], 0 if images[0].ndim > 2 else None)
                    squares.append((level**2, float(removed)))
                yield images

    def seen(done: int, total: int | None) -> None:
        speed = done / (time.perf_counter() - start)
        progress(min(done / total, 1.0) if total else 0.0, f"{speed:.2g} frames/s")

    target.parent.mkdir(parents=True, exist_ok=True)
    with recorded_warnings() as warnings:
        written = rewrite(
            source, target, change, codec=codec, quality=quality, seen=seen, viewer=sample
        )
    level, removed = (math.sqrt(sum(values) / len(values)) for values in zip(*squares, strict=True))
    return DenoisedClip(
        written.frames,
        noises[0],
        sigma is not None,
        level,
        peak,
        removed,
        # Nothing at all is removed if the noise is invisible.
        why_unchanged(
            level,
            removed,
            strength * share_of(noises[0], DEFAULT),
            dtype,
            visible=removed > 0,
        ),
        noises[1] if len(noises) > 1 else None,
        "" if frames == "independent" else "time",
        warnings,
        list(written.notes),
        time.perf_counter() - start,
        sample,
    )


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


def amounts_of(strength: float, colour: float, parts: Parts, number: int) -> dict[str, Any]:
    """Return how much is removed from a part of the frames; chroma has the strength of colours."""
    if len(parts.planes) == 1:
        return {"strength": strength, "colour": colour}
    return {"strength": strength if number == 0 else min(max(strength * colour, 0.01), 100.0)}


def _layout(peak: int, planes: tuple[int, ...]) -> dict[str, Any]:
    return {"channel_axis": 0 if len(planes) > 1 else None, "data_range": peak}


def _together(
    frames: Iterator[Pixels], sigma: Any, **options: Any
) -> Generator[tuple[Pixels, Noise], None, None]:
    """Denoise frames together; yields each with the noise."""
    with closing(denoise_frames(frames, sigma, **options)) as denoised:
        for image in denoised:
            yield image, denoised.noise


def _one_by_one(
    frames: Iterator[Pixels], sigma: Any, **options: Any
) -> Generator[tuple[Pixels, Noise], None, None]:
    """Denoise each frame on its own; yields it with its noise."""
    for frame in frames:
        details = denoise_with_details(frame, sigma, **options)
        yield details.image, details.noise


def noise_in_clip(path: Path, kind: str) -> tuple[Noise, str, int, int]:
    """Estimate the noise in the first frame of a video, or in its luma.

    Returns the noise, how strong it is in plain words, the number of the frame (from 1), and the number of frames.
    """
    with open_clip(path) as clip:
        frame = planar(next(clip.frames()))
        parts = parts_of(frame)
        channel_axis = 0 if len(parts.planes[0]) > 1 else None
        image = images_of(frame, parts)[0]
        model = estimate_noise(image, channel_axis=channel_axis, kind=kind)
        level = level_in(model, image, channel_axis)
        return model, plain_words(model, level, (0.0, parts.peak)), 1, clip.count or 1
