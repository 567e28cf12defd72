"""What there is around each pixel: how far it stands out from its neighbours, and how sharp and busy structures are.

All distances are in standard deviations of the noise.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.kernels.extremes import beyond_neighbours, sort_nine, sums_around
from ..noise import Noise
from ..types import Array, Mask, Pixels, Positions

AROUND = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]
_BESIDE = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
_RING = np.array([(y, x) for y in range(-2, 3) for x in range(-2, 3) if max(abs(y), abs(x)) == 2])
# A pixel stands out if its gap, the distance to the nearest of its neighbours, is more than this many standard deviations.
# White noise has such a gap in 6e-4 of its pixels.
GAP = 2.5
# Among so many, some touch each other. There, the two brightest or darkest of nine pixels are outliers if they differ
# from the median by more than this many standard deviations.
AMONG_MANY = 3.5
# The image of a star is never confined to one pixel: those beside it receive more than this share of its light.
_SPREAD = 0.1
# Structures are as sharp as outliers if most of the contrast around a pixel, apart from noise, lies between two values
# that differ by more than SHARP standard deviations.
_MOST = 0.75
SHARP = 4.5
# In a texture, gaps count by how much larger they are than the differences of other pixels this near. A difference is that
# of a pixel from the median of nine, which is 0 on a slope. It counts as at most three times what the spread between the
# second and the eighth of nine values suggests, so that outliers hardly matter.
NEAR = 8
_DIFFERENCE_OF_NOISE, _SPREAD_OF_NOISE = 0.7235, 1.87  # means, in standard deviations
STEPS = 64  # in which it is measured


def _framed(values: Array) -> Array:
    """The image with one more pixel on each side, row by row: for other orders, kernels would be compiled again."""
    return np.ascontiguousarray(np.pad(values, 1, "reflect"))


def standing_out(
    values: Array, noise: Noise, level: Array, unit: float
) -> tuple[Positions, Positions, Array]:
    """The rows and columns of pixels that stand out, and by how many standard deviations: their gaps.

    These are the smaller of those before and after stabilisation, since few photons have long tails.
    """
    wide = _framed(values)
    places, nearest = np.empty(values.size // 2 + 1, np.intp), np.empty(values.size // 2 + 1)
    least = GAP * _least_deviation(values, noise, level, unit)
    count = int(beyond_neighbours(wide, least, places, nearest))  # type: ignore[no-untyped-call]
    y, x = np.divmod(places[:count], values.shape[1])
    other, value = nearest[:count], values[y, x]
    own = np.broadcast_to(level, values.shape)[y, x]
    sign = np.where(value > other, 1.0, -1.0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gap = sign * (value - other) / deviation_at(noise, other, own, unit)
    large = (gap > GAP) & (gap < np.inf)
    y, x = y[large], x[large]
    own, value, other = own[large], value[large], other[large]
    gap, sign = gap[large], sign[large]
    stable = sign * (noise.stabilise(value) - noise.stabilise(other)) / (unit * own)
    gap = np.minimum(gap, stable)
    single = (gap > GAP) & _is_single(wide, y, x, sign)
    return y[single], x[single], gap[single]


def _least_deviation(values: Array, noise: Noise, level: Array, unit: float) -> float:
    """A lower bound of the deviations at these values: half of the smallest at some of them, if they differ."""
    some = np.linspace(values.min(), values.max(), 64)
    deviations = deviation_at(noise, some, np.full(64, level.min()), unit)
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
    background, beside = np.median(ring, axis=0), mean_beside(wide, y, x)
    single = sign * (beside - background) <= _SPREAD * sign * (wide[y + 1, x + 1] - background)
    return np.asarray(single & (np.ptp(ring, axis=0) > 0))


def deviation_at(noise: Noise, values: Array, level: Array, unit: float) -> Array:
    """The standard deviation of the noise at these values."""
    with np.errstate(over="ignore", invalid="ignore"):
        deviation: Array = np.sqrt(noise.variance(values[None, None], level[None, None]))
    return np.asarray(unit * deviation[0, 0])


def medians_around(pixels: Pixels, places: Positions) -> Pixels:
    """The medians of the eight neighbours of some pixels."""
    channel, y, x = places.T
    wide = np.pad(pixels, ((0, 0), (1, 1), (1, 1)), "reflect")
    around = [wide[channel, y + 1 + dy, x + 1 + dx] for dy, dx in AROUND]
    return np.asarray(np.median(around, axis=0))


def background_of(wide: Pixels, y: Positions, x: Positions) -> Array:
    """The median of the pixels two pixels away; `wide` has one more row and column on each side."""
    return np.asarray(np.median(_ring(wide, y, x), axis=0))


def mean_beside(wide: Pixels, y: Positions, x: Positions) -> Array:
    """The mean of the four pixels beside a pixel; `wide` has one more row and column on each side."""
    rows, columns = y + 1 + _BESIDE[:, :1], x + 1 + _BESIDE[:, 1:]
    return np.asarray(wide[rows, columns].astype(np.float64).mean(axis=0))


def _ring(wide: Pixels, y: Positions, x: Positions) -> Array:
    """The pixels two pixels away."""
    height, width = wide.shape
    rows = np.clip(y + 1 + _RING[:, :1], 0, height - 1)
    columns = np.clip(x + 1 + _RING[:, 1:], 0, width - 1)
    return np.asarray(wide[rows, columns].astype(np.float64))


class Structures(NamedTuple):
    """What there is around each pixel, in standard deviations of the noise."""

    jumps: Array
    """The contrast of structures as sharp as outliers."""
    busy: Array
    """How much neighbours differ: 1 if there is only noise."""
    extremes: Array
    """By how much one of the two brightest or darkest of nine pixels differs from their median; 0 if not `AMONG_MANY`."""


def structures_of(values: Array, noise: Noise, level: Array, unit: float) -> Structures:
    wide = _framed(values)
    ordered = np.empty((9, *values.shape))
    sort_nine(wide, ordered)  # type: ignore[no-untyped-call]
    deviation = deviation_at(noise, ordered[4].ravel(), level.ravel(), unit).reshape(values.shape)
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
        y, x = np.nonzero(((sign * (values - one) >= 0) & (gaps > AMONG_MANY))[1:-1, 1:-1])
        y, x = y + 1, x + 1
        # The mean of the seven others must be that of the background, up to its noise.
        total = ordered[2:, y, x] if sign < 0 else ordered[:-2, y, x]
        background = background_of(wide, y, x)
        spread_by = sign * (total.mean(axis=0) - background)
        alone = spread_by <= _SPREAD * sign * (values[y, x] - background) + deviation[y, x]
        extremes[y[alone], x[alone]] = gaps[y, x][alone]
    return Structures(jumps, busy, extremes)


def _means_near(a: Array) -> Array:
    """The means around each pixel, of whole numbers, whose sums do not depend on where they begin."""
    steps = np.minimum(STEPS * a, 2**20).astype(np.int32)
    return np.asarray(sums(steps, NEAR) / (STEPS * sums(np.ones_like(steps), NEAR)))


def sums(a: npt.NDArray[Any], reach: int) -> npt.NDArray[np.int64]:
    """The sums over squares around each pixel: the number of pixels, for a mask."""
    sums = np.empty(a.shape, np.int64)
    sums_around(a.astype(np.int32, copy=False), reach, sums)  # type: ignore[no-untyped-call]
    return sums
