"""Groups of patches for the tests, and how kernels run on them."""

from dataclasses import dataclass, replace

import numpy as np

from nlridge import Estimator, Family, Recipe, Step
from nlridge.core.engines.groups import ESTIMATE
from nlridge.core.kernels.compile import compiled
from nlridge.core.kernels.simd import LANES


@dataclass(frozen=True)
class Custom(Family):
    """A family of given estimators."""

    first: Estimator
    second: Estimator | None = None
    stacked: bool = False

    @property
    def stacks_planes(self):
        return self.stacked

    @property
    def pilot(self):
        return self.first

    @property
    def refine(self):
        return self.second


def custom_recipe(formula):
    """A recipe of one small step with a given formula."""
    return Recipe(Custom(Estimator(formula)), Step(4, 4, window=9))


def without_kernels(family):
    """The same family with its formulas alone."""
    first, second = (replace(step, kernel=None) for step in (family.pilot, family.refine))
    return Custom(first, second, family.stacks_planes)


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


def uneven(shape, variance=100.0):
    """Variances of the pixels of a group, which differ by up to a factor of 20, between patches and within."""
    rng = np.random.default_rng(shape[0])
    n, m = shape
    return (
        variance
        * rng.uniform(0.5, 2, (n, 1))
        * rng.uniform(0.5, 2, (1, m))
        * rng.uniform(0.9, 1.1, shape)
    )


def run_kernel(estimator, Y, X, variance):
    """The result of the kernel for one group; the padding of its patches is not zero, as in an image."""
    n, m = Y.shape

    def in_memory(matrix):
        rows = np.zeros((padded(m), padded(n)), np.float32)
        rows[:m] = 1e3
        rows[:m, :n] = matrix.T
        return np.append(rows.ravel(), np.zeros(LANES, np.float32))

    noise = np.array([variance], np.float32) if np.ndim(variance) == 0 else in_memory(variance)
    denoised = np.full(padded(m) * padded(n) + LANES, np.nan, np.float32)
    weights = np.full(padded(m), np.nan, np.float32)
    parameters = np.array(estimator.parameters(n, m), np.float32)
    compiled(estimator.kernel, ESTIMATE)(
        in_memory(Y), in_memory(X), denoised, weights, n, m, noise, parameters
    )
    return denoised[: padded(m) * padded(n)].reshape(padded(m), -1)[:m, :n].T, weights[:m]
