"""Outliers: single pixels that noise cannot explain, such as hot and dead ones, and what they are replaced by.

A pixel is an outlier if it stands out from all of its eight neighbours, and they do not stand out from theirs. Whether
that means a defect depends on what is around: in a screenshot, single pixels are the dots of letters, and in noise of
heavy tails, they are noise. So pixels are judged by the others within `_WINDOW`, and noise by those within `_WIDE`.
Nothing else matters, so that the result does not depend on how an image is divided into parts.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.engines.pool import in_order
from ..noise import Noise
from ..noise.correlated import correlation_between
from ..types import Array, Mask, Pixels, Positions
from .plan import Plan
from .surroundings import (
    AMONG_MANY,
    AROUND,
    GAP,
    NEAR,
    SHARP,
    STEPS,
    are_alone,
    background_of,
    deviation_at,
    mean_beside,
    medians_around,
    standing_out,
    structures_of,
    sums,
)

# A pixel is an outlier if its gap is so large that white noise has none like it in 10^9 pixels,
_CLEAR = 6.0
# or if within the window at least _MANY pixels have such gaps, and _LARGER of these are larger by 1: no noise is like that.
_MANY, _LARGER = 8, 3
# Most outliers that differ from their neighbours by more than this many standard deviations are found.
_FOUND = 4.5
# Gaps of the heavy tails of noise soon become rarer. If more pixels stand out than in Gaussian noise within _WIDE, the mean
# gap must be larger than GAP by more than _LONG; any counts as at most _LONGEST. The area is large enough for hardly any
# place to differ from the others by chance.
_WIDE = 48
_FEW = 20
_LONG, _LONGEST = 0.95, 4.0
# In other channels, the pixel differs from the background by no more than this many standard deviations, and the mean of
# those beside it by half as much.
_NORMAL = 4.0
# Up to so many of these for each pixel that stands out are outliers that touch each other.
_TOUCHING = 0.25
_WINDOW = 24
REACH = max(_WIDE, 2 * _WINDOW) + NEAR + 3
"""How far away pixels matter to whether a pixel is an outlier."""
_BAND = 2**18  # pixels to look at at a time
_PAIRS = 1000  # so many pixels are compared in pairs


class Repaired(NamedTuple):
    """An image without outliers."""

    pixels: Pixels
    outliers: int
    """How many there were."""
    places: Positions | None = None
    """Where they were, if all channels were searched; see `outliers`."""


def reach_of(plan: Plan) -> int:
    """How far away pixels matter to those that `repaired` returns."""
    return REACH if plan.may_have_outliers.any() else 0


def repaired(
    plan: Plan,
    pixels: Pixels,
    missing: Mask | None,
    levels: Array,
    known: Positions | None = None,
    workers: int = 1,
) -> Repaired:
    """Replace the outliers of (channels, height, width) by the median of their neighbours.

    `levels` are those of the stabilised noise, which broadcast against the image. A map of them says which pixels are bad,
    so that no others are looked for. Channels with hardly any noise are left as they are. If there are no outliers, the
    pixels are those that were given. The outliers may be `known` for the noise of the plan in all channels.
    """
    if not reach_of(plan) or levels.size > len(levels):
        return Repaired(pixels, 0)
    here, found = plan.may_have_outliers[:, None, None], known
    if found is None or not here.all():
        found = outliers(pixels, missing, plan.noise, np.where(here, levels, 0.0), workers)
    places = found if here.all() else None
    if not len(found):
        return Repaired(pixels, 0, places)
    result = pixels.copy()
    result[tuple(found.T)] = medians_around(pixels, found)
    return Repaired(result, len(found), places)


def variance_of_weak_outliers(pixels: Pixels, found: Positions, levels: Array) -> float:
    """The variance that outliers too weak to be found add to that of the noise, of these levels, as a share of it.

    There are as many of each size as there are of those just above `_FOUND`.
    """
    sizes = np.abs(pixels[tuple(found.T)] - medians_around(pixels, found))
    sizes = sizes / np.broadcast_to(levels, pixels.shape)[tuple(found.T)]
    number = np.count_nonzero((sizes > _FOUND) & (sizes <= _FOUND + 1))
    return number / pixels.size * _FOUND**3 / 3


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # near the limit of a type
def outliers(
    pixels: Pixels, missing: Mask | None, noise: Noise, levels: Array, workers: int = 1
) -> npt.NDArray[np.intp]:
    """The channel, row and column of each outlier; see `repaired`."""
    _, height, width = pixels.shape
    if min(height, width) < 3 or not np.any(levels > 0):
        return np.empty((0, 3), np.intp)
    units = _units(noise, len(pixels))

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")  # of this thread
    def in_band(place: tuple[int, tuple[slice, slice]]) -> Positions:
        channel, (rows, held) = place
        own = levels[min(channel, len(levels) - 1)]
        part = own[held] if len(own) > 1 else own
        gone = None if missing is None else missing[channel, held]
        y, x = _in_part(pixels[channel, held], gone, noise, part, units[channel])
        y = y + held.start
        here = (rows.start <= y) & (y < rows.stop)
        places = np.stack([np.full_like(y, channel), y, x], axis=1)
        return np.asarray(places[here])

    noisy = [k for k in range(len(pixels)) if levels[min(k, len(levels) - 1)].any()]
    bands = [(channel, band) for channel in noisy for band in _bands(height, width)]
    places = np.concatenate(list(in_order(in_band, bands, workers)))
    if len(pixels) > 1 and len(places):
        places = places[_is_single_in_others(places, pixels, missing, noise, levels, units)]
    return places


def _is_single_in_others(
    places: Positions,
    pixels: Pixels,
    missing: Mask | None,
    noise: Noise,
    levels: Array,
    units: list[float],
) -> Mask:
    """Which outliers of a channel have no structure there in other channels, unless they are outliers there as well."""
    channel, y, x = places.T
    index = np.ravel_multi_index((channel, y, x), pixels.shape)
    single: Mask = np.ones(len(places), bool)
    for k, (other, unit) in enumerate(zip(pixels, units, strict=True)):
        valid = other if missing is None else np.where(missing[k], other.dtype.type(0), other)
        wide = np.pad(valid, 1, "reflect")
        background, beside = background_of(wide, y, x), mean_beside(wide, y, x)
        own = np.broadcast_to(levels, pixels.shape)[k, y, x]
        deviation = deviation_at(noise, background, own, unit)
        same = np.isin(np.ravel_multi_index((np.full_like(y, k), y, x), pixels.shape), index)
        same |= np.abs(valid[y, x] - background) <= _NORMAL * deviation
        single &= (channel == k) | same & (np.abs(beside - background) <= _NORMAL / 2 * deviation)
    return single


def _bands(height: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Yield some rows, and the same with those around them that matter."""
    step = max(8 * REACH, _BAND // width)
    for top in range(0, height, step):
        bottom = min(top + step, height)
        yield slice(top, bottom), slice(max(top - REACH, 0), min(bottom + REACH, height))


def _units(noise: Noise, channels: int) -> list[float]:
    """How much less a pixel differs from its neighbours, in each channel, than if the noise were white."""
    between = correlation_between(noise, channels)
    if between is None:
        return [1.0] * channels
    return [_unit(between[channel, channel]) for channel in range(channels)]


def _unit(correlation: Array) -> float:
    wide = np.pad(correlation, 2)
    middle = wide.shape[0] // 2, wide.shape[1] // 2

    def at(a: tuple[int, int], b: tuple[int, int]) -> float:
        return float(wide[middle[0] + a[0] - b[0], middle[1] + a[1] - b[1]])

    to_mean = sum(at(a, (0, 0)) for a in AROUND) / 8
    of_mean = sum(at(a, b) for a in AROUND for b in AROUND) / 64
    return float(np.sqrt(max(1 - 2 * to_mean + of_mean, 0.01) / (1 + 1 / 8)))


def _in_part(
    pixels: Pixels, gone: Mask | None, noise: Noise, level: Array, unit: float
) -> tuple[Positions, Positions]:
    """The rows and columns of the outliers of a channel."""
    values = pixels if gone is None else np.where(gone, pixels.dtype.type(0), pixels)
    values = values.astype(np.float64)
    y, x, gap = standing_out(values, noise, level, unit)
    if gone is not None:
        apart = ~(sums(gone, 2) > 0)[y, x]
        y, x, gap = y[apart], x[apart], gap[apart]
    candidate = _is_candidate(y, x, gap)
    if not candidate.any():
        return y[candidate], x[candidate]
    count, larger = _numbers_near(y, x, gap, _WIDE)
    crowded = (count > _FEW) | (count >= _MANY) & (larger >= _LARGER)
    gaps = np.zeros(values.shape)
    gaps[y, x] = gap
    own = np.broadcast_to(level, values.shape)
    places = []
    for rows, columns in _around(y[candidate], x[candidate], crowded[candidate]):
        here = rows, columns
        held = None if gone is None else gone[here]
        y, x = _in_detail(values[here], held, noise, own[here], unit, gaps[here])
        places.append((y + rows.start, x + columns.start))
    y, x = map(np.concatenate, zip(*places, strict=True))
    return y, x


def _around(y: Positions, x: Positions, crowded: Mask) -> Iterator[tuple[slice, slice]]:
    """Yield the rows and columns that matter to candidates, and to what they may touch.

    Those of candidates in a crowd, or in noise that may have heavy tails, reach further. Candidates with nothing in common
    are looked at one after the other.
    """
    far = _WINDOW + 1 + REACH
    order = np.argsort(x)
    for some in np.split(order, np.flatnonzero(np.diff(x[order]) > 2 * far) + 1):
        margin = far if crowded[some].any() else _WINDOW + NEAR + 3
        rows, columns = (
            slice(max(places.min() - margin, 0), places.max() + margin + 1)
            for places in (y[some], x[some])
        )
        yield rows, columns


def _in_detail(
    values: Array, gone: Mask | None, noise: Noise, level: Array, unit: float, gaps: Array
) -> tuple[Positions, Positions]:
    """The rows and columns of the outliers in a part of a channel, given the gaps of the pixels that stand out."""
    with np.errstate(over="ignore", invalid="ignore"):  # near the limit of a type
        deviation, jumps, busy, signed = structures_of(values, noise, level, unit)
    gaps = np.where(gaps > GAP * busy, gaps / busy, 0)
    y, x = np.nonzero(gaps)
    candidates = np.zeros(gaps.shape, bool)
    candidates[y, x] = _is_candidate(y, x, gaps[y, x])
    many = sums(gaps > GAP, _WINDOW) >= _MANY
    many &= (sums(gaps > GAP + 1, _WINDOW) >= _LARGER) & (sums(candidates, _WINDOW) > 0)
    if gone is not None:
        many &= sums(gone, 2) == 0
    extremes = np.zeros(gaps.shape)
    y, x = np.nonzero(many & (np.abs(signed) > AMONG_MANY * busy))
    alone = are_alone(values, y, x, np.sign(signed[y, x]), deviation)
    y, x = y[alone], x[alone]
    extremes[y, x] = np.abs(signed[y, x]) / busy[y, x]
    heavy = _is_heavy(gaps)
    jumps[extremes > 0] = 0  # outliers themselves
    doubtful = _among_structures(busy * gaps, busy * np.maximum(gaps, extremes), jumps)
    found = (candidates | (extremes > 0)) & ~heavy & ~doubtful
    if (found & many).any():
        found |= many & _beside(found & many, values, GAP * busy, noise, level, unit)
    y, x = np.nonzero(found)
    return y, x


def _beside(
    found: Mask, values: Array, least: Array, noise: Noise, level: Array, unit: float
) -> Mask:
    """The rest of a clump: pixels that stand out, by more than `least`, once the outliers beside them are replaced."""
    cleaned, result = values.copy(), np.zeros(found.shape, bool)
    y, x = np.nonzero(found)
    cleaned[y, x] = medians_around(values[None], np.stack([np.zeros_like(y), y, x], axis=1))
    y, x, gap = standing_out(cleaned, noise, level, unit)
    result[y, x] = (gap > least[y, x]) & (sums(found, 1)[y, x] > 0)
    return result


def _is_heavy(gaps: Array) -> Mask:
    """Where pixels stand out because the noise has heavy tails."""
    excess = np.clip(gaps - GAP, 0, _LONGEST)
    count = sums(excess > 0, _WIDE)
    return np.asarray((count > _FEW) & (sums(STEPS * excess, _WIDE) < STEPS * _LONG * count))


def _among_structures(single: Array, gaps: Array, jumps: Array) -> Mask:
    """Where structures around a pixel are as sharp as it is, so that it may be one of them.

    Pixels with `gaps` are compared with structures of at least half their contrast, and with the number of `single`
    pixels like that.
    """
    doubtful = np.zeros(gaps.shape, bool)
    compared, alike, least = gaps > 0, single > 0, SHARP
    while compared.any():
        structures = sums(jumps > least, _WINDOW)
        doubtful = np.where(compared, structures > _TOUCHING * sums(alike, _WINDOW), doubtful)
        least *= 2
        compared, alike = gaps > 2 * least, single > least
    return doubtful


def _is_candidate(y: Positions, x: Positions, gap: Array) -> Mask:
    """Which pixels that stand out have a large gap, or one like many others around, of which some are larger by 1."""
    count, larger = _numbers_near(y, x, gap, _WINDOW)
    return np.asarray((gap > _CLEAR) | (count >= _MANY) & (larger >= _LARGER))


def _numbers_near(
    y: Positions, x: Positions, gap: Array, reach: int
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """How many pixels that stand out there are within reach of each, and how many of these by 1 more."""
    larger = gap > GAP + 1
    if len(y) > _PAIRS:
        standing, far = np.zeros((2, y.max() + 1, x.max() + 1), bool)
        standing[y, x], far[y, x] = True, larger
        return sums(standing, reach)[y, x], sums(far, reach)[y, x]
    near = (abs(y[:, None] - y) <= reach) & (abs(x[:, None] - x) <= reach)
    return near.sum(axis=1), near[:, larger].sum(axis=1)
