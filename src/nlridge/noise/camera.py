"""Estimate noise that is correlated from pixel to pixel, such as that of a developed photograph.

Demosaicking, sharpening, resizing and JPEG correlate the noise of a photograph, and its tone curve makes the level a
curve of the brightness. Both are measured in calm blocks of pixels: those with the least energy in the lowest frequencies
of the brightness [1]_ [2]_. Selecting blocks by the lowest frequencies does not affect the noise in all others. What the
noise is at the lowest frequencies, where the image is, follows from the others if its spectrum is separable there.

Where no area is calm, texture is taken for noise. And cameras and JPEG remove more noise from calm areas than from
others, by rounding small coefficients to 0: then the noise that is left is sparse. Elsewhere it is stronger, closer to
white noise, and depends less on the brightness. So the level is chosen at last, by a few trial runs on a small part of
the image. If too little noise is removed, both the result and what was removed contain noise, and if too much is
removed, both contain texture. At the right level, they are least alike. How clearly they are so tells noise from the
texture of an image without noise. So does what blocks have in common: noise is the same in all of them, whereas blocks
with more texture at low frequencies have more of it at higher ones, too. A field of stars is no noise either, although
its calm parts are alike: the faint stars in them are all brighter than the sky, and noise is not so one-sided. Where it is not clear which of the two it is,
so little is removed that it could not be seen if it were texture. If it is noise, that is worth more than it seems: a
half of the right change removes three quarters of the error that all of it removes.

.. [1] M. Colom and A. Buades, "Analysis and extension of the Ponomarenko et al. method, estimating a noise curve from
   a single image", Image Processing On Line 3, 2013.
.. [2] M. Lebrun, M. Colom and J.-M. Morel, "The noise clinic: a blind image denoising algorithm", Image Processing
   On Line 5, 2015.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from . import Array
from .curve import CurveNoise

Mask: TypeAlias = npt.NDArray[np.bool_]
Denoise: TypeAlias = Callable[[Array, CurveNoise, Array], Array]
"""Denoise an image of (channels, height, width) whose noise has the given level and correlation."""

_BLOCK = 16  # side of a block: longer than most noise is correlated, and than the blocks of JPEG
_LOW = 4  # frequencies below this one, in half periods to a block, are those of the image
_MOST = 16_000  # largest number of blocks considered
_FEWEST = 40  # smallest number of calm blocks that is enough
_CALM = 0.05  # share of the blocks that are taken to be calm
_STEPS = 12  # number of steps of brightness
_SLOPE, _BEND = 0.3, 1.0  # stiffness of the level curve against slopes and bends
_ABOVE = 0.15  # what lies further than this above the logarithm of the curve is texture
_UNCLIPPED = 0.2  # share of blocks without clipped pixels below which some are tolerated:
_CLIPPED = 0.1  # at most this share of the pixels of a block
_OUTLIER = 4.0  # blocks with more than this multiple of the median energy are not calm
# Noise is white if its highest frequencies have more than this share of the power of lower ones. There is much more texture
# in the brightness of an image than in the differences of its channels, in which demosaicking shows.
_WHITE, _WHITE_DIFFERENCES = 0.05, 0.35
_PART = 256  # side of the part of the image for trial runs
_FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)  # levels to try, relative to the one measured
_SPARSE = (
    0.97  # noise is sparse if the median of its squares, relative to Gaussian noise, is below this
)
_MISSED = 1.6  # typical ratio between the levels of sparse noise in most areas and in calm ones
# Texture makes the level of least likeness too low, the more so the shallower the minimum is. If the likeness falls by a
# factor of less than _CLEAR_FALL, the level is multiplied by (_CLEAR_FALL / fall)**_SHALLOW, at most by _MOST_RAISED.
_CLEAR_FALL, _SHALLOW, _MOST_RAISED = 1.75, 1.3, 2.2
_EVEN = 0.6  # the least level of sparse noise at any brightness, relative to the largest
_WHITER = 0.3  # share of the variance of sparse noise, in brightness, that is white and missing in calm areas
_RISE = 1.05  # the likeness has passed a minimum if it is this much larger again
_CHANCE = 0.01  # likeness of unrelated images
# The energies of blocks of noise begin abruptly: the calmest twentieth of them spans a ratio of about 1.8. Those of
# texture span more, and those of a regular pattern less than this.
_REGULAR = 1.4
_MOST_SPAN = 6.0  # of noise; if the energies of calm blocks span more, noise is no stronger than in the calmest of them
_LESS_CALM = (0.2, 0.3)  # blocks between these quantiles of energy are compared with the calm ones
_SKEWED = (0.0, 0.2, 0.45)  # the quantiles of energy at which skewness is measured
# The largest change that is made if it is not clear whether it is noise, as a share of the range of the image (rms).
_INVISIBLE = 1 / 350
# How much the likeness must fall, for each unit of the span and of the growth.
_NEED_SPAN, _NEED_GROWTH = 0.05, 0.9
# It is more likely noise than texture if the likeness falls by at least this share of that, the growth is no larger than
# this, and neighbours have at most this correlation: texture is smoother.
_LIKELY, _LITTLE_GROWTH, _ROUGH = 1 / 3, 0.45, 0.76
# Strong noise hides the growth that texture causes. So growth counts more if the level is above this share of the range:
# in proportion to the level, up to a factor.
_STRONG, _MOST_STRONG = 0.024, 2.0
# What is one-sided and grows is the faint part of the image: stars, or other spots. Noise may be one-sided, but then it is
# so everywhere, and does not grow. This is the least product of skewness and growth. What JPEG left of noise is not judged.
_ONE_SIDED = 0.15
# Noise is not this many times stronger at one brightness than at another: that is the texture of bright objects.
_MOST_UNEVEN = 16.0


class CorrelatedEstimate(NamedTuple):
    """The noise of an image whose noise is not white."""

    base: CurveNoise
    """The level of the noise as a curve of the value of a pixel, with a factor for each channel."""
    correlation: Array
    """Correlation of the stabilised noise, (channels, channels, 2 R + 1, 2 R + 1). Entry [c, d, R + y, R + x] is that
    between channel c of a pixel and channel d of the pixel y rows below and x columns to the right."""
    sure: bool
    """Whether this is clearly noise. Otherwise it may as well be the texture of an image without noise."""
    likely: bool
    """Whether this is more likely noise than texture."""
    regular: bool
    """Whether it is a regular pattern or the faint part of an image of spots, such as stars, which is not noise."""
    cautious: CurveNoise
    """The level if it is no more likely noise than texture: no higher than in the calmest areas."""
    invisible: float
    """The root mean square of the largest change that is not visible."""
    part: "_Part"
    """The part of the image for trial runs."""

    def invisible_share(self, base: CurveNoise, denoise: Denoise) -> float:
        """How much of such noise can be removed without visible changes of the image: all of it at 1."""
        gray, base, correlation, variance = _brightness(self.part, base, self.correlation)
        residual = (gray - denoise(gray, base, correlation))[0, self.part.counted]
        removed = math.sqrt(float(np.mean(residual**2)) / variance)  # as much of other colors
        return min(1.0, self.invisible / max(removed, 1e-300))


def correlated_noise_of(
    pixels: Sequence[Array], excluded: Sequence[Mask], clipped: Sequence[Mask], denoise: Denoise
) -> CorrelatedEstimate | None:
    """Estimate the noise of an image, given channel by channel, if it is correlated.

    `excluded` marks missing and saturated pixels of each channel, and `clipped` those of them that are clipped at the dark
    end. `denoise` is used for trial runs, on a few pixels of the brightness. Returns None if the noise is white, or if
    there are too few pixels to tell.
    """
    measured = _measured(pixels, excluded, clipped)
    if measured is None:
        return None
    part = _part_of(pixels, excluded)
    base, correlation = _in_most_areas(measured)
    contrast = float(np.ptp(part.image))
    invisible = _INVISIBLE * contrast
    if not measured.sparse and measured.skewness * measured.growth > _ONE_SIDED:
        return CorrelatedEstimate(base, correlation, False, False, True, base, invisible, part)
    level = _best_level(part, measured, denoise)
    strong = float(np.median(measured.base.sigmas)) / max(_STRONG * contrast, 1e-300)
    growth = max(measured.growth, 0.0) * min(max(strong, 1.0), _MOST_STRONG)
    needed = 1 + _NEED_SPAN * measured.span + _NEED_GROWTH * growth
    regular = measured.span < _REGULAR
    even = max(measured.base.sigmas) <= _MOST_UNEVEN * min(measured.base.sigmas)
    possible = not regular and even
    sure = possible and level.fall >= needed
    like_noise = growth <= _LITTLE_GROWTH and _neighbours(measured.correlation) <= _ROUGH
    likely = sure or (possible and like_noise and level.fall - 1 >= _LIKELY * (needed - 1))
    calmest = math.sqrt(min(_MOST_SPAN / measured.span, 1.0))
    return CorrelatedEstimate(
        _scaled(base, level.factor),
        correlation,
        sure,
        likely,
        regular,
        _scaled(base, calmest * min(level.least, 1.0)),
        invisible,
        part,
    )


def _scaled(curve: CurveNoise, factor: float) -> CurveNoise:
    return CurveNoise(curve.values, factor * np.array(curve.sigmas), curve.level)


# Measuring level and correlation


def _cosines() -> Array:
    """The discrete cosine transform, one row for each frequency."""
    k = np.arange(_BLOCK)
    rows: Array = np.sqrt(2 / _BLOCK) * np.cos(np.pi * (2 * k + 1) * k[:, None] / (2 * _BLOCK))
    rows[0] /= np.sqrt(2)
    return rows


_COSINES = _cosines()
_FREQUENCY = np.hypot(*np.mgrid[:_BLOCK, :_BLOCK])
_IMAGE = _FREQUENCY < _LOW - 0.5
_NEXT = ~_IMAGE & (_FREQUENCY < _LOW + 1)
_HIGHER = ~_IMAGE & (_FREQUENCY < 2 * _LOW)
_MIDDLE = (_FREQUENCY >= 6) & (_FREQUENCY < 10)
_HIGHEST = _FREQUENCY >= _BLOCK


class _Measured(NamedTuple):
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


def _measured(
    pixels: Sequence[Array], excluded: Sequence[Mask], clipped: Sequence[Mask]
) -> _Measured | None:
    """The noise of calm blocks; None if it is white or cannot be measured."""
    blocks = _usable_blocks(pixels, excluded, clipped)
    if blocks.shape[1] < 2 * _FEWEST:
        return None
    low = _coefficients(blocks, _LOW)
    values = low[..., 0, 0] / _BLOCK
    curve = _level_curve(blocks, values, _energy(low, _IMAGE))
    if curve is None:
        return None
    sigma = curve.sigma_at(values)[..., None, None]
    energy = _energy(low / sigma, _IMAGE)
    order = np.argsort(energy, kind="stable")
    calm = _calmest(energy)
    span = float(energy[calm[-1]] / max(energy[calm[len(calm) // 10]], 1e-300))
    growth = _growth(blocks, sigma, energy)
    coefficients = _coefficients(blocks[:, calm]) / sigma[:, calm]
    energy = _energy(coefficients, ~_IMAGE)
    coefficients = coefficients[:, energy <= _OUTLIER * np.median(energy)]
    spectrum = np.einsum("cnij,dnij->cdij", coefficients, coefficients) / coefficients.shape[1]
    if not np.all(spectrum.diagonal() > 0) or _is_white(spectrum):
        return None
    covariance = _covariance(_without_image(spectrum))
    variances = covariance[:, :, _BLOCK - 1, _BLOCK - 1].diagonal()
    if not np.all(variances > 0):
        return None
    scale = np.sqrt(np.outer(variances, variances))[:, :, None, None]
    mean = math.sqrt(variances.mean())
    # The white balance of a camera amplifies the noise of some channels more than that of others.
    levels = np.sqrt(variances) / mean if len(variances) > 1 else 1.0
    return _Measured(
        CurveNoise(curve.values, mean * np.array(curve.sigmas), levels),
        covariance / scale,
        _is_sparse(coefficients.sum(axis=0)[:, _MIDDLE] ** 2),
        span,
        growth,
        _skewness(blocks, sigma, order),
    )


def _usable_blocks(
    pixels: Sequence[Array], excluded: Sequence[Mask], clipped: Sequence[Mask]
) -> Array:
    """Blocks from all over the image, (channels, blocks, side, side), without excluded pixels and flat ones."""
    if min(pixels[0].shape) < _BLOCK:
        return np.empty((len(pixels), 0, _BLOCK, _BLOCK))
    # An odd stride, so that the blocks of JPEG are met at all positions.
    stride = max(5, math.ceil(math.sqrt(pixels[0].size / _MOST))) | 1

    def blocks_of(plane: npt.NDArray[Any]) -> npt.NDArray[Any]:
        windows = np.lib.stride_tricks.sliding_window_view(plane, (_BLOCK, _BLOCK))
        return windows[::stride, ::stride]

    def shares(masks: Iterable[Mask]) -> Array:
        """The share of the pixels of each block that are marked in any channel."""
        marked = np.pad(np.logical_or.reduce(list(masks)), ((1, 0), (1, 0)))
        sums = marked.cumsum(axis=0, dtype=np.int64).cumsum(axis=1)
        rows = sums[_BLOCK:] - sums[:-_BLOCK]
        counts = (rows[:, _BLOCK:] - rows[:, :-_BLOCK])[::stride, ::stride]
        return np.asarray(counts / _BLOCK**2)

    usable = shares(excluded) == 0
    if usable.mean() < _UNCLIPPED:
        # The noise of dark areas is clipped all over. Where few pixels are, that hardly changes it.
        others = (a & ~b for a, b in zip(excluded, clipped, strict=True))
        usable = (shares(others) == 0) & (shares(clipped) <= _CLIPPED)
    blocks = np.stack([blocks_of(channel)[usable] for channel in pixels])
    # Flat blocks are a border, or what JPEG made of a dark area. Where most are flat, as in a drawing, there is no noise.
    channel, block = np.nonzero(blocks[..., 0, 0] == blocks[..., -1, -1])
    flat = np.ptp(blocks[channel, block], axis=(1, 2)) == 0
    uneven = np.ones(blocks.shape[1], bool)
    uneven[block[flat]] = False
    return blocks[:, uneven] if 2 * np.count_nonzero(uneven) > uneven.size else blocks[:, :0]


def _coefficients(blocks: Array, count: int = _BLOCK) -> Array:
    """The cosine transform of each block, up to a number of frequencies."""
    for _ in range(2):
        # One product of large matrices is much faster than many of small ones.
        product = blocks.reshape(-1, _BLOCK) @ _COSINES[:count].T
        blocks = product.reshape(*blocks.shape[:-1], count).swapaxes(-1, -2)
    return blocks


def _energy(coefficients: Array, frequencies: Mask) -> Array:
    """The energy of the brightness of each block in the given frequencies, without its mean."""
    rows, columns = coefficients.shape[2:]
    frequencies = (frequencies & (_FREQUENCY > 0))[:rows, :columns]
    energy: Array = (coefficients.sum(axis=0)[:, frequencies] ** 2).mean(axis=1)
    return energy


def _calmest(energy: Array) -> npt.NDArray[np.intp]:
    """The blocks with the least energy."""
    count = max(int(_CALM * len(energy)), min(_FEWEST, len(energy)))
    return np.argsort(energy, kind="stable")[:count]


def _growth(blocks: Array, sigma: Array, energy: Array) -> float:
    """The power of the energy at low frequencies that the energy at higher ones grows with, from calm blocks on."""
    start, stop = (int(quantile * len(energy)) for quantile in _LESS_CALM)
    medians = []
    for chosen in (_calmest(energy), np.argsort(energy, kind="stable")[start : stop + 1]):
        higher = _energy(_coefficients(blocks[:, chosen], 2 * _LOW) / sigma[:, chosen], _HIGHER)
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
        chosen = order[first : first + max(int(_CALM * len(order)), _FEWEST)]
        coefficients = _coefficients(blocks[:, chosen]) / sigma[:, chosen]
        energy = _energy(coefficients, ~_IMAGE)
        coefficients = coefficients[:, energy <= _OUTLIER * np.median(energy)].sum(axis=0)
        pixels = _COSINES.T @ np.where(_IMAGE, 0.0, coefficients) @ _COSINES
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
        [step[_calmest(energy[step])] for step in np.array_split(by_brightness, _STEPS)]
    )
    powers = _coefficients(blocks[:, calm])[..., ~_IMAGE] ** 2
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


def _brightness_first(channels: int) -> Array:
    """An orthonormal basis of the channels, in columns: their mean, and differences."""
    mean_first = np.concatenate([np.ones((channels, 1)), np.eye(channels)[:, 1:]], axis=1)
    basis: Array = np.linalg.qr(mean_first)[0]
    return basis


def _is_white(spectrum: Array) -> bool:
    """Whether noise is strong at the highest frequencies, in the brightness and in the differences of channels."""
    basis = _brightness_first(len(spectrum))
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
    rotation = _brightness_first(channels)
    planes = np.einsum("cp,cdij,dq->pqij", rotation, spectrum, rotation)
    for p in range(channels):
        where, pivots = (_IMAGE, (_LOW, _LOW + 1)) if p == 0 else (_FREQUENCY == 0, (1,))
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


def _in_most_areas(measured: _Measured) -> tuple[CurveNoise, Array]:
    """Level, up to a factor, and correlation of the noise outside of calm areas.

    They differ if the noise of calm areas is sparse. JPEG has rounded weak coefficients there to 0, which are those of high
    frequencies, and all of them where there is little noise. Texture keeps them from being rounded to 0.
    """
    base, correlation = measured.base, measured.correlation
    if not measured.sparse:
        return base, correlation
    sigmas = np.array(base.sigmas)
    even = CurveNoise(base.values, np.maximum(sigmas, _EVEN * sigmas.max()), base.level)
    mean = _brightness_first(len(correlation))[:, 0]
    white = _WHITER * np.einsum("c,cdij,d->ij", mean, correlation, mean)
    white[_BLOCK - 1, _BLOCK - 1] = 0
    return even, correlation - np.outer(mean, mean)[:, :, None, None] * white


def _covariance(spectrum: Array) -> Array:
    """The covariance at each shift of less than a block, from the mean squares of the coefficients of blocks."""
    shifts = np.arange(_BLOCK)
    # A mean square is the sum over all shifts of the covariance times the autocorrelation of the basis function.
    autocorrelation = [
        (1 if shift == 0 else 2) * (_COSINES[:, : _BLOCK - shift] * _COSINES[:, shift:]).sum(axis=1)
        for shift in shifts
    ]
    inverse = np.linalg.inv(np.transpose(autocorrelation))
    # Few pixels of a block are far from each other, so that long shifts are uncertain.
    taper = 0.5 + 0.5 * np.cos(np.pi * shifts / _BLOCK)
    quadrant: Array = (inverse @ spectrum @ inverse.T) * np.outer(taper, taper)
    distance = np.abs(np.arange(1 - _BLOCK, _BLOCK))
    return quadrant[:, :, distance[:, None], distance]


# Choosing the level


class _Level(NamedTuple):
    """The level at which result and residual are least alike."""

    factor: float
    """Relative to the level measured. If the noise is sparse, it is raised to what is typical of most areas."""
    least: float
    """The same before it is raised."""
    fall: float
    """By what factor the likeness fell up to there."""


class _Part(NamedTuple):
    """The part of an image for trial runs."""

    image: Array
    """(channels, height, width); excluded pixels are no brighter or darker than the others."""
    counted: Mask
    """The pixels that are not excluded."""


def _part_of(pixels: Sequence[Array], excluded: Sequence[Mask]) -> _Part:
    rows, columns = (_places(length) for length in pixels[0].shape)
    part = np.ix_(rows, columns)
    image = np.stack([channel[part] for channel in pixels])
    counted = ~np.any([mask[part] for mask in excluded], axis=0)
    if not counted.any():
        return _Part(np.zeros_like(image), ~counted)
    return _Part(np.clip(image, image[:, counted].min(), image[:, counted].max()), counted)


def _best_level(part: _Part, measured: _Measured, denoise: Denoise) -> _Level:
    """Find the level at which result and residual are least alike, in the brightness of the image.

    It is the first minimum from below: a result that is far too smooth has little in common with anything. Unless the
    noise is sparse, the level measured is an upper limit.
    """
    gray, base, correlation, _ = _brightness(part, measured.base, measured.correlation)
    counted = part.counted
    radius = _detail_radius(correlation)
    likeness: list[float] = []
    for factor in _FACTORS if measured.sparse else [f for f in _FACTORS if f <= 1]:
        result = denoise(gray, _scaled(base, factor), correlation)
        details = (_details(image[0], radius)[counted] for image in (result, gray - result))
        likeness.append(_likeness(*details))
        if likeness[-1] > _RISE * min(likeness):
            break
    best = int(np.argmin(likeness))
    fall = (likeness[0] + _CHANCE) / (likeness[best] + _CHANCE)
    factor = _FACTORS[best]
    if 0 < best < len(likeness) - 1:
        # The lowest point of a parabola: the logarithms of factors are about equidistant.
        below, least, above = likeness[best - 1 : best + 2]
        step = _FACTORS[best + 1] / factor
        factor *= step ** ((below - above) / (2 * (below + above - 2 * least)))
    least = factor
    if measured.sparse:  # half way to what is typical, as texture makes the minimum too low
        shallow = min(max(_CLEAR_FALL / fall, 1.0) ** _SHALLOW, _MOST_RAISED)
        factor = math.sqrt(factor * _MISSED) * shallow
    return _Level(factor, least, fall)


def _brightness(
    part: _Part, base: CurveNoise, correlation: Array
) -> tuple[Array, CurveNoise, Array, float]:
    """The mean of the channels, the level and the correlation of its noise, and its variance relative to a channel's."""
    levels = np.broadcast_to(base.level, len(correlation))
    covariance = np.multiply.outer(levels, levels)[:, :, None, None] * correlation
    mean = covariance.mean(axis=(0, 1), keepdims=True)
    variance = float(mean[0, 0, _BLOCK - 1, _BLOCK - 1])
    gray = part.image.mean(axis=0, keepdims=True)
    level = CurveNoise(base.values, math.sqrt(variance) * np.array(base.sigmas))
    # Where the differences of channels have nearly all the power, little is left of the mean but errors.
    return gray, level, np.clip(mean / variance, -1, 1), variance


def _places(length: int) -> npt.NDArray[np.intp]:
    """Which rows, or columns, belong to the part of the image for trial runs: all, or two runs of them."""
    if length <= _PART:
        return np.arange(length)
    half = np.arange(_PART // 2) - _PART // 4
    return np.concatenate([length // 4 + half, length - length // 4 + half])


def _neighbours(correlation: Array) -> float:
    """The correlation of neighbouring pixels in the brightness."""
    brightness = correlation.mean(axis=(0, 1))
    neighbours = brightness[[_BLOCK - 1, _BLOCK], [_BLOCK, _BLOCK - 1]].mean()
    return float(neighbours / brightness[_BLOCK - 1, _BLOCK - 1])


def _detail_radius(correlation: Array) -> float:
    """The size of the details to compare: a few times the width of the blur that would correlate noise as much."""
    ratio = min(max(_neighbours(correlation), 0.1), 0.95)
    return max(1.25 / math.sqrt(-math.log(ratio)), 2.0)


def _likeness(a: Array, b: Array) -> float:
    """The correlation of two images whose mean is 0, without its sign."""
    size = math.sqrt(float(np.mean(a**2) * np.mean(b**2)))
    return abs(float(np.mean(a * b))) / size if size > 0 else 0.0


def _details(a: Array, radius: float) -> Array:
    """An image less its mean around each pixel."""
    reach = math.ceil(3 * radius)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * radius**2))
    mean = np.pad(a, reach, mode="symmetric")
    for axis in (0, 1):
        windows = np.lib.stride_tricks.sliding_window_view(mean, len(weights), axis=axis)
        mean = windows @ (weights / weights.sum())
    return a - mean
