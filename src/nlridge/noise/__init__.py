"""Noise models, one file each, behind the protocol `Noise`, and the estimation of the noise of an image."""

import math
from collections.abc import Iterable
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from ..checks import LARGEST
from ..types import Array as Array
from ..types import Mask, Pixels

Level: TypeAlias = float | tuple[float, ...] | Array
"""One number, one number for each channel, or one for each pixel."""

_SAMPLE = 2**20  # pixels of a channel that suffice for the level of the noise


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

    def stabilise(self, image: Pixels) -> Array:
        """Transform an image, pixel by pixel, so that its noise does not depend on the signal."""

    def variance(self, truth: Array, level: Array) -> Array:
        """The variance of each pixel of a noise-free image; `level` is `self.level`, broadcast to fit the image."""

    def restore(self, estimate: Pixels) -> Array:
        """Transform an estimate of the stabilised image back to the units of the image."""


def level_of(noise: Noise, levels: Array, result: Pixels, missing: Mask | None = None) -> float:
    """The root mean square of the standard deviation of the noise, from some rows of a denoised frame.

    `levels` broadcast against the frame, which is (channels, height, width).
    """
    rows = slice(None, None, -(-result[0].size // _SAMPLE))
    own = levels[:, rows] if levels.shape[1] > 1 else levels
    with np.errstate(over="ignore", invalid="ignore"):  # NaN of any bits
        variance = noise.variance(result[:, rows].astype(np.float64), own)
    return rms(np.sqrt(variance), None if missing is None else missing[:, rows])


def rms(channels: Iterable[Pixels], missing: Mask | None) -> float:
    """The root mean square of the channels of an image, without missing pixels; channel by channel to save memory."""
    total, count = 0.0, 0
    for k, channel in enumerate(channels):
        values = (channel if missing is None else channel[~missing[k]]).astype(np.float64)
        values = np.clip(values, -LARGEST, LARGEST)
        unit = power_of_two(float(np.abs(values).max(initial=0)))  # squares would overflow
        total = math.hypot(total, unit * float(np.linalg.norm(values / unit)))
        count += values.size
    return total / math.sqrt(count)
