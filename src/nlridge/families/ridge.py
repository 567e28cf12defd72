"""NL-Ridge: patches are combined linearly, f_Θ(Y) = YΘ (section 2 of the paper)."""

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
    transpose_difference,
)
from . import Array, Estimate, Estimator, Family, conditioned, expect_not_negative, squared_norm


def ridge(*, noisier: float = 0.05, tolerance: float = 0.0) -> Family:
    """The family of NL-Ridge.

    Parameters
    ----------
    noisier
        Step 1 minimises the risk as if noise of this share of the variance had been added, which
        keeps Θ well conditioned; 0 is the paper's formula, but for 1e-4 that are always added.
    tolerance
        Step 2 works around the mean patch and approximates the Gram matrix of the pilot by one of
        low rank, to within this multiple of the noise in a patch; 0 is the paper's formula.
    """
    noisier = conditioned(noisier)
    expect_not_negative("tolerance", tolerance)
    first = Estimator(
        partial(pilot, noisier=noisier), ridge_kernel, lambda n, m: (noisier, 1 + noisier)
    )
    if tolerance > 0:
        formula = partial(refine_low_rank, tolerance=tolerance)
        second = Estimator(formula, low_rank_kernel, lambda n, m: (tolerance,))
    else:
        second = Estimator(refine, ridge_kernel, lambda n, m: (1, 1))
    return Family("ridge", first, second)


# The formulas.


def risk(X: Array, theta: Array, variance: float) -> Array:
    """E|f(Y) - X|² = |XΘ - X|² + n σ² |Θ|², the quadratic risk (Proposition 2.3)."""
    n = X.shape[-2]
    return squared_norm(X @ theta - X) + n * variance * squared_norm(theta)


def sure(Y: Array, theta: Array, variance: float, noisier: float = 0.0) -> Array:
    """Stein's unbiased estimate of the risk, |YΘ - Y|² + 2 n σ² tr Θ - n m σ² (Proposition 2.1).

    With α = `noisier` > 0, of the risk for noise of variance (1 + α) σ²: what is added to Y in
    thought is averaged out, which leaves α n σ² |Θ - I|² of it.
    """
    n, m = Y.shape[-2:]
    D = n * variance
    return (
        squared_norm(Y @ theta - Y)
        + noisier * D * squared_norm(theta - np.eye(m))
        + (1 + noisier) * D * (2 * np.trace(theta, axis1=-2, axis2=-1) - m)
    )


def minimise_sure(Y: Array, variance: float, noisier: float = 0.0) -> Array:
    """Θ = I - (1 + α) D (Y'Y + α D I)⁻¹ with D = n σ² and α = `noisier` (Proposition 2.2)."""
    n, m = Y.shape[-2:]
    D = n * variance
    Q = Y.mT @ Y + noisier * D * np.eye(m)
    return np.eye(m) - (1 + noisier) * D * np.linalg.inv(Q)


def minimise_risk(X: Array, variance: float) -> Array:
    """Θ = (X'X + D I)⁻¹ X'X with D = n σ²: the ridge regression of X on itself (Proposition 2.3)."""
    n, m = X.shape[-2:]
    G = X.mT @ X
    return np.linalg.solve(G + n * variance * np.eye(m), G)


def minimise_risk_at_low_rank(X: Array, variance: float, tolerance: float) -> Array:
    """`minimise_risk` around the mean patch, at the least sufficient rank.

    Θ = 11'/m + F(F'F + D I)⁻¹F' with FF' ≈ X̃'X̃, where X̃ is X less the mean of its columns.  Centring
    is the ridge regression under the constraint that each column of Θ sums to one: a constant added to
    the image is added to the result.  F is a pivoted Cholesky factor, stopped when the trace of the
    rest is at most `tolerance` x D: what is left out is mostly noise of the pilot.
    """
    n, m = X.shape[-2:]
    D = n * variance
    centred = X - X.mean(axis=-1, keepdims=True)
    theta = np.empty((*X.shape[:-2], m, m))
    for index in np.ndindex(X.shape[:-2]):
        F = _pivoted_cholesky(centred[index].T @ centred[index], tolerance * D)
        theta[index] = 1 / m + F @ np.linalg.solve(F.T @ F + D * np.eye(F.shape[1]), F.T)
    return theta


def _pivoted_cholesky(G: Array, tolerance: float) -> Array:
    """F with G ≈ FF', one column at a time, until the trace of the rest is at most `tolerance`."""
    rest = np.array(G)
    columns: list[Array] = []
    while np.trace(rest) > tolerance and len(columns) < len(G):
        p = np.argmax(np.diag(rest))
        f = rest[:, p] / np.sqrt(rest[p, p])
        rest -= np.outer(f, f)
        columns.append(f)
    return np.stack(columns, axis=1) if columns else np.zeros((len(G), 0))


def pilot(Y: Array, X: Array, variance: float, noisier: float) -> Estimate:
    """Step 1: the minimiser of SURE; X takes no part."""
    return _combine(Y, minimise_sure(Y, variance, noisier))


def refine(Y: Array, X: Array, variance: float) -> Estimate:
    """Step 2: the minimiser of the risk, with the pilot X in place of the truth."""
    return _combine(Y, minimise_risk(X, variance))


def refine_low_rank(Y: Array, X: Array, variance: float, tolerance: float) -> Estimate:
    """Step 2 at the least sufficient rank."""
    return _combine(Y, minimise_risk_at_low_rank(X, variance, tolerance))


def _combine(Y: Array, theta: Array) -> Estimate:
    """YΘ, and the weight 1 / |Θ_j|² of each patch, held between those of one patch and of a mean of m."""
    m = Y.shape[-1]
    return Y @ theta, 1 / np.clip(np.sum(theta**2, axis=-2), 1 / m, 1)


# The kernels.


@kernel
def ridge_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """Θ = I - b (X'X + a I)⁻¹, which is both steps: `pilot` with X = Y, a = α D and b = (1 + α) D, and
    `refine` with a = b = D.

    Patches that are bright compared with the noise would take all digits of X'X.  So let x̄ be the mean
    of the columns of X and X̃ = X - x̄1'.  Then X̃1 = 0, X'X = X̃'X̃ + s1' + 1s' + x̄'x̄ 11' with s = X̃'x̄,
    and for any c, with A = X̃'X̃ + a I + c 11', t = A⁻¹s, g = 1/(a + c m) and q = x̄'x̄ - c - s't,

    (X'X + a I)⁻¹ = A⁻¹ - (q g² 11' + g (1t' + t1') - m g tt') / (1 + m g q).

    A c of the size of X̃'X̃ keeps A well conditioned.  For the same reason each column of Θ is made to
    sum to exactly what it should, 1'Θ = 1' - b g (1' - m t') / (1 + m g q).
    """
    side, size = padded(m), padded(n)
    a = parameters[0] * np.float32(n) * variance
    b = parameters[1] * np.float32(n) * variance
    pixels = np.empty(size * side, np.float32)
    mean = np.empty(size, np.float32)
    patches = ones(m)
    _centred(pixels, mean, X, patches, n, m)
    theta = np.empty(side * side, np.float32)
    gram(theta, pixels, side, n)
    count = np.float32(m)
    trace, brightness = count * a, np.float32(0)
    for j in range(m):
        trace += theta[j * side + j]
    for k in range(n):
        brightness += mean[k] * mean[k]
    c = min(trace / (count * count), brightness)
    for i in range(m):
        for o in range(i // LANES * LANES, side, LANES):
            store(theta, i * side + o, fma(splat(c), load(patches, o), load(theta, i * side + o)))
        theta[i * side + i] += a
    for i in range(m, side):
        theta[i * side + i] = 1
    invert(theta, side)

    s, t = np.empty(side, np.float32), np.empty(side, np.float32)
    row_product(s, ZERO, mean, ZERO, ONE, pixels, ZERO, side, side, n)
    row_product(t, ZERO, s, ZERO, ONE, theta, ZERO, side, side, m)
    q = brightness - c
    for j in range(m):
        q -= s[j] * t[j]
    g = 1 / (a + c * count)
    scale = b * g / (1 + count * g * q)

    # Θ is symmetric: the sums and the norms of its columns are taken across its rows.
    excess, norms = np.zeros(side, np.float32), np.zeros(side, np.float32)
    for j in range(m):
        constant = splat(scale * (q * g + t[j]))  # a row of the bracket is this and a multiple of t
        multiple = splat(scale * (1 - count * t[j]))
        for o in range(0, side, LANES):
            bracket = fma(multiple, load(t, o), constant * load(patches, o))
            entries = fma(splat(-b), load(theta, j * side + o), bracket)
            store(theta, j * side + o, entries)
            store(excess, o, load(excess, o) + entries)
        theta[j * side + j] += 1
    for j in range(m):
        excess[j] = (excess[j] + scale * (1 - count * t[j])) / count
    for j in range(m):
        change = splat(-excess[j])
        for o in range(0, side, LANES):
            entries = fma(change, load(patches, o), load(theta, j * side + o))
            store(theta, j * side + o, entries)
            store(norms, o, fma(entries, entries, load(norms, o)))
    for j in range(m):
        weights[j] = _weight(norms[j], m)
    product(denoised, ZERO, size, theta, ZERO, side, ONE, Y, ZERO, size, panels(m), size, m)


@part
def _centred(pixels, mean, X, patches, n, m):
    """pixels (size x side) = X - x̄1', and its mean patch x̄; what pads the patches is zero."""
    side, size = padded(m), padded(n)
    for k in range(0, size, LANES):
        first, shift = load(X, k), mean_shift(X, k, size, m)
        store(mean, k, first + shift)
        for j in range(0, side, LANES):
            transpose_difference(pixels, k * side + j, side, X, j * size + k, size, first, shift)
    last = side - LANES
    for k in range(size):
        store(pixels, k * side + last, load(pixels, k * side + last) * load(patches, last))


@part
def _weight(squared_norm, m):
    return 1 / min(max(squared_norm, np.float32(1) / np.float32(m)), np.float32(1))


@part
def _sum_and_largest(values, size):
    """The sum of values[:size], the largest of them and its (first) position."""
    s = highest = load(values, 0)
    for j in range(LANES, size, LANES):
        v = load(values, j)
        s = s + v
        highest = larger(highest, v)
    top = largest(highest)
    p = ZERO
    for j in range(size - LANES, -1, -LANES):  # without a branch that depends on the data
        bits = at_most_bits(splat(top), load(values, j))
        p = j + lowest_bit(bits) if bits != 0 else p
    return total(s), top, p


@part
def _factorise(F, pixels, patches, n, m, tolerance):
    """Rows of F: the pivoted Cholesky factor of X̃'X̃, of the rank that is returned."""
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
    trace, pivot, p = _sum_and_largest(rest, side)
    precision = np.float32(2e-7) * trace
    rank = ZERO
    while rank < min(n, m) and trace > tolerance and pivot > precision:
        f = rank * side
        row_product(F, f, pixels, p, side, pixels, ZERO, side, side, n)
        subtract_row_product(F, f, F, p, side, F, ZERO, side, side, rank)
        scale = splat(1 / np.sqrt(pivot))
        for j in range(0, side, LANES):
            s = load(F, f + j) * scale
            store(F, f + j, s)
            store(rest, j, larger(load(rest, j) - s * s, zero))
        rank += 1
        trace, pivot, p = _sum_and_largest(rest, side)
    for k in range(rank):  # each row has a sum of zero, but for rounding
        s = zero
        for j in range(k * side, (k + 1) * side, LANES):
            s = s + load(F, j)
        mean = splat(-total(s) / np.float32(m))
        for j in range(0, side, LANES):
            store(F, k * side + j, fma(mean, load(patches, j), load(F, k * side + j)))
    return rank


@kernel
def low_rank_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """Θ = 11'/m + FU' with U = F(F'F + D I)⁻¹, and |Θ_j|² = 1/m + f_j'u_j - D |u_j|².

    In memory F and U are transposed.  The mean patch is one more row of theirs: 1/m in F, 1 in U.
    """
    side, size = padded(m), padded(n)
    D = np.float32(n) * variance
    pixels = np.empty(size * side, np.float32)
    patches = ones(m)
    _centred(pixels, np.empty(size, np.float32), X, patches, n, m)
    F = np.empty(padded(min(n, m) + 1) * side, np.float32)
    rank = _factorise(F, pixels, patches, n, m, parameters[0] * D)
    width = padded(rank + 1)
    for o in range(rank * side, width * side, LANES):
        store(F, o, splat(np.float32(0)))

    columns = np.empty(side * width, np.float32)
    transposed(columns, F, width, side)
    H = np.empty(width * width, np.float32)
    gram(H, columns, width, m)
    for k in range(width):
        H[k * width + k] += D
    invert(H, width)
    U = np.empty(width * side, np.float32)
    product(U, ZERO, side, H, ZERO, width, ONE, F, ZERO, side, panels(rank), side, rank)

    for j in range(0, side, LANES):
        s = t = splat(np.float32(0))
        for k in range(rank):
            f, u = load(F, k * side + j), load(U, k * side + j)
            s, t = fma(f, u, s), fma(u, u, t)
        store(weights, j, s - splat(D) * t)
    for j in range(m):
        weights[j] = _weight(weights[j] + np.float32(1) / np.float32(m), m)

    for o in range(0, side, LANES):
        store(F, rank * side + o, load(patches, o) * splat(1 / np.float32(m)))
        store(U, rank * side + o, load(patches, o))
    coordinates = np.empty(width * size, np.float32)
    product(coordinates, ZERO, size, F, ZERO, side, ONE, Y, ZERO, size, panels(rank + 1), size, m)
    product(
        denoised, ZERO, size, U, ZERO, ONE, side, coordinates, ZERO, size, panels(m), size, rank + 1
    )
