"""The inputs of a pass over an image."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..arrays import to_device_of
from .tuning import DEFAULT, Tuning

Image: TypeAlias = Any
"""A float32 array of (planes, height, width), or what an engine uses in its place, such as a tensor."""

# The least variance of a plane, in units of the variance of the noise.
_LEAST = 1e-4


@dataclass(frozen=True, eq=False)
class PlaneNoise:
    """The noise of an image of (planes, height, width)."""

    variance: float | Image
    """One number for all pixels, or an image with one plane for all planes or one plane for each."""
    correlation: npt.NDArray[np.float64] | None = None
    """The autocovariance of each plane in units of the variance, (planes, 2 a + 1, 2 b + 1); None for white noise."""

    colour: float = 1.0
    """A factor on the variance of all planes but the first, which are differences of colours."""

    def __post_init__(self) -> None:
        if self.correlation is not None:
            object.__setattr__(self, "correlation", _with_some_noise(self.correlation))

    def treated(self, strength: float, colour_strength: float) -> "PlaneNoise":
        """Noise that is treated as stronger or weaker by a factor, and by another in the differences of colours."""
        colour = 1.0 if colour_strength == strength else (colour_strength / strength) ** 2
        return replace(self, variance=strength**2 * self.variance, colour=colour)

    def factor_of(self, planes: slice) -> float:
        """The factor on the variance of some planes."""
        return self.colour if planes.start > 0 else 1.0

    @property
    def level(self) -> float | Image:
        """The standard deviation."""
        level = self.variance**0.5
        if self.correlation is None:
            return level
        planes = np.sqrt(self.correlation[_middle(self.correlation)]).astype(np.float32)
        return level * to_device_of(level, planes[:, None, None])


def _with_some_noise(correlation: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The autocovariance of planes, with at least `_LEAST` in the middle.

    Noise that channels share cancels in their differences, and noise of high frequencies in the coarser image.
    """
    middle = _middle(correlation)
    if np.any(correlation[middle] < _LEAST):
        correlation = correlation.copy()
        correlation[middle] = np.maximum(correlation[middle], _LEAST)
    return correlation


def _middle(correlation: npt.NDArray[np.float64]) -> tuple[slice, int, int]:
    """The index of the distance 0."""
    return slice(None), correlation.shape[1] // 2, correlation.shape[2] // 2


@dataclass(frozen=True, eq=False)
class PartialDenoising:
    """For a round of several: its noisy image may have lost some of its noise, and its second result may keep some."""

    original: Image
    """The image with all of its noise."""
    keep: float
    """The share of the noise that the pass leaves in its second result."""


@dataclass(frozen=True, eq=False)
class StepInputs:
    """The images that a pass reads, all of the same height and width, and their noise."""

    noisy: Image
    guide: Image
    """Takes the place of the true image; the noisy image itself in the first step."""
    similar: Image
    """The image in which similar patches are searched for."""
    noise: PlaneNoise
    partly: PartialDenoising | None = None
    tuning: Tuning = DEFAULT

    @property
    def keeps_noise(self) -> bool:
        """Whether the pass has a second result, with some of the noise left in it."""
        return self.partly is not None and self.partly.keep > 0

    def images(self) -> list[Image]:
        """The distinct images."""
        distinct: dict[int, Image] = {}
        self.mapped(lambda image: distinct.setdefault(id(image), image))
        return list(distinct.values())

    def mapped(self, function: Callable[[Image], Any]) -> "StepInputs":
        """The inputs with each image replaced by function(image), which is called once for each distinct image."""
        results: dict[int, Any] = {}

        def once(image: Image) -> Any:
            if id(image) not in results:
                results[id(image)] = function(image)
            return results[id(image)]

        variance, partly = self.noise.variance, self.partly
        return replace(
            self,
            noisy=once(self.noisy),
            guide=once(self.guide),
            similar=once(self.similar),
            noise=(
                self.noise
                if isinstance(variance, float)
                else replace(self.noise, variance=once(variance))
            ),
            partly=None if partly is None else replace(partly, original=once(partly.original)),
        )
