"""Groups of low rank in the kernel of the two-sided family, which leaves out what the pilot hardly contains."""

from functools import partial

import numpy as np
import oracle
import pytest
from groups import group, run_kernel, uneven

import nlridge
from nlridge.core.families import GroupNoise, TwoSided

FAMILY = TwoSided(penalty=0.42)
N, M = 72, 56  # two chroma planes of 6 x 6 pixels
SIGMA = 10.0


def spectrum(energies, seed=0):
    """A pilot of given energies in orthogonal directions, in units of D = κ n σ², and noise added to it."""
    rng = np.random.default_rng(seed)
    rank = len(energies)
    left = np.linalg.qr(rng.normal(size=(N, rank)))[0]
    with_mean = np.concatenate([np.ones((M, 1)), rng.normal(size=(M, rank))], axis=1)
    right = np.linalg.qr(with_mean)[0][:, 1:]  # the mean patch remains as it is
    D = FAMILY.penalty * N * SIGMA**2
    X = 100 + (left * np.sqrt(np.multiply(energies, D))) @ right.T
    return X + SIGMA * rng.normal(size=X.shape), X


def compared(Y, X, sigma, estimate):
    """The root mean square difference of the kernel from an estimate, in units of sigma, and the ratio of the weights."""
    expected, weights = estimate(Y, X)
    fast, fast_weights = run_kernel(FAMILY.refine, Y, X, sigma**2)
    return np.sqrt(np.mean((fast - expected) ** 2)) / sigma, fast_weights / weights


def formula(sigma):
    return lambda Y, X: FAMILY.refine.formula(Y, X, GroupNoise(sigma**2))


def exactly(sigma):
    """The estimate that leaves nothing out."""
    return partial(oracle.two_sided(FAMILY.penalty), sigma=sigma)


@pytest.mark.parametrize("rank", [0, 1, 8, 16, 17, 31, 32, 55])
@pytest.mark.parametrize("noise", ["same", "uneven"])
def test_groups_of_any_rank_against_the_formula(rank, noise):
    Y, X = group(N, M, rank)
    variance = 100.0 if noise == "same" else uneven((N, M))
    expected, weights = FAMILY.refine.formula(Y, X, GroupNoise(variance))
    fast, fast_weights = run_kernel(FAMILY.refine, Y, X, variance)
    np.testing.assert_allclose(fast, expected, atol=0.02)
    np.testing.assert_allclose(fast_weights, weights, rtol=2e-3)


@pytest.mark.parametrize(
    "weak", [[0.02] * 18, 0.2 * 0.5 ** np.arange(20)], ids=["equal", "decaying"]
)
def test_what_is_left_out_hardly_matters(weak):
    Y, X = spectrum([20.0, 5.0, 1.0, *weak])
    error, ratio = compared(Y, X, SIGMA, formula(SIGMA))
    assert error < 1e-4
    np.testing.assert_allclose(ratio, 1, atol=1e-4)
    error, ratio = compared(Y, X, SIGMA, exactly(SIGMA))
    assert 1e-3 < error < 0.025  # something is left out
    assert ratio.mean() == pytest.approx(1, abs=0.05)


def test_results_are_continuous_where_the_rank_changes():
    """Otherwise rounding errors, which decide the rank there, would be as visible as what is left out."""
    results = [
        run_kernel(FAMILY.refine, *spectrum([20.0, 5.0, 1.0, energy]), SIGMA**2)
        for energy in np.linspace(0.3, 0.4, 101)
    ]
    denoised, weights = (np.array(arrays) for arrays in zip(*results, strict=True))
    changes = np.sqrt((np.diff(denoised, axis=0) ** 2).mean(axis=(1, 2)))
    assert changes.max() < 2e-4 * SIGMA
    np.testing.assert_allclose(weights[1:], weights[:-1], rtol=5e-3)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0, 4.0])
def test_groups_of_low_rank_much_stronger_than_the_noise(sigma):
    """At full rank, the inverse of a matrix that is nearly singular would cost digits."""
    error, ratio = compared(*group(N, M, 6, sigma=sigma), sigma, exactly(sigma))
    assert error < 1e-3
    np.testing.assert_allclose(ratio, 1, atol=2e-3)


def test_color_images_without_color_stay_without_it():
    gray = 100 + 50 * np.sin(np.mgrid[:40, :48][1] / 3)
    image = np.repeat(gray[..., None], 3, axis=-1)
    clean = nlridge.denoise(image, 10, channel_axis=-1, data_range=255)
    np.testing.assert_allclose(clean, clean.mean(axis=-1, keepdims=True).repeat(3, -1), atol=1e-3)


@pytest.mark.parametrize("n", [36, 72])
@pytest.mark.parametrize("energy", [0.0, 0.5, 1.0, 2.0, 50.0])
def test_smooth_groups_against_the_formula_and_the_oracle(n, energy):
    """`energy` is that of the texture which all patches of the guide share, in units of the limit of smooth ones."""
    rng = np.random.default_rng(n)
    side = 6
    slope = np.tile(np.add.outer(np.arange(side), 2.0 * np.arange(side)).ravel(), n // side**2)
    texture = np.tile((-1.0) ** np.arange(side), n // side)
    limit = 0.025 * n * SIGMA**2 / M
    texture *= np.sqrt(energy * limit / np.sum(texture**2))
    X = np.repeat((100 + slope + texture)[:, None], M, axis=1)
    Y = X + SIGMA * rng.normal(size=X.shape)
    for estimate in (formula(SIGMA), exactly(SIGMA)):
        difference, ratio = compared(Y, X, SIGMA, estimate)
        assert difference < 1e-4
        np.testing.assert_allclose(ratio, 1, rtol=1e-3)
    error = np.sqrt(np.mean((by_kernel(Y, X) - X) ** 2))
    if energy < 1:  # a plane has 3 parameters
        assert error < 2 * SIGMA * np.sqrt(3 * n / side**2 / n / M)
    if energy > 2:
        assert error == pytest.approx(np.std((Y - X).mean(axis=1)), rel=0.05)


def by_kernel(Y, X):
    """What the kernel makes of a group."""
    return run_kernel(FAMILY.refine, Y, X, SIGMA**2)[0]
