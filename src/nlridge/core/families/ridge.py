"""NL-Ridge: combines the patches of a group linearly, f_Θ(Y) = YΘ (section 2 of the paper)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ...types import Array
from ..arrays import (
    all_without_waiting,
    identity,
    inverse,
    library,
    machine_epsilon,
    take_along_axis,
)
from ..kernels.compile import kernel, part
from ..kernels.linalg import (
    ONE,
    ZERO,
    gram,
    invert,
    mean_shift,
    padded,
    panels,
    product,
    subtract_product,
    sum_and_largest,
    transposed,
)
from ..kernels.orthogonal import is_too_high, orthonormal_factors, unexplained
from ..kernels.simd import (
    LANES,
    fma,
    larger,
    load,
    splat,
    store,
    total,
    transpose_difference,
)
from ..kernels.variances import patch_scales
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
class Ridge(Family):
    """The family of NL-Ridge, which combines the patches of a group: f(Y) = YΘ.

    Parameters
    ----------
    noisier : float, optional
        The first step minimises the estimated risk for noise of (1 + `noisier`) times the variance, which keeps
        Θ well conditioned. 0 is the formula of the paper, except that values below 1e-4 count as 1e-4.
    tolerance : float, optional
        If positive, the second step subtracts the mean patch and approximates the Gram matrix of the pilot by a
        matrix of low rank, to within this multiple of the noise in a patch. 0 is the formula of the paper.

    See Also
    --------
    nlridge.recipe : Returns a recipe with this family for the methods "nl-ridge" and "fast".

    Examples
    --------
    >>> from nlridge.core.families import Ridge
    >>> Ridge(tolerance=2.0)
    Ridge(noisier=0.05, tolerance=2.0)
    """

    noisier: float = 0.05
    tolerance: float = 0.0

    stacks_planes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        expect_non_negative("noisier", self.noisier)
        expect_non_negative("tolerance", self.tolerance)

    @property
    def pilot(self) -> Estimator:
        noisier = well_conditioned(self.noisier)
        return Estimator(
            partial(pilot, noisier=noisier), ridge_kernel, constant(noisier, 1 + noisier)
        )

    @property
    def refine(self) -> Estimator:
        if self.tolerance == 0:
            return Estimator(refine, ridge_kernel, constant(1, 1))
        formula = partial(refine_low_rank, tolerance=self.tolerance)
        return Estimator(formula, low_rank_kernel, constant(self.tolerance))


# The formulas.

# If the tolerance is a smaller share of the trace of X̃'X̃, rounding errors of float32 would determine the rank.
_PRECISION = 1e-6


def risk(X: Array, theta: Array, noise: GroupNoise) -> Array:
    """E|f(Y) - X|² = |XΘ - X|² + tr Θ'NΘ, the quadratic risk (Proposition 2.3); for one σ², n σ² |Θ|²."""
    D = noise.in_patches(X)
    return squared_norm(X @ theta - X) + (D[..., None] * theta**2).sum(axis=(-2, -1))


def sure(Y: Array, theta: Array, noise: GroupNoise, noisier: float = 0.0) -> Array:
    """Stein's unbiased estimate of the risk, |YΘ - Y|² + 2 tr NΘ - tr N (Proposition 2.1).

    With α = `noisier` > 0, it estimates the risk for noise of variance (1 + α) σ². The noise that Y lacks is not
    drawn but averaged over, which adds the term α tr (Θ - I)'N(Θ - I).
    """
    D = noise.in_patches(Y)
    change = theta - identity(Y.shape[-1], Y)
    trace = (D * (2 * theta.diagonal(0, -2, -1) - 1)).sum(axis=-1)
    return (
        squared_norm(Y @ theta - Y)
        + noisier * (D[..., None] * change**2).sum(axis=(-2, -1))
        + (1 + noisier) * trace
    )


def minimise_sure(Y: Array, noise: GroupNoise, noisier: float = 0.0) -> Array:
    """Θ = I - (1 + α) (Y'Y + α N)⁻¹ N with α = `noisier` (Proposition 2.2)."""
    return identity(Y.shape[-1], Y) - (1 + noisier) * _unexplained(Y, noise, noisier)


def minimise_risk(X: Array, noise: GroupNoise) -> Array:
    """Θ = (X'X + N)⁻¹ X'X = I - (X'X + N)⁻¹ N: the ridge regression of X on itself (Proposition 2.3)."""
    return identity(X.shape[-1], X) - _unexplained(X, noise, 1.0)


def _unexplained(X: Array, noise: GroupNoise, share: float) -> Array:
    """(X'X + α N)⁻¹ N with α = `share`, for patches of any brightness and contrast: see `kernels.orthogonal`."""
    u = noise.in_patches(X)[..., None] ** -0.5
    share = max(share, 1e-30)  # the rows of Q₂ are proportional to its root
    _, Q2 = orthonormal_factors(X * u.mT, share)
    return u * (Q2 @ Q2.mT) / (share * u.mT)


def minimise_risk_at_low_rank(X: Array, noise: GroupNoise, tolerance: float) -> Array:
    """`minimise_risk` with the mean patch subtracted, at the lowest sufficient rank.

    In units of the noise, X̃ = X N^(-1/2) and u = N^(-1/2) 1, it is Θ̃ = uu'/u'u + F(F'F + I)⁻¹F' with
    FF' ≈ X̃'X̃, where X̃ is centred: X̃u = 0. Centring amounts to ridge regression under the constraint that
    each column of Θ sums to one: a constant added to the image is added to the result. F is a pivoted
    Cholesky factor, truncated when the trace of the remainder is at most `tolerance`; the remainder is mostly
    noise of the pilot. Where the contrast is too high for that, nothing is left out.
    """
    u = noise.in_patches(X)[..., None] ** -0.5
    scaled = (X - X @ u**2 / (u.mT @ u)) * u.mT
    G = scaled.mT @ scaled
    F = _pivoted_cholesky(G, tolerance, min(X.shape[-2:]))
    mean = u @ u.mT / (u.mT @ u)
    F = F - mean @ F  # F'u = 0, but for rounding
    around_mean = F @ inverse(F.mT @ F + identity(F.shape[-1], F)) @ F.mT
    high = _PRECISION * G.diagonal(0, -2, -1).sum(axis=-1)[..., None, None] > tolerance
    if not all_without_waiting(~high):
        unit = identity(X.shape[-1], X)
        _, Q2 = orthonormal_factors(scaled, 1.0)
        exactly = (unit - mean) @ (unit - Q2 @ Q2.mT) @ (unit - mean)
        around_mean = library(X).where(high, exactly, around_mean)
    return u * (mean + around_mean) / u.mT


def _pivoted_cholesky(G: Array, tolerance: float, rank: int) -> Array:
    """F with G ≈ FF', computed column by column until the trace of G - FF' is at most `tolerance`.

    Each matrix of a batch stops on its own; its further columns are zero.
    """
    where, concatenate = library(G).where, library(G).concatenate
    rest, F = G.diagonal(0, -2, -1), G[..., :0]
    smallest = 2 * machine_epsilon(G) * rest.sum(axis=-1)[..., None]
    for _ in range(rank):
        p = rest.argmax(-1)[..., None]
        pivot = take_along_axis(rest, p, -1)
        more = (rest.sum(axis=-1)[..., None] > tolerance) & (pivot > smallest)
        if all_without_waiting(~more):
            break
        column = take_along_axis(G, p[..., None], -1) - F @ take_along_axis(F, p[..., None], -2).mT
        f = where(more, column[..., 0] / where(more, pivot, 1.0) ** 0.5, 0.0)
        rest = (rest - f**2).clip(min=0)
        F = concatenate([F, f[..., None]], axis=-1)
    return F


def pilot(Y: Array, X: Array, noise: GroupNoise, noisier: float) -> Estimate:
    """Step 1: Θ minimises SURE; X is not used."""
    return _combine(Y, minimise_sure(Y, noise, noisier), noise)


def refine(Y: Array, X: Array, noise: GroupNoise) -> Estimate:
    """Step 2: Θ minimises the risk, with the pilot X in place of the true groups."""
    return _combine(Y, minimise_risk(X, noise), noise)


def refine_low_rank(Y: Array, X: Array, noise: GroupNoise, tolerance: float) -> Estimate:
    """Step 2 at the lowest sufficient rank."""
    return _combine(Y, minimise_risk_at_low_rank(X, noise, tolerance), noise)


def _combine(Y: Array, theta: Array, noise: GroupNoise) -> Estimate:
    """YΘ, and the weights of the patches."""
    return Y @ theta, weights_of(theta, noise, Y)


def weights_of(theta: Array, noise: GroupNoise, Y: Array) -> Array:
    """The inverse of the variance that remains in the pixels of each patch of Y, Θ_j'NΘ_j / n.

    The variance is clipped from below to that of the best weighted mean of all patches, and from above to that of
    the noisy patch itself.
    """
    D = noise.in_patches(Y)
    left = (theta**2 * D[..., None]).sum(axis=-2)
    least = 1 / (1 / D).sum(axis=-1, keepdims=True)
    return Y.shape[-2] / left.clip(least, D)


# The kernels.


@kernel
def ridge_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """Both steps: Θ = I - b (X'X + a I)⁻¹.

    This is `pilot` with X = Y, a = α D and b = (1 + α) D, and `refine` with a = b = D. If the noise is not uniform,
    patch j is first multiplied by u_j, which makes the noise uniform, and the result is divided by u_j.

    If patches are bright compared with the noise, their brightness would take up all digits of X'X. So let x̄ be
    the mean of the patches with weights u_j², and X̃ = X - x̄u'. Then X̃u = 0, X'X = X̃'X̃ + su' + us' + x̄'x̄ uu'
    with s = X̃'x̄, and for any c, with U = u'u, A = X̃'X̃ + a I + c uu', t = A⁻¹s, g = 1/(a + c U) and
    q = x̄'x̄ - c - s't,

    (X'X + a I)⁻¹ = A⁻¹ - (q g² uu' + g (ut' + tu') - U g tt') / (1 + U g q).

    A c of the magnitude of X̃'X̃ keeps A well conditioned. For the same reason, each column of Θ is corrected so that
    u'Θ = u' - b g (u' - U t') / (1 + U g q) holds exactly.
    """
    side, size = padded(m), padded(n)
    u = np.empty(side, np.float32)
    typical, U = patch_scales(u, variance, n, m)
    a = parameters[0] * np.float32(n) * typical
    b = parameters[1] * np.float32(n) * typical
    pixels = np.empty(size * side, np.float32)
    mean = np.empty(size, np.float32)
    _centred(pixels, mean, X, u, U, n, m)
    theta = np.empty(side * side, np.float32)
    gram(theta, pixels, side, m, n)
    # Subtracting the mean patch costs some digits, which only the last step needs.
    if is_too_high(theta, a if a < b else np.float32(0.25) * a, side, m):
        for k in range(n):  # the patches themselves, with their brightness
            for o in range(0, side, LANES):
                bright = fma(splat(mean[k]), load(u, o), load(pixels, k * side + o))
                store(pixels, k * side + o, bright)
        _theta_at_high_contrast(theta, pixels, a, b, n, m)
    else:
        _theta(theta, pixels, mean, u, U, a, b, n, m)
    _multiply(denoised, weights, theta, Y, u, U, typical, n, m)


@part
def _multiply(denoised, weights, theta, Y, u, U, typical, n, m):
    """denoised = YΘ, and the weights, where Θ is that of the patches multiplied by u, and symmetric."""
    side, size = padded(m), padded(n)
    norms = np.zeros(side, np.float32)  # of the columns, taken across the rows
    for j in range(m):
        unit = splat(1 / u[j])
        for o in range(0, side, LANES):
            entries = load(theta, j * side + o)
            store(theta, j * side + o, entries * load(u, o) * unit)
            store(norms, o, fma(entries, entries, load(norms, o)))
    for j in range(m):
        weights[j] = _weight(norms[j], u[j], U, typical)
    product(denoised, ZERO, size, theta, ZERO, side, ONE, Y, ZERO, size, panels(m), n, m)


@part
def _theta_at_high_contrast(theta, pixels, a, b, n, m):
    """Θ = I - b (X'X + a I)⁻¹, where X are the `pixels`."""
    side = padded(m)
    unexplained(theta, pixels, a, side, m, n)
    for j in range(m):
        for o in range(j * side, (j + 1) * side, LANES):
            store(theta, o, splat(-b / a) * load(theta, o))
        theta[j * side + j] += 1


@part
def _add_mean(theta, u, U, m):
    """Add uu'/U to Θ, so that u'Θ = u' exactly, not only to within rounding, and the brightness does not change."""
    side = padded(m)
    missing = np.zeros(side, np.float32)
    for j in range(m):
        for o in range(0, side, LANES):
            s = fma(splat(-u[j]), load(theta, j * side + o), load(missing, o))
            store(missing, o, s)
    for o in range(0, side, LANES):
        store(missing, o, (load(u, o) + load(missing, o)) * splat(1 / U))
    for j in range(m):
        for o in range(0, side, LANES):
            s = fma(splat(missing[j]), load(u, o), load(theta, j * side + o))
            store(theta, j * side + o, s)


@part
def _theta(theta, pixels, mean, u, U, a, b, n, m):
    """Θ from X̃'X̃, as the docstring of `ridge_kernel` describes."""
    side = padded(m)
    trace, brightness = np.float32(m) * a, np.float32(0)
    for j in range(m):
        trace += theta[j * side + j]
    for k in range(n):
        brightness += mean[k] * mean[k]
    c = min(trace / (np.float32(m) * U), brightness)
    for i in range(m):
        for o in range(i // LANES * LANES, side, LANES):
            store(theta, i * side + o, fma(splat(c * u[i]), load(u, o), load(theta, i * side + o)))
        theta[i * side + i] += a
    invert(theta, side, m)

    s, t = np.empty(side, np.float32), np.empty(side, np.float32)
    product(s, ZERO, side, mean, ZERO, ZERO, ONE, pixels, ZERO, side, ONE, side, n)
    product(t, ZERO, side, s, ZERO, ZERO, ONE, theta, ZERO, side, ONE, side, m)
    q = brightness - c
    for j in range(m):
        q -= s[j] * t[j]
    g = 1 / (a + c * U)
    scale = b * g / (1 + U * g * q)

    # Θ is symmetric: the sums of its columns are taken across its rows.
    excess = np.zeros(side, np.float32)
    for j in range(m):
        multiple_of_u = splat(scale * (q * g * u[j] + t[j]))  # a row of the bracket
        multiple_of_t = splat(scale * (u[j] - U * t[j]))
        for o in range(0, side, LANES):
            bracket = fma(multiple_of_t, load(t, o), multiple_of_u * load(u, o))
            entries = fma(splat(-b), load(theta, j * side + o), bracket)
            store(theta, j * side + o, entries)
            store(excess, o, fma(splat(u[j]), entries, load(excess, o)))
        theta[j * side + j] += 1
    for j in range(m):
        excess[j] = (excess[j] + scale * (u[j] - U * t[j])) / U
    for j in range(m):
        change = splat(-excess[j])
        for o in range(0, side, LANES):
            store(theta, j * side + o, fma(change, load(u, o), load(theta, j * side + o)))


@part
def _centred(pixels, mean, X, u, U, n, m):
    """pixels (size x side) = (patches - their mean x̄) u, padded with zeros."""
    side, size = padded(m), padded(n)
    for k in range(0, size, LANES):
        first, shift = load(X, k), mean_shift(X, k, size, m, u, U)
        store(mean, k, first + shift)
        for j in range(0, side, LANES):
            transpose_difference(pixels, k * side + j, side, X, j * size + k, size, first, shift)
    # If all u are one, only the padding has to be multiplied, by zero.
    start = side - LANES if np.float32(m) == U else 0
    for k in range(size):
        for j in range(start, side, LANES):
            store(pixels, k * side + j, load(pixels, k * side + j) * load(u, j))


@part
def _weight(squared_norm, u, U, variance):
    """The inverse of the variance that remains in a patch, whose noise had the variance `variance` / u²."""
    return u * u / (min(max(squared_norm, u * u / U), np.float32(1)) * variance)


@part
def _factorise(F, pixels, u, U, n, m, tolerance):
    """Write the pivoted Cholesky factor of X̃'X̃ to the rows of F, and return its rank; -1 if the contrast is too high."""
    side = padded(m)
    zero = splat(np.float32(0))
    rest = np.empty(side, np.float32)  # the diagonal of X̃'X̃ - FF'
    for j in range(0, side, LANES):
        s, t = zero, zero
        for k in range(0, n - 1, 2):
            x, y = load(pixels, k * side + j), load(pixels, (k + 1) * side + j)
            s, t = fma(x, x, s), fma(y, y, t)
        if n % 2 == 1:
            x = load(pixels, (n - 1) * side + j)
            s = fma(x, x, s)
        store(rest, j, s + t)
    trace, pivot, p = sum_and_largest(rest, side)
    if np.float32(_PRECISION) * trace > tolerance:
        return -ONE
    precision = np.float32(2e-7) * trace
    rank = ZERO
    while rank < min(n, m) and trace > tolerance and pivot > precision:
        f = rank * side
        product(F, f, side, pixels, p, ZERO, side, pixels, ZERO, side, ONE, side, n)
        subtract_product(F, f, side, F, p, ZERO, side, F, ZERO, side, ONE, side, rank)
        scale = splat(1 / np.sqrt(pivot))
        for j in range(0, side, LANES):
            s = load(F, f + j) * scale
            store(F, f + j, s)
            store(rest, j, larger(load(rest, j) - s * s, zero))
        rank += 1
        trace, pivot, p = sum_and_largest(rest, side)
    for k in range(rank):  # F'u = 0, but for rounding
        s = zero
        for j in range(0, side, LANES):
            s = fma(load(F, k * side + j), load(u, j), s)
        mean = splat(-total(s) / U)
        for j in range(0, side, LANES):
            store(F, k * side + j, fma(mean, load(u, j), load(F, k * side + j)))
    return rank


@kernel
def low_rank_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """Step 2 at low rank: Θ = uu'/U + FG' with G = F(F'F + D I)⁻¹ and U = u'u.

    Patches are first multiplied by u_j, which makes the noise uniform. Then |Θ_j|² = u_j²/U + f_j'g_j - D |g_j|².

    In memory, F and G are transposed. The mean patch is an additional row of both: u/U in F, u in G.
    """
    side, size = padded(m), padded(n)
    u = np.empty(side, np.float32)
    typical, U = patch_scales(u, variance, n, m)
    D = np.float32(n) * typical
    pixels = np.empty(size * side, np.float32)
    _centred(pixels, np.empty(size, np.float32), X, u, U, n, m)
    F = np.empty(padded(min(n, m) + 1) * side, np.float32)
    rank = _factorise(F, pixels, u, U, n, m, parameters[0] * D)
    if rank < 0:
        theta = np.empty(side * side, np.float32)
        _theta_at_high_contrast(theta, pixels, D, D, n, m)
        _add_mean(theta, u, U, m)
        _multiply(denoised, weights, theta, Y, u, U, typical, n, m)
        return
    width = padded(rank + 1)
    for o in range(rank * side, width * side, LANES):
        store(F, o, splat(np.float32(0)))

    columns = np.empty(side * width, np.float32)
    transposed(columns, F, width, side)
    H = np.empty(width * width, np.float32)
    gram(H, columns, width, rank, m)
    for k in range(rank):
        H[k * width + k] += D
    invert(H, width, rank)
    G = np.empty(width * side, np.float32)
    product(G, ZERO, side, H, ZERO, width, ONE, F, ZERO, side, panels(rank), side, rank)

    for j in range(0, side, LANES):
        s = t = splat(np.float32(0))
        for k in range(rank):
            f, h = load(F, k * side + j), load(G, k * side + j)
            s, t = fma(f, h, s), fma(h, h, t)
        store(weights, j, s - splat(D) * t)
    for j in range(m):
        weights[j] = _weight(weights[j] + u[j] * u[j] / U, u[j], U, typical)

    # F absorbs the factors by which the patches are multiplied, G those by which the result is divided.
    unit = np.zeros(side, np.float32)
    for j in range(m):
        unit[j] = 1 / u[j]
    for o in range(0, side, LANES):
        for k in range(rank):
            store(F, k * side + o, load(F, k * side + o) * load(u, o))
            store(G, k * side + o, load(G, k * side + o) * load(unit, o))
        store(F, rank * side + o, load(u, o) * load(u, o) * splat(1 / U))
        store(G, rank * side + o, load(u, o) * load(unit, o))
    coordinates = np.empty(width * size, np.float32)
    product(coordinates, ZERO, size, F, ZERO, side, ONE, Y, ZERO, size, panels(rank + 1), n, m)
    product(
        denoised, ZERO, size, G, ZERO, ONE, side, coordinates, ZERO, size, panels(m), n, rank + 1
    )
