"""NL-Ridge: patches are combined linearly, f_Θ(Y) = YΘ (section 2 of the paper)."""

from functools import partial

import numpy as np

from ..kernels.compile import kernel, part
from ..kernels.linalg import (
    ONE,
    ZERO,
    gram,
    inverse_factor,
    invert,
    padded,
    panels,
    product,
    row_product,
    subtract_row_product,
    transposed,
)
from ..kernels.simd import (
    LANES,
    at_most_bits,
    fma,
    larger,
    largest,
    load,
    lowest_bit,
    splat,
    store,
    total,
)
from . import Array, Estimate, Estimator, Family


def ridge(*, noisier: float = 0.05, tolerance: float = 0.0) -> Family:
    """The family of NL-Ridge.

    Parameters
    ----------
    noisier
        Step 1 minimises the risk as if noise of this share of the variance had been added, which
        keeps Θ well conditioned; 0 is the paper's formula.
    tolerance
        Step 2 approximates the Gram matrix of the pilot by one of low rank, to within this multiple
        of the noise in a patch; 0 is the paper's formula.
    """
    first = Estimator(partial(pilot, noisier=noisier), ridge_kernel, (noisier, 1 + noisier))
    if tolerance > 0:
        formula = partial(refine_low_rank, tolerance=tolerance)
        second = Estimator(formula, low_rank_kernel, (tolerance,))
    else:
        second = Estimator(refine, ridge_kernel, (1, 1))
    return Family("ridge", first, second)


# The formulas.


def pilot(Y: Array, X: Array, variance: float, noisier: float) -> Estimate:
    """Θ = I - (1 + α) D (Y'Y + α D I)⁻¹ with D = n σ²: the minimiser of SURE (Proposition 2.2).

    α = `noisier` is the share of noise added in thought; X takes no part.
    """
    n, m = Y.shape[-2:]
    D = n * variance
    Q = Y.mT @ Y + noisier * D * np.eye(m)
    return _combine(Y, np.eye(m) - (1 + noisier) * D * np.linalg.inv(Q))


def refine(Y: Array, X: Array, variance: float) -> Estimate:
    """Θ = (X'X + D I)⁻¹ X'X with D = n σ²: the ridge regression of the pilot X on itself (Proposition 2.3)."""
    n, m = Y.shape[-2:]
    G = X.mT @ X
    return _combine(Y, np.linalg.solve(G + n * variance * np.eye(m), G))


def refine_low_rank(Y: Array, X: Array, variance: float, tolerance: float) -> Estimate:
    """`refine` with X'X replaced by FF', its pivoted Cholesky factor of the least sufficient rank.

    The rest X'X - FF' is positive and has a trace of at most tolerance x D, so that Θ changes
    little, and what changes is mostly noise of the pilot.
    """
    m = Y.shape[-1]
    D = Y.shape[-2] * variance
    theta = np.empty(Y.shape[:-2] + (m, m))
    for index in np.ndindex(Y.shape[:-2]):
        F = _pivoted_cholesky(X[index].mT @ X[index], tolerance * D)
        theta[index] = F @ np.linalg.solve(F.T @ F + D * np.eye(F.shape[1]), F.T)
    return _combine(Y, theta)


def _pivoted_cholesky(G: Array, tolerance: float) -> Array:
    """F with G ≈ FF', one column at a time, until the trace of the rest is at most `tolerance`."""
    rest = np.array(G)
    columns = []
    while np.trace(rest) > tolerance and len(columns) < len(G):
        p = np.argmax(np.diag(rest))
        f = rest[:, p] / np.sqrt(rest[p, p])
        rest -= np.outer(f, f)
        columns.append(f)
    return np.stack(columns, axis=1) if columns else np.zeros((len(G), 0))


def _combine(Y: Array, theta: Array) -> Estimate:
    """YΘ, and the weight 1 / |Θ_j|² of each patch, held between those of one patch and of a mean of m."""
    m = Y.shape[-1]
    return Y @ theta, 1 / np.clip(np.sum(theta**2, axis=-2), 1 / m, 1)


# The kernels.


@kernel
def ridge_kernel(Y, X, denoised, weights, n, m, variance, parameters):  # type: ignore[no-untyped-def]
    """Θ = I - b D (X'X + a D I)⁻¹, which is both steps: `pilot` with X = Y, a = α and b = 1 + α, and
    `refine` with a = b = 1."""
    D = np.float32(n) * variance
    diagonal, scale = parameters[0] * D, splat(-parameters[1] * D)
    side, size = padded(m), padded(n)
    pixels = np.empty(size * side, np.float32)
    theta = np.empty(side * side, np.float32)
    transposed(pixels, X, side, size)
    gram(theta, pixels, side, n)
    for j in range(side):
        theta[j * side + j] += diagonal
    invert(theta, side)
    for o in range(0, m * side, LANES):
        store(theta, o, scale * load(theta, o))
    for j in range(m):
        theta[j * side + j] += 1
        s = splat(np.float32(0))
        for o in range(j * side, (j + 1) * side, LANES):
            s = fma(load(theta, o), load(theta, o), s)
        weights[j] = _weight(total(s), m)
    product(denoised, ZERO, size, theta, ZERO, side, ONE, Y, ZERO, size, panels(m), size, m)


@part
def _weight(squared_norm, m):  # type: ignore[no-untyped-def]
    return 1 / min(max(squared_norm, np.float32(1) / np.float32(m)), np.float32(1))


@part
def _sum_and_largest(values, size):  # type: ignore[no-untyped-def]
    """The sum of values[:size], the largest of them and its (first) position."""
    s = highest = load(values, 0)
    for j in range(LANES, size, LANES):
        v = load(values, j)
        s = s + v
        highest = larger(highest, v)
    top = splat(largest(highest))
    for j in range(0, size, LANES):
        bits = at_most_bits(top, load(values, j))
        if bits != 0:
            p = j + lowest_bit(bits)
            break
    return total(s), values[p], p


@part
def _factorise(F, X, pixels, n, m, tolerance):  # type: ignore[no-untyped-def]
    """Rows of F: the pivoted Cholesky factor of X'X, of the rank that is returned."""
    side, size = padded(m), padded(n)
    zero = splat(np.float32(0))
    rest = np.empty(side, np.float32)  # the diagonal of X'X - FF'
    for j in range(0, side, LANES):
        s, t = zero, zero
        for k in range(0, n - 1, 2):
            x, y = load(pixels, k * side + j), load(pixels, (k + 1) * side + j)
            s, t = fma(x, x, s), fma(y, y, t)
        if n % 2 == 1:
            x = load(pixels, (n - 1) * side + j)
            s = fma(x, x, s)
        store(rest, j, s + t)
    trace, pivot, p = _sum_and_largest(rest, side)
    precision = np.float32(2e-7) * trace
    rank = ZERO
    while rank < min(n, m) and trace > tolerance and pivot > precision:
        f = rank * side
        row_product(F, f, X, p * size, ONE, pixels, ZERO, side, side, n)
        subtract_row_product(F, f, F, p, side, F, ZERO, side, side, rank)
        scale = splat(1 / np.sqrt(pivot))
        for j in range(0, side, LANES):
            s = load(F, f + j) * scale
            store(F, f + j, s)
            store(rest, j, larger(load(rest, j) - s * s, zero))
        rest[p] = 0
        rank += 1
        trace, pivot, p = _sum_and_largest(rest, side)
    return rank


@kernel
def low_rank_kernel(Y, X, denoised, weights, n, m, variance, parameters):  # type: ignore[no-untyped-def]
    """Θ = F(F'F + D I)⁻¹F' = Z'Z with Z = K F' and K = chol(F'F + D I)⁻¹; F is kept as its rows F'."""
    side, size = padded(m), padded(n)
    D = np.float32(n) * variance
    pixels = np.empty(size * side, np.float32)
    transposed(pixels, X, side, size)
    F = np.empty(padded(min(n, m)) * side, np.float32)
    rank = _factorise(F, X, pixels, n, m, parameters[0] * D)
    width = padded(rank)
    for o in range(rank * side, width * side, LANES):
        store(F, o, splat(np.float32(0)))

    columns = np.empty(side * width, np.float32)
    transposed(columns, F, width, side)
    H = np.empty(width * width, np.float32)
    gram(H, columns, width, m)
    for k in range(width):
        H[k * width + k] += D
    K = np.zeros(width * width, np.float32)
    inverse_factor(H, K, width)

    rows = panels(rank)
    Z = np.empty(width * side, np.float32)
    product(Z, ZERO, side, K, ZERO, width, ONE, F, ZERO, side, rows, side, rank)
    coordinates = np.empty(width * size, np.float32)
    product(coordinates, ZERO, size, Z, ZERO, side, ONE, Y, ZERO, size, rows, size, m)
    product(denoised, ZERO, size, Z, ZERO, ONE, side, coordinates, ZERO, size, panels(m), size, rank)

    # |Θ_j|² = |z_j|² - D |K'z_j|²
    product(F, ZERO, side, K, ZERO, ONE, width, Z, ZERO, side, rows, side, rank)
    norms = np.empty(side, np.float32)
    for j in range(0, side, LANES):
        s, t = splat(np.float32(0)), splat(np.float32(0))
        for k in range(rank):
            z, u = load(Z, k * side + j), load(F, k * side + j)
            s, t = fma(z, z, s), fma(u, u, t)
        store(norms, j, s - splat(D) * t)
    for j in range(m):
        weights[j] = _weight(norms[j], m)
