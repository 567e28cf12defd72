"""Results are right at any contrast: bright stars, text and edges, up to ten million times the noise."""

import numpy as np
import pytest
from benchmarks.contrast import largest_error, stars, text
from groups import run_kernel
from numpy.testing import assert_allclose

import nlridge
from nlridge.core.arrays import by_gram_matrices, orthonormal_columns
from nlridge.core.families import BM3D, Bayes, GroupNoise, Ridge, TwoSided
from nlridge.core.families.guard import without_strays
from nlridge.core.kernels.orthogonal import orthonormal_factors
from nlridge.planning.explained import UnexplainedWarning

ESTIMATORS = {
    "two-sided": (TwoSided(), "refine"),
    "ridge, first step": (Ridge(), "pilot"),
    "ridge": (Ridge(), "refine"),
    "ridge, low rank": (Ridge(tolerance=2.0), "refine"),
    "bayes, first step": (Bayes(), "pilot"),
    "bayes": (Bayes(), "refine"),
    "bm3d": (BM3D(), "refine"),
}


def group_of(contrast, n=36, m=40):
    """A group of which some patches have a bright edge, the noise of which is 1: noisy, and a pilot."""
    rng = np.random.default_rng(n * m)
    X = 10 * rng.normal(size=(n, 3)) @ rng.normal(size=(3, m))
    X += contrast * np.outer(np.arange(n) > n // 2, rng.uniform(0.1, 1, m))
    pilot = X + 0.3 * rng.normal(size=X.shape)
    return (
        np.float32(X + rng.normal(size=X.shape)).astype(float),
        np.float32(pilot).astype(float),
    )


@pytest.mark.parametrize("contrast", 10.0 ** np.arange(8))
@pytest.mark.parametrize("name", ESTIMATORS)
def test_kernels_are_as_precise_as_pixels_at_any_contrast(name, contrast):
    family, step = ESTIMATORS[name]
    estimator = getattr(family, step)
    Y, X = group_of(contrast)
    X = Y if step == "pilot" else X
    expected, _ = estimator.formula(Y, X, GroupNoise(1.0))
    fast, _ = run_kernel(estimator, Y, X, 1.0)
    # Low rank and thresholds are matters of less than the noise; rounding, of some digits of float32.
    tolerance = 1.5 if "low" in name else 0.1
    assert np.abs(fast - expected).max() < tolerance + 2e-6 * contrast


@pytest.mark.parametrize("contrast", 10.0 ** np.arange(8))
@pytest.mark.parametrize("name", ESTIMATORS)
def test_formulas_keep_bright_structure(name, contrast):
    family, step = ESTIMATORS[name]
    Y, X = group_of(contrast)
    estimate, weights = getattr(family, step).formula(Y, X, GroupNoise(1.0))
    assert np.abs(estimate - Y).max() < 12
    assert np.all(np.isfinite(weights) & (weights > 0))


@pytest.mark.parametrize("contrast", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "bm3d"])
def test_formulas_in_single_precision(name, contrast):
    torch = pytest.importorskip("torch")
    family, step = ESTIMATORS[name]
    Y, X = group_of(contrast)
    formula = getattr(family, step).formula
    expected, _ = formula(Y, X, GroupNoise(1.0))
    tensors = (torch.tensor(image, dtype=torch.float32) for image in (Y, X))
    estimate, _ = formula(*tensors, GroupNoise(1.0))
    tolerance = 1.5 if "low" in name else 0.1
    assert np.abs(estimate.numpy() - expected).max() < tolerance + 1e-5 * contrast


@pytest.mark.parametrize("contrast", [1.0, 1e3, 1e6])
def test_orthonormal_factors_invert_the_gram_matrix(contrast):
    X = np.random.default_rng(0).normal(size=(3, 9, 5)) * [contrast, 1, 1, 1, 1]
    Q1, Q2 = orthonormal_factors(X, 0.5)
    inverse = np.linalg.inv(X.mT @ X + 0.5 * np.eye(5))
    assert_allclose(Q2 @ Q2.mT, 0.5 * inverse, atol=1e-9)
    assert_allclose(Q1 @ Q1.mT, X @ inverse @ X.mT, atol=1e-6)


def test_factors_by_gram_matrices_are_the_same():
    torch = pytest.importorskip("torch")
    matrix = torch.randn(4, 20, 7, generator=torch.Generator().manual_seed(0))
    matrix[..., 0] *= 1e6
    span, same = (Q @ Q.mT for Q in (orthonormal_columns(matrix), by_gram_matrices(matrix)))
    assert_allclose(same, span, atol=1e-4)


@pytest.mark.filterwarnings("ignore:sigma is 1, which has no effect")  # at the highest contrast
@pytest.mark.parametrize("contrast", [1.0, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7])
@pytest.mark.parametrize("scene", [stars, text])
@pytest.mark.parametrize("method", nlridge.method_names())
def test_errors_are_those_of_the_noise_at_any_contrast(method, scene, contrast):
    truth = scene(contrast=contrast)
    noisy = truth + np.random.default_rng(1).normal(size=truth.shape)
    result = nlridge.denoise(noisy, sigma=1.0, method=method)
    rounding = 2e-6 * contrast  # of float32
    assert np.abs(result - truth).max() < 7 + rounding
    assert np.sqrt(np.mean((result - truth) ** 2)) < 1 + rounding


@pytest.mark.filterwarnings("ignore:sigma is 1, which has no effect")
@pytest.mark.parametrize("contrast", [1e3, 1e5, 1e7])
@pytest.mark.parametrize("method", nlridge.method_names())
def test_errors_in_color(method, contrast):
    truth = np.stack([stars((48, 48), contrast, seed) for seed in range(3)], axis=-1)
    noisy = truth + np.random.default_rng(1).normal(size=truth.shape)
    result = nlridge.denoise(noisy, sigma=1.0, method=method, channel_axis=-1)
    assert np.abs(result - truth).max() < 8 + 5e-6 * contrast


@pytest.mark.parametrize("method", ["fast", "standard"])
def test_the_largest_error_of_the_benchmark(method):
    assert 1 < largest_error(method, 1e4) < 7


CORRELATION = np.outer([0.3, 1, 0.3], [0.3, 1, 0.3])


@pytest.mark.parametrize("contrast", [1e3, 1e5])
@pytest.mark.parametrize("options", ["map", "correlated", "video"])
@pytest.mark.parametrize("method", ["standard", "best", "nl-bayes"])
def test_errors_with_maps_correlated_noise_and_frames(method, options, contrast):
    truth = stars((48, 48), contrast)
    rng = np.random.default_rng(1)
    if options == "map":
        levels = np.linspace(0.5, 2, 48) * np.ones((48, 1))
        noisy, arguments = truth + levels * rng.normal(size=truth.shape), {"sigma": levels}
    elif options == "correlated":
        noise = nlridge.CorrelatedNoise(nlridge.GaussianNoise(1.0), CORRELATION)
        noisy, arguments = truth + rng.normal(size=truth.shape), {"noise": noise}
    else:
        truth = np.stack([truth, truth])
        noisy, arguments = truth + rng.normal(size=truth.shape), {"sigma": 1.0, "time_axis": 0}
    result = nlridge.denoise(noisy, method=method, **arguments)
    assert np.abs(result - truth).max() < 12 + 5e-5 * contrast


@pytest.mark.parametrize("method", ["fast", "standard", "best"])
def test_tensors_remove_noise_at_high_contrast(method):
    torch = pytest.importorskip("torch")
    from nlridge.torch import NLRidge

    truth = stars(contrast=1e4)
    noisy = torch.tensor(truth + np.random.default_rng(1).normal(size=truth.shape)).float()
    result = NLRidge(method, data_range=1e4)(noisy[None, None], 1.0)[0, 0].numpy()
    assert np.sqrt(np.mean((result - truth) ** 2)) < 0.6
    assert np.abs(result - truth).max() < 7


def wild(scale):
    """A family that multiplies one patch of each group."""

    def formula(Y, X, noise):
        factors = np.where(np.arange(Y.shape[-1]) == 0, scale, 1.0)
        return Y * factors, np.ones((*Y.shape[:-2], Y.shape[-1]))

    class Wild(nlridge.Family):
        pilot = nlridge.Estimator(formula)

    return nlridge.Recipe(Wild(), nlridge.Step(4, 8, window=9))


@pytest.mark.parametrize("scale", [1e3, -1e3, np.nan, np.inf])
def test_estimates_outside_the_range_of_their_group_are_not_used(scale):
    image = 100 + np.random.default_rng(0).normal(0, 5, (24, 24))
    result = nlridge.denoise(image, sigma=5.0, method=wild(scale))
    assert_allclose(result, image, rtol=1e-4)


def test_the_guard_leaves_estimates_within_the_range_alone():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(5, 9, 7))
    estimate, weights = 0.5 * Y, rng.uniform(1, 2, (5, 7))
    same, same_weights = without_strays(estimate, weights, Y, 1.0)
    assert np.array_equal(same, estimate)
    assert np.array_equal(same_weights, weights)
    estimate[2, 4, 3] = Y[2].max() + 5.1
    guarded, fewer = without_strays(estimate, weights, Y, 1.0)
    assert np.array_equal(guarded[2, :, 3], Y[2, :, 3])
    assert fewer[2, 3] < 1e-5 * weights[2, 3]
    assert np.count_nonzero(guarded != estimate) <= 9


def darkened(Y, X, noise):
    """Ten times the noise less, which is within the range of groups of high contrast."""
    return np.maximum(Y - 10 * noise.variance**0.5, 0), np.ones((*Y.shape[:-2], Y.shape[-1]))


class Darkening(nlridge.Family):
    pilot = nlridge.Estimator(darkened)


DARKENING = nlridge.Recipe(Darkening(), nlridge.Step(4, 8, window=9))


def test_an_image_of_which_too_much_is_removed_is_returned_unchanged():
    image = np.random.default_rng(0).uniform(0, 1000, (32, 32))
    with pytest.warns(UnexplainedWarning, match="times as strong as the noise"):
        result = nlridge.denoise(image, sigma=1.0, method=DARKENING)
    assert np.array_equal(result, image)
    with pytest.warns(UnexplainedWarning):
        frames = nlridge.denoise(np.stack([image] * 2), sigma=1.0, method=DARKENING, time_axis=0)
    assert np.array_equal(frames, np.stack([image] * 2))


def test_strength_explains_that_more_is_removed():
    image = np.random.default_rng(0).uniform(0, 1000, (32, 32))
    assert not np.array_equal(
        nlridge.denoise(image, sigma=1.0, method=DARKENING, strength=5), image
    )
