"""What is particular to NL-Ridge: adaptive rank."""

import numpy as np
import pytest
from groups import group, run_kernel

from nlridge.core.families import GroupNoise, Ridge


@pytest.mark.parametrize(("n", "m"), [(1, 1), (9, 5), (49, 55), (81, 90), (25, 60)])
@pytest.mark.parametrize("tolerance", [1e-4, 1.0, 1e9])
def test_any_tolerance(n, m, tolerance):
    Y, X = group(n, m)
    estimator = Ridge(tolerance=tolerance).refine
    denoised, weights = estimator.formula(Y, X, GroupNoise(100.0))
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
    denoised, weights = Ridge(tolerance=1e-9).refine.formula(Y, X, GroupNoise(100.0))
    np.testing.assert_allclose(denoised, Y @ theta, atol=1e-6)
    left = 100.0 * np.clip(np.sum(theta**2, axis=0), 1 / 30, 1)
    np.testing.assert_allclose(weights, 1 / left, rtol=1e-6)


def test_at_a_huge_tolerance_patches_are_averaged():
    Y, X = group(49, 30)
    denoised, weights = Ridge(tolerance=1e9).refine.formula(Y, X, GroupNoise(100.0))
    np.testing.assert_allclose(denoised, np.repeat(Y.mean(axis=1, keepdims=True), 30, axis=1))
    np.testing.assert_allclose(weights, 30 / 100.0)
