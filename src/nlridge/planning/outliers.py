"""Outliers: single pixels that noise cannot explain, such as hot and dead ones, and what they are replaced by.

A pixel is an outlier if it stands out from all of its eight neighbours, and they do not stand out from theirs. Whether
that means a defect depends on what is around: in a screenshot, single pixels are the dots of letters, and in noise of
heavy tails, they are noise. So pixels are judged by the others within `_WINDOW`. Nothing else matters, so that the
result does not depend on how an image is divided into parts.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.engines.pool import in_order
from ..core.kernels.extremes import beyond_neighbours, sort_nine, sums_around
from ..noise import Noise
from ..noise.correlated import correlation_between
from ..types import Array, Mask, Pixels, Positions
from .plan import Plan

_AROUND = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
_BESIDE = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
_RING = np.array([(y, x) for y in range(-2, 3) for x in range(-2, 3) if max(abs(y), abs(x)) == 2])
# A pixel stands out if its gap, the distance to the nearest of its neighbours, is more than this many standard deviations.
# White noise has such a gap in 6e-4 of its pixels.
_GAP = 2.5
# It is an outlier if its gap is so large that white noise has none like it in 10^9 pixels,
_CLEAR = 6.0
# or if within the window at least _MANY pixels have such gaps, a third of which are larger by 1: no noise is like that.
_MANY = 8
# Among so many, some touch each other. There, the two brightest or darkest of nine pixels are outliers if they differ
# from the median by more than this many standard deviations.
_AMONG_MANY = 3.5
# Most outliers that differ from their neighbours by more than this many standard deviations are found.
_FOUND = 4.5
# Gaps of the heavy tails of noise soon become rarer. If more pixels stand out than in Gaussian noise, a third of them must
# have gaps larger by 1.
_FEW = 5
_LARGER = 3
# The image of a star is never confined to one pixel: those beside it receive more than this share of its light.
_SPREAD = 0.1
# In other channels, the pixel differs from the background by no more than this many standard deviations, and the mean of
# those beside it by half as much.
_NORMAL = 4.0
# Structures are as sharp as outliers if most of the contrast around a pixel, apart from noise, lies between two values
# that differ by more than _SHARP standard deviations.
_MOST = 0.75
_SHARP = 4.5
# Up to so many of these for each pixel that stands out are outliers that touch each other.
_TOUCHING = 0.25
_WINDOW = 24
# In a texture, gaps count by how much larger they are than the differences of other pixels this near. A difference is that
# of a pixel from the median of nine, which is 0 on a slope. It counts as at most three times what the spread between the
# second and the eighth of nine values suggests, so that outliers hardly matter.
_NEAR = 8
_DIFFERENCE_OF_NOISE, _SPREAD_OF_NOISE = 0.7235, 1.87  # means, in standard deviations
_STEPS = 64  # in which it is measured
REACH = _WINDOW + _NEAR + 3
"""How far away pixels matter to whether a pixel is an outlier."""
_BAND = 2**20  # pixels to look at at a time
_TILE = 256  # side of the parts of these that are looked at more closely
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
    result[tuple(found.T)] = _medians_around(pixels, found)
    return Repaired(result, len(found), places)


def variance_of_weak_outliers(pixels: Pixels, found: Positions, levels: Array) -> float:
    """The variance that outliers too weak to be found add to that of the noise, of these levels, as a share of it.

    There are as many of each size as there are of those just above `_FOUND`.
    """
    sizes = np.abs(pixels[tuple(found.T)] - _medians_around(pixels, found))
    sizes = sizes / np.broadcast_to(levels, pixels.shape)[tuple(found.T)]
    number = np.count_nonzero((sizes > _FOUND) & (sizes <= _FOUND + 1))
    return number / pixels.size * _FOUND**3 / 3


def _medians_around(pixels: Pixels, places: Positions) -> Pixels:
    """The medians of the eight neighbours of some pixels."""
    channel, y, x = places.T
    wide = np.pad(pixels, ((0, 0), (1, 1), (1, 1)), "reflect")
    around = [wide[channel, y + 1 + dy, x + 1 + dx] for dy, dx in _AROUND]
    return np.asarray(np.median(around, axis=0))


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
        background, beside = _background(wide, y, x), _beside(wide, y, x)
        own = np.broadcast_to(levels, pixels.shape)[k, y, x]
        deviation = _deviation(noise, background, own, unit)
        same = np.isin(np.ravel_multi_index((np.full_like(y, k), y, x), pixels.shape), index)
        same |= np.abs(valid[y, x] - background) <= _NORMAL * deviation
        single &= (channel == k) | same & (np.abs(beside - background) <= _NORMAL / 2 * deviation)
    return single


def _bands(height: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Yield some rows, and the same with those around them that matter."""
    step = max(4 * REACH, _BAND // width)
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

    to_mean = sum(at(a, (0, 0)) for a in _AROUND) / 8
    of_mean = sum(at(a, b) for a in _AROUND for b in _AROUND) / 64
    return float(np.sqrt(max(1 - 2 * to_mean + of_mean, 0.01) / (1 + 1 / 8)))


def _in_part(
    pixels: Pixels, gone: Mask | None, noise: Noise, level: Array, unit: float
) -> tuple[Positions, Positions]:
    """The rows and columns of the outliers of a channel."""
    values = pixels if gone is None else np.where(gone, pixels.dtype.type(0), pixels)
    values = values.astype(np.float64)
    y, x, gap = _standing_out(values, noise, level, unit)
    if gone is not None:
        apart = ~(_sums(gone, 2) > 0)[y, x]
        y, x, gap = y[apart], x[apart], gap[apart]
    candidate = _is_candidate(y, x, gap)
    gaps = np.zeros(values.shape)
    gaps[y, x] = gap
    found = [np.empty((2, 0), np.intp)]
    for own, held in _tiles(y[candidate], x[candidate], values.shape):
        part = level if level.shape == (1, 1) else level[held]
        near = None if gone is None else gone[held]
        places = _in_tile(values[held], near, gaps[held], noise, part, unit)
        places += np.array([[held[0].start], [held[1].start]])
        inside = [(a.start <= at) & (at < a.stop) for a, at in zip(own, places, strict=True)]
        found.append(places[:, inside[0] & inside[1]])
    rows, columns = np.concatenate(found, axis=1)
    return rows, columns


def _tiles(
    y: Positions, x: Positions, shape: tuple[int, ...]
) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice]]]:
    """Yield the tiles of a part to which some candidates matter, and the same with the pixels around them that matter."""
    for top in range(0, shape[0], _TILE):
        for left in range(0, shape[1], _TILE):
            own = slice(top, top + _TILE), slice(left, left + _TILE)
            held = tuple(slice(max(a.start - REACH, 0), a.stop + REACH) for a in own)
            rows, columns = held
            near = (rows.start <= y) & (y < rows.stop) & (columns.start <= x) & (x < columns.stop)
            if near.any():
                yield own, (rows, columns)


def _in_tile(
    values: Array, gone: Mask | None, gaps: Array, noise: Noise, level: Array, unit: float
) -> Positions:
    """The rows and columns of the outliers among the pixels of a tile, from their `gaps`."""
    level = np.broadcast_to(level, values.shape)
    with np.errstate(over="ignore", invalid="ignore"):  # near the limit of a type
        jumps, busy, extremes = _structures(values, noise, level, unit)
    gaps = np.where(gaps > _GAP * busy, gaps / busy, 0)
    y, x = np.nonzero(gaps)
    candidates = np.zeros(gaps.shape, bool)
    candidates[y, x] = _is_candidate(y, x, gaps[y, x])
    count, larger = (_sums(gaps > least, _WINDOW) for least in (_GAP, _GAP + 1))
    extremes = np.where((count >= _MANY) & (extremes > _AMONG_MANY * busy), extremes / busy, 0)
    if gone is not None:
        extremes[_sums(gone, 2) > 0] = 0
    heavy = (count > _FEW) & (_LARGER * larger < count)
    jumps[extremes > 0] = 0  # outliers themselves
    doubtful = _among_structures(busy * gaps, busy * np.maximum(gaps, extremes), jumps)
    return np.array(np.nonzero((candidates | (extremes > 0)) & ~heavy & ~doubtful))


def _among_structures(single: Array, gaps: Array, jumps: Array) -> Mask:
    """Where structures around a pixel are as sharp as it is, so that it may be one of them.

    Pixels with `gaps` are compared with structures of at least half their contrast, and with the number of `single`
    pixels like that.
    """
    doubtful = np.zeros(gaps.shape, bool)
    compared, alike, least = gaps > 0, single > 0, _SHARP
    while compared.any():
        structures = _sums(jumps > least, _WINDOW)
        doubtful = np.where(compared, structures > _TOUCHING * _sums(alike, _WINDOW), doubtful)
        least *= 2
        compared, alike = gaps > 2 * least, single > least
    return doubtful


def _is_candidate(y: Positions, x: Positions, gap: Array) -> Mask:
    """Which pixels that stand out have a large gap, or one like many others around, of which some are larger by 1."""
    larger = gap > _GAP + 1
    if len(y) > _PAIRS:
        shape = y.max() + 1, x.max() + 1
        standing, far = np.zeros(shape, bool), np.zeros(shape, bool)
        standing[y, x], far[y, x] = True, larger
        count, of_larger = (_sums(mask, _WINDOW)[y, x] for mask in (standing, far))
    else:
        near = (abs(y[:, None] - y) <= _WINDOW) & (abs(x[:, None] - x) <= _WINDOW)
        count, of_larger = near.sum(axis=1), near[:, larger].sum(axis=1)
    many = (count >= _MANY) & (_LARGER * of_larger >= _MANY)
    return np.asarray((gap > _CLEAR) | many)


def _deviation(noise: Noise, values: Array, level: Array, unit: float) -> Array:
    """The standard deviation of the noise at these values."""
    with np.errstate(over="ignore", invalid="ignore"):
        deviation: Array = np.sqrt(noise.variance(values[None, None], level[None, None]))
    return np.asarray(unit * deviation[0, 0])


def _standing_out(
    values: Array, noise: Noise, level: Array, unit: float
) -> tuple[Positions, Positions, Array]:
    """The rows and columns of pixels that stand out, and by how many standard deviations: their gaps.

    These are the smaller of those before and after stabilisation, since few photons have long tails.
    """
    wide = np.pad(values, 1, "reflect")
    places, nearest = np.empty(values.size // 2 + 1, np.intp), np.empty(values.size // 2 + 1)
    least = _GAP * _least_deviation(values, noise, level, unit)
    count = int(beyond_neighbours(wide, least, places, nearest))  # type: ignore[no-untyped-call]
    y, x = np.divmod(places[:count], values.shape[1])
    other, value = nearest[:count], values[y, x]
    own = np.broadcast_to(level, values.shape)[y, x]
    sign = np.where(value > other, 1.0, -1.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gap = sign * (value - other) / _deviation(noise, other, own, unit)
    large = (gap > _GAP) & (gap < np.inf)
    y, x = y[large], x[large]
    own, value, other = own[large], value[large], other[large]
    gap, sign = gap[large], sign[large]
    stable = sign * (noise.stabilise(value) - noise.stabilise(other)) / (unit * own)
    gap = np.minimum(gap, stable)
    single = (gap > _GAP) & _is_single(wide, y, x, sign)
    return y[single], x[single], gap[single]


def _least_deviation(values: Array, noise: Noise, level: Array, unit: float) -> float:
    """A lower bound of the deviations at these values: half of the smallest at some of them, if they differ."""
    some = np.linspace(values.min(), values.max(), 64)
    deviations = _deviation(noise, some, np.full(64, level.min()), unit)
    least = float(deviations.min())
    if not least < np.inf:
        return 0.0
    return least if least == deviations.max() else 0.5 * least


def _is_single(wide: Array, y: Positions, x: Positions, sign: Array) -> Mask:
    """Whether pixels stand out from the background alone: not those beside them, as in the image of a star.

    A background without any noise is that of a drawing, in which every pixel is meant. `wide` has one more row and column
    on each side.
    """
    ring = _ring(wide, y, x)
    background, beside = np.median(ring, axis=0), _beside(wide, y, x)
    single = sign * (beside - background) <= _SPREAD * sign * (wide[y + 1, x + 1] - background)
    return np.asarray(single & (np.ptp(ring, axis=0) > 0))


def _background(wide: Pixels, y: Positions, x: Positions) -> Array:
    """The median of the pixels two pixels away; `wide` is as above."""
    return np.asarray(np.median(_ring(wide, y, x), axis=0))


def _beside(wide: Pixels, y: Positions, x: Positions) -> Array:
    """The mean of the four pixels beside a pixel."""
    rows, columns = y + 1 + _BESIDE[:, :1], x + 1 + _BESIDE[:, 1:]
    return np.asarray(wide[rows, columns].astype(np.float64).mean(axis=0))


def _ring(wide: Pixels, y: Positions, x: Positions) -> Array:
    """The pixels two pixels away."""
    height, width = wide.shape
    rows = np.clip(y + 1 + _RING[:, :1], 0, height - 1)
    columns = np.clip(x + 1 + _RING[:, 1:], 0, width - 1)
    return np.asarray(wide[rows, columns].astype(np.float64))


class _Structures(NamedTuple):
    """What there is around each pixel, in standard deviations of the noise."""

    jumps: Array
    """The contrast of structures as sharp as outliers."""
    busy: Array
    """How much neighbours differ: 1 if there is only noise."""
    extremes: Array
    """By how much one of the two brightest or darkest of nine pixels differs from their median; 0 if not `_AMONG_MANY`."""


def _structures(values: Array, noise: Noise, level: Array, unit: float) -> _Structures:
    wide = np.pad(values, 1, "reflect")
    ordered = np.empty((9, *values.shape))
    sort_nine(wide, ordered)  # type: ignore[no-untyped-call]
    deviation = _deviation(noise, ordered[4].ravel(), level.ravel(), unit).reshape(values.shape)
    deviation = np.maximum(deviation, 1e-300)
    steps = np.diff(ordered[1:-1], axis=0)
    # Beside two outliers, the pixel is one of the seven others.
    steps[0][values > ordered[1]] = 0
    steps[-1][values < ordered[-2]] = 0
    jump, contrast = steps.max(axis=0), ordered[-1] - ordered[0]
    jumps = np.where(jump + 2 * deviation > _MOST * contrast, jump / deviation, 0)
    spread = _means_near((ordered[-2] - ordered[1]) / deviation) / _SPREAD_OF_NOISE
    differences = _means_near(np.minimum(np.abs(values - ordered[4]) / deviation, 3 * spread))
    busy = np.maximum(differences / _DIFFERENCE_OF_NOISE, 1.0)
    extremes = np.zeros(values.shape)
    for sign, one in ((1, ordered[-2]), (-1, ordered[1])):
        gaps = sign * (values - ordered[4]) / deviation
        # At the border, where the image is mirrored, every slope has an extreme.
        y, x = np.nonzero(((sign * (values - one) >= 0) & (gaps > _AMONG_MANY))[1:-1, 1:-1])
        y, x = y + 1, x + 1
        # The mean of the seven others must be that of the background, up to its noise.
        total = ordered[2:, y, x] if sign < 0 else ordered[:-2, y, x]
        background = _background(wide, y, x)
        spread_by = sign * (total.mean(axis=0) - background)
        alone = spread_by <= _SPREAD * sign * (values[y, x] - background) + deviation[y, x]
        extremes[y[alone], x[alone]] = gaps[y, x][alone]
    return _Structures(jumps, busy, extremes)


def _means_near(a: Array) -> Array:
    """The means around each pixel, of whole numbers, whose sums do not depend on where they begin."""
    steps = np.minimum(_STEPS * a, 2**20).astype(np.int32)
    return np.asarray(_sums(steps, _NEAR) / (_STEPS * _sums(np.ones_like(steps), _NEAR)))


def _sums(a: npt.NDArray[Any], reach: int) -> npt.NDArray[np.int32]:
    """The sums over squares around each pixel: the number of pixels, for a mask."""
    sums = np.empty(a.shape, np.int32)
    sums_around(a.astype(np.int32, copy=False), reach, sums)  # type: ignore[no-untyped-call]
    return sums
