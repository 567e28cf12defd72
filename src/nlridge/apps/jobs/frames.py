"""Frames as they arrive, from a file or a pipe: luma and chroma are denoised apart, and what was removed is measured."""

import math
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import tee
from typing import Any

import numpy as np

from ... import Summary, denoise_frames, denoise_with_details
from ...errors import ArgumentError
from ...files.video.pixels import Images, Parts, luma_of
from ...noise import Noise
from ...types import Pixels
from .filmstrip import FrameSample
from .grain import level_in, plain_words

_EVERY = 8  # frames, of which one counts in what was removed


@dataclass(frozen=True, eq=False, kw_only=True)
class DenoisedClip(Summary):
    """The result of denoising a video file.

    The noise is that of the frames, or of the first one if they are independent; of Y'CbCr, that of the luma.
    """

    frames: int
    peak: int
    """The largest value that a pixel can have."""
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


class FrameDenoiser:
    """Denoises frames one after the other, and measures what is removed.

    Frames are denoised together, unless `frames` is "independent". The options are those of `denoise_frames`.
    """

    def __init__(self, *, frames: str, sigma: float | list[float] | None, **options: Any) -> None:
        if frames == "depth":
            raise ArgumentError(
                "frames", frames, "auto, time or independent for a video", found=f"is {frames}"
            )
        self._together = frames != "independent"
        self._sigma = sigma
        self._options = options
        self._start = time.perf_counter()
        self._noises: list[Noise] = []  # of each part
        # Of the level of the noise, and of what was removed.
        self._squares: list[tuple[float, float]] = []
        self._dtype, self._peak = np.dtype(np.uint8), 255

    def change(self, noisy: Iterator[Images], parts: Parts) -> Generator[Images, None, None]:
        """Yield the denoised images of each frame, as floats; frames are read ahead."""
        # All parts of a frame are read when the first of them is needed, and wait until the others are.
        streams = list(tee(noisy, len(parts.planes)))
        guides: list[dict[str, Any]] = [{} for _ in parts.planes]
        if self._together and len(parts.planes) > 1:
            streams[1], chroma = tee(streams[1])
            guides[1] = {"similar": (luma_of(images, parts) for images in chroma)}
        kept: deque[Pixels] = deque()
        self._peak = parts.peak

        def part(number: int) -> Iterator[Pixels]:
            for k, images in enumerate(streams[number]):
                if number == 0 and k % _EVERY == 0:
                    kept.append(images[0])
                yield images[number]

        run = _together if self._together else _one_by_one
        with ExitStack() as stack:
            denoised = [
                stack.enter_context(
                    closing(
                        run(
                            part(number),
                            sigma_of(self._sigma, parts, number),
                            **_layout(parts.peak, planes),
                            **guide,
                            **adjustments_of(self._options, parts, number),
                        )
                    )
                )
                for number, (planes, guide) in enumerate(zip(parts.planes, guides, strict=True))
            ]
            for k, pairs in enumerate(zip(*denoised, strict=True)):
                images, models = zip(*pairs, strict=True)
                if k == 0:
                    self._noises.extend(models)
                if k % _EVERY == 0:
                    before = kept.popleft()
                    self._dtype = before.dtype
                    removed = np.mean(np.square(images[0] - before))
                    level = level_in(models[0], images[0], 0 if images[0].ndim > 2 else None)
                    self._squares.append((level**2, float(removed)))
                yield images

    def speed(self, done: int) -> str:
        """How fast frames are denoised, in words."""
        return f"{done / (time.perf_counter() - self._start):.2g} frames/s"

    def result(
        self, frames: int, warnings: list[str], notes: list[str], sample: FrameSample
    ) -> DenoisedClip:
        """Return what is known once all frames are done."""
        level, removed = (
            math.sqrt(sum(values) / len(values)) for values in zip(*self._squares, strict=True)
        )
        strength = self._options.get("strength", 1.0) * getattr(self._noises[0], "share", 1.0)
        return DenoisedClip(
            frames=frames,
            noise=self._noises[0],
            noise_given=self._sigma is not None,
            level=level,
            peak=self._peak,
            removed=removed,
            # Nothing at all is removed if the noise is invisible.
            unchanged=Summary.why_unchanged(
                level, removed, strength, self._dtype, visible=removed > 0
            ),
            chroma_noise=self._noises[1] if len(self._noises) > 1 else None,
            together="time" if self._together else "",
            warnings=warnings,
            notes=notes,
            seconds=time.perf_counter() - self._start,
            sample=sample,
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
            raise ArgumentError(
                "sigma", len(sigma), "1, or 3 for luma and chroma", found=f"has {len(sigma)} values"
            )
        return sigma[0] if number == 0 else sigma[1:]
    return sigma if number == 0 else sigma / math.sqrt(math.prod(parts.shrink))


def adjustments_of(options: dict[str, Any], parts: Parts, number: int) -> dict[str, Any]:
    """Return the options for a part of the frames: of those with chroma, it alone has the strength of colors."""
    if len(parts.planes) == 1:
        return options
    factor, strength = options.get("color", 1.0), options.get("strength", 1.0)
    if number > 0 and strength > 0:
        strength = min(max(strength * factor, 0.01), 100.0)
    return {**options, "color": 1.0, "strength": strength}


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
