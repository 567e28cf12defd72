"""Images for the tests: a texture, photographs in gray and in color, and noise."""

import numpy as np
from skimage import data

SIGMA = 20.0
NOISY = 100 + np.random.default_rng(0).normal(0, 10, (24, 30))


def texture(height, width, seed=0, sigma=10.0):
    """Waves with noise: a small image in which patches repeat."""
    y, x = np.mgrid[:height, :width]
    clean = 100 + 50 * np.sin(x / 3) * np.cos(y / 4)
    return clean + np.random.default_rng(seed).normal(0, sigma, clean.shape)


def truth():
    return data.camera()[40:168, 40:168].astype(np.float64)


def photograph(size=128):
    return data.astronaut()[20 : 20 + size, 160 : 160 + size].astype(np.float64)


def with_noise(clean, sigma=SIGMA, seed=0):
    return clean + sigma * np.random.default_rng(seed).normal(size=clean.shape)


def psnr(result, clean):
    return 10 * np.log10(255**2 / np.mean((result - clean) ** 2))
