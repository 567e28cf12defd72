"""How probable it is that what calm blocks have in common is noise, rather than the texture of an image without noise.

Three things tell them apart. The likeness of result and residual falls up to the right level of noise (`trial`). The
energies of calm blocks of noise span a ratio of about 1.8, and do not grow with the energy at low frequencies (`calm`).
And the residual of a trial run is alike all over the image if it is noise, whereas texture is strong in some places, and in
their neighbours, too.

How much each of them counts, and each pair of them, is learned from simulated cameras, by logistic regression. The same
command measures how often the decision is wrong, by cameras that it has not learned from.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import Array
from .blocks import SIDE, Mask
from .calm import Measured
from .learned import CONSTANT, DEVIATIONS, MEANS, PRODUCTS, WEIGHTS
from .trial import MUCH, Brightness, Level

_LEAST_FALL = 0.01  # of the likeness; what is less counts as this much
_MOST_SPAN, _MOST_GROWTH = 2.0, 1.5  # what is more counts as this much
# The logarithms of the levels, as shares of the range, beyond which they make no difference.
_FAINT, _STRONG = -5.7, -0.7
_LEAST_ENERGY = 1e-4  # of a tile, relative to noise of the level measured
_FEWEST = 4  # tiles that are enough
_EXTREME = 3.0  # deviations; beyond them, nothing was learned


class Evidence(NamedTuple):
    """What tells noise from texture. Infinite numbers do not occur; unknown ones are NaN."""

    fall: float
    """The logarithm of how much the likeness falls up to the level chosen."""
    span: float
    """The logarithm of the span of the energies of calm blocks."""
    growth: float
    """How fast the energy at higher frequencies grows with that at low ones."""
    growth_and_level: float
    """The growth times the logarithm of the level: strong noise hides the growth of texture."""
    uneven: float
    """The logarithm of the ratio between the levels at the brightness with the strongest and with the weakest noise."""
    residual: float
    """The mean of the logarithms of the energies of tiles of the residual, relative to the level."""
    spread: float
    """The standard deviation of these logarithms."""
    alike: float
    """The covariance of those of neighbouring tiles."""
    more_residual: float
    """As `residual`, if more than the level measured is removed."""
    more_spread: float
    more_alike: float


def evidence_of(
    measured: Measured, brightness: Brightness, level: Level, tried: Callable[[float], Array]
) -> Evidence:
    """Collect the evidence; `tried` is a function that `trials_of` returned, and `level` what came of it."""
    gray, base = brightness.image[0], brightness.base
    contrast = max(float(np.ptp(gray)), 1e-300)
    strength = math.log(max(float(np.median(base.sigmas)) / contrast, 1e-300))
    fall = math.log(max(level.fall - 1, _LEAST_FALL))
    growth = min(max(measured.growth, 0.0), _MOST_GROWTH)
    counted, of_tiles = _changing(gray, brightness.counted), []
    for factor in (1.0, MUCH):
        result = tried(factor)
        of_tiles += _of_tiles((gray - result) / base.sigma_at(result), counted)
    return Evidence(
        fall,
        min(math.log(measured.span), _MOST_SPAN),
        growth,
        growth * min(max(strength, _FAINT), _STRONG),
        math.log(max(base.sigmas) / min(base.sigmas)),
        *of_tiles,
    )


def probability_of_noise(evidence: Evidence) -> float:
    """The probability of noise, if images with and without noise are equally frequent."""
    z = standardised(np.array(evidence, np.float64), MEANS, DEVIATIONS)
    score = CONSTANT + float(z @ WEIGHTS + z @ PRODUCTS @ z)
    return 1 / (1 + math.exp(-min(max(score, -50.0), 50.0)))


def standardised(evidence: Array, means: Array, deviations: Array) -> Array:
    """The evidence with means of 0 and deviations of 1, and 0 where it is unknown; what is extreme counts as less."""
    return np.clip(np.nan_to_num((evidence - means) / deviations), -_EXTREME, _EXTREME)


def _changing(image: Array, counted: Mask) -> Mask:
    """The pixels that count, without those in blocks of one value: a border, or what was clipped."""
    rows, columns = (length // SIDE for length in image.shape)
    blocks = image[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE)
    changing = np.repeat(np.repeat(np.ptp(blocks, axis=(1, 3)) > 0, SIDE, axis=0), SIDE, axis=1)
    result = counted.copy()
    result[: rows * SIDE, : columns * SIDE] &= changing
    return result


def _of_tiles(residual: Array, counted: Mask) -> list[float]:
    """Mean, standard deviation and covariance of neighbours of the logarithms of the energies of tiles."""
    rows, columns = (length // SIDE for length in residual.shape)
    shape = rows, SIDE, columns, SIDE
    tiles = residual[: rows * SIDE, : columns * SIDE].reshape(shape)
    whole = counted[: rows * SIDE, : columns * SIDE].reshape(shape).mean(axis=(1, 3)) > 0.5
    if np.count_nonzero(whole) < _FEWEST:
        return [math.nan] * 3
    energies = np.log(tiles.var(axis=(1, 3)) + _LEAST_ENERGY)
    mean = float(energies[whole].mean())
    rest = np.where(whole, energies - mean, 0.0)
    covariances = [
        float(np.sum(rest[:-1] * rest[1:]) / max(np.sum(whole[:-1] & whole[1:]), 1)),
        float(np.sum(rest[:, :-1] * rest[:, 1:]) / max(np.sum(whole[:, :-1] & whole[:, 1:]), 1)),
    ]
    return [mean, float(energies[whole].std()), float(np.mean(covariances))]
