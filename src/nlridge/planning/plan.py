"""The plan for an image, decided from the caller's options and facts about the image, without its pixels.

Arrays in memory, arrays on disk, Dask arrays and tensors each have their own way to measure the facts, and share the
rest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.inputs import PlaneNoise
from ..algorithm.recipes import recipe
from ..algorithm.settings import Recipe
from ..algorithm.tuning import Tuning
from ..noise import Noise, power_of_two
from ..noise.correlated import correlation_between
from .channels import Planes, planes_of
from .doubts import VISIBLE, doubt_about
from .options import Options

Array = npt.NDArray[np.float64]

SAMPLE = 2**20  # pixels of each channel that suffice for the covariance


@dataclass(frozen=True, eq=False)
class Facts:
    """The facts about an image that its plan depends on."""

    noise: Noise
    """The noise model, given or estimated."""
    levels: Array
    """The typical standard deviation of the stabilised noise, for each channel."""
    ends: Sequence[tuple[float, float]]
    """The darkest and the brightest value: one pair for all channels, or one for each."""
    covariance: Array
    """The covariance of the stabilised channels, in units of their noise."""
    empty: npt.NDArray[np.bool_] | None = None
    """Which channels have only missing pixels."""
    dtype: np.dtype[Any] | None = None
    """The type of the image; None for floats of any type."""
    present: float = 1.0
    """The share of the pixels that are not missing."""


@dataclass(frozen=True, eq=False)
class Plan:
    """How an image of (channels, height, width) is denoised."""

    shape: tuple[int, int, int]
    noise: Noise
    recipe: Recipe
    levels: Array
    """The typical level of the stabilised noise of each channel; 0 for channels that are not denoised."""
    scales: Array
    """The factors that the stabilised channels are multiplied by; 0 for channels that are not denoised."""
    planes: tuple[Planes, ...]
    """The sets of channels that are denoised together; channels without noise belong to none."""
    tuning: Tuning
    doubt: str
    """Why the noise that was given cannot be meant; empty if it can."""

    def plane_noise(self, planes: Planes, levels: Array) -> PlaneNoise:
        """The noise of a set of planes, from the noise levels of the channels, which broadcast against the image."""
        scales = self.scales[:, None, None] if len(levels) > 1 else self.scales.max()
        variance = planes.variance(np.square(levels * scales).astype(np.float32))
        return PlaneNoise(variance, self.correlation(planes))

    def correlation(self, planes: Planes) -> Array | None:
        """The autocovariance of the noise of each plane of a set; None for white noise."""
        between = correlation_between(self.noise, self.shape[0])
        return None if between is None else planes.correlation(between, self.levels * self.scales)


def plan_for(
    shape: tuple[int, int, int], facts: Facts, options: Options, scales: Array | None = None
) -> Plan:
    """Plan how to denoise an image of (channels, height, width).

    By default, `scales` are the powers of two that bring the noise close to 1, where float32 is most accurate.
    """
    channels = shape[0]
    ends = [facts.noise.stabilise(np.array(pair, np.float64)) for pair in facts.ends]
    with np.errstate(invalid="ignore"):  # a custom model may return infinity
        spans = np.ptp(ends, axis=1)
    ranges = np.broadcast_to(spans, channels)
    noisy = facts.levels > np.maximum(VISIBLE * ranges, 1e-300)
    if facts.empty is not None:
        noisy = noisy & ~facts.empty
    levels = np.where(noisy, facts.levels, 0.0)
    if scales is None:
        scales = np.array([1 / power_of_two(level) if level > 0 else 0.0 for level in levels])
    between = correlation_between(facts.noise, channels)
    method = options.method
    if isinstance(method, str):
        typical, span = (_rms(values[noisy]) if noisy.any() else 1.0 for values in (levels, ranges))
        method = recipe(method, typical, span, correlated=between is not None)
    return Plan(
        shape,
        facts.noise,
        method.within(shape[1:]),
        levels,
        scales,
        tuple(planes_of(facts.covariance, levels, scales, between)),
        options.tuning,
        doubt_about(
            options.noise,
            facts.levels,
            facts.ends,
            facts.dtype,
            facts.present * shape[1] * shape[2],
        ),
    )


def covariance_of(noise: Noise, levels: Array, sample: npt.NDArray[Any]) -> Array:
    """The covariance of the channels in units of their noise, from some pixels of each, (channels, count)."""
    if len(sample) == 1:
        return np.ones((1, 1))  # the plan does not depend on it
    units = np.where(levels > 0, levels, np.inf)
    with np.errstate(over="ignore"):
        # Clipped to avoid overflow; `stabilised` raises an error for pixels so bright.
        relative = np.clip(noise.stabilise(sample) / units[:, None], -1e100, 1e100)
    return np.cov(relative, bias=True)


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a result: that of a floating-point image in native byte order, float32 for integers."""
    return dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float32)


def _rms(values: Array) -> float:
    largest = float(values.max())
    return largest * math.sqrt(float(np.mean((values / largest) ** 2))) if largest > 0 else 0.0
