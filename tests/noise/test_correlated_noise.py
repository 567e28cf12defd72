"""Denoising of images whose noise is correlated: what is gained, and that nothing is harmed."""

from dataclasses import replace

import numpy as np
import pytest
from correlated_images import (
    KERNELS,
    correlation_of,
    kernels,
    methods,
    noise_of,
    scene,
    small,
    two_methods,
)
from images import photograph, psnr

import nlridge
from nlridge import CorrelatedNoise, GaussianNoise, PoissonGaussianNoise
from nlridge.core.algorithm import pyramid
from nlridge.core.algorithm.inputs import PlaneNoise
from nlridge.core.families import whitening


def test_noise_of_a_few_frequencies_needs_more_rounds():
    clean = photograph(96).mean(axis=2)
    noisy = clean + 8 * noise_of(KERNELS["rings"], clean.shape)
    recipe = nlridge.recipe("standard", 8, correlation="long")
    two = replace(recipe, rounds=replace(recipe.rounds, count=2), coarse=None)
    noise = CorrelatedNoise.from_kernel(8, KERNELS["rings"])
    more, fewer = (
        psnr(nlridge.denoise(noisy, noise=noise, method=method), clean)
        for method in (replace(recipe, coarse=None), two)
    )
    assert more > fewer + 0.05


@methods
def test_a_constant_that_is_added_to_the_image_is_added_to_the_result(method):
    noisy, options = scene("gray", (60, 50))
    options["method"] = small(method)
    result = nlridge.denoise(noisy, data_range=255, **options)
    brighter = nlridge.denoise(noisy + 1024, data_range=255, **options)
    np.testing.assert_allclose(brighter - 1024, result, atol=0.02)


@pytest.mark.parametrize("channels", [1, 3])
@methods
def test_a_correlation_of_0_is_nearly_white_noise(method, channels):
    clean = np.moveaxis(photograph(64), -1, 0)[:channels]
    noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    recipe = nlridge.recipe(method, 20, correlation="long")
    white, delta = (
        nlridge.denoise(noisy, noise=noise, method=recipe, channel_axis=0)
        for noise in (GaussianNoise(20), CorrelatedNoise(20, [[1]]))
    )
    assert psnr(delta, clean) == pytest.approx(psnr(white, clean), abs=0.1)
    assert np.std(delta - white) < 0.06 * 20


@kernels
def test_the_noise_of_the_coarser_image(kernel):
    correlation = correlation_of(kernel)
    coarse = pyramid.coarser_noise(PlaneNoise(4.0, correlation[None]))
    image = pyramid.coarser(2 * noise_of(kernel, (1, 1000, 1000)).astype(np.float32))[0]
    assert coarse.variance == 1
    inner = image[20:480, 20:480]
    for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1), (1, -1), (0, 3), (3, 0), (0, 9), (9, 0)):
        moved = image[20 + dy : 480 + dy, 20 + dx : 480 + dx]
        expected = whitening._at(coarse.correlation[0], dy, dx)
        assert np.mean(inner * moved) == pytest.approx(float(expected), abs=0.05)
    assert coarse.level == pytest.approx(np.std(inner), rel=0.02)


def gain(clean, noisy, noise, white, method, **options):
    """How much is gained over white noise of the same level, or of 1.5 times that, in dB."""
    known = nlridge.denoise(noisy, noise=noise, method=method, data_range=255, **options)
    others = [
        nlridge.denoise(noisy, noise=white, method=method, data_range=255, strength=s, **options)
        for s in (1.0, 1.5)
    ]
    return psnr(known, clean) - max(psnr(other, clean) for other in others)


@methods
@kernels
def test_the_right_correlation_is_better_than_white_noise(kernel, method):
    clean = photograph(72)[..., 1]
    noisy = clean + 20 * noise_of(kernel, clean.shape)
    noise = CorrelatedNoise.from_kernel(20, kernel)
    least = 0.7 if kernel is KERNELS["blur"] else 1.5
    assert gain(clean, noisy, noise, GaussianNoise(20), method) > least


@pytest.mark.parametrize("kind", ["rows", "columns", "waves", "slanted waves"])
@two_methods
def test_stripes_and_patterns(method, kind):
    clean = photograph(72)[..., 1]
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:72, :72]
    if kind in ("rows", "columns"):
        pattern = rng.normal(size=72)[y if kind == "rows" else x]
        noise = CorrelatedNoise.lines(20, axis=1 if kind == "rows" else 0, white=0.1)
    else:
        period = (np.inf, 5.0) if kind == "waves" else (7.0, -11.0)
        pattern = np.sqrt(2) * np.cos(2 * np.pi * (y / period[0] + x / period[1]) + 1)
        noise = CorrelatedNoise.waves(20, period=period, white=0.1)
    noisy = clean + 20 * (np.sqrt(0.9) * pattern + np.sqrt(0.1) * rng.normal(size=clean.shape))
    assert gain(clean, noisy, noise, GaussianNoise(20), method) > (4 if "waves" in kind else 2)


@pytest.mark.parametrize("kind", ["related", "of the same noise", "one kernel each"])
@two_methods
def test_channels_whose_noise_is_correlated(method, kind):
    clean = np.moveaxis(photograph(64), -1, 0)
    blur, lines = KERNELS["blur"], KERNELS["vertical lines"]
    if kind == "one kernel each":
        kernels = np.zeros((3, 31, 31))
        kernels[:, :9, :9] = blur
        kernels[1] = 0
        kernels[1, :, :1] = lines
        noise = np.stack([noise_of(k, clean.shape[1:], i) for i, k in enumerate(kernels)])
        model = CorrelatedNoise.from_kernel(20, kernels)
    else:
        shares = {"related": 0.5, "of the same noise": 1.0}[kind]
        mixing = np.eye(3) * (1 - shares) + shares / 3
        mixing /= np.linalg.norm(mixing, axis=1, keepdims=True)
        noise = np.einsum("ij,jyx->iyx", mixing, noise_of(blur, clean.shape))
        model = CorrelatedNoise(20, (mixing @ mixing.T)[..., None, None] * correlation_of(blur))
    noisy = clean + 20 * noise
    assert gain(clean, noisy, model, GaussianNoise(20), method, channel_axis=0) > 1


@two_methods
def test_correlated_noise_whose_level_varies(method):
    clean = photograph(72)[..., 1]
    unit = noise_of(KERNELS["blur"], clean.shape)
    camera = PoissonGaussianNoise(2, 5)
    noisy = clean + np.sqrt(2 * clean + 25) * unit
    noise = CorrelatedNoise.from_kernel(camera, KERNELS["blur"])
    assert gain(clean, noisy, noise, camera, method) > 0.8
    levels = np.broadcast_to(np.linspace(5, 35, 72), clean.shape)
    noise = CorrelatedNoise.from_kernel(levels, KERNELS["blur"])
    noisy = clean + levels * unit
    assert gain(clean, noisy, noise, GaussianNoise(levels), method) > 0.8


@methods
@pytest.mark.filterwarnings("error")
def test_noise_that_cancels_in_colors_or_at_the_coarse_scale(method):
    """What is left of it must not be divided by."""
    clean = np.moveaxis(photograph(40), -1, 0)
    same = 20 * np.random.default_rng(0).normal(size=clean.shape[1:])
    result = nlridge.denoise(
        clean + same,
        noise=CorrelatedNoise(20, np.ones((3, 3, 1, 1))),
        method=method,
        channel_axis=0,
    )
    assert np.isfinite(result).all()
    assert psnr(result, clean) > psnr(clean + same, clean) + 2
    stripes = 20 * (-1.0) ** np.arange(40)[:, None] + 2 * same / 20
    noise = CorrelatedNoise.waves(20, period=(2, np.inf), white=0.01)
    result = nlridge.denoise(clean[1] + stripes, noise=noise, method=method)
    assert np.isfinite(result).all()
    assert psnr(result, clean[1]) > psnr(clean[1] + stripes, clean[1])


@methods
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("correlation", [[[0.9, 1, 0.9]], [[-1, 1, -1]], np.ones((5, 5))])
def test_a_correlation_that_no_noise_has_does_no_harm(correlation, method):
    noisy, _ = scene("gray", (30, 33))
    result = nlridge.denoise(noisy, noise=CorrelatedNoise(20, correlation), method=method)
    assert np.isfinite(result).all()
    assert np.abs(result - noisy).max() < 10 * 20


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (5, 9), (17, 40)])
@methods
def test_images_of_any_shape(method, shape):
    noise = CorrelatedNoise.from_kernel(10, KERNELS["blur"])
    noisy = 100 + 10 * noise_of(KERNELS["blur"], shape)
    result = nlridge.denoise(noisy, noise=noise, method=method)
    assert result.shape == shape
    assert np.std(result - 100) <= 1.01 * np.std(noisy - 100)


def test_missing_pixels_and_a_mask():
    clean = photograph(64)[..., 1]
    noisy = clean + 20 * noise_of(KERNELS["blur"], clean.shape)
    gone = np.random.default_rng(0).random(clean.shape) < 0.05
    noise = CorrelatedNoise.from_kernel(20, KERNELS["blur"])
    whole = nlridge.denoise(noisy, noise=noise)
    masked = nlridge.denoise(np.where(gone, np.nan, noisy), noise=noise)
    assert np.array_equal(np.isnan(masked), gone)
    by_mask = nlridge.denoise(noisy, noise=noise, mask=gone)
    np.testing.assert_array_equal(by_mask[~gone], masked[~gone])
    assert psnr(masked[~gone], clean[~gone]) > psnr(whole[~gone], clean[~gone]) - 0.3
