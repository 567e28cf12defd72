"""The formulas of the family against the paper, and its kernels against the formulas."""

import numpy as np
import oracle
import pytest

from nlridge.engines.cpu import ESTIMATE
from nlridge.families.ridge import ridge
from nlridge.kernels.compile import compiled
from nlridge.kernels.simd import LANES

SIZES = [(1, 1), (4, 9), (9, 5), (49, 18), (49, 55), (81, 90), (121, 20), (81, 120), (25, 60)]


def padded(size):
    return -(-size // LANES) * LANES


def group(n, m, rank=6, mean=100.0, sigma=10.0):
    """A group of similar patches: the truth, of low rank around a mean patch, and a noisy version."""
    rng = np.random.default_rng(n * m)
    X = (
        mean
        + 30 * rng.normal(size=(n, 1))
        + rng.normal(size=(n, rank)) @ rng.normal(size=(rank, m)) * 8
    )
    return X + sigma * rng.normal(size=(n, m)), X


def run_kernel(estimator, Y, X, variance):
    n, m = Y.shape
    memory = []
    for matrix in (Y, X):
        rows = np.zeros((padded(m), padded(n)), np.float32)
        rows[:m, :n] = matrix.T
        memory.append(np.append(rows.ravel(), np.zeros(LANES, np.float32)))
    denoised = np.full(padded(m) * padded(n) + LANES, np.nan, np.float32)
    weights = np.full(padded(m), np.nan, np.float32)
    parameters = np.array(estimator.parameters, np.float32)
    compiled(estimator.kernel, ESTIMATE)(
        *memory, denoised, weights, n, m, np.float32(variance), parameters
    )
    return denoised[: padded(m) * padded(n)].reshape(padded(m), -1)[:m, :n].T, weights[:m]


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("noisier", [0.05, 0.5])
def test_pilot(n, m, noisier):
    Y, _ = group(n, m)
    estimator = ridge(noisier=noisier).pilot
    denoised, weights = estimator.formula(Y, Y, 100.0)
    theta = oracle.theta_pilot(Y, 10.0, noisier)
    np.testing.assert_allclose(denoised, Y @ theta, atol=1e-6)
    fast, fast_weights = run_kernel(estimator, Y, Y, 100.0)
    np.testing.assert_allclose(fast, denoised, atol=0.02)  # of a noise level of 10
    np.testing.assert_allclose(fast_weights, weights, rtol=2e-3)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_refine(n, m):
    Y, X = group(n, m)
    estimator = ridge().refine
    denoised, weights = estimator.formula(Y, X, 100.0)
    np.testing.assert_allclose(denoised, Y @ oracle.theta_refined(X, 10.0), atol=1e-6)
    fast, fast_weights = run_kernel(estimator, Y, X, 100.0)
    np.testing.assert_allclose(fast, denoised, atol=0.02)
    np.testing.assert_allclose(fast_weights, weights, rtol=2e-3)


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("tolerance", [1e-4, 1.0, 1e9])
def test_refine_at_low_rank(n, m, tolerance):
    Y, X = group(n, m)
    estimator = ridge(tolerance=tolerance).refine
    denoised, weights = estimator.formula(Y, X, 100.0)
    fast, fast_weights = run_kernel(estimator, Y, X, 100.0)
    np.testing.assert_allclose(fast, denoised, atol=0.02)
    np.testing.assert_allclose(fast_weights, weights, rtol=2e-3)


def test_low_rank_tends_to_the_constrained_ridge_regression():
    """Its limit minimises |XΘ - X|² + D|Θ|² under the constraint that the columns of Θ sum to one."""
    Y, X = group(49, 30)
    D = 49 * 100.0
    kkt = np.block(
        [[X.T @ X + D * np.eye(30), np.ones((30, 1))], [np.ones((1, 30)), np.zeros((1, 1))]]
    )
    theta = np.linalg.solve(kkt, np.vstack([X.T @ X, np.ones((1, 30))]))[:30]
    denoised, weights = ridge(tolerance=1e-9).refine.formula(Y, X, 100.0)
    np.testing.assert_allclose(denoised, Y @ theta, atol=1e-6)
    np.testing.assert_allclose(weights, 1 / np.clip(np.sum(theta**2, axis=0), 1 / 30, 1), rtol=1e-6)


def test_at_a_huge_tolerance_patches_are_averaged():
    Y, X = group(49, 30)
    denoised, weights = ridge(tolerance=1e9).refine.formula(Y, X, 100.0)
    np.testing.assert_allclose(denoised, np.repeat(Y.mean(axis=1, keepdims=True), 30, axis=1))
    np.testing.assert_allclose(weights, 30)


def test_formulas_take_batches():
    groups = [group(25, 12, mean=mean) for mean in (50, 100, 150)]
    Y, X = (np.stack(part) for part in zip(*groups, strict=True))
    for family in (ridge(), ridge(tolerance=2)):
        for estimator in (family.pilot, family.refine):
            denoised, weights = estimator.formula(Y, X, 100.0)
            for k, (y, x) in enumerate(groups):
                one, one_weights = estimator.formula(y, x, 100.0)
                np.testing.assert_allclose(denoised[k], one, atol=1e-9)
                np.testing.assert_allclose(weights[k], one_weights)


@pytest.mark.parametrize("mean", [0.0, 100.0, 30000.0])
@pytest.mark.parametrize("sigma", [1.0, 5.0])
def test_kernels_hold_at_low_noise(sigma, mean):
    """Patches much brighter than the noise: where a less careful inverse loses all digits."""
    for family in (ridge(), ridge(tolerance=1.0)):
        for estimator, m in ((family.pilot, 18), (family.refine, 90)):
            Y, X = group(81, m, mean=mean, sigma=sigma)
            if estimator is family.pilot:
                X = Y
            denoised, _ = estimator.formula(Y, X, sigma**2)
            fast, _ = run_kernel(estimator, Y, X, sigma**2)
            error = (fast - fast.mean()) - (denoised - denoised.mean())
            assert np.sqrt(np.mean(error**2)) < 0.05 * sigma
            assert abs(fast.mean() - denoised.mean()) < 0.05 * sigma
