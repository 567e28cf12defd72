"""BM3D: shrinks transform coefficients one by one, f_Θ(Y) = P⁻¹(Θ ⊙ (PYQ))Q⁻¹ (section 3.2 of the paper)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from ...errors import ArgumentError
from ...types import Array
from ..arrays import as_array_like, broadcast_like, library
from ..kernels.compile import kernel, part
from ..kernels.linalg import ONE, ZERO, padded, panels, product, transposed
from ..kernels.simd import LANES, splat, store
from .family import (
    Estimate,
    Estimator,
    Family,
    GroupNoise,
    expect_kaiser,
    expect_non_negative,
    kaiser_window,
    squared_norm,
)

Transform: TypeAlias = Callable[[int], Array]


def dct(size: int) -> Array:
    """The discrete cosine transform: an orthonormal matrix whose rows are cosines."""
    k, x = np.arange(size)[:, None], np.arange(size) + 0.5
    rows = np.sqrt(2 / size) * np.cos(np.pi / size * k * x)
    rows[0] = np.sqrt(1 / size)
    return rows


def haar(size: int) -> Array:
    """The Haar transform for any size: intervals are halved down to single elements; halves may be unequal."""
    rows = [np.full(size, np.sqrt(1 / size))]
    intervals = [(0, size)]
    while intervals:
        start, stop = intervals.pop(0)
        if stop - start > 1:
            middle = (start + stop + 1) // 2
            left, right = middle - start, stop - middle
            row = np.zeros(size)
            row[start:middle] = np.sqrt(right / (left * (left + right)))
            row[middle:stop] = -np.sqrt(left / (right * (left + right)))
            rows.append(row)
            intervals += [(start, middle), (middle, stop)]
    return np.stack(rows)


def biorthogonal(size: int) -> Array:
    """The biorthogonal wavelets 1.5 of Cohen, Daubechies and Feauveau, periodic, with rows of norm 1.

    Details are those of Haar, and means are taken over ten pixels. The means are transformed again as long as their
    number is even, and by the DCT in the end.
    """
    taps = np.array([3, -3, -22, 22, 128, 128, 22, -22, -3, 3]) / (128 * np.sqrt(2))
    means, details = np.eye(size), []
    while len(means) % 2 == 0:
        number = len(means)
        first = 2 * np.arange(number // 2)
        details.append((means[first] - means[first + 1]) / np.sqrt(2))
        near = (first[:, None] + np.arange(-4, 6)) % number
        means = np.tensordot(means[near], taps, (1, 0))
    rows = np.concatenate([dct(len(means)) @ means, *details[::-1]])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@dataclass(frozen=True)
class BM3D(Family):
    """The family of BM3D, which shrinks transform coefficients: f(Y) = P⁻¹(Θ ⊙ (PYQ))Q⁻¹.

    Parameters
    ----------
    threshold : float or None, optional
        The first step sets coefficients below this multiple of sigma to zero and keeps the others. BM3D uses 2.7;
        √2 minimises SURE. With None, SURE is minimised without a constraint on Θ (Θ̂₁ₐ in the paper, which is of
        theoretical interest only).
    patch_transform, group_transform : callable, optional
        ``transform(size)`` returns a matrix of size x size, whose rows are the basis. The first one is applied to the
        rows and to the columns of each patch; it must be invertible, with rows of norm 1. The second one is applied
        along the group, and must be orthonormal. It must work for any size, since groups near the borders of an image
        can have fewer patches.
    pilot_transform : callable or None, optional
        The patch transform of the first step, if it differs. The original uses ``biorthogonal`` there.
    kaiser : float, optional
        The parameter of a Kaiser window, by which the pixels of a patch are weighted in the average of overlapping
        patches: the larger, the less the pixels at its border count. The original uses 2; with 0, all count the same.

    See Also
    --------
    nlridge.recipe : Returns a recipe with this family for the method "bm3d".

    Examples
    --------
    >>> from nlridge.core.families import BM3D
    >>> BM3D(threshold=3.0)
    BM3D(threshold=3.0, patch_transform=dct, group_transform=dct)
    """

    threshold: float | None = 2.7
    patch_transform: Transform = dct
    group_transform: Transform = dct
    pilot_transform: Transform | None = None
    kaiser: float = 0.0

    def __post_init__(self) -> None:
        if self.threshold is not None:
            expect_non_negative("threshold", self.threshold)
        expect_kaiser(self.kaiser)

    def __repr__(self) -> str:
        transforms = {
            "patch_transform": self.patch_transform,
            "group_transform": self.group_transform,
        }
        if self.pilot_transform is not None:
            transforms["pilot_transform"] = self.pilot_transform
        options = {"threshold": self.threshold} | {
            name: getattr(transform, "__name__", repr(transform))
            for name, transform in transforms.items()
        }
        if self.kaiser:
            options["kaiser"] = self.kaiser
        return f"BM3D({', '.join(f'{name}={value}' for name, value in options.items())})"

    @property
    def pilot(self) -> Estimator:
        bases = self.pilot_transform or self.patch_transform, self.group_transform
        threshold = -1 if self.threshold is None else self.threshold
        return Estimator(
            partial(pilot, matrices=partial(_matrices, *bases), threshold=self.threshold),
            pilot_kernel,
            partial(parameters_of, *bases, threshold),
            kaiser_window(self.kaiser),
        )

    @property
    def refine(self) -> Estimator:
        bases = self.patch_transform, self.group_transform
        return Estimator(
            partial(refine, matrices=partial(_matrices, *bases)),
            refine_kernel,
            partial(parameters_of, *bases, 0),
            kaiser_window(self.kaiser),
        )


# The formulas.


def transforms(
    n: int, m: int, patch_transform: Transform = dct, group_transform: Transform = dct
) -> tuple[Array, Array]:
    """P, which transforms a patch of n pixels in two dimensions, and Q, which transforms m patches."""
    rows = _basis(patch_transform, math.isqrt(n))
    return np.kron(rows, rows), _orthonormal(group_transform, m).T


def _matrices(
    patch_transform: Transform, group_transform: Transform, Y: Array
) -> tuple[Array, Array, Array]:
    """P, Q and P⁻¹ for a group. P is inverted on the CPU: on a GPU, Python would have to wait for the inverse."""
    n, m = Y.shape[-2:]
    P, Q = transforms(n, m, patch_transform, group_transform)
    P, Q, inverse = (as_array_like(matrix, Y) for matrix in (P, Q, np.linalg.inv(P)))
    return P, Q, inverse


def _orthonormal(transform: Transform, size: int) -> Array:
    matrix = np.asarray(transform(size), np.float64)
    if matrix.shape != (size, size) or not np.allclose(matrix @ matrix.T, np.eye(size)):
        raise ArgumentError(
            "transform",
            transform,
            f"a function that returns an orthonormal matrix of {size} x {size}",
        )
    return matrix


def _basis(transform: Transform, size: int) -> Array:
    """A matrix whose rows have norm 1, so that all coefficients of white noise have the variance of the noise."""
    matrix = np.asarray(transform(size), np.float64)
    if (
        matrix.shape != (size, size)
        or not np.allclose(np.linalg.norm(matrix, axis=1), 1)
        or not np.linalg.cond(matrix) < 100
    ):
        raise ArgumentError(
            "transform",
            transform,
            f"a function that returns an invertible matrix of {size} x {size} whose rows have norm 1",
        )
    return matrix


def noise_in_coefficients(noise: GroupNoise, P: Array, Q: Array) -> float | Array:
    """The variances of the coefficients, S = (P ⊙ P) V (Q ⊙ Q), if V are those of the pixels; σ² if all are σ²."""
    if noise.is_uniform:
        return noise.variance
    return P**2 @ noise.variance @ Q**2


def risk(X: Array, theta: Array, noise: GroupNoise, P: Array, Q: Array) -> Array:
    """E|f(Y) - X|² = |Θ ⊙ PXQ - PXQ|² + Σ S ⊙ Θ², the quadratic risk (Proposition 6.10)."""
    coefficients, S = P @ X @ Q, noise_in_coefficients(noise, P, Q)
    error = squared_norm(theta * coefficients - coefficients)
    return error + (S * theta**2).sum(axis=(-2, -1))


def sure(Y: Array, theta: Array, noise: GroupNoise, P: Array, Q: Array) -> Array:
    """Stein's unbiased estimate of the risk, |f(Y) - Y|² + 2 <Θ, S> - Σ S (Proposition 6.8)."""
    S = noise_in_coefficients(noise, P, Q)
    denoised, _ = _combine(Y, theta, noise, P, Q, np.linalg.inv(P))
    return squared_norm(denoised - Y) + (S * (2 * theta - 1)).sum(axis=(-2, -1))


def minimise_sure(Y: Array, noise: GroupNoise, P: Array, Q: Array) -> Array:
    """Θ̂₁ₐ = 1 - S / (PYQ)² (Proposition 6.9).

    Coefficients below 1e-4 of their noise count as 1e-4 of it, since Θ would be infinite for a coefficient of 0.
    """
    S = noise_in_coefficients(noise, P, Q)
    return 1 - S / ((P @ Y @ Q) ** 2).clip(min=1e-8 * S)


def keep_or_cancel(Y: Array, noise: GroupNoise, P: Array, Q: Array, threshold: float) -> Array:
    """Θ = 1(|PYQ| ≥ threshold x √S); among zeros and ones, a threshold of √2 minimises SURE (Proposition 6.9)."""
    S = noise_in_coefficients(noise, P, Q)
    return (abs(P @ Y @ Q) >= threshold * S**0.5) * 1.0


def minimise_risk(X: Array, noise: GroupNoise, P: Array, Q: Array) -> Array:
    """Θ = (PXQ)² / (S + (PXQ)²), Wiener's filter (Proposition 6.10)."""
    power = (P @ X @ Q) ** 2
    return power / (noise_in_coefficients(noise, P, Q) + power)


def pilot(
    Y: Array,
    X: Array,
    noise: GroupNoise,
    matrices: Callable[[Array], tuple[Array, Array, Array]],
    threshold: float | None,
) -> Estimate:
    """Step 1: keep or cancel each coefficient, or minimise SURE without a constraint; X is not used."""
    P, Q, inverse = matrices(Y)
    if threshold is None:
        return _combine(Y, minimise_sure(Y, noise, P, Q), noise, P, Q, inverse)
    return _combine(Y, keep_or_cancel(Y, noise, P, Q, threshold), noise, P, Q, inverse)


def refine(
    Y: Array,
    X: Array,
    noise: GroupNoise,
    matrices: Callable[[Array], tuple[Array, Array, Array]],
) -> Estimate:
    """Step 2: Θ minimises the risk, with the pilot X in place of the true groups."""
    P, Q, inverse = matrices(Y)
    return _combine(Y, minimise_risk(X, noise, P, Q), noise, P, Q, inverse)


def _combine(
    Y: Array, theta: Array, noise: GroupNoise, P: Array, Q: Array, inverse: Array
) -> Estimate:
    """P⁻¹(Θ ⊙ (PYQ))Q⁻¹, and a weight that is the same for all patches of the group.

    The weight is the inverse of the mean variance that remains in a pixel, Σ S ⊙ Θ² / (n m). The sum counts as at
    least the variance of one coefficient, since |Θ| may be 0.
    """
    n, m = Y.shape[-2:]
    S = broadcast_like(noise_in_coefficients(noise, P, Q), Y)
    left = (S * theta**2).sum(axis=(-2, -1)) / (n * m)
    weight = 1 / left.clip(min=S.mean(axis=(-2, -1)) / (n * m))
    weights = library(Y).broadcast_to(weight[..., None], (*weight.shape, m))
    return inverse @ (theta * (P @ Y @ Q)) @ Q.mT, weights


# The kernels.


def parameters_of(
    patch_transform: Transform, group_transform: Transform, threshold: float, n: int, m: int
) -> Array:
    """The threshold, the matrices T, T⁻¹, Q and Q', and their squares.

    T and T⁻¹ are padded with zeros to a whole panel, Q and Q' to whole vectors.
    """
    p = math.isqrt(n)
    rows, side = -(-p // 4) * 4, -(-m // LANES) * LANES
    T, Q = np.zeros((2, rows, rows)), np.zeros((2, m, side))
    T[0, :p, :p] = _basis(patch_transform, p)
    T[1, :p, :p] = np.linalg.inv(T[0, :p, :p])
    Q[1, :, :m] = _orthonormal(group_transform, m)
    Q[0, :, :m] = Q[1, :, :m].T
    matrices = np.concatenate([T.ravel(), Q.ravel()])
    return np.concatenate([[threshold], matrices, matrices**2])


@part
def _forward(coefficients, work, Y, p, m, matrices):
    """coefficients (n x side, one patch per column) = PYQ."""
    n, side, rows = p * p, padded(m), panels(p)
    T, Q = matrices, matrices[2 * rows * rows :]
    row = p * side
    transposed(work, Y, side, padded(n))
    for x in range(p):
        o = x * side
        product(coefficients, o, row, T, ZERO, rows, ONE, work, o, row, rows, side, p)
    for y in range(p):  # excess rows of a panel are overwritten by the next
        o = y * row
        product(work, o, side, T, ZERO, rows, ONE, coefficients, o, side, rows, side, p)
    product(coefficients, ZERO, side, work, ZERO, side, ONE, Q, ZERO, side, panels(n), side, m)


@part
def _backward(denoised, work, coefficients, p, m, matrices):
    """denoised (one patch per row) = P⁻¹ coefficients Q⁻¹; overwrites the coefficients."""
    n, side, rows = p * p, padded(m), panels(p)
    T, Q = matrices[rows * rows :], matrices[2 * rows * rows + m * side :]
    row = p * side
    product(work, ZERO, side, coefficients, ZERO, side, ONE, Q, ZERO, side, panels(n), side, m)
    for x in range(p):
        o = x * side
        product(coefficients, o, row, T, ZERO, rows, ONE, work, o, row, rows, side, p)
    for y in range(p):
        o = y * row
        product(work, o, side, T, ZERO, rows, ONE, coefficients, o, side, rows, side, p)
    transposed(denoised, work, padded(n), side)


@part
def _noise(S, work, variance, p, m, matrices):
    """Write the variance of each coefficient to S, padded with ones, and return their mean."""
    n, side, rows = p * p, padded(m), panels(p)
    if len(variance) == 1:
        for o in range(0, n * side, LANES):
            store(S, o, splat(variance[0]))
        return variance[0]
    squares = matrices[2 * (rows * rows + m * side) :]
    _forward(S, work, variance, p, m, squares)
    total = np.float32(0)
    for i in range(n):
        for o in range(i * side, i * side + m):
            total += S[o]
        for o in range(i * side + m, (i + 1) * side):
            S[o] = 1
    return total / np.float32(n * m)


@part
def _width(n):
    return int(np.sqrt(np.float32(n)) + np.float32(0.5))


@part
def _buffer(p, m):
    """A buffer for the coefficients of a group, with space for what `product` and `transposed` write beyond them."""
    return np.zeros(max(panels(p) * p, padded(p * p)) * padded(m), np.float32)


@part
def _weigh(weights, n, m, left, mean):
    for j in range(m):
        weights[j] = np.float32(n * m) / max(left, mean)


@kernel
def pilot_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """`pilot`; a threshold of -1 stands for None."""
    p, side = _width(n), padded(m)
    matrices = parameters[1:]
    coefficients, work, S = _buffer(p, m), _buffer(p, m), _buffer(p, m)
    mean = _noise(S, work, variance, p, m, matrices)
    _forward(coefficients, work, Y, p, m, matrices)
    left = np.float32(0)
    if parameters[0] < 0:
        for i in range(n):
            for o in range(i * side, i * side + m):
                power = max(coefficients[o] * coefficients[o], np.float32(1e-8) * S[o])
                theta = 1 - S[o] / power
                coefficients[o] *= theta
                left += theta * theta * S[o]
    else:
        squared = parameters[0] * parameters[0]
        for i in range(n):
            for o in range(i * side, i * side + m):
                theta = np.float32(coefficients[o] * coefficients[o] >= squared * S[o])
                coefficients[o] *= theta
                left += theta * S[o]
    _weigh(weights, n, m, left, mean)
    _backward(denoised, work, coefficients, p, m, matrices)


@kernel
def refine_kernel(Y, X, denoised, weights, n, m, variance, parameters):
    """`refine`."""
    p, side = _width(n), padded(m)
    matrices = parameters[1:]
    coefficients, work, guide, S = _buffer(p, m), _buffer(p, m), _buffer(p, m), _buffer(p, m)
    mean = _noise(S, work, variance, p, m, matrices)
    _forward(guide, work, X, p, m, matrices)
    _forward(coefficients, work, Y, p, m, matrices)
    left = np.float32(0)
    for o in range(n * side):
        power = guide[o] * guide[o]
        theta = power / (S[o] + power)
        coefficients[o] *= theta
        left += theta * theta * S[o]
    _weigh(weights, n, m, left, mean)
    _backward(denoised, work, coefficients, p, m, matrices)
