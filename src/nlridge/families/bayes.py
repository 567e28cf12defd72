"""NL-Bayes: the pixels of a patch are combined linearly, f_{Θ,β}(Y) = ΘY + βu' (section 3.1 of the paper)."""

from functools import partial

import numpy as np

from ..kernels.compile import kernel, part
from ..kernels.linalg import (
    ONE,
    ZERO,
    gram,
    invert,
    mean_shift,
    ones,
    padded,
    panels,
    product,
)
from ..kernels.simd import LANES, load, splat, store
from . import Array, Estimate, Estimator, Family, conditioned, squared_norm


def bayes(*, noisier: float = 0.1) -> Family:
    """The family of NL-Bayes.

    Parameters
    ----------
    noisier
        Step 1 minimises the risk as if noise of this share of the variance had been added, which
        keeps Θ well conditioned in flat areas; 0 is the paper's formula, but for 1e-4 that are always
        added.
    """
    noisier = conditioned(noisier)
    first = Estimator(
        partial(pilot, noisier=noisier), bayes_kernel, lambda n, m: (noisier, 1 + noisier)
    )
    second = Estimator(refine, bayes_kernel, lambda n, m: (1, 1))
    return Family("bayes", first, second)


# The formulas.


def risk(X: Array, theta: Array, beta: Array, variance: float) -> Array:
    """E|f(Y) - X|² = |ΘX + βu' - X|² + m σ² |Θ|², the quadratic risk (Proposition 6.7)."""
    m = X.shape[-1]
    return squared_norm(theta @ X + beta[..., None] - X) + m * variance * squared_norm(theta)


def sure(Y: Array, theta: Array, beta: Array, variance: float, noisier: float = 0.0) -> Array:
    """Stein's unbiased estimate of the risk, |ΘY + βu' - Y|² + 2 m σ² tr Θ - n m σ² (Proposition 6.5).

    With α = `noisier` > 0, of the risk for noise of variance (1 + α) σ²: what is added to Y in
    thought is averaged out, which leaves α m σ² |Θ - I|² of it.
    """
    n, m = Y.shape[-2:]
    D = m * variance
    return (
        squared_norm(theta @ Y + beta[..., None] - Y)
        + noisier * D * squared_norm(theta - np.eye(n))
        + (1 + noisier) * D * (2 * np.trace(theta, axis1=-2, axis2=-1) - n)
    )


def minimise_sure(Y: Array, variance: float, noisier: float = 0.0) -> tuple[Array, Array]:
    """Θ = (C_Y - σ² I)(C_Y + α σ² I)⁻¹ and β = (I - Θ) μ_Y, with α = `noisier` (Proposition 6.6)."""
    mean, C = _moments(Y)
    identity = np.eye(Y.shape[-2])
    inverse = np.linalg.inv(C + noisier * variance * identity)
    theta = identity - (1 + noisier) * variance * inverse
    return theta, ((identity - theta) @ mean)[..., 0]


def minimise_risk(X: Array, variance: float) -> tuple[Array, Array]:
    """Θ = C_X (C_X + σ² I)⁻¹ and β = (I - Θ) μ_X (Proposition 6.7)."""
    mean, C = _moments(X)
    identity = np.eye(X.shape[-2])
    theta = np.linalg.solve(C + variance * identity, C)
    return theta, ((identity - theta) @ mean)[..., 0]


def pilot(Y: Array, X: Array, variance: float, noisier: float) -> Estimate:
    """Step 1: the minimiser of SURE; X takes no part."""
    return _combine(Y, *minimise_sure(Y, variance, noisier))


def refine(Y: Array, X: Array, variance: float) -> Estimate:
    """Step 2: the minimiser of the risk, with the pilot X in place of the truth."""
    return _combine(Y, *minimise_risk(X, variance))


def _combine(Y: Array, theta: Array, beta: Array) -> Estimate:
    """ΘY + βu', and a weight of 1 for all patches: they are denoised by the same Θ, and so alike."""
    return theta @ Y + beta[..., None], np.ones((*Y.shape[:-2], Y.shape[-1]))


def _moments(X: Array) -> tuple[Array, Array]:
    """The mean patch, as a column, and the covariance matrix of the patches."""
    mean = X.mean(axis=-1, keepdims=True)
    return mean, (X - mean) @ (X - mean).mT / X.shape[-1]


# The kernel.


@kernel
def bayes_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """Θ = I - b (m C_X + a I)⁻¹, which is both steps: `pilot` with X = Y, a = α m σ² and b = (1 + α) m σ²,
    and `refine` with a = b = m σ².  Then ΘY + βu' = Θ(Y - μ_X u') + μ_X u'.
    """
    size = padded(n)
    a = parameters[0] * np.float32(m) * variance
    b = parameters[1] * np.float32(m) * variance
    mean = np.empty(size, np.float32)
    for k in range(0, size, LANES):
        store(mean, k, load(X, k) + mean_shift(X, k, size, m))
    rows = np.empty(padded(m) * size, np.float32)
    _centred(rows, X, mean, n, m)
    theta = np.empty(size * size, np.float32)
    gram(theta, rows, size, m)
    for i in range(n):
        theta[i * size + i] += a
    for i in range(n, size):
        theta[i * size + i] = 1
    invert(theta, size)
    for i in range(n):
        for o in range(i * size, (i + 1) * size, LANES):
            store(theta, o, splat(-b) * load(theta, o))
        theta[i * size + i] += 1

    _centred(rows, Y, mean, n, m)
    product(denoised, ZERO, size, rows, ZERO, size, ONE, theta, ZERO, size, panels(m), size, n)
    for k in range(0, size, LANES):
        for o in range(k, m * size, size):
            store(denoised, o, load(denoised, o) + load(mean, k))
    for j in range(m):
        weights[j] = 1


@part
def _centred(rows, Y, mean, n, m):
    """rows = Y less the mean patch in each row; what pads the patches, and the group, is zero."""
    size = padded(n)
    inside = ones(n)
    for k in range(0, size, LANES):
        for o in range(k, m * size, size):
            store(rows, o, (load(Y, o) - load(mean, k)) * load(inside, k))
    for o in range(m * size, panels(m) * size, LANES):
        store(rows, o, splat(np.float32(0)))
