"""Images whose noise is correlated, and recipes that whiten it, for the tests."""

from dataclasses import replace

import numpy as np
import pytest

import nlridge
from nlridge import CorrelatedNoise, PoissonGaussianNoise

_gaussian = np.exp(-(np.arange(-4, 5) ** 2) / (2 * 0.8**2))
_y, _x = np.mgrid[-10:11, -10:11]
KERNELS = {
    "blur": np.outer(_gaussian, _gaussian),
    "horizontal lines": np.array([16.0 - abs(np.arange(-15, 16))]),
    "vertical lines": np.array([16.0 - abs(np.arange(-15, 16))]).T,
    "rings": np.cos(np.hypot(_x, _y)) * np.exp(-(_x**2 + _y**2) / 200),
}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
methods = pytest.mark.parametrize("method", nlridge.method_names())
two_methods = pytest.mark.parametrize("method", ["fast", "standard"])


def noise_of(kernel, shape, seed=0):
    """White noise convolved with a kernel, with a variance of 1."""
    height, width = (a + b - 1 for a, b in zip(shape[-2:], kernel.shape, strict=True))
    white = np.random.default_rng(seed).normal(size=(*shape[:-2], height, width))
    spectrum = np.fft.fft2(white) * np.fft.fft2(kernel / np.linalg.norm(kernel), (height, width))
    top, left = (length - 1 for length in kernel.shape)
    return np.fft.ifft2(spectrum).real[..., top:, left:]


def correlation_of(kernel):
    return CorrelatedNoise.from_kernel(1, kernel).correlation


def blurred_with(neighbour):
    """The correlation of noise whose neighbours have the given correlation."""
    return np.outer([neighbour, 1, neighbour], [neighbour, 1, neighbour])


def in_groups(method):
    """A recipe of two scales that whitens groups even where a filter would do."""
    recipe = nlridge.recipe(method, 20, correlation="long")
    recipe = replace(recipe, prefilter=False, coarse=None)
    return replace(recipe, coarse=nlridge.CoarseScale(recipe, pilot_level=2))


def small(method):
    """A recipe with smaller windows, for speed, that whitens group by group."""
    recipe = in_groups(method)

    def step(settings):
        return replace(settings, group_size=min(settings.group_size, 24), window=11)

    def smaller(recipe):
        return replace(recipe.with_second(step), first=step(recipe.first))

    recipe = smaller(recipe)
    coarse = replace(recipe.coarse, recipe=smaller(recipe.coarse.recipe))
    return replace(recipe, coarse=coarse)


def scene(kind, shape=(90, 44)):
    """A noisy image, and the arguments of `denoise` that describe its noise."""
    blur, lines = KERNELS["blur"], KERNELS["vertical lines"]
    y, x = np.mgrid[: shape[0], : shape[1]]
    clean = 128 + 60 * np.sin(x / 9) * np.cos(y / 7)
    if kind == "gray":
        return clean + 20 * noise_of(blur, shape), {"noise": CorrelatedNoise.from_kernel(20, blur)}
    if kind == "poisson":
        # Noise of the variance of counts, and correlated.
        noisy = clean + np.sqrt(3 * clean) * noise_of(blur, shape)
        return noisy, {"noise": CorrelatedNoise.from_kernel(PoissonGaussianNoise(3), blur)}
    clean = np.stack([clean, 0.8 * clean + 20, 0.5 * clean])
    if kind == "color":
        mixing = np.array([[1, 0.5, 0], [0.2, 1, 0.5], [0, 0.5, 1]])
        mixing /= np.linalg.norm(mixing, axis=1, keepdims=True)
        noise = np.einsum("ij,jyx->iyx", mixing, noise_of(blur, clean.shape))
        between = (mixing @ mixing.T)[..., None, None] * correlation_of(blur)
        model = CorrelatedNoise([20, 15, 25], between)
        noisy = clean + np.array([20, 15, 25])[:, None, None] * noise
        return noisy, {"noise": model, "channel_axis": 0}
    assert kind == "channels"
    noise = np.stack([noise_of(blur, shape), noise_of(lines, shape), noise_of(blur, shape, 1)])
    kernels = np.zeros((3, 31, 31))
    kernels[0, :9, :9] = kernels[2, :9, :9] = blur
    kernels[1, :, :1] = lines
    model = CorrelatedNoise.from_kernel(20, kernels)
    return clean + 20 * noise, {"noise": model, "channel_axis": 0}
