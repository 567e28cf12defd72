"""Estimate the noise of a raw image: white, and growing with the signal in the same way in all planes.

The black level is known, so two numbers describe the noise: its gain, and its level in the dark. They are fitted to the
highest frequencies of blocks that are calm at all other frequencies, in all planes at once [1]_. Selecting blocks by
other frequencies does not affect white noise at the highest ones, and calm blocks have hardly any texture there.

.. [1] M. Colom and A. Buades, "Analysis and extension of the Ponomarenko et al. method, estimating a noise curve from
   a single image", Image Processing On Line 3, 2013.
"""

import math

import numpy as np

from ..types import Array, Mask, Pixels
from . import Noise
from .estimation import channels_of, noise_of
from .gaussian import GaussianNoise
from .poisson import PoissonGaussianNoise

_BLOCK = 8  # side of a block
_MAX_BLOCKS = 16_000
_MIN_CALM_BLOCKS = 40
# Calm blocks are this share of the blocks, those with the least energy, and all blocks whose energy is below this
# multiple of that of pure noise.
_CALM_SHARE, _PURE_ENERGY = 0.005, 1.1
_FREQUENCY = np.add.outer(np.arange(_BLOCK), np.arange(_BLOCK))
_IMAGE = (_FREQUENCY >= 1) & (_FREQUENCY <= _BLOCK)
_HIGHEST = _FREQUENCY >= _BLOCK + 2


def raw_noise_of(planes: Pixels, excluded: Mask | None) -> Noise:
    """Estimate the noise of planes of (planes, height, width) whose black level has been subtracted.

    `excluded` marks missing and saturated pixels. The noise of very small images is assumed to be Gaussian.
    """
    measured = _measured(planes, excluded)
    # Flat blocks are saturated, or not part of the picture.
    flat = (measured[2] <= (1e-9 * measured[0].max(initial=0)) ** 2).any(axis=0)
    if np.count_nonzero(~flat) < max(_MIN_CALM_BLOCKS, flat.size / 4):
        return noise_of(channels_of(planes, excluded), "gaussian")
    values, low, high = (facts[:, ~flat] for facts in measured)
    typical = float(np.median(high))
    variance = np.full(values.shape, typical)
    for _ in range(50):
        energy = (low / variance).mean(axis=0)
        count = max(int(_CALM_SHARE * len(energy)), _MIN_CALM_BLOCKS)
        calm = energy <= max(np.partition(energy, count - 1)[count - 1], _PURE_ENERGY)
        gain, offset = _line(values[:, calm], high[:, calm], variance[:, calm])
        fitted = np.maximum(gain * values + offset, 1e-6 * typical)
        settled = np.allclose(fitted, variance, rtol=1e-3)
        variance = np.sqrt(variance * fitted)  # half the way, so that it does not oscillate
        if settled:
            break
    spread = np.ptp(np.percentile(values, [5, 95]))
    if gain <= 1e-300 or spread < 4 * math.sqrt(np.median(variance)) / _BLOCK:
        return GaussianNoise(math.sqrt(float(np.mean(high[:, calm]))))
    return PoissonGaussianNoise(gain, math.sqrt(offset))


def _measured(planes: Pixels, excluded: Mask | None) -> tuple[Array, Array, Array]:
    """The mean of each block, its mean energy at the frequencies of the image, and at the highest: (planes, blocks)."""
    side = (_BLOCK, _BLOCK)
    if min(planes.shape[1:]) < _BLOCK:
        return (np.empty((len(planes), 0)),) * 3
    stride = max(3, math.ceil(math.sqrt(planes[0].size / _MAX_BLOCKS)))
    every = slice(None, None, stride)
    windows = np.lib.stride_tricks.sliding_window_view(planes, side, axis=(1, 2))[:, every, every]
    usable: Mask = np.ones(windows.shape[1:3], bool)
    if excluded is not None:
        marks = np.lib.stride_tricks.sliding_window_view(excluded.any(axis=0), side)
        usable = np.asarray(~marks[every, every].any(axis=(2, 3)))
    k = np.arange(_BLOCK)
    cosines = np.sqrt(2 / _BLOCK) * np.cos(np.pi * (2 * k + 1) * k[:, None] / (2 * _BLOCK))
    cosines[0] /= math.sqrt(2)
    facts = []
    for plane in windows:
        coefficients = cosines @ plane[usable].astype(np.float64) @ cosines.T
        energies = [(coefficients[:, band] ** 2).mean(axis=1) for band in (_IMAGE, _HIGHEST)]
        facts.append([np.maximum(coefficients[:, 0, 0] / _BLOCK, 0), *energies])
    values, low, high = np.array(facts).swapaxes(0, 1)
    return values, low, high


def _line(x: Array, y: Array, expected: Array) -> tuple[float, float]:
    """Fit y = gain x + offset, both non-negative, to variances whose errors are proportional to `expected`."""
    weights = 1 / expected**2
    xx, xo, oo = (float(np.sum(weights * values)) for values in (x * x, x, np.ones_like(x)))
    xy, oy = (float(np.sum(weights * values)) for values in (x * y, y))
    determinant = xx * oo - xo**2
    if determinant <= 1e-9 * xx * oo:
        return 0.0, oy / oo
    gain, offset = (xy * oo - oy * xo) / determinant, (oy * xx - xy * xo) / determinant
    if offset < 0:
        return xy / xx, 0.0
    return (gain, offset) if gain > 0 else (0.0, oy / oo)
