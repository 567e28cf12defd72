"""NL-Bayes: combines the pixels of each patch linearly, f_{Θ,β}(Y) = ΘY + βu' (section 3.1 of the paper)."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from ...types import Array
from ..arrays import identity
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
from ..kernels.orthogonal import is_too_high, orthonormal_factors, unexplained
from ..kernels.simd import LANES, fma, load, splat, store
from ..kernels.variances import patch_variance, pixel_scales
from .family import (
    Estimate,
    Estimator,
    Family,
    GroupNoise,
    constant,
    expect_non_negative,
    squared_norm,
    well_conditioned,
)


@dataclass(frozen=True)
class Bayes(Family):
    """The family of NL-Bayes, which combines the pixels of each patch: f(Y) = ΘY + βu'.

    Parameters
    ----------
    noisier : float, optional
        The first step minimises the estimated risk for noise of (1 + `noisier`) times the variance, which keeps
        Θ well conditioned in flat areas. 0 is the formula of the paper, except that values below 1e-4 count as
        1e-4.

    See Also
    --------
    nlridge.recipe : Returns a recipe with this family for the method "nl-bayes".

    Examples
    --------
    >>> from nlridge.core.families import Bayes
    >>> Bayes()
    Bayes(noisier=0.1)
    """

    noisier: float = 0.1

    def __post_init__(self) -> None:
        expect_non_negative("noisier", self.noisier)

    @property
    def pilot(self) -> Estimator:
        noisier = well_conditioned(self.noisier)
        return Estimator(
            partial(pilot, noisier=noisier), bayes_kernel, constant(noisier, 1 + noisier)
        )

    @property
    def refine(self) -> Estimator:
        return Estimator(refine, bayes_kernel, constant(1, 1))


# The formulas.


def mean_noise(noise: GroupNoise, X: Array) -> Array:
    """The diagonal of R = E[WW'] / m: the variance of each pixel, averaged over the patches of X."""
    return noise.in_pixels(X).mean(axis=-1)


def risk(X: Array, theta: Array, beta: Array, noise: GroupNoise) -> Array:
    """E|f(Y) - X|² = |ΘX + βu' - X|² + m tr ΘRΘ', the quadratic risk (Proposition 6.7); for one σ², m σ² |Θ|²."""
    m = X.shape[-1]
    R = mean_noise(noise, X)[..., None, :]
    error = squared_norm(theta @ X + beta[..., None] - X)
    return error + m * (R * theta**2).sum(axis=(-2, -1))


def sure(Y: Array, theta: Array, beta: Array, noise: GroupNoise, noisier: float = 0.0) -> Array:
    """Stein's unbiased estimate of the risk, |ΘY + βu' - Y|² + 2 m tr ΘR - m tr R (Proposition 6.5).

    With α = `noisier` > 0, it estimates the risk for noise of variance (1 + α) σ². The noise that Y lacks is not
    drawn but averaged over, which adds the term α m tr (Θ - I)R(Θ - I)'.
    """
    n, m = Y.shape[-2:]
    R = mean_noise(noise, Y)
    change = theta - identity(n, Y)
    trace = (R * (2 * theta.diagonal(0, -2, -1) - 1)).sum(axis=-1)
    return (
        squared_norm(theta @ Y + beta[..., None] - Y)
        + noisier * m * (R[..., None, :] * change**2).sum(axis=(-2, -1))
        + (1 + noisier) * m * trace
    )


def minimise_sure(Y: Array, noise: GroupNoise, noisier: float = 0.0) -> tuple[Array, Array]:
    """Θ = I - (1 + α) R (C_Y + α R)⁻¹ and β = (I - Θ) μ_Y, with α = `noisier` (Proposition 6.6)."""
    return _with_unexplained(Y, (1 + noisier) * _unexplained(Y, noise, noisier))


def minimise_risk(X: Array, noise: GroupNoise) -> tuple[Array, Array]:
    """Θ = C_X (C_X + R)⁻¹ = I - R (C_X + R)⁻¹ and β = (I - Θ) μ_X (Proposition 6.7)."""
    return _with_unexplained(X, _unexplained(X, noise, 1.0))


def _with_unexplained(X: Array, removed: Array) -> tuple[Array, Array]:
    """Θ = I - `removed` and β = (I - Θ) μ_X."""
    mean = X.mean(axis=-1, keepdims=True)
    return identity(X.shape[-2], X) - removed, (removed @ mean)[..., 0]


def _unexplained(X: Array, noise: GroupNoise, share: float) -> Array:
    """R (C_X + α R)⁻¹ with α = `share`, for patches of any contrast: see `kernels.orthogonal`."""
    root = mean_noise(noise, X)[..., None] ** 0.5
    scaled = (X - X.mean(axis=-1, keepdims=True)) / (X.shape[-1] ** 0.5 * root)
    share = max(share, 1e-30)  # the rows of Q₂ are proportional to its root
    _, Q2 = orthonormal_factors(scaled.mT, share)
    return root * (Q2 @ Q2.mT) / (share * root.mT)


def pilot(Y: Array, X: Array, noise: GroupNoise, noisier: float) -> Estimate:
    """Step 1: Θ and β minimise SURE; X is not used."""
    return _combine(Y, *minimise_sure(Y, noise, noisier), noise)


def refine(Y: Array, X: Array, noise: GroupNoise) -> Estimate:
    """Step 2: Θ and β minimise the risk, with the pilot X in place of the true groups."""
    return _combine(Y, *minimise_risk(X, noise), noise)


def _combine(Y: Array, theta: Array, beta: Array, noise: GroupNoise) -> Estimate:
    """ΘY + βu', and as weights the inverse variances of the patches, since the same Θ denoises all of them."""
    weights = 1 / noise.in_pixels(Y).mean(axis=-2)
    return theta @ Y + beta[..., None], weights


# The kernel.


@kernel
def bayes_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """Both steps: Θ = I - b (m C_X + a I)⁻¹ and ΘY + βu' = Θ(Y - μ_X u') + μ_X u'.

    This is `pilot` with X = Y, a = α m σ² and b = (1 + α) m σ², and `refine` with a = b = m σ². If the noise is not
    uniform, pixel k is first multiplied by q_k, which makes the noise uniform, and the result is divided by q_k.
    """
    side, size = padded(m), padded(n)
    q = np.empty(size, np.float32)
    typical = pixel_scales(q, variance, n, m)
    a = parameters[0] * np.float32(m) * typical
    b = parameters[1] * np.float32(m) * typical
    mean = np.empty(size, np.float32)
    equal_weights = ones(m)
    for k in range(0, size, LANES):
        store(mean, k, load(X, k) + mean_shift(X, k, size, m, equal_weights, np.float32(m)))
    rows = np.empty(side * size, np.float32)
    _centred(rows, X, mean, q, n, m)
    theta = np.empty(size * size, np.float32)
    gram(theta, rows, size, n, m)
    # Combining pixels is more precise than combining patches.
    if is_too_high(theta, np.float32(10) * a, size, n):
        unexplained(theta, rows, a, size, n, m)
        b /= a
    else:
        for i in range(n):
            theta[i * size + i] += a
        invert(theta, size, n)
    for i in range(n):
        for o in range(i * size, (i + 1) * size, LANES):
            store(theta, o, splat(-b) * load(theta, o))
        theta[i * size + i] += 1

    _centred(rows, Y, mean, q, n, m)
    product(denoised, ZERO, size, rows, ZERO, size, ONE, theta, ZERO, size, panels(m), n, n)
    unit = np.zeros(size, np.float32)
    for k in range(n):
        unit[k] = 1 / q[k]
    for k in range(0, size, LANES):
        for o in range(k, m * size, size):
            store(denoised, o, fma(load(denoised, o), load(unit, k), load(mean, k)))
    for j in range(m):
        weights[j] = 1 / patch_variance(variance, j, n)


@part
def _centred(rows, Y, mean, q, n, m):
    """rows = (Y - mean patch) q, padded with zeros."""
    size = padded(n)
    for k in range(0, size, LANES):
        for o in range(k, m * size, size):
            store(rows, o, (load(Y, o) - load(mean, k)) * load(q, k))
    for o in range(m * size, panels(m) * size, LANES):
        store(rows, o, splat(np.float32(0)))
