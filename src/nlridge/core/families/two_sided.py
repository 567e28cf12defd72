"""The two-sided family: combines both the pixels and the patches, f(Y) = L Y R, with one inverse for both matrices.

NL-Ridge combines patches (a matrix on the right), NL-Bayes pixels (a matrix on the left). In its dual form, the
ridge regression of the pilot on itself contains the matrix of NL-Bayes, so that both matrices cost one inversion. The
family is made for rounds (see `algorithm.framework`): once part of the noise has been removed, combining twice loses
little detail.

Both matrices are for deviations from the mean patch. That patch has little noise itself, but as much as all of a smooth
image has: where its guide is smooth, its pixels are combined as well.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ...types import Array, Floats
from ..arrays import all_without_waiting, identity, library, take_along_axis
from ..kernels.compile import kernel, part
from ..kernels.linalg import (
    ONE,
    ZERO,
    gram,
    inverse_factor,
    invert,
    mean_shift,
    ones,
    padded,
    panels,
    product,
    subtract_product,
    sum_and_largest,
    transposed,
)
from ..kernels.orthogonal import HIGH_CONTRAST, is_too_high, orthonormal_factors, unexplained
from ..kernels.simd import LANES, fma, larger, load, splat, store, total
from ..kernels.variances import patch_scales
from .family import (
    Estimate,
    Estimator,
    Family,
    GroupNoise,
    expect_kaiser,
    expect_non_negative,
    kaiser_window,
)
from .mean_patch import SMOOTH, slopes, smooth, smoother_mean
from .ridge import Ridge, weights_of

_BLOCK = np.intp(LANES)


@dataclass(frozen=True)
class TwoSided(Family):
    """The two-sided family, which combines both the pixels and the patches of a group.

    Parameters
    ----------
    noisier : float, optional
        As for `Ridge`, whose first step is also the first step of this family.
    penalty : float, optional
        The ridge penalty κ of the second step, as a multiple of the noise in a patch. Good values are below 1, since
        each side removes some of the noise that the other leaves.
    kaiser : float, optional
        As for `BM3D`, in the second step. With 0, the default, all pixels of a patch count the same.

    See Also
    --------
    nlridge.recipe : Returns a recipe with this family for the methods "standard" and "best".

    Examples
    --------
    >>> from nlridge.core.families import TwoSided
    >>> TwoSided(penalty=0.45)
    TwoSided(noisier=0.2, penalty=0.45, kaiser=0.0)
    """

    noisier: float = 0.2
    penalty: float = 0.4
    kaiser: float = 0.0

    stacks_planes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        expect_non_negative("noisier", self.noisier)
        expect_non_negative("penalty", self.penalty)
        expect_kaiser(self.kaiser)

    @property
    def pilot(self) -> Estimator:
        return Ridge(noisier=self.noisier).pilot

    @property
    def refine(self) -> Estimator:
        formula = partial(refine, penalty=self.penalty)
        return Estimator(
            formula,
            two_sided_kernel,
            partial(_parameters, self.penalty),
            kaiser_window(self.kaiser),
            correlated_kernel=correlated_two_sided_kernel,
        )


# The formula.

# The part of the pilot that may be left out: |X̃ - FW|², in units of the penalty. Either side would multiply a direction
# of that energy by 0.4 / (1 + 0.4). In color images this costs 0.001 dB; a value of 0.8 costs up to 0.006 dB and saves
# little more time.
_NEGLIGIBLE = 0.4

# If less than this share of |X̃|² is negligible, the contrast is high, and nothing is left out.
_PRECISION = _NEGLIGIBLE / HIGH_CONTRAST


def both_sides(X: Array, noise: GroupNoise, penalty: float) -> tuple[Array, Array, Array]:
    """The matrices L and R, and the weights w of the mean patch: the estimate is L (Y - Yw1') R + Yw1'.

    Let X̃ = (X - Xw1') N^(-1/2), in units of the noise, with w proportional to N⁻¹1, so that X̃ is centred, and
    A = X̃X̃' + κ I. Then L = X̃X̃'A⁻¹ = I - κ A⁻¹, and R = N^(-1/2) X̃'A⁻¹X̃ N^(1/2). With κ = 1 and L = I,
    this is the ridge regression with the mean patch subtracted. X̃ is reduced to a low rank first, if it has one, which
    whitened groups never have. Both matrices are computed at any contrast as `kernels.orthogonal` describes.
    """
    u = noise.in_patches(X)[..., None] ** -0.5
    w = u**2 / (u.mT @ u)
    scaled = (X - X @ w) * u.mT
    if not noise.is_whitened:
        scaled = _at_low_rank(scaled, _NEGLIGIBLE * penalty)
    Q1, Q2 = orthonormal_factors(scaled.mT, penalty)
    return identity(X.shape[-2], X) - Q2 @ Q2.mT, u * (Q1 @ Q1.mT) / u.mT, w


def _highest_rank(n: int, m: int) -> int:
    """The highest rank that is searched for in m patches of n pixels; -1 if none is.

    Above it, and in patches of few pixels, the search would take as long as a low rank saves. Patches of two color
    planes have enough pixels.
    """
    return min(n, m) * 5 // 9 if n >= 64 else -1


def _at_low_rank(X: Array, negligible: float) -> Array:
    """FW ≈ X, where W has few, orthonormal rows, if |X - FW|² can be `negligible`; otherwise X itself.

    W is built from rows of X, next the one with the largest remainder. Of the last row, only the share that is needed
    is used: otherwise rounding errors could change the rank, and so the result by more than their own size. The search
    stops as soon as it cannot succeed, since each row accounts for less than the one before. Each matrix of a batch
    stops on its own.
    """
    most = _highest_rank(*X.shape[-2:])
    if most < 0:
        return X
    where = library(X).where
    rest, energy = X, (X**2).sum(axis=-1)
    least = _PRECISION * energy.sum(axis=-1)
    previous = float("inf")
    for rank in range(most):
        left = energy.sum(axis=-1)[..., None, None]
        in_reach = left - (most - rank) * (previous - left) <= negligible
        more = (left > negligible) & in_reach
        previous = left
        if all_without_waiting(~more):
            break
        row = take_along_axis(rest, energy.argmax(-1)[..., None, None], -2)
        w = row / where(more, (row**2).sum(axis=-1)[..., None], 1.0) ** 0.5
        f = rest @ w.mT
        share = (left - negligible) / where(more, f.mT @ f, 1.0)
        rest = where(more, rest - where(share < 1, share, 1.0) * f @ w, rest)
        energy = (rest**2).sum(axis=-1)
    low = (energy.sum(axis=-1) <= negligible) & (least <= negligible)
    return where(low[..., None, None], X - rest, X)


def refine(Y: Array, X: Array, noise: GroupNoise, penalty: float) -> Estimate:
    """Step 2: L and R from the pilot X.

    The weight of a patch is that of R alone, which denoises better than a weight that accounts for L as well.
    """
    left, right, w = both_sides(X, noise, penalty)
    mean: Array = Y @ w
    deviations = left @ (Y - mean) @ right
    if not noise.is_whitened:
        mean = smoother_mean(mean, X @ w, noise.in_patches(X)[..., None])
    return mean + deviations, weights_of(right + w, noise, Y)


# The kernel.


def _parameters(penalty: float, n: int, m: int) -> Floats:
    return np.array(
        [penalty, _highest_rank(n, m), slopes(n).shape[1], *slopes(n).T.flat], np.float32
    )


@kernel
def two_sided_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """Step 2, for patches that are first multiplied by u_j, which makes the noise uniform. D = κ n σ² replaces κ.

    With G = A⁻¹X̃, |R_j|² = (x̃_j - D g_j)'g_j. If X̃ is close to FW, where W has few, orthonormal rows, let
    J = (F'F + D I)⁻¹ and V = W - D JW. Then L = FJF', R = W'V and |R_j| = |v_j|.

    In memory, all matrices of patches are transposed.
    """
    side, size = padded(m), padded(n)
    u = np.empty(side, np.float32)
    typical, U = patch_scales(u, variance, n, m)
    D = parameters[0] * np.float32(n) * typical
    inside = ones(n)
    x, y = np.empty(side * size, np.float32), np.empty(side * size, np.float32)
    mean = np.empty(size, np.float32)
    _centred(x, mean, X, u, U, inside, n, m)
    guide_mean = mean.copy()
    _centred(y, mean, Y, u, U, inside, n, m)
    smooth(
        mean,
        guide_mean,
        n,
        np.float32(SMOOTH) * np.float32(n) * typical / U,
        parameters[3 : 3 + np.intp(parameters[2]) * n],
    )
    most = np.intp(parameters[1])
    W = np.zeros(padded(most + 1) * side, np.float32)
    F = np.zeros(padded(most + 1) * size, np.float32)
    rank = _span(W, F, x, n, m, most, np.float32(_NEGLIGIBLE) * D)
    low = rank <= most
    Z, Q, rows, width = x, x, m, size
    if low:  # Z = W', Q = F
        width = padded(rank)
        Z, Q, rows = np.empty(side * width, np.float32), np.empty(size * width, np.float32), n
        transposed(Z, W, width, side)
        transposed(Q, F, width, size)
    else:
        rank = n
    inverse = np.empty(width * width, np.float32)  # A⁻¹ or J
    gram(inverse, Q, width, rank, rows)
    if is_too_high(inverse, D, width, rank):
        _combine_at_high_contrast(denoised, weights, x, y, D, n, m)
    else:
        for k in range(rank):
            inverse[k * width + k] += D
        invert(inverse, width, rank)
        _combine(denoised, weights, y, Z, Q, F, inverse, low, rank, width, D, n, m)
    for j in range(m):
        least = u[j] * u[j] / U
        weights[j] = u[j] * u[j] / (min(max(weights[j] + least, least), np.float32(1)) * typical)
        unit = splat(1 / u[j])
        for k in range(0, size, LANES):
            o = j * size + k
            store(denoised, o, fma(unit, load(denoised, o), load(mean, k)))


@part
def _combine(denoised, weights, y, Z, Q, F, inverse, low, rank, width, D, n, m):
    """denoised = LỸR and weights[j] = |R_j|², where Z, Q and `inverse` are X̃, X̃ and A⁻¹, or W, F and J if X̃ is close to FW."""
    side, size = padded(m), padded(n)
    G = np.empty(side * width, np.float32)  # G' or V'
    product(G, ZERO, width, Z, ZERO, width, ONE, inverse, ZERO, width, panels(m), rank, rank)
    for j in range(m):
        s = splat(np.float32(0))
        for o in range(j * width, (j + 1) * width, LANES):
            g = load(G, o)
            v = fma(splat(-D), g, load(Z, o))
            s = fma(v, v if low else g, s)
            store(G, o, v if low else g)
        weights[j] = total(s)

    C = np.empty(width * size, np.float32)  # (ỸX̃')' or (ỸW')'
    product(C, ZERO, size, Z, ZERO, ONE, width, y, ZERO, size, panels(rank), n, m)
    S = C
    if low:  # (F'ỸW')'
        S = np.empty(width * width, np.float32)
        product(S, ZERO, width, C, ZERO, size, ONE, Q, ZERO, width, panels(rank), rank, n)
    T = np.empty(width * width, np.float32)  # times A⁻¹ or J
    product(T, ZERO, width, S, ZERO, width, ONE, inverse, ZERO, width, panels(rank), rank, rank)
    if low:  # C = (LỸX̃')' or (LỸW')'
        product(C, ZERO, size, T, ZERO, width, ONE, F, ZERO, size, panels(rank), n, rank)
    else:
        for o in range(0, n * size, LANES):
            store(C, o, fma(splat(-D), load(T, o), load(C, o)))
    product(denoised, ZERO, size, G, ZERO, width, ONE, C, ZERO, size, panels(m), n, rank)


@part
def _combine_at_high_contrast(denoised, weights, x, y, D, n, m):
    """`_combine` by orthonormal matrices: L = I - Q₂Q₂' and R = Q₁Q₁', so that |R_j|² = |q_j|² - |Q₂q_j|²."""
    side, size = padded(m), padded(n)
    E, T = np.empty(size * size, np.float32), np.empty(size * size, np.float32)
    C, V = np.empty(size * size, np.float32), np.empty(side * size, np.float32)
    Q, lower = unexplained(E, x, D, size, n, side)
    product(V, ZERO, size, Q, ZERO, size, ONE, lower, ZERO, size, panels(m), n, n)  # (Q₂Q₁')'
    for j in range(m):
        s = splat(np.float32(0))
        for o in range(j * size, (j + 1) * size, LANES):
            s = s + (load(Q, o) * load(Q, o) - load(V, o) * load(V, o))
        weights[j] = total(s)
    product(C, ZERO, size, Q, ZERO, ONE, size, y, ZERO, size, panels(n), n, m)  # (ỸQ₁)'
    product(T, ZERO, size, C, ZERO, size, ONE, E, ZERO, size, panels(n), n, n)
    for o in range(0, n * size, LANES):
        store(C, o, load(C, o) - load(T, o))
    product(denoised, ZERO, size, Q, ZERO, size, ONE, C, ZERO, size, panels(m), n, n)


@kernel
def correlated_two_sided_kernel(
    Y, X, denoised, weights, n, m, variance, parameters, scales, whiten, color, T
):
    """Step 2 for a group with correlated noise, of which only X is whitened: see `whitening.evaluate_whitened`.

    Multiplied out, most of the whitening cancels. With the patches multiplied by their scales u, and
    w = T⁻¹u / u'T⁻¹u, let X̃ = W (X - Xwu'), G = T⁻¹X̃' and A = X̃G + D I. The estimate is
    W⁻¹ (I - D A⁻¹) WYG A⁻¹X̃ + Ywu', and the squared norm of R is that of I - D A⁻¹.

    T is overwritten.
    """
    side, size = padded(m), padded(n)
    D = parameters[0] * np.float32(n) * variance[0]
    inside = ones(n)
    K = np.empty(side * side, np.float32)
    inverse_factor(T, K, side)
    w = np.zeros(side, np.float32)  # K'Ku / u'K'Ku
    squares = np.float32(0)
    for o in range(0, m * side, side):
        s = splat(np.float32(0))
        for j in range(0, side, LANES):
            s = fma(load(K, o + j), load(scales, j), s)
        part_of_row = total(s)
        squares += part_of_row * part_of_row
        for j in range(0, side, LANES):
            store(w, j, fma(splat(part_of_row), load(K, o + j), load(w, j)))
    for j in range(0, side, LANES):
        store(w, j, load(w, j) * splat(1 / squares))

    y, mean = np.empty(side * size, np.float32), np.empty(size, np.float32)
    x, G = np.empty(side * size, np.float32), np.empty(side * size, np.float32)
    _centred_by(y, mean, X, w, scales, inside, n, m)
    product(x, ZERO, size, y, ZERO, size, ONE, whiten, ZERO, size, side, n, n)
    for p in range(0, side, LANES):
        product(y, p * size, size, K, p * side, side, ONE, x, ZERO, size, _BLOCK, n, p + LANES)
    inverse = np.zeros(size * size, np.float32)
    gram(inverse, y, size, n, m)
    high = is_too_high(inverse, D, size, n)
    if high:  # with KX̃' = Q₁R, A⁻¹ = Q₂Q₂' / D, and GA⁻¹X̃ = K'Q₁ (K⁻¹Q₁)'
        y, _ = unexplained(inverse, y, D, size, n, side)
        for o in range(0, n * size, LANES):
            store(inverse, o, splat(1 / D) * load(inverse, o))
        _solve(x, K, y, side, size)
    else:
        for i in range(n):
            inverse[i * size + i] += D
        invert(inverse, size, n)
    for p in range(0, side, LANES):
        product(
            G, p * size, size, K, p * side + p, ONE, side, y, p * size, size, _BLOCK, n, side - p
        )  # fmt: skip

    squared_norm = np.float32(1)  # of R, and of the mean
    for i in range(n):
        s = splat(np.float32(0))
        for o in range(i * size, (i + 1) * size, LANES):
            s = fma(load(inverse, o), load(inverse, o), s)
        squared_norm += 1 - 2 * D * inverse[i * size + i] + D * D * total(s)
    variance_left = min(max(squared_norm / np.float32(m), 1 / np.float32(m)), np.float32(1))
    for j in range(m):
        weights[j] = scales[j] * scales[j] / (variance_left * variance[0])

    _centred_by(y, mean, Y, w, scales, inside, n, m)
    # Both of these hold products in turn, transposed: (YG)', (WYG)', (WYGA⁻¹)', ((I - DA⁻¹) WYGA⁻¹)' and W⁻¹ times that.
    P, Q = np.empty(size * size, np.float32), np.empty(size * size, np.float32)
    product(P, ZERO, size, G, ZERO, ONE, size, y, ZERO, size, panels(n), n, m)
    product(Q, ZERO, size, P, ZERO, size, ONE, whiten, ZERO, size, panels(n), n, n)
    if high:  # A⁻¹ is in G and x
        P, Q = Q, P
    else:
        product(P, ZERO, size, inverse, ZERO, size, ONE, Q, ZERO, size, panels(n), n, n)
    product(Q, ZERO, size, P, ZERO, size, ONE, inverse, ZERO, size, panels(n), n, n)
    for o in range(0, n * size, LANES):
        store(P, o, fma(splat(-D), load(Q, o), load(P, o)))
    product(Q, ZERO, size, P, ZERO, size, ONE, color, ZERO, size, panels(n), n, n)
    product(denoised, ZERO, size, x, ZERO, size, ONE, Q, ZERO, size, panels(m), n, n)
    for j in range(m):
        unit = splat(1 / scales[j])
        for k in range(0, size, LANES):
            o = j * size + k
            store(denoised, o, fma(unit, load(denoised, o), load(mean, k)))


@part
def _solve(x, K, y, side, size):
    """x = K⁻¹y, where K is lower triangular."""
    for i in range(side):
        scale = splat(1 / K[i * side + i])
        for k in range(0, size, LANES):
            s = load(y, i * size + k)
            for j in range(i):
                s = fma(splat(-K[i * side + j]), load(x, j * size + k), s)
            store(x, i * size + k, s * scale)


@part
def _centred_by(rows, mean, Y, w, scales, inside, n, m):
    """mean = the sum of the patches, multiplied by their scales and by w; rows = (patches - mean) scales."""
    size = padded(n)
    for k in range(0, size, LANES):
        first = load(Y, k)  # subtracted, so that bright pixels lose no digits
        s = splat(np.float32(0))
        for j in range(m):
            s = fma(splat(w[j] * scales[j]), load(Y, j * size + k) - first, s)
        store(mean, k, first + s)
    _around(rows, mean, Y, scales, inside, n, m)


@part
def _span(W, F, x, n, m, most, negligible):
    """X̃ ≈ FW, where W has orthonormal rows: write W and F', and return their rank, or a number larger than `most`.

    This is `_at_low_rank`: rows of X̃ are made orthonormal until the remainder of all rows is negligible.
    """
    side, size = padded(m), padded(n)
    rest = np.zeros(size, np.float32)  # the squared norms of the rows of X̃ - FW
    for j in range(0, m * size, size):
        for k in range(0, size, LANES):
            store(rest, k, fma(load(x, j + k), load(x, j + k), load(rest, k)))
    least = previous = np.float32(0)
    rank = ZERO
    while rank <= most:
        left, _, p = sum_and_largest(rest, size)
        least = max(least, np.float32(_PRECISION) * left)
        if left <= negligible:
            break
        fewest_left = left - np.float32(most - rank) * (previous - left)
        if rank == most or least > negligible or (rank > 0 and fewest_left > negligible):
            return most + 1
        previous = left
        w, f = rank * side, rank * size
        for j in range(m):
            W[w + j] = x[j * size + p]
        subtract_product(W, w, side, F, p, ZERO, size, W, ZERO, side, ONE, side, rank)
        s = splat(np.float32(0))
        for o in range(w, w + side, LANES):
            s = fma(load(W, o), load(W, o), s)
        scale = splat(1 / np.sqrt(total(s)))
        for o in range(w, w + side, LANES):
            store(W, o, load(W, o) * scale)
        product(F, f, size, W, w, ZERO, ONE, x, ZERO, size, ONE, size, m)
        for k in range(0, size, LANES):
            s = load(F, f + k)
            store(rest, k, larger(load(rest, k) - s * s, splat(np.float32(0))))
        rest[p] = 0
        rank += 1
        now_left = sum_and_largest(rest, size)[0]
        if now_left <= negligible:
            share = splat((left - negligible) / (left - now_left))
            for k in range(f, f + size, LANES):
                store(F, k, load(F, k) * share)
            break
    return rank if least <= negligible else most + 1


@part
def _centred(rows, mean, Y, u, U, inside, n, m):
    """mean = the mean of the patches with weights u²; rows = (patches - mean) u, padded with zeros."""
    size = padded(n)
    for k in range(0, size, LANES):
        store(mean, k, load(Y, k) + mean_shift(Y, k, size, m, u, U))
    _around(rows, mean, Y, u, inside, n, m)


@part
def _around(rows, mean, Y, scales, inside, n, m):
    """rows = (patches - mean) scales, padded with zeros."""
    size = padded(n)
    for k in range(0, size, LANES):
        middle, within = load(mean, k), load(inside, k)
        for j in range(m):
            o = j * size + k
            store(rows, o, (load(Y, o) - middle) * (within * splat(scales[j])))
    for o in range(m * size, padded(m) * size, LANES):
        store(rows, o, splat(np.float32(0)))
