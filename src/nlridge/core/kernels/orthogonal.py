"""(X'X + a I)⁻¹ where the contrast of X is too high for float32.

The condition of a Gram matrix is the square of that of X. Where X is some hundred times as large as the noise, float32
does not have enough digits for it, and the inverse is wrong by any amount. The orthonormal columns of

    [  X   ]   [ Q₁ ]
    [ √a I ] = [ Q₂ ] R,   R'R = X'X + a I

avoid the square: a (X'X + a I)⁻¹ = Q₂Q₂', and X (X'X + a I)⁻¹X' = Q₁Q₁'. Once these are known, products with them are as
precise as the pixels.
"""

import numpy as np

from ...types import Array
from ..arrays import as_array_like, identity, library, orthonormal_columns
from .compile import part
from .linalg import ONE, ZERO, panels, product, transposed

# The formula.


def orthonormal_factors(X: Array, a: float) -> tuple[Array, Array]:
    """Q₁ and Q₂ of matrices X of shape (..., length, n)."""
    n = X.shape[-1]
    root = library(X).broadcast_to(as_array_like(a**0.5 * identity(n, X), X), (*X.shape[:-2], n, n))
    Q = orthonormal_columns(library(X).concatenate([X, root], axis=-2))
    return Q[..., :-n, :], Q[..., -n:, :]


# The kernel.

# The ratio |X|² / a above which float32 is not enough. Below it, errors are at most a tenth of the noise; photographs
# rarely have groups above it.
HIGH_CONTRAST = 3e4


@part
def is_too_high(Q, a, side, n):
    """Whether float32 is not enough for (Q + a I)⁻¹, where Q = X'X is a Gram matrix of n rows, `side` apart."""
    energy = np.float32(0)
    for i in range(n):
        energy += Q[i * side + i]
    return energy > np.float32(HIGH_CONTRAST) * a


@part
def orthonormal(Q, X, a, side, n, length):
    """Q = [Q₁; Q₂], where X is length x n. Rows are `side` = padded(n) apart; Q has length + side of them.

    This is the modified Gram-Schmidt process, in double precision. Q₂ is upper triangular.
    """
    B = np.zeros((length + side, side), np.float64)
    for k in range(length):
        row, source = B[k], X[k * side : k * side + n]
        for j in range(n):
            row[j] = source[j]
    for j in range(n):
        B[length + j, j] = np.sqrt(np.float64(a))
    for i in range(n):
        filled = length + i + 1
        squares = 0.0
        for k in range(filled):
            squares += B[k, i] * B[k, i]
        scale = 1 / np.sqrt(squares)
        first = (i + 1) // 4 * 4  # whole vectors
        products = np.zeros(side - first, np.float64)
        for k in range(filled):
            B[k, i] *= scale
            q, row = B[k, i], B[k, first:]
            for j in range(len(products)):
                products[j] += q * row[j]
        for j in range(i + 1 - first):
            products[j] = 0
        for k in range(filled):
            q, row = B[k, i], B[k, first:]
            for j in range(len(products)):
                row[j] -= q * products[j]
    for k in range(length + side):
        row, target = B[k], Q[k * side : (k + 1) * side]
        for j in range(side):
            target[j] = np.float32(row[j])


@part
def unexplained(E, X, a, side, n, length):
    """E = a (X'X + a I)⁻¹, where X is length x n. Returns Q₁ and Q₂, one after the other, and Q₂'."""
    Q, lower = np.empty((length + side) * side, np.float32), np.empty(side * side, np.float32)
    orthonormal(Q, X, a, side, n, length)
    transposed(lower, Q[length * side :], side, side)
    product(E, ZERO, side, Q, length * side, side, ONE, lower, ZERO, side, panels(n), n, n)
    return Q, lower
