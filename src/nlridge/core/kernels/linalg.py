"""Small dense float32 matrices, stored row by row in flat buffers.

Rows are padded with zeros to whole vectors (see `padded`). Products are computed in tiles of at least 4 rows, so the
number of rows is a multiple of 4 (see `panels`), or 1.
"""

import numpy as np

from .compile import part
from .simd import (
    LANES,
    NARROW,
    TALL,
    WIDE,
    at_most_bits,
    fma,
    inverse_factor_tile,
    larger,
    largest,
    load,
    lowest_bit,
    product_tile,
    splat,
    store,
    total,
    transpose,
)

# Pass these constants to `product`: Numba would compile it again for each Python number.
ZERO, ONE = np.intp(0), np.intp(1)
_SIDE = np.intp(LANES)

_BLOCKS = WIDE * NARROW  # columns of the widest tile
_EVEN = 4 if LANES == 16 else 2  # where WIDE would leave a narrow rest: whole vectors
_factor_block = inverse_factor_tile(LANES)
_factor_half = inverse_factor_tile(NARROW)


@part
def padded(size):
    """`size`, rounded up to a multiple of the number of floats in a SIMD vector."""
    return (size + LANES - 1) // LANES * LANES


@part
def narrow(size):
    """`size`, rounded up to a multiple of 8."""
    return (size + NARROW - 1) // NARROW * NARROW


@part
def panels(size):
    """`size`, rounded up to whole panels of 4 rows."""
    return (size + 3) // 4 * 4


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
    first, scale = load(X, k), splat(1 / U)
    s = t = v = w = splat(np.float32(0))
    whole = rows // 4 * 4
    if np.float32(rows) == U:  # all weights are one
        for o in range(k, whole * row + k, 4 * row):
            s, t = s + (load(X, o) - first), t + (load(X, o + row) - first)
            v, w = v + (load(X, o + 2 * row) - first), w + (load(X, o + 3 * row) - first)
        for o in range(whole * row + k, rows * row + k, row):
            s = s + (load(X, o) - first)
    else:
        for j in range(0, whole, 4):
            o = j * row + k
            s = fma(splat(u[j] * u[j]), load(X, o) - first, s)
            t = fma(splat(u[j + 1] * u[j + 1]), load(X, o + row) - first, t)
            v = fma(splat(u[j + 2] * u[j + 2]), load(X, o + 2 * row) - first, v)
            w = fma(splat(u[j + 3] * u[j + 3]), load(X, o + 3 * row) - first, w)
        for j in range(whole, rows):
            s = fma(splat(u[j] * u[j]), load(X, j * row + k) - first, s)
    return ((s + t) + (v + w)) * scale


@part
def sum_and_largest(values, size):
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
def product(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length):
    """C = A B, where A is rows x length with element (i, k) at a + i a_row + k a_column.

    The last vector of a row takes half the time if half of it is padding. Columns of C are computed in groups, one after
    the other, and rows from the last to the first: C may be B itself if A is lower triangular.
    """
    _multiply(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length, ZERO)


@part
def subtract_product(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length):
    """C -= A B, computed as in `product`."""
    _multiply(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length, ONE)


@part
def _multiply(C, c, c_row, A, a, a_row, a_column, B, b, b_row, rows, columns, length, subtract):
    j, left = 0, (columns + NARROW - 1) // NARROW
    while left > 0:
        width = _long_width(left) if rows == 1 else _width(left)
        i = rows
        while i > 0:
            height = min(i & -i, TALL)  # for 36 rows: first the last 4, then 8 at a time
            i -= height
            product_tile(
                height, width,
                C, c + i * c_row + j, c_row,
                A, a + i * a_row, a_row, a_column,
                B, b + j, b_row,
                length, subtract,
            )  # fmt: skip
        left -= width
        j += width * NARROW


@part
def _width(left):
    """The width of the next tile; all but the last consist of whole vectors."""
    if left == WIDE + 1:
        return _EVEN
    return min(left, WIDE)


@part
def _long_width(left):
    """The width of the next tile of a single row."""
    for vectors in (6, 4, 2):
        if left >= vectors * LANES // NARROW:
            return vectors * LANES // NARROW
    return LANES // NARROW


@part
def transposed(target, source, rows, columns):
    """target (columns x rows) = source' (rows x columns)."""
    for i in range(0, rows, LANES):
        for j in range(0, columns, LANES):
            transpose(target, j * rows + i, rows, source, i * columns + j, columns)


@part
def gram(Q, X, side, n, length):
    """The upper triangle, in whole blocks, of Q = X'X, where X is length x n and its rows are `side` apart."""
    for i in range(0, n, LANES):
        rows = min(LANES, panels(n - i))
        product(Q, i * side + i, side, X, i, ONE, side, X, i, side, rows, n - i, length)


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
        _factor_block(S, ZERO, _SIDE)
        for i in range(LANES):
            store(K, top + i * side + p, load(S, i * LANES))
        # U[p, p+1:] = S Q[p, p+1:]
        after = top + p + LANES
        product(Q, after, side, S, ZERO, _SIDE, ONE, Q, after, side, _SIDE, side - p - LANES, _SIDE)
        # K[p, :p] = -S U[:p, p]' K[:p, :p]
        for j in range(0, p, _BLOCKS):
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
                min(_BLOCKS, p - j),
                p - j,
            )
        for i in range(LANES):
            store(S, i * LANES, splat(np.float32(0)) - load(S, i * LANES))
        product(K, top, side, S, ZERO, _SIDE, ONE, T, ZERO, side, _SIDE, p, _SIDE)


@part
def invert(Q, side, n):
    """Replace the upper triangle of a symmetric positive definite Q of n rows by inv(Q), both triangles of it.

    Rows are `side` apart and padded with zeros to whole vectors, and there is space for whole blocks of them.

    Q is swept, block after block of LANES rows: with the rows V of a block, -I in place of the block itself, and
    the inverse S of the block's Cholesky factor, Q -= V'S'SV, where the rows and columns of the block count as 0. In the
    end, Q is the negative inverse.
    """
    zero = splat(np.float32(0))
    S, V = np.empty(LANES * LANES, np.float32), np.empty(LANES * side, np.float32)
    for i in range(n, narrow(n)):
        for j in range(0, side, LANES):
            store(Q, i * side + j, zero)
        Q[i * side + i] = 1
    for p in range(0, n, LANES):
        block = min(LANES, narrow(n) - p)
        for i in range(block):
            store(S, i * LANES, load(Q, (p + i) * side + p))
        if block == LANES:
            _factor_block(S, ZERO, _SIDE)
        else:
            _factor_half(S, ZERO, _SIDE)
        for j in range(0, p, LANES):
            transpose(V, j, side, Q, j * side + p, side)
            for i in range(j, j + LANES):
                store(Q, i * side + p, zero)
        product(V, ZERO, side, S, ZERO, _SIDE, ONE, V, ZERO, side, block, p, block)
        for i in range(block):
            store(V, i * side + p, zero - load(S, i * LANES))
        after = p + LANES
        product(
            V, after, side, S, ZERO, _SIDE, ONE, Q, p * side + after, side, block, n - after, block
        )
        for i in range(0, n, LANES):
            rows = min(LANES, narrow(n) - i)
            if i == p:
                product(Q, p * side + p, side, S, ZERO, ONE, _SIDE, V, p, side, rows, n - p, block)
            else:
                subtract_product(
                    Q, i * side + i, side, V, i, ONE, side, V, i, side, rows, n - i, block
                )
    for i in range(n):
        for o in range(i * side + i // LANES * LANES, (i + 1) * side, LANES):
            store(Q, o, zero - load(Q, o))
    for i in range(0, n, LANES):
        for j in range(i + LANES, n, LANES):
            transpose(Q, j * side + i, side, Q, i * side + j, side)
