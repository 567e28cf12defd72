"""The conversion of pixels to planes of stabilised noise, and back.

Each function treats every pixel alike, so it can be applied to a whole image or to any part of it.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from ..core.algorithm.inputs import Image
from ..core.arrays import applied, as_array_like, is_tensor, library
from ..core.patches.matching import BRIGHT
from ..errors import ArgumentError
from ..noise.gaussian import leaves_units
from ..noise.poisson import PoissonGaussianNoise
from ..types import Array, Mask, Pixels, Positions
from .channels import Planes
from .levels import Levels
from .missing import union
from .outliers import Repaired, repaired
from .plan import Plan, float_type


class NoisyPixels:
    """Pixels of (channels, height, width), and what is known about each of them.

    Parameters
    ----------
    missing
        The pixels that have no value.
    levels
        The level of the stabilised noise, or a function that computes it when it is needed.
    repeats
        For a frame: whether it is the same as the one before, whose result it gets.
    factor
        For a frame: the factor by which its noise is stronger than that of most frames.
    similar
        For a frame: another image of it, (1, height, width), in which similar patches are searched for.
    around
        The pixels that these are a part of, and the part.
    outliers
        The outliers of the image, if they are known; they are kept once they have been found in all channels.
    """

    def __init__(
        self,
        plan: Plan,
        pixels: Pixels,
        missing: Mask | None,
        levels: Levels | Callable[[], Levels],
        *,
        repeats: bool = False,
        factor: float = 1.0,
        similar: Pixels | None = None,
        around: "tuple[NoisyPixels, Any] | None" = None,
        outliers: Positions | None = None,
    ) -> None:
        self.plan, self.pixels, self.missing = plan, pixels, missing
        self.repeats, self.factor, self.similar = repeats, factor, similar
        self._levels, self._around, self.outliers = levels, around, outliers
        self._repaired: Repaired | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.pixels.shape

    @cached_property
    def levels(self) -> Levels:
        """The levels of the stabilised noise."""
        return self._levels() if callable(self._levels) else self._levels

    @property
    def repaired(self) -> Repaired:
        """The pixels without outliers, and the number of outliers."""
        return self.repair()

    def repair(self, workers: int = 1) -> Repaired:
        """Find and replace the outliers with some threads, unless that was done before."""
        if self._repaired is None and self._around is not None:
            whole, part = self._around
            self._repaired = whole.repaired._replace(pixels=whole.repaired.pixels[part])
        if self._repaired is None:
            known = self.missing, self.levels.all, self.outliers
            self._repaired = repaired(self.plan, self.pixels, *known, workers)
            self.outliers = self._repaired.places
        return self._repaired

    @cached_property
    def filled(self) -> Mask | None:
        """The pixels that take their values from their neighbours."""
        if self._around is not None:
            whole, part = self._around
            return None if whole.filled is None else whole.filled[part]
        return union(self.missing, self.levels.unreliable, self.pixels.shape)

    def __getitem__(self, part: Any) -> "NoisyPixels":
        """Some rows and columns."""
        return NoisyPixels(
            self.plan,
            self.pixels[part],
            None if self.missing is None else self.missing[part],
            lambda: self.levels.of_part(part),
            repeats=self.repeats,
            factor=self.factor,
            around=(self, part),
        )


def stable_channels(planes: Planes, noisy: NoisyPixels) -> Image:
    """The channels of these planes, stabilised and scaled; pixels to be filled in are NaN."""
    stable = [_stable(noisy, channel) for channel in planes.channels]
    return stable[0][None] if len(stable) == 1 else library(stable[0]).stack(stable)


def stable_planes(planes: Planes, noisy: NoisyPixels) -> Image:
    """The planes of stabilised noise, if no pixels are to be filled in."""
    return planes.product(stable_channels(planes, noisy))


def _stable(noisy: NoisyPixels, channel: int) -> Image:
    plan = noisy.plan
    values, scale = _without(noisy.repaired.pixels, noisy.missing, channel), plan.scales[channel]
    largest = 0.0  # for tensors, this was checked when the plan was made
    if is_tensor(values):
        stable = values if leaves_units(plan.noise) else applied(plan.noise.stabilise, values)
        stable = stable * as_array_like(scale, stable)
    else:
        stable = by_value(partial(_stable_values, plan, channel), values)
    if noisy.filled is not None:
        stable = _where(noisy.filled[channel], 0, stable)
    if not is_tensor(stable):
        largest = float(max(abs(stable.max()), abs(stable.min())))
    if not largest < BRIGHT:
        raise ArgumentError(
            "sigma",
            plan.levels[channel],
            f"at least 1e-12 of the image's largest value, {largest / scale:.4g}",
            f"is {plan.levels[channel]:.4g}",
        )
    return stable if noisy.filled is None else _where(noisy.filled[channel], np.nan, stable)


def by_value(function: Callable[[Pixels], Array], values: Pixels) -> Array:
    """A function of each pixel, computed once for each of the values if there are no more than 256."""
    if values.dtype != np.uint8 or values.size <= 256:
        return function(values)
    return np.asarray(function(np.arange(256, dtype=np.uint8))[values])


def _stable_values(plan: Plan, channel: int, values: Pixels) -> Image:
    """Stabilised and scaled values of a channel."""
    stable = plan.noise.stabilise(values)
    with np.errstate(over="ignore"):  # checked by the caller
        return np.multiply(stable, plan.scales[channel], dtype=np.float64).astype(np.float32)


def similar_of(noisy: NoisyPixels) -> Image:
    """The image in which similar patches are searched for, scaled like the channels; missing pixels are 0."""
    scaled = np.nan_to_num(np.asarray(noisy.similar) * noisy.plan.scales.max(), posinf=BRIGHT)
    return np.clip(scaled, -BRIGHT, BRIGHT).astype(np.float32)


def counts_of(planes: Planes, noisy: NoisyPixels) -> Image:
    """The channels of these planes of an image of few photons, in photons; pixels to be filled in are NaN."""
    noise = cast(PoissonGaussianNoise, noisy.plan.noise)  # no other noise is planned in runs
    counts = []
    for channel in planes.channels:
        values = _without(noisy.repaired.pixels, noisy.filled, channel)
        photons = applied(noise.photons, values)
        photons = photons.clip(max=BRIGHT) if is_tensor(photons) else _float32(photons, BRIGHT)
        if noisy.filled is not None:
            photons = _where(noisy.filled[channel], np.nan, photons)
        counts.append(photons)
    return library(counts[0]).stack(counts)


def _float32(values: Pixels, most: float) -> Image:
    return np.minimum(values, most).astype(np.float32)


def _without(pixels: Pixels, missing: Mask | None, channel: int) -> Any:
    """A channel, with 0 in place of missing pixels."""
    return pixels[channel] if missing is None else _where(missing[channel], 0, pixels[channel])


def _where(condition: Any, value: float, otherwise: Any) -> Any:
    """`where` that keeps the type of the array or tensor."""
    if is_tensor(otherwise):
        return otherwise.masked_fill(as_array_like(condition, otherwise) != 0, value)
    return np.where(condition, otherwise.dtype.type(value), otherwise)


def variance_of(planes: Planes, noisy: NoisyPixels) -> Image:
    """The variance of the noise of the planes, as an image; a single pixel if it is the same everywhere."""
    plan, levels = noisy.plan, noisy.levels.all
    if is_tensor(levels):
        scales = as_array_like(plan.scales, levels)[:, None, None, None]
        return planes.variance((levels * (scales if len(levels) > 1 else scales.max())) ** 2)
    variance: Any = plan.plane_noise(planes, levels).variance
    return np.asarray(variance, np.float32).reshape(-1, *(np.shape(variance)[1:] or (1, 1)))


def filled_from_pilot(planes: Planes, channels: Image, pilot: Image) -> Image:
    """The noisy planes of the second step: pixels that are NaN take their values from the pilot."""
    gaps = library(channels).isnan(channels)
    if gaps.any():
        channels = library(channels).where(gaps, planes.back(pilot), channels)
    return planes.product(channels)


def with_estimate(image: Image, estimate: Image) -> Image:
    """The image, with the values of an estimate where it is NaN."""
    return library(image).where(library(image).isnan(image), estimate, image)


def restored(noisy: NoisyPixels, *images: Image) -> Any:
    """Convert denoised planes to the result for the caller, in the units of the image and in `float_type`.

    Channels that were not denoised, and missing pixels, keep their values. Outliers are left out if a share of the
    pixels is kept.
    """
    plan, missing = noisy.plan, noisy.missing
    if noisy.repeats:
        return noisy.pixels
    pixels = noisy.repaired.pixels if plan.share < 1 else noisy.pixels
    values_of = {}
    for planes, image in zip(plan.planes, images, strict=True):
        for channel, stable in zip(planes.channels, planes.back(image), strict=True):
            values_of[channel] = _restored(plan, channel, pixels[channel], stable)
    if is_tensor(pixels):
        return _joined_tensor(pixels, values_of, missing)
    result = np.empty(pixels.shape, float_type(pixels.dtype))
    result[...] = pixels
    # A result may be slightly larger than the largest pixel, and would overflow near the dtype's limit.
    largest = min(float(np.finfo(result.dtype).max), np.finfo(np.float64).max)
    for channel, values in values_of.items():
        values = np.clip(values, -largest, largest)
        valid = True if missing is None else ~missing[channel]
        np.copyto(result[channel], values, casting="same_kind", where=valid)
    return result


def _restored(plan: Plan, channel: int, pixels: Pixels, stable: Image) -> Any:
    """A denoised channel in the units of the image."""
    scale = plan.scales[channel]
    if is_tensor(stable):
        values, noise = stable / as_array_like(scale, stable), plan.result_noises[channel]
        values = values if leaves_units(noise) else applied(noise.restore, values)
    else:
        with np.errstate(over="ignore"):
            values = np.divide(stable, scale, dtype=np.float64)
            values = plan.result_noises[channel].restore(values)
    if plan.share < 1:
        with np.errstate(invalid="ignore"):  # missing pixels may be NaN
            values = pixels + plan.share * (values - pixels)
    return values


def _joined_tensor(pixels: Any, values_of: dict[int, Any], missing: Mask | None) -> Any:
    """The channels of a tensor, some of which have new values."""
    channels: list[Any] = []
    for channel, before in enumerate(pixels):
        values = values_of.get(channel, before)
        if missing is not None and channel in values_of:
            gone = as_array_like(missing[channel], before) != 0
            values = library(pixels).where(gone, before, values)
        channels.append(values)
    return library(pixels).stack(channels)
