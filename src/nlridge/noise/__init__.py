"""Noise models, one file each, behind the interface `Noise`; and how the noise of an image is estimated."""

import math
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Level: TypeAlias = float | tuple[float, ...] | Array
"""One number, one number for each channel, or one for each pixel."""


def power_of_two(number: float) -> float:
    """A power of two near a positive number, by which floats can be divided without rounding; 1 for 0."""
    return math.ldexp(1.0, max(round(math.log2(number)), -1000)) if number > 0 else 1.0


@runtime_checkable
class Noise(Protocol):
    """A noise model: a transform after which the noise is Gaussian and does not depend on the image.

    `str()` describes the noise in words, in the units of the image.
    """

    @property
    def black_level(self) -> float:
        """The value of a pixel that receives no light."""

    @property
    def level(self) -> Level:
        """The standard deviation of the noise after `stabilise`.

        It is in the units of the image only if `stabilise` leaves them alone: for `GaussianNoise`, and for `CorrelatedNoise`
        on top of it. Stabilised noise that depended on the signal has a level of 1.
        """

    def stabilise(self, image: npt.NDArray[Any]) -> Array:
        """Transform an image, pixel by pixel, so that its noise does not depend on the signal."""

    def variance(self, truth: Array, level: Array) -> Array:
        """The variance of each pixel of a noise-free image; `level` is `self.level`, broadcast to fit the image."""

    def restore(self, estimate: npt.NDArray[Any]) -> Array:
        """Transform an estimate of the stabilised image back to the units of the image."""
