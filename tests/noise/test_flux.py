"""Denoising does not change sums: what is removed is noise, whose mean is 0."""

import numpy as np
import pytest
from benchmarks.flux import cells, star_field

import nlridge
from nlridge.noise.curve import CurveNoise

STARS = [(0.05, 1.3, 0.02), (0.2, 1.3, 0.1), (0.2, 2.0, 0.02), (1.0, 1.3, 0.1)]


def _change(noisy, **arguments):
    """The change of the sum in percent."""
    clean = nlridge.denoise(noisy, method="fast", **arguments)
    return 100 * (clean.sum(dtype=float) / noisy.sum(dtype=float) - 1)


def _noisy_stars(density, width, sigma):
    clean = star_field(3, density, width, size=192)
    return clean + np.random.default_rng(0).normal(0, sigma, clean.shape)


@pytest.mark.parametrize(("density", "width", "sigma"), STARS)
def test_faint_stars_are_not_noise(density, width, sigma):
    noisy = _noisy_stars(density, width, sigma)
    noise = nlridge.estimate_noise(noisy)
    assert not isinstance(noise, nlridge.CorrelatedNoise)
    assert abs(_change(noisy, noise=noise)) < 0.2


def test_correlated_noise_of_a_star_field_is_found():
    clean = star_field(3, 0.01, 1.3, size=192)
    white = np.random.default_rng(0).normal(0, 0.2, clean.shape)
    noisy = clean + sum(np.roll(white, (i, j), (0, 1)) for i, j in np.ndindex(3, 3)) / 3
    noise = nlridge.estimate_noise(noisy)
    assert isinstance(noise, nlridge.CorrelatedNoise)
    assert abs(_change(noisy, noise=noise)) < 0.2


@pytest.mark.parametrize(("density", "width", "sigma"), STARS)
def test_black_level_is_below_the_sky(density, width, sigma):
    noisy = _noisy_stars(density, width, sigma)
    noise = nlridge.estimate_noise(noisy, kind="poisson")
    assert np.mean(noise.stabilise(noisy) == 0) <= 0.01
    assert abs(_change(noisy, noise=noise)) < 0.2


@pytest.mark.parametrize("sigmas", [[1, 3], [0.6, 4], [2, 2]])
@pytest.mark.parametrize("value", [-5.0, 2.0, 10.0, 18.0, 30.0])
def test_curve_restores_means(sigmas, value):
    curve = CurveNoise([0, 20], sigmas)
    nodes, weights = np.polynomial.hermite_e.hermegauss(100)
    pixels = value + curve.sigma_at(np.array([value])) * nodes
    mean = np.sum(curve.stabilise(pixels) * weights / weights.sum())
    assert curve.restore(np.array([mean]))[0] == pytest.approx(value, abs=0.02)


def test_noise_that_grows_as_a_curve_keeps_sums():
    clean = np.tile(np.linspace(10, 30, 128), (128, 1))
    curve = CurveNoise([10, 30], [0.5, 4])
    noise = np.random.default_rng(0).normal(0, 1, clean.shape)
    assert abs(_change(clean + curve.sigma_at(clean) * noise, noise=curve)) < 0.3


@pytest.mark.parametrize("read_noise", [0.0, 1.0])
@pytest.mark.parametrize("photons", [0.5, 1.0, 5.0, 20.0])
def test_photons_are_not_lost(photons, read_noise):
    clean = cells(0, 1.0)
    clean *= photons / clean.mean()
    rng = np.random.default_rng(1)
    counts = rng.poisson(clean) + read_noise * rng.normal(size=clean.shape)
    known = nlridge.PoissonGaussianNoise(1.0, read_noise)
    assert abs(_change(counts, noise=known)) < 0.3


@pytest.mark.parametrize("read_noise", [0.0, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_the_mean_of_a_blend_is_restored(share, read_noise):
    truth = np.array([0.0, 0.02, 0.5, 3.0, 30.0, 70.0, 500.0])
    noise = nlridge.PoissonGaussianNoise(2.0, 2.0 * read_noise, 10.0)
    rng = np.random.default_rng(0)
    pixels = noise.black_level + 2.0 * rng.poisson(truth, (200_000, 7))
    pixels = pixels + 2.0 * read_noise * rng.normal(size=pixels.shape)
    blend = noise.blended(share)
    means = blend.stabilise(share * pixels + (1 - share) * (10.0 + 2.0 * truth)).mean(axis=0)
    error = 5 * share * np.sqrt((truth + read_noise**2) / 200_000) + 0.001 * (1 + truth)
    assert np.all(np.abs((blend.restore(means) - 10.0) / 2.0 - truth) < error)
    np.testing.assert_allclose(
        blend.restore(blend.expected(10 + 2 * truth)), 10 + 2 * truth, atol=0.01
    )


def test_dark_areas_keep_their_mean_with_read_noise():
    noisy = 100 + np.random.default_rng(0).normal(0, 2, (128, 128))
    noise = nlridge.PoissonGaussianNoise(gain=1.0, read_noise=2.0, black_level=100.0)
    clean = nlridge.denoise(noisy, noise=noise)
    assert clean.mean() == pytest.approx(noisy.mean(), abs=0.02)
