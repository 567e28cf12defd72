"""Inverse transforms without bias: local means of the result are those of the image.

A denoised pixel is the mean of stabilised pixels. The transform is curved, so that its inverse at that mean is not the mean
of the pixels themselves. The difference is tabulated, from pixels with noise of each brightness [1]_. Where noise was
clipped, as in most photographs, so are the pixels of the table.

.. [1] M. Mäkitalo and A. Foi, "Optimal inversion of the generalized Anscombe transformation for Poisson-Gaussian noise",
   IEEE Transactions on Image Processing 22(1), 2013.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..types import Array, Pixels
from . import Noise

Table: TypeAlias = tuple[Array, Array]
"""Means of stabilised pixels, increasing, and what their inverse lacks of the means of the pixels."""

_TAILS = 5.0  # standard deviations, beyond which noise does not reach
NODES = np.linspace(-_TAILS, _TAILS, 81)
"""Where Gaussian noise of standard deviation 1 is sampled: evenly, since clipped noise is not smooth."""
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
"""The probability of each node."""


@runtime_checkable
class Sampled(Protocol):
    """A noise model that depends on the signal, and can tell what pixels with noise look like."""

    def draws(self) -> tuple[Array, Array]:
        """Pixels with noise, a row for each of a range of noise-free values, and the probability of each pixel in its row."""


def correction_table(
    draws: tuple[Array, Array],
    stabilise: Callable[[Array], Array],
    inverse: Callable[[Array], Array],
) -> Table:
    """Tabulate what an inverse transform lacks; `draws` is as for `Sampled`."""
    pixels, chances = draws
    means = np.maximum.accumulate(np.sum(stabilise(pixels) * chances, axis=1))
    return means, np.sum(pixels * chances, axis=1) - inverse(means)


def restoring(noise: Noise, level: float, low: float, high: float) -> Noise:
    """The model that restores a channel, given the level of its stabilised noise, and the ends of the range of all pixels.

    Noise that reaches these was clipped. If none was, they make no difference: hardly any noise reaches them.
    """
    base = sampled(noise)
    return noise if base is None else _Restoring(noise, base, level, low, high)


def sampled(noise: Noise) -> Sampled | None:
    """The model of the noise of single pixels, if it depends on the signal; otherwise None."""
    base = getattr(noise, "noise", noise)  # that of correlated noise
    return base if isinstance(base, Sampled) else None


@dataclass(frozen=True)
class _Restoring:
    """Noise of a given level, which was clipped after it was added."""

    noise: Noise
    base: Sampled
    level: float
    low: float
    high: float

    @property
    def black_level(self) -> float:
        return self.noise.black_level

    def stabilise(self, image: Pixels) -> Array:
        return self.noise.stabilise(image)

    def variance(self, truth: Array, level: Array) -> Array:
        return self.noise.variance(truth, level)

    def restore(self, estimate: Pixels) -> Array:
        correction: Array = np.interp(estimate, *self._table)
        return self.noise.restore(estimate) + correction

    @cached_property
    def _table(self) -> Table:
        pixels, chances = self.base.draws()
        truths = np.sum(pixels * chances, axis=1, keepdims=True)
        pixels = np.clip(truths + self.level * (pixels - truths), self.low, self.high)
        return correction_table((pixels, chances), self.noise.stabilise, self.noise.restore)
