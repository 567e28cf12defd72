"""Measure the facts about an image that its plan depends on, from all of its parts; an array is one part."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import block_means
from ..noise import Noise
from ..noise.gaussian import GaussianNoise
from ..noise.unbiased import sampled
from ..types import Array, Mask, Pixels
from .blind import Estimate, estimate_of
from .levels import Levels, usable_levels
from .missing import union
from .options import Options
from .photons import typical_photons
from .plan import SAMPLE, Facts, covariance_of, filled_sample


class Tally:
    """The measurements of an image of (channels, height, width), added up over its parts from top to bottom.

    The height of each part but the last is a multiple of that of the blocks of `block_shape`.
    """

    def __init__(
        self, shape: tuple[int, int, int], dtype: np.dtype[Any], noise: Noise, options: Options
    ) -> None:
        self.shape, self.dtype, self.noise = shape, dtype, noise
        self.ends = known_ends(dtype, noise.black_level, options.data_range)
        self._depends_on_signal = sampled(noise) is not None
        # The plan for a single channel depends on the sample only if photons are counted.
        self.needs_sample = shape[0] > 1 or self._depends_on_signal
        self.block = block_shape(shape[1:])
        self._step = -(-math.prod(shape[1:]) // SAMPLE)
        self._means: list[list[tuple[Array, Array]]] = [[] for _ in range(shape[0])]
        self._sample: list[tuple[Pixels, Mask]] = []
        self._missing = np.zeros(shape[0], np.int64)
        self._unknown = 0
        self._extremes: list[tuple[float, float]] = []

    def add(self, top: int, pixels: Pixels, missing: Mask | None, unknown: Mask | None) -> None:
        """Add the rows from `top` on, and which of their pixels are missing, or unknown."""
        excluded = union(missing, unknown, pixels.shape)
        if missing is not None:
            self._missing += np.count_nonzero(missing, axis=(1, 2))
        if excluded is not None:
            self._unknown += int(np.count_nonzero(excluded))
        if self._depends_on_signal:
            present = pixels if excluded is None else pixels[~excluded]
            if present.size:
                self._extremes.append((float(present.min()), float(present.max())))
        if self.ends is None:
            for k, channel in enumerate(pixels):
                mask = None if excluded is None else excluded[k]
                means, share = masked_means(channel, mask, self.block)
                shares = np.broadcast_to(share, means.shape)
                self._means[k].append((means.ravel(), shares.ravel()))
        if self.needs_sample:
            places = slice(-(top * self.shape[2]) % self._step, None, self._step)
            some = _flat(pixels)[:, places].copy()
            gone = np.zeros(some.shape, bool)
            if excluded is not None:
                gone = _flat(excluded)[:, places].copy()
            self._sample.append((some, gone))

    @property
    def empty(self) -> Mask:
        """Which channels have only missing pixels."""
        empty: Mask = self._missing == math.prod(self.shape[1:])
        return empty

    @property
    def has_missing(self) -> bool:
        return bool(self._missing.any())

    def facts(self, typical: Array, doubt: str = "") -> Facts:
        """The facts, given the typical levels of the noise, and the doubt about the estimate, if any."""
        sample = np.zeros((self.shape[0], 1))
        if self._sample:
            sample, gone = (
                np.concatenate(parts, axis=1) for parts in zip(*self._sample, strict=True)
            )
            sample = filled_sample(sample, gone) if gone.any() else sample
        ends = self.ends
        if ends is None:
            ends = [
                ends_of(*map(np.concatenate, zip(*parts, strict=True))) for parts in self._means
            ]
        return Facts(
            self.noise,
            typical,
            ends,
            covariance_of(self.noise, typical, sample),
            self.empty,
            typical_photons(self.noise, sample),
            self.dtype,
            1 - self._unknown / math.prod(self.shape),
            doubt,
            (
                min((low for low, _ in self._extremes), default=-math.inf),
                max((high for _, high in self._extremes), default=math.inf),
            ),
        )


def _flat(pixels: Pixels) -> Pixels:
    return pixels.reshape(len(pixels), -1)


def given_or_estimated(
    options: Options, pixels: Pixels, missing: Mask | None, workers: int
) -> Estimate:
    """The noise, as given, or as estimated from an image or a sample of it."""
    if options.noise is not None:
        return Estimate(options.noise)
    if missing is not None and missing.all():
        return Estimate(GaussianNoise(0))
    return estimate_of(pixels, missing, options.kind, workers, options.tuning.strength)


def facts_of(
    pixels: Pixels, missing: Mask | None, levels: Array | None, options: Options, workers: int
) -> tuple[Facts, Levels]:
    """Measure an image of (channels, height, width); returns the levels of its noise as well.

    `levels` are the noise levels, if given, as an array that broadcasts against the image.
    """
    noise, doubt, found = given_or_estimated(options, pixels, missing, workers)
    if levels is None or options.noise is None:
        levels = np.asarray(noise.level, np.float64).reshape(-1, 1, 1)
    usable = usable_levels(levels, missing, pixels)
    channels, height, width = pixels.shape
    tally = Tally((channels, height, width), pixels.dtype, noise, options)
    tally.add(0, pixels, missing, usable.unknown)
    return replace(tally.facts(usable.typical, doubt), outliers=found), usable


def known_ends(
    dtype: np.dtype[Any], black_level: float, data_range: float | None
) -> list[tuple[float, float]] | None:
    """The darkest and the brightest value if they are given, or follow from the type; otherwise None."""
    if data_range is not None:
        return [(black_level, black_level + data_range)]
    return [(0.0, 255.0)] if dtype == np.uint8 else None


def block_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of the blocks over which pixels are averaged; at least four fit along each axis if possible."""
    height, width = (min(8, max(1, length // 4)) for length in shape)
    return height, width


def masked_means(
    channel: Pixels, missing: Mask | None, block: tuple[int, int]
) -> tuple[Array, Array | float]:
    """The means over blocks with 0 in place of missing pixels, and the share of missing pixels in each block."""
    if missing is None:
        return block_means(channel, block), 0.0
    zeroed = np.where(missing, channel.dtype.type(0), channel)
    return block_means(zeroed, block), block_means(missing, block)


def ends_of(means: Array, missing: Array | float = 0.0) -> tuple[float, float]:
    """The 0.1 and 99.9 percentiles of means over blocks, from the results of `masked_means`.

    Missing pixels count as the mean of the others.
    """
    present = float(np.sum(1 - np.broadcast_to(missing, means.shape)))
    if present > 0:
        means = means + missing * np.sum(means / present)
    low, high = np.percentile(means, [0.1, 99.9])
    return float(low), float(high)
