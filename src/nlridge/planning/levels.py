"""The noise level of each pixel, and which pixels are so noisy that they are better filled in from their neighbours."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..checks import LARGEST
from ..core.algorithm.filling import AROUND, blurred
from ..errors import ArgumentError
from ..noise import Noise, power_of_two
from ..types import Array, Mask, Pixels
from .layout import Layout

# Smaller levels of a map count as this multiple of the typical level, which bounds the weight of a pixel.
FLOOR = 0.01
# A pixel is unreliable, and as good as missing, if its level is more than this multiple of that of the pixels around it,
# unless at least a share of _CROWD of those stand out as well.
_OUTLYING = 5.0
_CROWD = 0.4
# A pixel is unknown if its level is so large that its value carries no information. The range of the pixels, noise
# included, is hardly ever less than a quarter of a true level. So a level above this multiple of the range means that
# nothing is known about the pixel, if others are known much better.
_LARGEST_LEVEL = 4.0
# This share of the pixels, those with the least noise, is never unknown because of the range alone.
_ALWAYS_KNOWN = 0.25
# Beyond this multiple of the typical level, a pixel is unknown in any case: its weight would be less than 1e-8 of that
# of a typical pixel, which float32 cannot resolve.
UNKNOWN = 1e4

REACH = 2 * AROUND  # distance, in pixels, up to which levels of a map affect a bounded one
_IGNORED_BITS = 42  # low bits of a float64 that `LevelCounts` ignores: steps are at most 2^-10 wide
_PIXELS_AT_A_TIME = 2**20  # pixels of a map that are counted at a time


class Levels(NamedTuple):
    """Standard deviations of the noise of an image of (channels, height, width)."""

    all: Array
    """An array that broadcasts against the image; positive everywhere, or 0 for a whole channel."""
    typical: Array
    """One level for each channel: the median over the pixels that are neither missing nor unknown, where positive."""
    unreliable: Mask | None
    """Pixels to fill in from their neighbours: those that are much noisier than the pixels around them, and all that are
    unknown."""
    unknown: Mask | None = None
    """Pixels about which nothing is known. They count as missing, except that the result has values for them."""
    given: Array | None = None
    """The map that was given, if the levels are those of a whole map."""
    bounds: "tuple[Bounds, ...]" = ()
    """The bounds of that map."""

    def of_part(self, part: Any) -> "Levels":
        """The levels of some rows and columns."""
        if self.all.shape[1:] == (1, 1):
            return self
        unreliable, unknown = (
            None if mask is None else mask[part] for mask in (self.unreliable, self.unknown)
        )
        return Levels(self.all[part], self.typical, unreliable, unknown)


INSTEAD_OF_MAP = "a number, one for each channel, or "


def levels_of(noise: Noise, layout: Layout) -> Array:
    """The level of the noise as an array that broadcasts against (frames, channels, height, width)."""
    levels = np.asarray(noise.level, np.float64)
    if levels.ndim == 0:
        return levels.reshape(1, 1, 1, 1)
    channels = 1 if layout.channel is None else layout.shape[layout.channel]
    if levels.ndim == 1:
        if levels.shape != (channels,) or layout.channel is None:
            which = (
                "and `channel_axis`" if layout.channel is None else f"of which there are {channels}"
            )
            raise ArgumentError(
                "sigma",
                noise.level,
                f"one, or one for each channel, {which}",
                f"has {len(levels)} numbers",
            )
        return levels.reshape(1, -1, 1, 1)
    return layout.spread("sigma", levels, INSTEAD_OF_MAP)


class LevelCounts(NamedTuple):
    """The number of pixels of a map at each level, in steps of up to 0.1 %.

    The counts of the parts of a map add up to those of the whole, in any order, so maps need not be in memory.
    """

    levels: Array
    """The smallest level in each step, in increasing order."""
    counts: npt.NDArray[np.int64]

    def quantile(self, share: float, most: float = math.inf) -> float:
        """The level below which a share of the pixels lie, among those in steps that begin at `most` or less.

        If it lies between two levels, it is their mean.
        """
        totals = np.cumsum(self.counts[: np.count_nonzero(self.levels <= most)])
        places = [np.searchsorted(totals, share * totals[-1], side) for side in ("left", "right")]
        return float(self.levels[np.minimum(places, len(totals) - 1)].mean())


def counted(levels: Array, before: LevelCounts | None = None) -> LevelCounts:
    """Count positive levels, and add the counts to those from before."""
    counts = before or LevelCounts(np.empty(0), np.empty(0, np.int64))
    for start in range(0, levels.size, _PIXELS_AT_A_TIME):
        ordered = np.sort(levels[start : start + _PIXELS_AT_A_TIME])
        own = _in_steps(ordered, np.ones(ordered.size, np.int64))
        both = np.concatenate([counts.levels, own.levels])
        order = np.argsort(both)
        counts = _in_steps(both[order], np.concatenate([counts.counts, own.counts])[order])
    return counts


def _in_steps(levels: Array, counts: npt.NDArray[np.int64]) -> LevelCounts:
    """Add up the counts of levels in the same step; levels are in increasing order."""
    steps = levels.view(np.uint64) >> np.uint64(_IGNORED_BITS)
    first = np.flatnonzero(np.diff(steps, prepend=~steps[:1]))
    return LevelCounts(levels[first], np.add.reduceat(counts, first))


class Bounds(NamedTuple):
    """What all pixels of a map of levels together determine."""

    typical: float
    """The median of the levels that are positive and not unknown; 0 if there are none."""
    largest: float
    """Pixels with a larger level are unknown."""


def usable_levels(levels: Array, missing: Mask | None, pixels: Pixels) -> Levels:
    """Check the noise levels of an image of (channels, height, width), and bound those of a map.

    `levels` broadcasts against the image.
    """
    if levels.shape[1:] == (1, 1):
        return Levels(levels, np.broadcast_to(levels[:, 0, 0], len(pixels)), None)
    bounds = bounds_of([(levels, missing, pixels)])
    usable = bounded_levels(levels, missing, bounds, len(pixels))
    return usable._replace(given=levels, bounds=bounds)


def bounds_of(parts: Iterable[tuple[Array, Mask | None, Pixels]]) -> tuple[Bounds, ...]:
    """Check a map, and return the bounds of each of its channels.

    Each part is some rows of the map, of the mask of missing pixels and of the image, as (channels, rows, width).
    """
    counts: dict[int, LevelCounts] = {}
    lows, highs = defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
    not_finite = 0
    for levels, missing, pixels in parts:
        absent = _absent(levels, missing)
        not_finite += int(np.count_nonzero(~np.isfinite(levels) & ~absent))
        for k, level in enumerate(levels):
            valid = np.minimum(level[~absent[k] & (level > 0)], LARGEST)
            counts[k] = counted(valid, counts.get(k))
        for k, channel in enumerate(pixels):
            present = channel if missing is None else channel[~missing[k]]
            if present.size:
                lows[k].append(float(present.min()))
                highs[k].append(float(present.max()))
    if not_finite:
        raise ArgumentError(
            "sigma",
            not_finite,
            "finite numbers, or a mask that marks these pixels as missing",
            "is not finite in {value} pixels that are not missing",
        )
    spans = {k: max(highs[k]) - min(lows[k]) for k in highs}
    if len(counts) < len(pixels):  # one level for all channels
        spans = {0: max(spans.values(), default=0.0)}
    return tuple(_bounds(counts[k], spans.get(k, 0.0)) for k in counts)


def _absent(levels: Array, missing: Mask | None) -> Mask:
    """Where a map is not used: where all channels that it applies to are missing."""
    if missing is None:
        return np.zeros(levels.shape, bool)
    return missing if len(levels) == len(missing) else np.all(missing, axis=0)[None]


def _bounds(counts: LevelCounts, span: float) -> Bounds:
    """The bounds of a channel of a map; `span` is the range of the image."""
    if not counts.levels.size:
        return Bounds(0.0, math.inf)
    most = _LARGEST_LEVEL * span
    if counts.levels[-1] > most:
        most = max(most, counts.quantile(_ALWAYS_KNOWN))
    typical = counts.quantile(0.5, most)
    largest = min(max(most, _OUTLYING * typical), UNKNOWN * typical)
    return Bounds(counts.quantile(0.5, largest), largest)


def bounded_levels(
    levels: Array, missing: Mask | None, bounds: Sequence[Bounds], channels: int
) -> Levels:
    """The levels of a map, or of some of its rows, within bounds.

    If these are not all rows, the result is that of the whole map, except within `REACH` rows of the cut.
    """
    maps, unreliable = [], []
    unknown = unknown_pixels(levels, missing, bounds)
    for level, absent, unknown_here, (typical, _) in zip(
        levels, _absent(levels, missing), unknown, bounds, strict=True
    ):
        bounded = np.where(absent, typical, np.minimum(level, LARGEST))
        bounded, unreliable_here = _without_outliers(
            np.maximum(bounded, FLOOR * typical), unknown_here, typical
        )
        maps.append(bounded)
        unreliable.append(unreliable_here)
    return Levels(
        np.stack(maps),
        np.broadcast_to(np.array([typical for typical, _ in bounds]), channels),
        np.stack(unreliable) if np.any(unreliable) else None,
        unknown if unknown.any() else None,
    )


def unknown_pixels(levels: Array, missing: Mask | None, bounds: Sequence[Bounds]) -> Mask:
    """The pixels of a map, or of some of its rows, about which nothing is known."""
    largest = np.array([[[bound.largest]] for bound in bounds])
    return (np.minimum(levels, LARGEST) > largest) & ~_absent(levels, missing)


def _without_outliers(level: Array, unknown: Mask, typical: float) -> tuple[Array, Mask]:
    """The map with the levels of unreliable pixels replaced by that of the pixels around them, and these pixels."""
    if typical == 0:
        return level, unknown
    unit = power_of_two(typical)  # brings the levels within the range of float32
    level, typical = np.minimum(level, 1e10 * typical) / unit, typical / unit
    precision = np.where(unknown, 0, np.square(typical / level)).astype(np.float32)
    mean_precision = blurred(precision) / blurred(np.ones_like(precision))
    around = typical / np.sqrt(np.where(mean_precision > 0, mean_precision, 1))
    unreliable = level > _OUTLYING * around
    unreliable &= blurred(unreliable.astype(np.float32)) < _CROWD
    unreliable |= unknown
    return np.where(unreliable, around, level) * unit, unreliable
