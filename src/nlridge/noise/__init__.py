"""What the noise is: one file a model, behind one interface; and how to find out."""

import math
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Level: TypeAlias = float | tuple[float, ...] | Array
"""One number, one for each channel, or one for each pixel."""


def power_of_two(number: float) -> float:
    """One that is near a number, by which others can be divided without being rounded; 1 for 0."""
    return math.ldexp(1.0, max(round(math.log2(number)), -1000)) if number > 0 else 1.0


@runtime_checkable
class Noise(Protocol):
    """A noise model: a transform after which the noise is Gaussian, and does not depend on the image.

    `str()` says in plain words what it is, in the image's own units.
    """

    @property
    def black_level(self) -> float:
        """The value of a pixel without any light."""

    @property
    def level(self) -> Level:
        """Standard deviation of the noise after `stabilise`."""

    def stabilise(self, image: npt.NDArray[Any]) -> Array:
        """The image, pixel by pixel, with noise that does not depend on it."""

    def variance(self, truth: Array, level: Array) -> Array:
        """Of each pixel, for an image without noise; `level` is what it says, laid out to fit the image."""

    def restore(self, estimate: npt.NDArray[Any]) -> Array:
        """An estimate of the stabilised image, in the image's own units again."""
