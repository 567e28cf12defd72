"""The largest error at each contrast: bright stars, text and edges, up to ten million times the noise."""

import warnings

import numpy as np

import nlridge

from .progress import shown

_CONTRASTS = 10.0 ** np.arange(8)
_SIDE = 64


def add_arguments(parser):
    """There are none."""


def run(options):
    print("\nlargest error of a pixel, in units of sigma; stars, text and stars in color\n")
    print(f"| method | {' | '.join(f'{contrast:g}' for contrast in _CONTRASTS)} | largest |")
    print("|---|" + "---|" * (len(_CONTRASTS) + 1))
    for method in shown(nlridge.method_names(), "methods"):
        errors = [largest_error(method, contrast) for contrast in _CONTRASTS]
        cells = (f"{error:.2f}" for error in [*errors, max(errors)])
        print(f"| {method} | {' | '.join(cells)} |", flush=True)


def largest_error(method, contrast):
    """The largest error over all scenes; that of the noise itself is about 4."""
    scenes = [stars(contrast=contrast), text(contrast=contrast)]
    scenes.append(np.stack([stars(contrast=contrast, seed=seed) for seed in range(3)], axis=-1))
    return max(np.abs(denoised(scene, method) - scene).max() for scene in scenes)


def denoised(truth, method):
    """The result for an image with noise of 1."""
    noisy = truth + np.random.default_rng(1).normal(size=truth.shape)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "sigma is 1, which has no effect")  # beside 10 million
        axis = None if truth.ndim == 2 else -1
        return nlridge.denoise(noisy, sigma=1.0, method=method, channel_axis=axis)


def stars(shape=(_SIDE, _SIDE), contrast=1e4, seed=0):
    """Stars whose peaks extend over four decades, up to `contrast`, on a background of 50."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: shape[0], : shape[1]]
    image = np.full(shape, 50.0)
    peaks = contrast * 10.0 ** np.linspace(0, -4, 12)
    for peak, cy, cx in zip(peaks, *rng.uniform(0, shape[0], (2, 12)), strict=True):
        image += peak * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * 1.3**2))
    return image


def text(shape=(_SIDE, _SIDE), contrast=1e4, seed=0):
    """Thin strokes and dots."""
    rng = np.random.default_rng(seed)
    image = np.zeros(shape)
    for _ in range(12):
        y, x = rng.integers(2, shape[0] - 12, 2)
        image[y, x : x + 9] = image[y + 1 : y + 9, x + 4] = contrast
    return image
