"""Estimate the noise of an image from the image alone, for `estimate_sigma` and `estimate_noise`."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.engines.pool import in_order
from ..errors import ArgumentError
from . import Array, Noise, power_of_two
from .gaussian import GaussianNoise
from .poisson import PoissonGaussianNoise

Mask = npt.NDArray[np.bool_]


class Channel(NamedTuple):
    """The pixels of a channel, and masks of those that say nothing about the noise."""

    pixels: npt.NDArray[np.float64]
    excluded: Mask
    """Missing and saturated pixels."""
    not_dark: Mask
    """The same without those that are clipped at the dark end."""


# The level of white noise is estimated from the principal components of weakly textured patches.
_PATCH = 7  # side of a patch
_EDGES = 4 * _PATCH * (_PATCH - 1)  # mean energy of differences in a patch of noise of variance 1
_LEAST = 3  # how many of the smallest eigenvalues are averaged
_WIDE = 1.6  # patches of up to this multiple of the mean energy are taken to be pure noise
# If only patches below a threshold of energy are selected, the smallest eigenvalues shrink. Thresholds, as multiples of
# the mean energy of pure noise, and the factors for them, by a simulation that tests/noise/test_noise.py repeats.
_ENERGIES = (0.98, 1.10, 1.24, 1.41, 1.63, 1.91, 2.6)
_SHRINKAGE = (0.74, 0.82, 0.89, 0.95, 0.985, 0.995, 1.0)
# Corrects for the texture that remains in the smallest eigenvalues; measured on the odd-numbered images of BSD68.
_TEXTURE = 0.99
_MOST = 120_000  # largest number of patches considered
_ALIKE = (
    1.15  # channels whose estimates differ by at most this factor are taken to have the same noise
)


# The largest share of the pixels of a nearly constant channel that differ from the others.
_RARE = 0.01
_ROUNDING = float(np.finfo(np.float32).eps)  # a relative difference that is none
_ENOUGH = 100_000  # pixels to count them by


def sigma_of(pixels: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> float:
    """Estimate the standard deviation of the noise of a plane; see `estimate_sigma`."""
    return _level_of(_channel(pixels, missing))


def _level_of(channel: Channel) -> float:
    """The level of white noise."""
    [(pixels, excluded, _)], unit = in_units([channel])
    values, _, scale = _normalised(pixels, excluded)
    scale *= unit
    patches = _calm_patches_first(values, excluded)
    if patches is None:
        return scale * _from_differences(values, excluded)
    return scale * _TEXTURE * math.sqrt(_smallest_variance(values, *patches))


def calm_level(pixels: Array, missing: npt.NDArray[np.bool_]) -> float:
    """The level of the noise in the calmest quarter of the blocks of a plane, somewhat too low, or too high in texture.

    It takes far less time than `sigma_of`, and serves to compare planes. It is 0 if there are no blocks.
    """
    squares = _filtered(pixels, np.array([1, -2, 1]) / math.sqrt(6)) ** 2
    excluded = _sums(missing, 3, 3) > 0.5
    rows, columns = (length // _BLOCK * _BLOCK for length in squares.shape)
    shape = rows // _BLOCK, _BLOCK, columns // _BLOCK, _BLOCK
    means, gone = (
        image[:rows, :columns].reshape(shape).mean(axis=(1, 3)) for image in (squares, excluded)
    )
    complete = np.sort(means[gone == 0])
    return math.sqrt(complete[: -(-len(complete) // 4)].mean()) if len(complete) else 0.0


def noise_of(channels: list[Channel], kind: str = "auto", workers: int = 1) -> Noise:
    """Estimate the white noise of an image; see `estimate_noise`."""
    if kind != "gaussian":
        scaled, unit = in_units(channels)
        noise = _growing_noise(scaled, kind == "auto", workers)
        if noise is not None and noise.gain * unit > 1e-300:
            noise = _below_pixels(noise, scaled)
            return PoissonGaussianNoise(
                noise.gain * unit, noise.read_noise * unit, noise.black_level * unit
            )
        if kind == "poisson":
            raise ArgumentError(
                "image",
                None,
                "the kind 'auto' or 'gaussian'",
                found="has no noise that grows with the signal (the kind 'poisson'), or too few pixels of different brightness to detect it",
            )
    sigmas = list(in_order(_level_of, channels, workers))
    if max(sigmas) <= _ALIKE * min(sigmas):
        unit = power_of_two(max(sigmas))
        return GaussianNoise(unit * math.sqrt(np.mean(np.square(np.array(sigmas) / unit))))
    return GaussianNoise(sigmas)


def changing_channels(pixels: npt.NDArray[Any], missing: Mask | None = None) -> Mask:
    """Which channels of an image of (channels, ...) are not constant, or nearly so, and may thus have noise.

    A channel is nearly constant if hardly any of its pixels differs, or if it is a mask, such as an alpha channel, unless
    all channels are so, as in images of very few photons.
    """
    present = [
        np.ravel(channel if missing is None else channel[~missing[k]])
        for k, channel in enumerate(pixels)
    ]
    constant = np.array([np.all(values == values[:1]) for values in present])
    if len(present) == 1 or constant.all():
        return ~constant
    some = [
        values[:: -(-values.size // _ENOUGH)] if values.size else np.zeros(1) for values in present
    ]
    medians = [float(np.median(values)) for values in some]
    rare = np.array(
        [
            np.mean(np.abs(values - usual) > _ROUNDING * abs(usual)) <= _RARE or _is_mask(channel)
            for values, usual, channel in zip(some, medians, present, strict=True)
        ]
    )
    return ~constant if rare.all() else ~(constant | rare)


def _is_mask(values: npt.NDArray[Any]) -> bool:
    """Whether pixels are black or white in areas; between two large ones, edges may be soft."""
    if values.size < 2:
        return True
    step = max(values.size // _ENOUGH, 1)
    first, second = values[:-1:step], values[1::step]
    black, white = (float(np.mean(first == end)) for end in (values.min(), values.max()))
    between = 1 - black - white
    # A single pixel that differs makes two differences.
    few = between <= max(_RARE, min(0.2, black, white))
    return bool(few and np.mean(first != second) <= between + 2 * _RARE)


def channels_of(pixels: npt.NDArray[Any], missing: Mask | None, workers: int = 1) -> list[Channel]:
    """The channels of an image of (channels, height, width)."""
    masks = [None] * len(pixels) if missing is None else missing
    return list(in_order(lambda pair: _channel(*pair), zip(pixels, masks, strict=True), workers))


def _channel(pixels: npt.NDArray[Any], missing: Mask | None) -> Channel:
    excluded = np.zeros(pixels.shape, bool) if missing is None else missing.copy()
    if excluded.all():
        none = np.zeros(pixels.shape, bool)
        return Channel(np.zeros(pixels.shape), none, none)
    present = pixels if missing is None else pixels[~missing]
    low, high = present.min(), present.max()
    not_dark = excluded
    for extreme, other_end, next_to_it in ((high, low, np.max), (low, high, np.min)):
        # If values were clipped, many pixels have the extreme value, and few the value next to it. Of counts of few
        # photons, many are 0 as well, but also many are 1.
        not_dark = excluded
        count = np.count_nonzero(present == extreme)
        if count > 0.001 * pixels.size and count < present.size:
            others = present[present != extreme]
            neighbour = next_to_it(others)
            few = count > 10 * np.count_nonzero(others == neighbour)
            if few and neighbour != other_end:
                excluded = excluded | (pixels == extreme)
    # Missing pixels may be signalling NaNs, with which casts and arithmetic warn.
    valid = pixels if missing is None else np.where(missing, pixels.dtype.type(0), pixels)
    return Channel(valid.astype(np.float64), excluded, not_dark)


def in_units(channels: list[Channel]) -> tuple[list[Channel], float]:
    """The channels divided by a unit, and the unit.

    The unit is a power of two if squares of the pixels would overflow or underflow, and 1 otherwise.
    """
    ends = [
        extreme(_present(pixels, excluded), initial=0)
        for pixels, excluded, _ in channels
        for extreme in (np.min, np.max)
    ]
    largest = float(max(map(abs, ends)))
    if largest == 0 or 1e-100 < largest < 1e100:
        return channels, 1.0
    unit = power_of_two(largest)
    return [channel._replace(pixels=channel.pixels / unit) for channel in channels], unit


def _normalised(
    pixels: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float32], float, float]:
    """The pixels scaled to a mean of 0 and a standard deviation of 1, and their original mean and deviation."""
    present = _present(pixels, missing)
    mean, scale = float(np.mean(present)), float(np.std(present))
    values = pixels - mean
    values[missing] = 0  # before the cast, for which they may be too large
    values /= scale or 1.0
    return values.astype(np.float32), mean, scale


def _present(pixels: npt.NDArray[Any], missing: Mask) -> npt.NDArray[Any]:
    """The pixels that are not missing."""
    return pixels[~missing] if missing.any() else pixels


def _from_differences(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> float:
    """Estimate the noise of images that are too small for patches, by the median of second differences.

    Texture makes the estimate too large.
    """
    along_axes = []
    for a, excluded in ((values, missing), (values.T, missing.T)):
        if len(a) > 2:
            usable = ~(excluded[2:] | excluded[1:-1] | excluded[:-2])
            along_axes.append(np.abs(a[2:] - 2 * a[1:-1] + a[:-2])[usable] / math.sqrt(6))
    differences = np.concatenate([*along_axes, np.empty(0)])
    return float(np.median(differences)) / 0.6745 if differences.size else 0.0


def _calm_patches_first(
    values: npt.NDArray[np.float32], missing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.intp], Array] | None:
    """The corners of patches without missing pixels, as flat indices, by increasing energy, and these energies.

    None if there are too few such patches.
    """
    if min(values.shape) < 2 * _PATCH:
        return None
    rows, columns = (length - _PATCH + 1 for length in values.shape)
    corners = np.arange(rows * columns)
    if missing.any():
        corners = np.flatnonzero(_sums(missing, _PATCH, _PATCH).ravel() < 0.5)
    if len(corners) < 4 * _PATCH**2:
        return None
    corners = corners[:: -(-len(corners) // _MOST)]
    across, down = np.diff(values, axis=1) ** 2, np.diff(values, axis=0) ** 2
    energies = _sums_at(across, _PATCH, _PATCH - 1, corners)
    energies += _sums_at(down, _PATCH - 1, _PATCH, corners)
    order = np.argsort(energies, kind="stable")
    return corners[order], energies[order]


def _sums(a: npt.NDArray[Any], height: int, width: int) -> Array:
    """Sums over all windows of the given size."""
    c = np.zeros((a.shape[0] + 1, a.shape[1] + 1))
    np.cumsum(np.cumsum(a, axis=0, dtype=np.float64), axis=1, out=c[1:, 1:])
    return c[height:, width:] - c[:-height, width:] - c[height:, :-width] + c[:-height, :-width]


def _sums_at(a: npt.NDArray[Any], height: int, width: int, corners: npt.NDArray[np.intp]) -> Array:
    """Sums over the windows of the given size at some corners, which are flat indices of the windows."""
    if 16 * len(corners) > a.size:
        return _sums(a, height, width).ravel()[corners]
    y, x = np.divmod(corners, a.shape[1] - width + 1)
    places, flat = y * a.shape[1] + x, a.reshape(-1)
    total = np.zeros(len(corners))
    for i in range(height):
        for j in range(width):
            total += flat[places + (i * a.shape[1] + j)]
    return total


def _smallest_variance(
    values: npt.NDArray[np.float32],
    corners: npt.NDArray[np.intp],
    energies: Array,
    share: float = 0.005,
) -> float:
    """Estimate the variance of the noise by the smallest eigenvalues of the covariance of calm patches.

    Starting from the given share of the patches, those with the least energy, more are added until their energies
    reach those that pure noise would have.
    """
    n = _PATCH**2
    windows = np.lib.stride_tricks.sliding_window_view(values, (_PATCH, _PATCH))
    width = windows.shape[1]
    squares, total, count = np.zeros((n, n)), np.zeros(n), 0
    stop = min(len(corners), max(500, int(share * len(corners))))
    while True:
        added = corners[count:stop]
        patches = windows[added // width, added % width].reshape(-1, n)
        # The means of patches are subtracted, since patches may have been selected by them. This makes one eigenvalue
        # 0, which is skipped.
        patches = patches - patches.mean(axis=1, keepdims=True)
        squares += patches.T @ patches
        total += patches.sum(axis=0, dtype=np.float64)
        count = stop
        covariance = squares / count - np.outer(total, total) / count**2
        least = max(float(np.linalg.eigvalsh(covariance)[1 : 1 + _LEAST].mean()), 1e-16)
        least /= 1 - min(10 / math.sqrt(count), 0.6)  # corrects for the bias of few samples
        variance = least
        for _ in range(20):  # iterate to the fixed point: the correction depends on the variance
            energy = energies[count - 1] / (_EDGES * variance)
            variance = least / float(np.interp(energy, _ENERGIES, _SHRINKAGE))
        if count == len(corners) or energies[count - 1] >= _EDGES * _WIDE * variance:
            return variance
        stop = min(len(corners), int(1.1 * count) + 1)


def _growing_noise(
    channels: list[Channel], doubt: bool, workers: int
) -> PoissonGaussianNoise | None:
    """Estimate noise that grows with the signal in the same way in all channels; None if it does not grow.

    With `doubt`, also None unless it clearly grows.

    The variances of blocks are the more precise estimate, since each brightness needs few of them. But they include
    texture, unless the background is dark and most blocks are free of it. So in all other images, the patches decide
    whether the noise grows, and the blocks replace their estimate only if they follow a line.
    """
    blocks = list(in_order(_block_variances, channels, workers))
    precise = _line_of([steps for steps, _ in blocks])
    if precise is not None and all(darkness < _DARK for _, darkness in blocks):
        steps = [steps for steps, _ in blocks]
        if _confirmed(channels, steps, precise, True, _DARK_FIELD) is not None:
            return precise.noise
    patches = list(in_order(_variances, channels, workers))
    line = _line_of(patches)
    if line is None and precise is not None and not doubt:
        return precise.noise
    if line is None or (doubt and sum(map(len, patches)) < 4):
        return None
    level = _confirmed(channels, patches, line, doubt, _PHOTOGRAPH)
    if level is None:
        return None
    if precise is not None and precise.deviation < _CLOSE:
        return precise.noise
    share = min(level, 1.0)
    noise = line.noise
    return PoissonGaussianNoise(noise.gain * share**2, noise.read_noise * share, noise.black_level)


def _below_pixels(noise: PoissonGaussianNoise, channels: list[Channel]) -> PoissonGaussianNoise:
    """The noise with a black level so low that hardly any pixel is too dark for the Anscombe transform.

    The line may reach 0 at a brightness that many pixels are below, if the noise of dark ones does not follow it. The
    transform would turn all of them into black, and brighten them.
    """
    darkest = min(
        float(np.percentile(_present(pixels, not_dark), _TOO_DARK))
        for pixels, _, not_dark in channels
        if not not_dark.all()
    )
    highest = darkest + noise.gain * (3 / 8 + (noise.read_noise / noise.gain) ** 2)
    return replace(noise, black_level=min(noise.black_level, highest))


class _Evidence(NamedTuple):
    """What it takes to believe that noise grows with the signal."""

    rise: float
    """The least factor by which the variance grows from the dark end to the bright end."""
    deviation: float
    """The largest deviation of a channel from the line that all channels follow."""
    level: float
    """The least level of the noise after stabilisation, which is 1 if the model is right."""


_PHOTOGRAPH = _Evidence(1.5, 0.4, 0.9)
# Blocks include texture, so the line has to be steeper and clearer. The level is lower where the noise was clipped.
_DARK_FIELD = _Evidence(3.0, 0.12, 0.8)


class _Line(NamedTuple):
    """Noise whose variance is a line, fitted to measured variances."""

    noise: PoissonGaussianNoise
    deviation: float
    """The median relative deviation of the variances from the line."""


def _line_of(channels: list[Array]) -> _Line | None:
    """Fit a line to the variances of all channels; None if it falls, or if there are fewer than two."""
    steps = np.concatenate(channels)
    if len(steps) < 2:
        return None
    slope, offset, _ = _robust_line(*steps.T)
    if slope <= 0:
        return None
    noise = (
        PoissonGaussianNoise(slope, math.sqrt(offset))
        if offset >= 0
        else PoissonGaussianNoise(slope, 0.0, -offset / slope)
    )
    return _Line(noise, _deviation(steps, noise))


def _deviation(steps: Array, noise: PoissonGaussianNoise) -> float:
    """The median relative deviation of variances from those of a noise model."""
    brightness, variance, _ = steps.T
    expected = noise.gain * (brightness - noise.black_level) + noise.read_noise**2
    return float(np.median(np.abs(variance / expected - 1)))


def _confirmed(
    channels: list[Channel],
    variances: list[Array],
    line: _Line,
    doubt: bool,
    evidence: _Evidence,
) -> float | None:
    """The level of the noise after stabilisation; None if there is `doubt` that the noise grows."""
    measured = [(*pair,) for pair in zip(channels, variances, strict=True) if len(pair[1])]
    if doubt:
        # Channels with Gaussian noise that differ in brightness and in noise lie on a line as well: the noise of at
        # least one channel has to rise by itself, and all channels have to follow the line.
        if not any(_rises(steps, evidence.rise) for _, steps in measured if len(steps) >= 4):
            return None
        if any(_deviation(steps, line.noise) > evidence.deviation for _, steps in measured):
            return None
    level = min(_stabilised_level(*channel[:2], line.noise) for channel, _ in measured)
    # Texture was taken for noise if patches with little texture have less noise than the line.
    return None if doubt and level < evidence.level else level


def _rises(steps: Array, factor: float) -> bool:
    """Whether the variances clearly grow with brightness, by more than a factor from the dark end to the bright end."""
    slope, offset, error = _robust_line(*steps.T)
    low, high = steps[:, 0].min(), steps[:, 0].max()
    return slope * high + offset > factor * max(slope * low + offset, 0) and slope > 3 * error


def _stabilised_level(
    pixels: npt.NDArray[np.float64], missing: npt.NDArray[np.bool_], noise: PoissonGaussianNoise
) -> float:
    """The level of the noise after stabilisation, which is 1 if the model is right.

    Dark parts, with less than four photons per pixel, are excluded: their level is lower.
    """
    stable = noise.stabilise(np.where(missing, noise.black_level, pixels))
    dark = 2 * math.sqrt(4 + (noise.read_noise / noise.gain) ** 2)
    bright = np.zeros(pixels.shape, bool)
    half = _PATCH // 2
    means = _sums(stable, _PATCH, _PATCH) / _PATCH**2
    bright[half : half + means.shape[0], half : half + means.shape[1]] = means >= dark
    if np.count_nonzero(bright & ~missing) < 1000:
        return 1.0
    return sigma_of(stable, missing | ~bright)


_TOO_DARK = 1.0  # percentage of pixels that may be too dark for the transform
_STEPS = 16  # number of brightness steps


def _variances(channel: Channel) -> Array:
    """The brightness, the variance of the noise and the number of patches, for each step of brightness."""
    values, mean, scale = _normalised(channel.pixels, channel.excluded)
    patches = _calm_patches_first(values, channel.excluded)
    if patches is None or scale == 0:
        return np.empty((0, 3))
    corners, energies = patches
    brightness = _sums_at(values, _PATCH, _PATCH, corners) / _PATCH**2
    low, high = np.percentile(brightness, [0.5, 99.5])
    steps = []
    for here in _of_each_step(brightness, low, high, _STEPS):
        if len(here) >= 2000:
            # A large share: most patches of one brightness are pure noise, and few of them are not representative.
            variance = _smallest_variance(values, corners[here], energies[here], share=0.5)
            variance *= _TEXTURE**2
            middle = float(brightness[here].mean())
            steps.append((middle * scale + mean, variance * scale**2, len(here)))
    return np.array(steps).reshape(-1, 3)


def _of_each_step(
    brightness: Array, low: float, high: float, count: int
) -> Iterator[npt.NDArray[np.intp]]:
    """The indices of the values in each step of brightness.

    Steps are narrow in the dark, where the relative change of the variance is largest.
    """
    step = np.floor(np.sqrt(np.maximum(brightness - low, 0) / max(high - low, 1e-12)) * count)
    for k in range(count):
        yield np.flatnonzero(step == k)


_HALF = 3  # distance of blocks
_BLOCK = 2 * _HALF  # side of a block
_BLOCK_STEPS = 24
_FEWEST = 40  # blocks of a step
# The median of the variances of blocks of Gaussian noise, relative to the true one; by a simulation that
# tests/noise/test_noise.py repeats.
_MEDIAN = 0.93
_DARK = 0.1  # darkness of a background, relative to the brightest parts
_CLOSE = 0.05  # largest deviation of blocks without texture from a line


def _block_variances(channel: Channel) -> tuple[Array, float]:
    """The same as `_variances` for blocks, and how bright the median block is between the darkest and the brightest.

    The variance of a block is the mean square of its mixed second differences, in which linear and quadratic changes of
    brightness cancel out.
    """
    pixels, missing = channel.pixels, channel.not_dark
    nothing = np.empty((0, 3)), 1.0
    if min(pixels.shape) < _BLOCK + 2:
        return nothing
    values, mean, scale = _normalised(pixels, missing)
    taps = np.array([1, -2, 1], np.float32) / np.float32(math.sqrt(6))
    squares, means = _filtered(values, taps) ** 2, _filtered(values, taps**2)
    variance, brightness = (_block_sums(image).ravel() / _BLOCK**2 for image in (squares, means))
    if missing.any():
        complete = _sums(missing, _BLOCK + 2, _BLOCK + 2)[::_HALF, ::_HALF].ravel() < 0.5
        variance, brightness = variance[complete], brightness[complete]
    if len(brightness) < 1000 or scale == 0:
        return nothing
    low, middle, high = np.percentile(brightness, [0.5, 50, 99.8])
    steps = [
        (
            float(brightness[here].mean()) * scale + mean,
            float(np.median(variance[here])) / _MEDIAN * scale**2,
            len(here),
        )
        for here in _of_each_step(brightness, low, brightness.max(), _BLOCK_STEPS)
        if len(here) >= _FEWEST
    ]
    return np.array(steps).reshape(-1, 3), float((middle - low) / max(high - low, 1e-12))


def _block_sums(a: npt.NDArray[Any]) -> Array:
    """The sums over blocks that overlap by half: those of their four quarters."""
    quarters: Array = a.astype(np.float64)
    for _ in range(2):
        count = len(quarters) // _HALF
        quarters = quarters[: count * _HALF].reshape(count, _HALF, -1).sum(axis=1)
        quarters = (quarters[:-1] + quarters[1:]).T
    return quarters


def _filtered(values: npt.NDArray[Any], taps: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Filter columns and rows by three taps; the result has no border."""
    for _ in range(2):
        values = (taps[0] * values[:-2] + taps[1] * values[1:-1] + taps[2] * values[2:]).T
    return values


def _robust_line(x: Array, y: Array, count: Array) -> tuple[float, float, float]:
    """Fit a line to variances: its slope and offset, and the standard error of the slope.

    The error of a variance is proportional to the variance. Outliers lie above the line, since texture can only make
    a variance too large. If most variances are 0, so is the line.
    """
    if np.median(y) <= 0:
        return 0.0, 0.0, math.inf
    A = np.stack([x - x.mean(), np.ones_like(x)], axis=1)
    floor = 0.05 * np.median(y)
    fitted, trust = np.full_like(y, np.median(y)), np.ones_like(y)
    for _ in range(30):
        weights = np.sqrt(count / count.max() * trust) / np.maximum(fitted, floor)
        (slope, middle), *_ = np.linalg.lstsq(A * weights[:, None], y * weights, rcond=None)
        fitted = slope * A[:, 0] + middle
        residual = (y - fitted) / np.maximum(fitted, floor)
        trust = np.where(residual > 0, 1 / (1 + (residual / 0.1) ** 2), 1.0)
    scatter = np.sum((weights * (y - fitted)) ** 2) / max(len(x) - 2, 1)
    normal = (A * weights[:, None]).T @ (A * weights[:, None])
    determinant = np.linalg.det(normal)  # 0 if one brightness has all the weight
    error = math.sqrt(scatter * normal[1, 1] / determinant) if determinant > 0 else math.inf
    return float(slope), float(middle - slope * x.mean()), error
