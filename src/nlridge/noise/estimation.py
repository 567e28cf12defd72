"""How the noise of an image is found out from the image alone: what `estimate_sigma` and `estimate_noise` compute."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from . import Array, Noise, power_of_two
from .gaussian import GaussianNoise
from .poisson import PoissonGaussianNoise

_Channel = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]

# White noise by the principal components of weakly textured patches.
_PATCH = 7
_EDGES = 4 * _PATCH * (_PATCH - 1)  # mean energy of differences in a patch of noise of variance 1
_LEAST = 3  # how many of the smallest eigenvalues are averaged
_WIDE = 1.6  # patches of up to this multiple of the mean energy are taken to be noise
# The energy below which patches are taken, in multiples of the mean for pure noise, and what that leaves
# of the smallest eigenvalues; by simulation (tests/test_noise.py repeats it).
_ENERGIES = (0.98, 1.10, 1.24, 1.41, 1.63, 1.91, 2.6)
_SHRINKAGE = (0.74, 0.82, 0.89, 0.95, 0.985, 0.995, 1.0)
_TEXTURE = 0.99  # what is left of texture in the smallest eigenvalues; on the odd images of BSD68
_MOST = 120_000  # patches that are looked at
_ASTRAY = 0.4  # how far the noise of a channel may be from a line that all follow, as a share of it
_ALIKE = 1.15  # channels whose estimates differ by less are taken to have the same noise


def sigma_of(pixels: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None) -> float:
    """The standard deviation of the noise of a plane; see `estimate_sigma`."""
    pixels, gone = _countable(pixels, missing)
    [(pixels, _)], unit = _in_units([(pixels, gone)])
    values, _, scale = _normalised(pixels, gone)
    scale *= unit
    patches = _calm_patches_first(values, gone)
    if patches is None:
        return scale * _from_differences(values, gone)
    return scale * _TEXTURE * math.sqrt(_smallest_variance(values, *patches))


def noise_of(
    pixels: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None, kind: str = "auto"
) -> Noise:
    """What noise an image of (channels, height, width) has; see `estimate_noise`."""
    gone = [None] * len(pixels) if missing is None else missing
    if kind != "gaussian":
        channels = [_countable(*channel) for channel in zip(pixels, gone, strict=True)]
        channels, unit = _in_units(channels)
        found = _growing_noise(channels, doubt=kind == "auto")
        if found is not None and found.gain * unit > 1e-300:
            return PoissonGaussianNoise(
                found.gain * unit, found.read_noise * unit, found.black_level * unit
            )
        if kind == "poisson":
            raise ValueError(
                "image has no noise that grows with the signal, or too few pixels of different brightness "
                "to see it; expected kind 'auto' or 'gaussian'"
            )
    sigmas = [sigma_of(*channel) for channel in zip(pixels, gone, strict=True)]
    if max(sigmas) <= _ALIKE * min(sigmas):
        unit = power_of_two(max(sigmas))
        return GaussianNoise(unit * math.sqrt(np.mean(np.square(np.array(sigmas) / unit))))
    return GaussianNoise(sigmas)


def _countable(
    pixels: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """The pixels of a plane, and which of them do not count: missing or saturated."""
    gone = np.zeros(pixels.shape, bool) if missing is None else missing.copy()
    if gone.all():
        return np.zeros(pixels.shape), np.zeros(pixels.shape, bool)
    levels, counts = np.unique(pixels[~gone], return_counts=True)
    for extreme, next_to_it in ((0, 1), (-1, -2)):
        # Where values were cut off, the last of them stands for many; a count of 0 photons does not.
        enough = len(levels) > 2 and counts[extreme] > 0.001 * pixels.size
        if enough and counts[extreme] > 10 * counts[next_to_it]:
            gone |= pixels == levels[extreme]
    return pixels.astype(np.float64), gone


def _in_units(channels: list[_Channel]) -> tuple[list[_Channel], float]:
    """Channels in units of a power of two, where squares of their pixels would overflow or vanish, and the unit."""
    ends = [
        f(pixels, where=~gone, initial=0) for pixels, gone in channels for f in (np.min, np.max)
    ]
    largest = float(max(map(abs, ends)))
    if largest == 0 or 1e-100 < largest < 1e100:
        return channels, 1.0
    unit = power_of_two(largest)
    return [(pixels / unit, gone) for pixels, gone in channels], unit


def _normalised(
    pixels: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.float32], float, float]:
    """Values around 0 and near 1, where float32 is at its best, and what was taken from them."""
    mean, scale = float(np.mean(pixels[~missing])), float(np.std(pixels[~missing]))
    values = np.where(missing, 0, (pixels - mean) / (scale or 1.0)).astype(np.float32)
    return values, mean, scale


def _from_differences(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_]) -> float:
    """For images too small for patches: the median of second differences, which texture inflates."""
    found = []
    for a, gone in ((values, missing), (values.T, missing.T)):
        if len(a) > 2:
            seen = ~(gone[2:] | gone[1:-1] | gone[:-2])
            found.append(np.abs(a[2:] - 2 * a[1:-1] + a[:-2])[seen] / math.sqrt(6))
    together = np.concatenate([*found, np.empty(0)])
    return float(np.median(together)) / 0.6745 if together.size else 0.0


def _calm_patches_first(
    values: npt.NDArray[np.float32], missing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.intp], Array] | None:
    """The corners of patches (as flat indices), those with the least energy first, and the energies."""
    if min(values.shape) < 2 * _PATCH:
        return None
    across, down = np.diff(values, axis=1) ** 2, np.diff(values, axis=0) ** 2
    energy = _sums(across, _PATCH, _PATCH - 1) + _sums(down, _PATCH - 1, _PATCH)
    whole = np.flatnonzero(_sums(missing, _PATCH, _PATCH).ravel() < 0.5)
    if len(whole) < 4 * _PATCH**2:
        return None
    whole = whole[:: -(-len(whole) // _MOST)]
    energies = energy.ravel()[whole]
    order = np.argsort(energies, kind="stable")
    return whole[order], energies[order]


def _sums(a: npt.NDArray[Any], height: int, width: int) -> Array:
    """Sums over all windows of the given size."""
    c = np.zeros((a.shape[0] + 1, a.shape[1] + 1))
    np.cumsum(np.cumsum(a, axis=0, dtype=np.float64), axis=1, out=c[1:, 1:])
    return c[height:, width:] - c[:-height, width:] - c[height:, :-width] + c[:-height, :-width]


def _smallest_variance(
    values: npt.NDArray[np.float32],
    corners: npt.NDArray[np.intp],
    energies: Array,
    share: float = 0.005,
) -> float:
    """The mean of the smallest eigenvalues, from as many calm patches as pure noise would have.

    That is sought from the given share of the patches upwards.
    """
    n = _PATCH**2
    windows = np.lib.stride_tricks.sliding_window_view(values, (_PATCH, _PATCH))
    width = windows.shape[1]
    squares, total, count = np.zeros((n, n)), np.zeros(n), 0
    stop = min(len(corners), max(500, int(share * len(corners))))
    while True:
        here = corners[count:stop]
        patches = windows[here // width, here % width].reshape(-1, n)
        # The mean of a patch does not count (eigenvalue 0): patches may have been chosen by it.
        patches = patches - patches.mean(axis=1, keepdims=True)
        squares += patches.T @ patches
        total += patches.sum(axis=0, dtype=np.float64)
        count = stop
        covariance = squares / count - np.outer(total, total) / count**2
        least = max(float(np.linalg.eigvalsh(covariance)[1 : 1 + _LEAST].mean()), 1e-16)
        least /= 1 - min(10 / math.sqrt(count), 0.6)  # the smallest of few are too small
        variance = least
        for _ in range(20):  # the fixed point: the energy as a multiple of that of such noise
            energy = energies[count - 1] / (_EDGES * variance)
            variance = least / float(np.interp(energy, _ENERGIES, _SHRINKAGE))
        if count == len(corners) or energies[count - 1] >= _EDGES * _WIDE * variance:
            return variance
        stop = min(len(corners), int(1.1 * count) + 1)


def _growing_noise(channels: list[_Channel], doubt: bool) -> PoissonGaussianNoise | None:
    """Noise that grows with the signal, as of a camera that counts alike in all channels; if it does.

    With `doubt`, only if it does so clearly.
    """
    found = [(channel, _variances(*channel)) for channel in channels]
    found = [(channel, steps) for channel, steps in found if steps]
    steps = np.array([step for _, steps in found for step in steps]).reshape(-1, 3)
    if len(steps) < (4 if doubt else 2):
        return None
    slope, offset, _ = _robust_line(*steps.T)
    if slope <= 0:
        return None
    if doubt:
        # Channels that differ in brightness and in noise lie on a line as well: one at least has to rise
        # by itself, and all have to follow the line.
        if not any(_rises(np.array(some)) for _, some in found if len(some) >= 4):
            return None
        for _, some in found:
            brightness, variance, _ = np.array(some).T
            if np.median(np.abs(variance / (slope * brightness + offset) - 1)) > _ASTRAY:
                return None
    noise = (
        PoissonGaussianNoise(slope, math.sqrt(offset))
        if offset >= 0
        else PoissonGaussianNoise(slope, 0.0, -offset / slope)
    )
    left = min(_level_left(*channel, noise) for channel, _ in found)
    if doubt and left < 0.9:  # texture was taken for noise
        return None
    share = min(left, 1.0)
    return PoissonGaussianNoise(noise.gain * share**2, noise.read_noise * share, noise.black_level)


def _rises(steps: Array) -> bool:
    """Whether variances grow clearly with brightness."""
    slope, offset, error = _robust_line(*steps.T)
    low, high = steps[:, 0].min(), steps[:, 0].max()
    return slope * high + offset > 1.5 * max(slope * low + offset, 0) and slope > 3 * error


def _level_left(
    pixels: npt.NDArray[np.float64], missing: npt.NDArray[np.bool_], noise: PoissonGaussianNoise
) -> float:
    """The noise after it has been stabilised, which is 1 if it is what it is taken for.

    Parts with less than four photons a pixel do not count: they come out lower.
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


_STEPS = 16  # of brightness


def _variances(
    pixels: npt.NDArray[np.float64], missing: npt.NDArray[np.bool_]
) -> list[tuple[float, float, int]]:
    """Brightness, variance of the noise and number of patches, for each step of brightness."""
    values, mean, scale = _normalised(pixels, missing)
    patches = _calm_patches_first(values, missing)
    if patches is None or scale == 0:
        return []
    corners, energies = patches
    brightness = _sums(values, _PATCH, _PATCH).ravel()[corners] / _PATCH**2
    low, high = np.percentile(brightness, [0.5, 99.5])
    # Narrow in the dark, where the variance changes fastest by comparison with itself.
    step = np.floor(np.sqrt(np.maximum(brightness - low, 0) / max(high - low, 1e-12)) * _STEPS)
    found = []
    for k in range(_STEPS):
        here = np.flatnonzero(step == k)
        if len(here) >= 2000:
            # Most patches of a brightness are noise; with few of them the least could be any.
            variance = _smallest_variance(values, corners[here], energies[here], share=0.5)
            variance *= _TEXTURE**2
            middle = float(brightness[here].mean())
            found.append((middle * scale + mean, variance * scale**2, len(here)))
    return found


def _robust_line(x: Array, y: Array, count: Array) -> tuple[float, float, float]:
    """Slope and offset of a line through variances, and the error of the slope.

    The error of a variance is proportional to itself, and texture only adds to it.
    """
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
    error = math.sqrt(
        scatter * np.linalg.inv((A * weights[:, None]).T @ (A * weights[:, None]))[0, 0]
    )
    return float(slope), float(middle - slope * x.mean()), error
