"""What is decided about an image: from facts about the whole of it, without its pixels.

Memory, disk, Dask arrays and tensors each measure the facts in their own way, and share the rest.
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
from .channels import Planes, planes_of
from .options import Options

Array = npt.NDArray[np.float64]

_VISIBLE = (
    1e-4  # of the range: weaker noise nobody would see, and float32 could not resolve its square
)


@dataclass(frozen=True, eq=False)
class Facts:
    """What concerns the whole of an image of several channels."""

    noise: Noise
    """As given or estimated."""
    levels: Array
    """Standard deviation of the stabilised noise: typical ones, one for each channel."""
    ends: Sequence[tuple[float, float]]
    """The darkest and the brightest value, of all channels or of each."""
    covariance: Array
    """Of the stabilised channels, in units of their noise."""
    empty: npt.NDArray[np.bool_] | None = None
    """Which channels have no pixels at all."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is done with an image of (channels, height, width)."""

    shape: tuple[int, int, int]
    noise: Noise
    recipe: Recipe
    levels: Array
    """Of the stabilised noise, typical ones; 0 for channels that are left as they are."""
    scales: Array
    """What the stabilised channels are multiplied by; 0 for those that are left as they are."""
    planes: tuple[Planes, ...]
    """How channels are denoised: together, apart, or not at all if they have no noise."""
    tuning: Tuning

    def plane_noise(self, planes: Planes, levels: Array) -> PlaneNoise:
        """The noise of some planes, from its levels in the channels, which broadcast against the image."""
        scales = self.scales[:, None, None] if len(levels) > 1 else self.scales.max()
        return PlaneNoise(planes.variance(np.square(levels * scales).astype(np.float32)))


def plan_for(
    shape: tuple[int, int, int], facts: Facts, options: Options, scales: Array | None = None
) -> Plan:
    """What is done with an image of a shape, given the facts about it and what was asked for.

    By default, `scales` are the powers of two that bring the noise near 1, where float32 is at its best.
    """
    channels = shape[0]
    ends = [facts.noise.stabilise(np.array(some, np.float64)) for some in facts.ends]
    with np.errstate(invalid="ignore"):  # of a model that knows no bounds
        spans = np.ptp(ends, axis=1)
    ranges = np.broadcast_to(spans, channels)
    noisy = facts.levels > np.maximum(_VISIBLE * ranges, 1e-300)
    if facts.empty is not None:
        noisy = noisy & ~facts.empty
    levels = np.where(noisy, facts.levels, 0.0)
    if scales is None:
        scales = np.array([1 / power_of_two(level) if level > 0 else 0.0 for level in levels])
    chosen = options.method
    if isinstance(chosen, str):
        typical, span = (_rms(values[noisy]) if noisy.any() else 1.0 for values in (levels, ranges))
        chosen = recipe(chosen, typical, span)
    return Plan(
        shape,
        facts.noise,
        chosen.within(shape[1:]),
        levels,
        scales,
        tuple(planes_of(facts.covariance, levels, scales)),
        options.tuning,
    )


def covariance_of(noise: Noise, levels: Array, sample: npt.NDArray[Any]) -> Array:
    """The covariance of the channels in units of their noise, from some pixels of each, (channels, count)."""
    if len(sample) == 1:
        return np.ones((1, 1))  # which nobody looks at
    units = np.where(levels > 0, levels, np.inf)
    with np.errstate(over="ignore"):
        # Pixels so bright that float32 cannot resolve their noise are refused elsewhere.
        relative = np.clip(noise.stabilise(sample) / units[:, None], -1e100, 1e100)
    return np.cov(relative, bias=True)


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of a result: floats of the input's width, float32 for integers."""
    return dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float32)


def _rms(values: Array) -> float:
    largest = float(values.max())
    return largest * math.sqrt(float(np.mean((values / largest) ** 2))) if largest > 0 else 0.0
