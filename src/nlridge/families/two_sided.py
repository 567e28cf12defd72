"""The two-sided family: combines both the pixels and the patches, f(Y) = L Y R, with one inverse for both matrices.

NL-Ridge combines patches (a matrix on the right), NL-Bayes pixels (a matrix on the left). In its dual form, the
ridge regression of the pilot on itself contains the matrix of NL-Bayes, so that both matrices cost one inversion. The
family is made for rounds (see `algorithm.framework`): where part of the noise has been removed already, combining
twice loses little detail.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from ..arrays import Array, identity, inverse
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
)
from ..kernels.simd import LANES, fma, load, splat, store, total
from ..kernels.variances import patch_scales
from .family import Estimate, Estimator, Family, GroupNoise, constant, expect_non_negative
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

    See Also
    --------
    nlridge.recipe : Returns a recipe with this family for the methods "standard" and "best".

    Examples
    --------
    >>> from nlridge.families import TwoSided
    >>> TwoSided(penalty=0.45)
    TwoSided(noisier=0.2, penalty=0.45)
    """

    noisier: float = 0.2
    penalty: float = 0.4

    stacks_planes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        expect_non_negative("noisier", self.noisier)
        expect_non_negative("penalty", self.penalty)

    @property
    def pilot(self) -> Estimator:
        return Ridge(noisier=self.noisier).pilot

    @property
    def refine(self) -> Estimator:
        formula = partial(refine, penalty=self.penalty)
        return Estimator(
            formula,
            two_sided_kernel,
            constant(self.penalty),
            correlated_kernel=correlated_two_sided_kernel,
        )


# The formula.


def both_sides(X: Array, noise: GroupNoise, penalty: float) -> tuple[Array, Array, Array]:
    """The matrices L and R, and the weights w of the mean patch: the estimate is L (Y - Yw1') R + Yw1'.

    Let X̃ = (X - Xw1') N^(-1/2), in units of the noise, with w proportional to N⁻¹1, so that X̃ is centred, and
    A = X̃X̃' + κ I. Then L = X̃X̃'A⁻¹ = I - κ A⁻¹, and R = N^(-1/2) X̃'A⁻¹X̃ N^(1/2). With κ = 1 and L = I,
    this is the ridge regression with the mean patch subtracted.
    """
    u = noise.in_patches(X)[..., None] ** -0.5
    w = u**2 / (u.mT @ u)
    scaled = (X - X @ w) * u.mT
    unit = identity(X.shape[-2], X)
    inverted = inverse(scaled @ scaled.mT + penalty * unit)
    return unit - penalty * inverted, u * (scaled.mT @ inverted @ scaled) / u.mT, w


def refine(Y: Array, X: Array, noise: GroupNoise, penalty: float) -> Estimate:
    """Step 2: L and R from the pilot X.

    The weight of a patch is that of R alone, which denoises better than a weight that accounts for L as well.
    """
    left, right, w = both_sides(X, noise, penalty)
    mean = Y @ w
    return mean + left @ (Y - mean) @ right, weights_of(right + w, noise, Y)


# The kernel.


@kernel
def two_sided_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """Step 2, for patches that are first multiplied by u_j, which makes the noise uniform. D = κ n σ² replaces κ.

    In memory, all matrices of patches are transposed. With G = A⁻¹X̃, |R_j|² = (x̃_j - D g_j)'g_j + u_j²/U.
    """
    side, size = padded(m), padded(n)
    u = np.empty(side, np.float32)
    typical, U = patch_scales(u, variance, n, m)
    D = parameters[0] * np.float32(n) * typical
    inside = ones(n)
    x, mean = np.empty(side * size, np.float32), np.empty(size, np.float32)
    _centred(x, mean, X, u, U, inside, n, m)
    inverse = np.empty(size * size, np.float32)
    gram(inverse, x, size, n, m)
    for i in range(n):
        inverse[i * size + i] += D
    invert(inverse, size, n)

    G = np.empty(side * size, np.float32)
    product(G, ZERO, size, x, ZERO, size, ONE, inverse, ZERO, size, panels(m), n, n)
    for j in range(m):
        s = splat(np.float32(0))
        for o in range(j * size, (j + 1) * size, LANES):
            g = load(G, o)
            s = fma(fma(splat(-D), g, load(x, o)), g, s)
        norm = total(s) + u[j] * u[j] / U
        weights[j] = u[j] * u[j] / (min(max(norm, u[j] * u[j] / U), np.float32(1)) * typical)

    y = np.empty(side * size, np.float32)
    _centred(y, mean, Y, u, U, inside, n, m)
    C = np.empty(size * size, np.float32)  # (ỸX̃')'
    product(C, ZERO, size, x, ZERO, ONE, size, y, ZERO, size, panels(n), n, m)
    L = np.empty(size * size, np.float32)  # ((I - D A⁻¹) ỸX̃')'
    product(L, ZERO, size, C, ZERO, size, ONE, inverse, ZERO, size, panels(n), n, n)
    for o in range(0, n * size, LANES):
        store(L, o, fma(splat(-D), load(L, o), load(C, o)))
    product(denoised, ZERO, size, G, ZERO, size, ONE, L, ZERO, size, panels(m), n, n)
    for j in range(m):
        unit = splat(1 / u[j])
        for k in range(0, size, LANES):
            o = j * size + k
            store(denoised, o, fma(unit, load(denoised, o), load(mean, k)))


@kernel
def correlated_two_sided_kernel(
    Y, X, denoised, weights, n, m, variance, parameters, scales, whiten, colour, T
):
    """Step 2 for a group of correlated noise, of which only X is whitened: see `whitening.evaluate_whitened`.

    Multiplied out, most of the whitening cancels. With patches that are multiplied by their scales u, and
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
    for p in range(0, side, LANES):
        product(
            G, p * size, size, K, p * side + p, ONE, side, y, p * size, size, _BLOCK, n, side - p
        )  # fmt: skip
    inverse = np.zeros(size * size, np.float32)
    gram(inverse, y, size, n, m)
    for i in range(n):
        inverse[i * size + i] += D
    invert(inverse, size, n)

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
    product(P, ZERO, size, inverse, ZERO, size, ONE, Q, ZERO, size, panels(n), n, n)
    product(Q, ZERO, size, P, ZERO, size, ONE, inverse, ZERO, size, panels(n), n, n)
    for o in range(0, n * size, LANES):
        store(P, o, fma(splat(-D), load(Q, o), load(P, o)))
    product(Q, ZERO, size, P, ZERO, size, ONE, colour, ZERO, size, panels(n), n, n)
    product(denoised, ZERO, size, x, ZERO, size, ONE, Q, ZERO, size, panels(m), n, n)
    for j in range(m):
        unit = splat(1 / scales[j])
        for k in range(0, size, LANES):
            o = j * size + k
            store(denoised, o, fma(unit, load(denoised, o), load(mean, k)))


@part
def _centred_by(rows, mean, Y, w, scales, inside, n, m):
    """mean = the sum of the patches, multiplied by their scales and by w; rows = (patches - mean) scales."""
    size = padded(n)
    for k in range(0, size, LANES):
        first = load(Y, k)  # subtracted, so that bright pixels lose no digits
        s = splat(np.float32(0))
        for j in range(m):
            s = fma(splat(w[j] * scales[j]), load(Y, j * size + k) - first, s)
        middle = first + s
        store(mean, k, middle)
        for j in range(m):
            o = j * size + k
            store(rows, o, (load(Y, o) - middle) * (load(inside, k) * splat(scales[j])))
    for o in range(m * size, padded(m) * size, LANES):
        store(rows, o, splat(np.float32(0)))


@part
def _centred(rows, mean, Y, u, U, inside, n, m):
    """mean = the mean of the patches with weights u²; rows = (patches - mean) u, padded with zeros."""
    size = padded(n)
    for k in range(0, size, LANES):
        middle = load(Y, k) + mean_shift(Y, k, size, m, u, U)
        store(mean, k, middle)
        for j in range(m):
            o = j * size + k
            store(rows, o, (load(Y, o) - middle) * (load(inside, k) * splat(u[j])))
    for o in range(m * size, panels(m) * size, LANES):
        store(rows, o, splat(np.float32(0)))
