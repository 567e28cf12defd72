"""Small dense float32 matrices, stored row by row in flat buffers.

Sides are multiples of LANES (see `padded`). Rows are computed in panels of 8, so their number is a multiple of 8 (see
`panels`).
"""

import numpy as np

from .compile import part
from .simd import LANES, fma, inverse_factor_tile, load, product_tile, splat, store, transpose

WIDE = 3 * LANES  # columns of the widest tile

# Pass these constants to `product`: Numba would compile it again for each Python number.
ZERO, ONE = np.intp(0), np.intp(1)
_SIDE = np.intp(LANES)

# Tiles of a product, as large as the registers allow: AVX-512 has twice as many.
_TALL = 8 if LANES == 16 else 4
_tile_3 = product_tile(_TALL, 3)
_tile_2 = product_tile(_TALL, 2)
_tile_1 = product_tile(8, 1)
_row_6 = product_tile(1, 6)
_row_4 = product_tile(1, 4)
_row_2 = product_tile(1, 2)
_row_1 = product_tile(1, 1)


@part
def padded(size):
    """`size`, rounded up to a multiple of the number of floats in a SIMD vector."""
    return (size + LANES - 1) // LANES * LANES


@part
def panels(size):
    """`size`, rounded up to whole panels of 8 rows."""
    return (size + 7) // 8 * 8


@part
def ones(count):
    """`count` ones, padded with zeros to whole vectors."""
    values = np.zeros(padded(count), np.float32)
    for k in range(count):
        values[k] = 1
    return values


@part
def mean_shift(X, k, row, rows, u, U):
    """The mean of the rows of X with weights u² / U, minus the first row, for the vector of columns at k.

    The first row is subtracted before the mean is taken, so that bright pixels lose no digits.
    """
    first = load(X, k)
    s = t = splat(np.float32(0))
    if np.float32(rows) == U:  # all weights are one
        for j in range(0, rows - 1, 2):
            s = s + (load(X, j * row + k) - first)
            t = t + (load(X, (j + 1) * row + k) - first)
        if rows % 2 == 1:
            s = s + (load(X, (rows - 1) * row + k) - first)
        return (s + t) * splat(1 / U)
    for j in range(0, rows - 1, 2):
        s = fma(splat(u[j] * u[j]), load(X, j * row + k) - first, s)
        t = fma(splat(u[j + 1] * u[j + 1]), load(X, (j + 1) * row + k) - first, t)
    if rows % 2 == 1:
        s = fma(splat(u[rows - 1] * u[rows - 1]), load(X, (rows - 1) * row + k) - first, s)
    return (s + t) * splat(1 / U)


@part
def product(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length):
    """C = A B, where A is rows x length with element (i, k) at a + i a_row + k a_column.

    Columns of C are computed in groups, one after the other, and rows from the last to the first: C may be B
    itself if A is lower triangular.
    """
    _multiply(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length, ZERO)


@part
def subtract_product(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length):
    """C -= A B, computed as in `product`."""
    _multiply(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length, ONE)


@part
def _multiply(C, c, c_row, A, a, a_row, a_col, B, b, b_row, rows, columns, length, subtract):
    j = 0
    while j < columns:
        left = columns - j
        step = _TALL if left >= 2 * LANES else 8
        for i in range(rows - step, -1, -step):
            ci, ai, bj = c + i * c_row + j, a + i * a_row, b + j
            if left >= WIDE:
                _tile_3(C, ci, c_row, A, ai, a_row, a_col, B, bj, b_row, length, subtract)
            elif left >= 2 * LANES:
                _tile_2(C, ci, c_row, A, ai, a_row, a_col, B, bj, b_row, length, subtract)
            else:
                _tile_1(C, ci, c_row, A, ai, a_row, a_col, B, bj, b_row, length, subtract)
        j += min(left, WIDE)


@part
def row_product(C, c, A, a, a_column, B, b, b_row, columns, length):
    """C = A B for a single row."""
    _multiply_row(C, c, A, a, a_column, B, b, b_row, columns, length, ZERO)


@part
def subtract_row_product(C, c, A, a, a_column, B, b, b_row, columns, length):
    """C -= A B for a single row."""
    _multiply_row(C, c, A, a, a_column, B, b, b_row, columns, length, ONE)


@part
def _multiply_row(C, c, A, a, a_column, B, b, b_row, columns, length, subtract):
    j = 0
    while j < columns:
        left = columns - j
        if left >= 6 * LANES:
            _row_6(C, c + j, 0, A, a, 0, a_column, B, b + j, b_row, length, subtract)
            j += 6 * LANES
        elif left >= 4 * LANES:
            _row_4(C, c + j, 0, A, a, 0, a_column, B, b + j, b_row, length, subtract)
            j += 4 * LANES
        elif left >= 2 * LANES:
            _row_2(C, c + j, 0, A, a, 0, a_column, B, b + j, b_row, length, subtract)
            j += 2 * LANES
        else:
            _row_1(C, c + j, 0, A, a, 0, a_column, B, b + j, b_row, length, subtract)
            j += LANES


@part
def transposed(target, source, rows, columns):
    """target (columns x rows) = source' (rows x columns)."""
    for i in range(0, rows, LANES):
        for j in range(0, columns, LANES):
            transpose(target, j * rows + i, rows, source, i * columns + j, columns)


@part
def gram(Q, X, side, length):
    """The upper triangle, in whole blocks, of Q = X'X, where X is length x side."""
    for i in range(0, side, LANES):
        product(Q, i * side + i, side, X, i, ONE, side, X, i, side, _SIDE, side - i, length)


@part
def inverse_factor(Q, K, side):
    """K = inv(U'), lower triangular, where Q = U'U.

    Reads the upper triangle of Q and overwrites Q. Works in blocks of LANES.
    """
    T = np.empty(LANES * (side + LANES), np.float32)
    S = T[LANES * side :]
    for p in range(0, side, LANES):
        top = p * side
        for i in range(LANES):
            for j in range(p + LANES, side, LANES):
                store(K, top + i * side + j, splat(np.float32(0)))
        if p > 0:  # Q[p, p:] -= U[:p, p]' U[:p, p:]
            subtract_product(Q, top + p, side, Q, p, ONE, side, Q, p, side, _SIDE, side - p, p)
        for i in range(LANES):
            store(S, i * LANES, load(Q, top + i * side + p))
        inverse_factor_tile(S, 0, LANES)
        for i in range(LANES):
            store(K, top + i * side + p, load(S, i * LANES))
        # U[p, p+1:] = S Q[p, p+1:]
        after = top + p + LANES
        product(Q, after, side, S, ZERO, _SIDE, ONE, Q, after, side, _SIDE, side - p - LANES, _SIDE)
        # K[p, :p] = -S U[:p, p]' K[:p, :p]
        for j in range(0, p, WIDE):
            product(
                T,
                j,
                side,
                Q,
                j * side + p,
                ONE,
                side,
                K,
                j * side + j,
                side,
                _SIDE,
                min(WIDE, p - j),
                p - j,
            )
        for i in range(LANES):
            store(S, i * LANES, splat(np.float32(0)) - load(S, i * LANES))
        product(K, top, side, S, ZERO, _SIDE, ONE, T, ZERO, side, _SIDE, p, _SIDE)


@part
def invert(Q, side):
    """Replace the upper triangle of a symmetric positive definite Q by inv(Q), both triangles of it."""
    K = np.empty(side * side, np.float32)
    inverse_factor(Q, K, side)
    for i in range(0, side, LANES):
        for j in range(i, side, WIDE):  # Q[i, j] = K[j:, i]' K[j:, j]
            columns = min(WIDE, side - j)
            product(
                Q,
                i * side + j,
                side,
                K,
                j * side + i,
                ONE,
                side,
                K,
                j * side + j,
                side,
                _SIDE,
                columns,
                side - j,
            )
        for j in range(i + LANES, side, LANES):
            transpose(Q, j * side + i, side, Q, i * side + j, side)
