"""The noise of the calm blocks of an image: its level, its spectrum, and what tells it from texture.

Calm blocks are those with the least energy in the lowest frequencies of the brightness [1]_ [2]_. Selecting blocks by the
lowest frequencies does not affect the noise in all others. What the noise is at the lowest frequencies, where the image
is, follows from the others if its spectrum is separable there.

Cameras and JPEG remove more noise from calm areas than from others, by rounding small coefficients to 0: then the noise
that is left is sparse. Elsewhere it is stronger, closer to white noise, and depends less on the brightness.

.. [1] M. Colom and A. Buades, "Analysis and extension of the Ponomarenko et al. method, estimating a noise curve from
   a single image", Image Processing On Line 3, 2013.
.. [2] M. Lebrun, M. Colom and J.-M. Morel, "The noise clinic: a blind image denoising algorithm", Image Processing
   On Line 5, 2015.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from . import Array
from .blocks import (
    CALM,
    COSINES,
    FEWEST,
    FREQUENCY,
    IMAGE,
    LOW,
    SIDE,
    Mask,
    brightness_first,
    calmest,
    coefficients_of,
    covariance_from,
    energy_of,
    usable_blocks,
)
from .curve import CurveNoise

_STEPS = 12  # number of steps of brightness
_SLOPE, _BEND = 0.3, 1.0  # stiffness of the level curve against slopes and bends
_ABOVE = 0.15  # what lies further than this above the logarithm of the curve is texture
_OUTLIER = 4.0  # blocks with more than this multiple of the median energy are not calm
# Noise is white if its highest frequencies have more than this share of the power of lower ones. There is much more texture
# in the brightness of an image than in the differences of its channels, in which demosaicking shows.
_WHITE, _WHITE_DIFFERENCES = 0.05, 0.35
# Noise is sparse if the median of its squares, relative to Gaussian noise, is below this.
_SPARSE = 0.97
_EVEN = 0.6  # the least level of sparse noise at any brightness, relative to the largest
_WHITER = 0.3  # share of the variance of sparse noise, in brightness, that is white and missing in calm areas
_LESS_CALM = (0.2, 0.3)  # blocks between these quantiles of energy are compared with the calm ones
_SKEWED = (0.0, 0.2, 0.45)  # the quantiles of energy at which skewness is measured
_NEXT = ~IMAGE & (FREQUENCY < LOW + 1)
_HIGHER = ~IMAGE & (FREQUENCY < 2 * LOW)
_MIDDLE = (FREQUENCY >= 6) & (FREQUENCY < 10)
_HIGHEST = FREQUENCY >= SIDE


class Measured(NamedTuple):
    """The noise of calm blocks."""

    base: CurveNoise
    correlation: Array
    sparse: bool
    span: float
    """The ratio of the largest to nearly the smallest of their energies."""
    growth: float
    """The power of the energy at low frequencies that the energy at higher ones grows with: about 0 for noise."""
    skewness: float
    """The least skewness of calm blocks and others at the frequencies of the noise; positive for spots of light."""


def measured_in(
    pixels: Sequence[Array], excluded: Sequence[Mask], clipped: Sequence[Mask]
) -> Measured | None:
    """The noise of calm blocks; None if it is white or cannot be measured."""
    blocks = usable_blocks(pixels, excluded, clipped)
    if blocks.shape[1] < 2 * FEWEST:
        return None
    low = coefficients_of(blocks, LOW)
    values = low[..., 0, 0] / SIDE
    curve = _level_curve(blocks, values, energy_of(low, IMAGE))
    if curve is None:
        return None
    sigma = curve.sigma_at(values)[..., None, None]
    energy = energy_of(low / sigma, IMAGE)
    order = np.argsort(energy, kind="stable")
    calm = calmest(energy)
    span = float(energy[calm[-1]] / max(energy[calm[len(calm) // 10]], 1e-300))
    growth = _growth(blocks, sigma, energy)
    coefficients = coefficients_of(blocks[:, calm]) / sigma[:, calm]
    energy = energy_of(coefficients, ~IMAGE)
    coefficients = coefficients[:, energy <= _OUTLIER * np.median(energy)]
    spectrum = np.einsum("cnij,dnij->cdij", coefficients, coefficients) / coefficients.shape[1]
    if not np.all(spectrum.diagonal() > 0) or _is_white(spectrum):
        return None
    covariance = covariance_from(_without_image(spectrum))
    variances = covariance[:, :, SIDE - 1, SIDE - 1].diagonal()
    if not np.all(variances > 0):
        return None
    scale = np.sqrt(np.outer(variances, variances))[:, :, None, None]
    mean = math.sqrt(variances.mean())
    # The white balance of a camera amplifies the noise of some channels more than that of others.
    levels = np.sqrt(variances) / mean if len(variances) > 1 else 1.0
    return Measured(
        CurveNoise(curve.values, mean * np.array(curve.sigmas), levels),
        covariance / scale,
        _is_sparse(coefficients.sum(axis=0)[:, _MIDDLE] ** 2),
        span,
        growth,
        _skewness(blocks, sigma, order),
    )


def _growth(blocks: Array, sigma: Array, energy: Array) -> float:
    """The power of the energy at low frequencies that the energy at higher ones grows with, from calm blocks on."""
    start, stop = (int(quantile * len(energy)) for quantile in _LESS_CALM)
    medians = []
    for chosen in (calmest(energy), np.argsort(energy, kind="stable")[start : stop + 1]):
        higher = energy_of(coefficients_of(blocks[:, chosen], 2 * LOW) / sigma[:, chosen], _HIGHER)
        medians.append([np.median(energy[chosen]), np.median(higher)])
    low, high = np.diff(np.log(np.maximum(medians, 1e-300)), axis=0)[0]
    return float(high / low) if low > 0 else 0.0


def _skewness(blocks: Array, sigma: Array, order: npt.NDArray[np.intp]) -> float:
    """The least skewness of the brightness at the frequencies of the noise, of blocks with little energy and with more.

    `order` is that of the blocks by energy. Each block counts the same.
    """
    values = []
    for start in _SKEWED:
        first = int(start * len(order))
        chosen = order[first : first + max(int(CALM * len(order)), FEWEST)]
        coefficients = coefficients_of(blocks[:, chosen]) / sigma[:, chosen]
        energy = energy_of(coefficients, ~IMAGE)
        coefficients = coefficients[:, energy <= _OUTLIER * np.median(energy)].sum(axis=0)
        pixels = COSINES.T @ np.where(IMAGE, 0.0, coefficients) @ COSINES
        spread = np.sqrt((pixels**2).mean(axis=(1, 2), keepdims=True))
        values.append(float(((pixels / np.maximum(spread, 1e-300)) ** 3).mean()))
    return max(min(values), 0.0)


def _level_curve(blocks: Array, values: Array, energy: Array) -> CurveNoise | None:
    """The level of the noise as a curve of the value of a pixel, up to a factor.

    The calmest blocks of each step of brightness are measured. At some steps there are no calm ones: the curve
    follows the lower edge of what was measured.
    """
    by_brightness = np.argsort(values.mean(axis=0), kind="stable")
    calm = np.concatenate(
        [step[calmest(energy[step])] for step in np.array_split(by_brightness, _STEPS)]
    )
    powers = coefficients_of(blocks[:, calm])[..., ~IMAGE] ** 2
    mean = powers.mean(axis=(0, 1))
    if not np.all(mean > 0):
        return None
    powers = (powers / mean).mean(axis=2).ravel()
    value = values[:, calm].ravel()
    steps = np.array_split(np.argsort(value, kind="stable"), _STEPS)
    middles = np.array([value[step].mean() for step in steps])
    levels = np.array([np.median(powers[step]) for step in steps])
    distinct = np.append(True, np.diff(middles) > 1e-3 * np.ptp(middles))
    heights = np.log(np.maximum(levels[distinct], 1e-6)) / 2
    return CurveNoise(middles[distinct], np.exp(_lower_edge(heights)))


def _lower_edge(heights: Array) -> Array:
    """A smooth curve along the lower edge of a row of points."""
    identity = np.eye(len(heights))
    slopes, bends = np.diff(identity, axis=0), np.diff(identity, n=2, axis=0)
    stiffness = _SLOPE * slopes.T @ slopes + _BEND * bends.T @ bends
    trust = np.ones_like(heights)
    for _ in range(30):
        edge = np.asarray(np.linalg.solve(np.diag(trust) + stiffness, trust * heights), np.float64)
        trust = 1 / (1 + (np.maximum(heights - edge, 0) / _ABOVE) ** 2)
    return edge


def _is_white(spectrum: Array) -> bool:
    """Whether noise is strong at the highest frequencies, in the brightness and in the differences of channels."""
    basis = brightness_first(len(spectrum))
    planes = np.einsum("cp,cdij,dp->pij", basis, spectrum, basis)
    next_to_image, middle, highest = (
        planes[:, frequencies].mean(axis=1) for frequencies in (_NEXT, _MIDDLE, _HIGHEST)
    )
    if highest[0] <= _WHITE * next_to_image[0]:
        return False
    differ = middle[1:] > 1e-6 * middle[0]  # unlike the channels of a gray image
    return bool(np.all(highest[1:][differ] > _WHITE_DIFFERENCES * middle[1:][differ]))


def _without_image(spectrum: Array) -> Array:
    """Replace the lowest frequencies of a spectrum of (channels, channels, rows, columns), where the image is.

    There, the noise is taken to have a separable spectrum. Differences of channels contain little of the image: of
    them, only the mean of a block is replaced.
    """
    channels = len(spectrum)
    rotation = brightness_first(channels)
    planes = np.einsum("cp,cdij,dq->pqij", rotation, spectrum, rotation)
    for p in range(channels):
        where, pivots = (IMAGE, (LOW, LOW + 1)) if p == 0 else (FREQUENCY == 0, (1,))
        # Not zero, as it is in the differences of channels that are equal.
        power = np.maximum(planes[p, p], 1e-12 * planes[0, 0].max())
        y, x = np.nonzero(where)
        separable = [np.log(power[y, k] * power[k, x] / power[k, k]) for k in pivots]
        planes[p, :, y, x] = planes[:, p, y, x] = 0
        planes[p, p, y, x] = np.exp(np.mean(separable, axis=0))
    replaced: Array = np.einsum("cp,pqij,dq->cdij", rotation, planes, rotation)
    return replaced


def _is_sparse(powers: Array) -> bool:
    """Whether most of the power of blocks is in few of their coefficients, from (blocks, coefficients)."""
    powers = powers / powers.mean(axis=0)
    powers /= np.maximum(powers.mean(axis=1, keepdims=True), 1e-300)
    return float(np.median(powers)) < _SPARSE * 0.455  # the median of a squared Gaussian variable


def in_most_areas(measured: Measured) -> tuple[CurveNoise, Array]:
    """Level, up to a factor, and correlation of the noise outside of calm areas.

    They differ if the noise of calm areas is sparse. JPEG has rounded weak coefficients there to 0, which are those of high
    frequencies, and all of them where there is little noise. Texture keeps them from being rounded to 0.
    """
    base, correlation = measured.base, measured.correlation
    if not measured.sparse:
        return base, correlation
    sigmas = np.array(base.sigmas)
    even = CurveNoise(base.values, np.maximum(sigmas, _EVEN * sigmas.max()), base.level)
    mean = brightness_first(len(correlation))[:, 0]
    white = _WHITER * np.einsum("c,cdij,d->ij", mean, correlation, mean)
    white[SIDE - 1, SIDE - 1] = 0
    return even, correlation - np.outer(mean, mean)[:, :, None, None] * white
