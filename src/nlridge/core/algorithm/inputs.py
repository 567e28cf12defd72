"""The inputs of a pass over an image."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ...types import Array
from ..arrays import to_device_of
from .tuning import DEFAULT, Tuning

Image: TypeAlias = Any
"""A float32 array of (planes, height, width), or what an engine uses in its place, such as a tensor."""

# The lowest variance of a plane, in units of the variance of the noise.
_VARIANCE_FLOOR = 1e-4


@dataclass(frozen=True, eq=False)
class PlaneNoise:
    """The noise of an image of (planes, height, width)."""

    variance: float | Image
    """One number for all pixels, or an image with one plane for all planes or one plane for each."""
    correlation: Array | None = None
    """The autocovariance of each plane in units of the variance, (planes, 2 a + 1, 2 b + 1); None for white noise."""

    color: float = 1.0
    """A factor on the variance of all planes but the first, which are color differences."""

    def __post_init__(self) -> None:
        if self.correlation is not None:
            object.__setattr__(self, "correlation", _with_some_noise(self.correlation))

    def treated(self, strength: float, color_strength: float) -> "PlaneNoise":
        """The noise, scaled by one factor in the first plane, and by another in the color differences."""
        color = 1.0 if color_strength == strength else (color_strength / strength) ** 2
        return replace(self, variance=strength**2 * self.variance, color=color)

    def factor_of(self, planes: slice) -> float:
        """The factor on the variance of some planes."""
        return self.color if planes.start > 0 else 1.0

    @property
    def level(self) -> float | Image:
        """The standard deviation."""
        level = self.variance**0.5
        if self.correlation is None:
            return level
        planes = np.sqrt(self.correlation[_middle(self.correlation)]).astype(np.float32)
        return level * to_device_of(level, planes[:, None, None])


def _with_some_noise(correlation: Array) -> Array:
    """The autocovariance of each plane, with a variance of at least `_VARIANCE_FLOOR`.

    Noise that channels share cancels in their differences, and noise at high frequencies vanishes in a coarser image.
    """
    middle = _middle(correlation)
    if np.any(correlation[middle] < _VARIANCE_FLOOR):
        correlation = correlation.copy()
        correlation[middle] = np.maximum(correlation[middle], _VARIANCE_FLOOR)
    return correlation


def _middle(correlation: Array) -> tuple[slice, int, int]:
    """The index of the autocovariance at distance 0, the variance."""
    return slice(None), correlation.shape[1] // 2, correlation.shape[2] // 2


@dataclass(frozen=True, eq=False)
class PartialDenoising:
    """For one of several rounds: its noisy image may already have lost some noise, and its second result keeps some."""

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
        """The inputs with each image replaced by function(image), called once for each distinct image."""
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
