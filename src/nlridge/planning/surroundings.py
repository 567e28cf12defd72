"""What there is around each pixel: how far it stands out from its neighbours, and how sharp and busy structures are.

All distances are in standard deviations of the noise.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.kernels.extremes import (
    beyond_neighbours,
    contrasts,
    in_deviations,
    limited,
    sums_around,
)
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

    deviation: Array
    """These standard deviations."""
    jumps: Array
    """The contrast of structures as sharp as outliers."""
    busy: Array
    """How much neighbours differ: 1 if there is only noise."""
    extremes: Array
    """By how much one of the two brightest or darkest of nine pixels is above or below their median; 0 if not `AMONG_MANY`.

    At the border, where the image is mirrored, every slope would have one.
    """


def structures_of(values: Array, noise: Noise, level: Array, unit: float) -> Structures:
    shape = values.shape
    middle, jumps, contrast, spread, distance, extremes = (np.empty(shape) for _ in range(6))
    extreme, steps = np.empty(shape, np.int8), np.empty(shape, np.int32)
    contrasts(_framed(values), middle, jumps, contrast, spread, extreme)  # type: ignore[no-untyped-call]
    deviation = deviation_at(noise, middle.ravel(), level.ravel(), unit).reshape(shape)
    deviation = np.maximum(deviation, 1e-300)
    in_deviations(  # type: ignore[no-untyped-call]
        np.ascontiguousarray(values), middle, deviation, contrast, spread, extreme,
        _MOST, AMONG_MANY, STEPS, jumps, distance, extremes, steps,
    )  # fmt: skip
    extremes[[0, -1]] = extremes[:, [0, -1]] = 0
    rows, columns = (_lengths_near(length) for length in shape)
    limited(distance, sums(steps, NEAR), rows, columns, _SPREAD_OF_NOISE, STEPS, steps)  # type: ignore[no-untyped-call]
    busy = sums(steps, NEAR) / np.multiply.outer(STEPS * rows, columns)
    busy /= _DIFFERENCE_OF_NOISE
    return Structures(deviation, jumps, np.maximum(busy, 1.0, out=busy), extremes)


def are_alone(values: Array, y: Positions, x: Positions, sign: Array, deviation: Array) -> Mask:
    """Whether some extremes stand out from the background alone, or with one more.

    The mean of the seven others must be that of the background, up to its noise.
    """
    wide = _framed(values)
    nine = np.sort([wide[y + k // 3, x + k % 3] for k in range(9)], axis=0)
    others = np.where(sign < 0, nine[2:], nine[:-2]).mean(axis=0)
    background = background_of(wide, y, x)
    spread = sign * (others - background)
    most = _SPREAD * sign * (values[y, x] - background) + deviation[y, x]
    return np.asarray(spread <= most)


def _lengths_near(length: int) -> npt.NDArray[np.int64]:
    """How many pixels along an axis are near each of them."""
    places = np.arange(length)
    return np.asarray(
        np.minimum(places + NEAR, length - 1) - np.maximum(places - NEAR, 0) + 1, np.int64
    )


def sums(a: npt.NDArray[Any], reach: int) -> npt.NDArray[np.int32]:
    """The sums over squares around each pixel: the number of pixels, for a mask."""
    sums = np.empty(a.shape, np.int32)
    sums_around(a.astype(np.int32, copy=False), reach, sums)  # type: ignore[no-untyped-call]
    return sums
