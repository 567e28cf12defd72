"""The plan for an image, decided from the caller's options and facts about the image, without its pixels.

The facts are measured by `facts`, from all parts of an image, and by `nlridge.torch` on the device of a batch.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.algorithm.filtering import filters_of, is_narrow
from ..core.algorithm.inputs import PlaneNoise
from ..core.algorithm.passes import Pass, all_passes
from ..core.algorithm.recipes import recipe
from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..noise import Noise, power_of_two
from ..noise.correlated import correlation_between
from ..noise.estimation import changing_channels
from ..noise.poisson import PoissonGaussianNoise
from ..noise.unbiased import restoring
from ..types import Array, Mask, Pixels, Positions, Shape
from .channels import Planes, planes_of
from .doubts import VISIBLE, doubt_about, doubt_about_color
from .options import Options
from .photons import Run, halved, kept_means, run_settings

# A channel with a smaller share of the variance of the others, in units of the noise, is constant and has no noise.
_CONSTANT_VARIANCE = 1e-6
# Share of the range; if there is less noise, every pixel may be intended.
_MIN_NOISE_FOR_OUTLIERS = 0.002
SAMPLE = 2**20  # pixels of each channel that suffice for the covariance
REMOVES_ALL = 3.0  # the strength at which all noise that may be texture is removed


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
    empty: Mask | None = None
    """Which channels have only missing pixels."""
    photons: float = math.inf
    """The typical number of photons in a pixel; see `typical_photons`."""
    dtype: np.dtype[Any] | None = None
    """The type of the image; None for floats of any type."""
    present: float = 1.0
    """The share of the pixels that are not missing."""
    doubt: str = ""
    """Why noise may be left, or texture removed, where the noise was estimated; empty if neither is likely."""
    extremes: tuple[float, float] = (-math.inf, math.inf)
    """The darkest and the brightest pixel, if the noise depends on the signal: it may have been clipped there."""
    outliers: Positions | None = None
    """The outliers of the image, if they are known."""


@dataclass(frozen=True, eq=False)
class Plan:
    """How an image of (channels, height, width) is denoised."""

    shape: Shape
    noise: Noise
    recipe: Recipe
    levels: Array
    """The typical level of the stabilised noise of each channel; 0 for channels that are not denoised."""
    scales: Array
    """The factors that the stabilised channels are multiplied by; 0 for channels that are not denoised."""
    planes: tuple[Planes, ...]
    """The sets of channels that are denoised together; channels without noise belong to none."""
    tuning: Tuning
    """The tuning of the passes; see `share_and_tuning`."""
    share: float = 1.0
    """The share of what the algorithm removes that is to be removed."""
    doubt: str = ""
    """Why the given noise or factor for colors is implausible, or why the estimate is; empty if neither is so."""
    runs: tuple[Run, ...] = ()
    """The runs over an image of few photons; empty if the recipe is run once. The last one has the plan's recipe."""
    may_have_outliers: Mask = field(default_factory=lambda: np.zeros(1, bool))
    """The channels in which outliers are searched for."""
    extremes: tuple[float, float] = (-math.inf, math.inf)
    """As in `Facts`."""

    @cached_property
    def result_noises(self) -> tuple[Noise, ...]:
        """The noise models that restore the channels of the result."""
        if self.runs and isinstance(self.noise, PoissonGaussianNoise):
            return (self.noise.blended(self.runs[-1].share),) * len(self.levels)
        models = {
            level: restoring(self.noise, level, *self.extremes) for level in self.levels.tolist()
        }
        return tuple(models[level] for level in self.levels.tolist())

    def passes(self) -> Iterator[tuple[tuple[int, int], Pass]]:
        """The passes over a set of planes, each with the shape of its image."""
        if not self.runs:
            yield from all_passes(self.recipe, self.shape[1:])
        for run in self.runs:
            yield from all_passes(run.recipe, halved(self.shape[1:], run.halvings))

    def plane_noise(self, planes: Planes, levels: Array) -> PlaneNoise:
        """The noise of a set of planes, from the noise levels of the channels, which broadcast against the image."""
        scales = self.scales[:, None, None] if len(levels) > 1 else self.scales.max()
        variance = planes.variance(np.square(levels * scales).astype(np.float32))
        return PlaneNoise(variance, self.correlation(planes))

    def correlation(self, planes: Planes) -> Array | None:
        """The autocovariance of the noise of each plane of a set; None for white noise."""
        between = correlation_between(self.noise, self.shape[0])
        return None if between is None else planes.correlation(between, self.levels * self.scales)


def share_and_tuning(noise: Noise, tuning: Tuning) -> tuple[float, Tuning]:
    """The share of what the algorithm removes that is to be removed, and the tuning to run it with.

    A strength above 1 first increases the share of the noise that is removed (see `CorrelatedNoise`): all of it is removed
    with the reciprocal of the share, or with REMOVES_ALL. Only beyond that, the strength is a factor on the level.
    """
    share = float(getattr(noise, "share", 1.0))
    if tuning.strength <= 1 or share in (0, 1):
        return share, tuning
    removes_all = min(1 / share, REMOVES_ALL)
    increase = min((tuning.strength - 1) / (removes_all - 1), 1.0)
    strength = max(tuning.strength / removes_all, 1.0)
    return share + (1 - share) * increase, replace(tuning, strength=strength)


def share_of(noise: Noise, tuning: Tuning) -> float:
    """The share of what the algorithm removes that is to be removed; see `share_and_tuning`."""
    return share_and_tuning(noise, tuning)[0]


def plan_for(
    shape: Shape, facts: Facts, options: Options, scales: Array | None = None, kind: str = "image"
) -> Plan:
    """Plan how to denoise an image of (channels, height, width), or frames of that shape; `kind` is as in `recipe`.

    By default, `scales` are the powers of two that bring the noise close to 1, where float32 is most accurate.
    """
    ranges = _ranges(shape[0], facts.noise, facts.ends)
    noisy = facts.levels > np.maximum(VISIBLE * ranges, 1e-300)
    if facts.empty is not None:
        noisy = noisy & ~facts.empty
    if shape[0] > 1:
        variances = facts.covariance.diagonal()
        noisy = noisy & (variances > _CONSTANT_VARIANCE * variances.max())
    if options.tuning.strength == 0:  # nothing is to be removed
        noisy = np.zeros_like(noisy)
    levels = np.where(noisy, facts.levels, 0.0)
    if scales is None:
        scales = np.array([1 / power_of_two(level) if level > 0 else 0.0 for level in levels])
    between = correlation_between(facts.noise, shape[0])
    plane_sets = tuple(planes_of(facts.covariance, levels, scales, between))
    correlation = "none"
    if between is not None:
        correlations = (planes.correlation(between, levels * scales) for planes in plane_sets)
        planes_noise = [PlaneNoise(1.0, of_planes).correlation for of_planes in correlations]
        if all(filters_of(of_planes) is not None for of_planes in planes_noise):
            correlation = "short"
        else:
            correlation = "narrow" if all(map(is_narrow, planes_noise)) else "long"

    def chosen(ranges: Array, shape: tuple[int, int]) -> Recipe:
        method = options.method
        if isinstance(method, str):
            typical, span = (
                _rms(values[noisy]) if noisy.any() else 1.0 for values in (levels, ranges)
            )
            method = recipe(method, typical, span, correlation=correlation, kind=kind)
        return method.within(shape)

    runs = []
    if isinstance(facts.noise, PoissonGaussianNoise):
        in_photons = PoissonGaussianNoise(1.0, facts.noise.read_noise / facts.noise.gain)
        # Counts of few photons may be stored in a type whose range is unrelated to them.
        most = facts.noise.black_level + facts.noise.gain * 4 * facts.photons
        ends = [(min(low, most), min(high, most)) for low, high in facts.ends]
        kept = kept_means(facts.photons, shape[1:])
        for halvings, share in run_settings(facts.photons, shape[1:]):
            factor = share / 2**halvings
            spans = _ranges(shape[0], facts.noise.weakened(factor), ends)
            its_recipe = chosen(spans, halved(shape[1:], halvings))
            its_noise = in_photons.weakened(1 / 2**halvings).blended(share)
            runs.append(Run(its_noise, its_recipe, halvings, share, kept))
    share, tuning = share_and_tuning(facts.noise, options.tuning)
    return Plan(
        shape,
        facts.noise,
        runs[-1].recipe if runs else chosen(ranges, shape[1:]),
        levels,
        scales,
        plane_sets,
        tuning,
        share,
        doubt_about(
            options.noise,
            facts.levels,
            facts.ends,
            facts.dtype,
            # Where many pixels are missing, the range says little.
            shape[1] * shape[2] * facts.present if facts.present > 0.5 else 0.0,
        )
        or doubt_about_color(options.tuning.color, [len(p.channels) for p in plane_sets])
        # Doubts about what is left are gone if nothing is left.
        or (facts.doubt if share < 1 or getattr(facts.noise, "share", 1.0) == 1 else ""),
        tuple(runs),
        (levels > _MIN_NOISE_FOR_OUTLIERS * ranges) & options.tuning.outliers,
        facts.extremes,
    )


def _ranges(channels: int, noise: Noise, ends: Sequence[Any]) -> Array:
    """The range of each channel after stabilisation."""
    stable = [noise.stabilise(np.array(pair, np.float64)) for pair in ends]
    with np.errstate(invalid="ignore"):  # a custom model may return infinity
        spans = np.ptp(stable, axis=1)
    return np.broadcast_to(spans, channels)


def covariance_of(noise: Noise, levels: Array, sample: Pixels) -> Array:
    """The covariance of the channels in units of their noise, from some pixels of each, (channels, count).

    It is 0 for channels that are constant, or nearly so.
    """
    if len(sample) == 1:
        return np.ones((1, 1))  # the plan does not depend on it
    units = np.where(levels > 0, levels, np.inf)
    with np.errstate(over="ignore"):
        # Clipped to avoid overflow; `stabilised` raises an error for pixels so bright.
        relative = np.divide(noise.stabilise(sample), units[:, None], dtype=np.float64)
        np.clip(relative, -1e100, 1e100, out=relative)
    relative[~changing_channels(sample)] = 0
    return np.cov(relative, bias=True)


def filled_sample(sample: Pixels, missing: Mask) -> Pixels:
    """A sample of pixels as (channels, count), with the mean of the others in place of missing ones."""
    filled: Pixels = sample.copy()
    for values, gone in zip(filled, missing, strict=True):
        if gone.any():
            values[gone] = 0 if gone.all() else values[~gone].mean(dtype=np.float64)
    return filled


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a result: that of a floating-point image in native byte order, float32 for integers."""
    return dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float32)


def _rms(values: Array) -> float:
    largest = float(values.max())
    return largest * math.sqrt(float(np.mean((values / largest) ** 2))) if largest > 0 else 0.0
