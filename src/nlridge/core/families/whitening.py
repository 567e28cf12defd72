"""Correlated noise: make the noise of a group white, so that every family can denoise it as it is.

The noise is stationary, with the autocovariance r(d) in units of its variance. The covariance of the noise of a group is
close to a Kronecker product C ⊗ T. C_ii' = r(q_i - q_i') is the covariance of the pixels of a patch, and T_jk =
t(p_j - p_k) that of the patches of a group, with

    t(d) = tr(W R(d) W') / n,  W = C^(-1/2),  R(d)_ii' = r(d + q_i - q_i').

With T = BB', the noise of W Y B'⁻¹ is white. There are many factors B; this one maps constant vectors to constant
vectors, so that the mean of the whitened patches is the best mean of the patches. After the family has denoised the
whitened group, the whitening is inverted.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...types import Array
from ..arrays import as_array_like, broadcast_like, identity, lower_factor, to_device_of
from ..kernels.compile import part
from ..kernels.linalg import ONE, ZERO, inverse_factor, padded, panels, product
from ..kernels.simd import LANES, fma, load, splat, store
from .family import Estimate, GroupNoise, evaluate

# Eigenvalues of C below this share of their mean are raised to it: estimated correlations are no more precise.
_EIGENVALUE_FLOOR = 0.02
# Added to the diagonal of T: the Kronecker product is an approximation, and similar patches may overlap.
_INDEPENDENT_SHARE = 0.05
# A unit vector closer than this to that of the ones, in squared distance, counts as parallel to it.
_PARALLEL = 1e-9

_BLOCK = np.intp(LANES)


class Whitening(NamedTuple):
    """How the groups of one plane, or of several stacked planes, are whitened."""

    whiten: Array
    """W, n x n."""
    color: Array
    """The inverse of W, which gives white noise the correlation of the pixels of a patch."""
    between: Array
    """t(dy, dx) at [dy + reach, dx + reach], for all distances of two patches in a window."""
    power: float
    """The mean variance of a pixel, in units of the variance of the noise."""


def whitening_of(correlation: Array, patch: int, window: int) -> Whitening:
    """The whitening of groups of patches that lie in a window, from the autocovariance of each plane.

    `correlation` has the shape (planes, 2 a + 1, 2 b + 1), in units of the variance of the noise, and r(0) in the
    middle. It is 0 beyond. The noise of different planes is independent.
    """
    return _whitening_of(correlation.tobytes(), correlation.shape, patch, window)


@lru_cache(maxsize=16)
def _whitening_of(
    correlation_bytes: bytes, shape: tuple[int, ...], patch: int, window: int
) -> Whitening:
    """`whitening_of`, cached: rounds and parts of an image share their whitening."""
    correlation = np.frombuffer(correlation_bytes).reshape(shape)
    planes = [_plane_whitening(plane, patch, window) for plane in correlation]
    whiten, color = (_block_diagonal([plane[k] for plane in planes]) for k in (0, 1))
    between = _positive_definite(np.mean([plane[2] for plane in planes], axis=0))
    centre = tuple(length // 2 for length in correlation.shape[1:])
    power = float(np.mean([plane[centre] for plane in correlation]))
    return Whitening(whiten, color, between / between.max(), power)


# The formulas.


def pixel_covariance(correlation: Array, patch: int) -> Array:
    """C of a patch of one plane."""
    y, x = (axis.ravel() for axis in np.mgrid[:patch, :patch])
    return _at(correlation, y[:, None] - y, x[:, None] - x)


def _plane_whitening(correlation: Array, patch: int, window: int) -> tuple[Array, Array, Array]:
    """C^(-1/2) and C^(1/2) of a plane, symmetric, and t(d) = Σ (W'W)_ii' r(d + q_i' - q_i) / n."""
    values, vectors = np.linalg.eigh(pixel_covariance(correlation, patch))
    values = np.sqrt(np.maximum(values, _EIGENVALUE_FLOOR * values.mean()))
    whiten, color = (vectors / values) @ vectors.T, (vectors * values) @ vectors.T
    y, x = (axis.ravel() for axis in np.mgrid[:patch, :patch])
    shares = np.zeros((2 * patch - 1, 2 * patch - 1))  # of W'W / n, by the distance of the pixels
    distances = y[:, None] - y + patch - 1, x[:, None] - x + patch - 1
    np.add.at(shares, distances, whiten.T @ whiten / patch**2)
    steps = np.arange(-(window + patch - 2), window + patch - 1)
    wide = _at(correlation, steps[:, None], steps)
    side = 2 * window - 1
    between = np.zeros((side, side))
    for (dy, dx), share in np.ndenumerate(shares):
        between += share * wide[dy : dy + side, dx : dx + side]
    return whiten, color, between


def _at(correlation: Array, dy: Any, dx: Any) -> Array:
    """r(dy, dx), which is 0 beyond the ends of the array."""
    middle_y, middle_x = (length // 2 for length in correlation.shape)
    inside = (np.abs(dy) <= middle_y) & (np.abs(dx) <= middle_x)
    y, x = (np.clip(d, -m, m) + m for d, m in ((dy, middle_y), (dx, middle_x)))
    return np.where(inside, correlation[y, x], 0.0)


def _positive_definite(correlation: Array) -> Array:
    """The nearest autocorrelation: once its spectrum has no negative part, any T made from it has a factor."""
    spectrum = np.fft.fft2(np.fft.ifftshift(correlation)).real
    return np.fft.fftshift(np.fft.ifft2(np.maximum(spectrum, 0)).real)


def _block_diagonal(blocks: list[Array]) -> Array:
    n = len(blocks[0])
    matrix = np.zeros((n * len(blocks), n * len(blocks)))
    for k, block in enumerate(blocks):
        matrix[k * n : (k + 1) * n, k * n : (k + 1) * n] = block
    return matrix


def evaluate_whitened(
    formula: Callable[..., Estimate],
    Y: Array,
    X: Array,
    noise: GroupNoise,
    whitening: Whitening,
    rows: Array,
    columns: Array,
) -> Estimate:
    """Whiten groups, call a formula, and invert the whitening.

    `rows` and `columns`, of shape (..., m), are the positions of the patches. The formula may mix all patches of a
    whitened group, so all patches of a group get the same weight, apart from differences in their own noise.
    """
    patch_noise = noise.in_patches(Y)[..., None, :] / Y.shape[-2]
    typical = patch_noise.mean(axis=-1)[..., None]
    scales = (typical / patch_noise) ** 0.5  # give all patches the same noise
    T = _patch_covariance(whitening, rows, columns, Y)
    B, inverted = lower_factor(T)
    R = _reflection(inverted @ scales.mT)
    to_white, to_color = (inverted.mT @ R) * scales.mT, (R @ B.mT) / scales
    W, inverse_W = (as_array_like(matrix, Y) for matrix in (whitening.whiten, whitening.color))
    brightness = Y[..., :1].mean(axis=-2)[..., None, :]  # without it, float32 keeps all digits
    white_Y = W @ (Y - brightness) @ to_white
    white_X = white_Y if X is Y else W @ (X - brightness) @ to_white
    white = GroupNoise(broadcast_like(typical, Y), is_whitened=True)
    estimate, weights = evaluate(formula, white_Y, white_X, white)
    with np.errstate(all="ignore"):  # a formula may return numbers that are not finite
        weight = 1 / (1 / weights).mean(axis=-1)[..., None]
        return brightness + inverse_W @ estimate @ to_color, weight * scales[..., 0, :] ** 2


def _patch_covariance(whitening: Whitening, rows: Array, columns: Array, Y: Array) -> Array:
    """T, with part of the noise of each patch assumed to be independent of the others."""
    reach = len(whitening.between) // 2
    table = as_array_like(whitening.between.reshape(-1), Y)
    dy, dx = (positions[..., :, None] - positions[..., None, :] for positions in (rows, columns))
    inside = (abs(dy) <= reach) & (abs(dx) <= reach)  # the noise of different frames is independent
    T = table[to_device_of(Y, inside * ((dy + reach) * (2 * reach + 1) + dx + reach))]
    return T * to_device_of(Y, inside) + _INDEPENDENT_SHARE * identity(Y.shape[-1], Y)


def _reflection(u: Array) -> Array:
    """The symmetric orthogonal matrix that maps u to a multiple of the vector of ones."""
    m = u.shape[-2]
    v = u / (u.mT @ u) ** 0.5 - m**-0.5
    squared = v.mT @ v
    return identity(m, u) - (squared > _PARALLEL) * 2 / squared.clip(min=_PARALLEL) * (v @ v.mT)


# The kernel.


class WhiteningTables(NamedTuple):
    """A `Whitening` as kernels take it: flat float32 arrays, with rows padded to whole vectors."""

    whiten: Any
    color: Any
    between: Any
    side: int
    """The number of rows and columns of `between`."""
    power: np.float32


def tables_of(whitening: Whitening) -> WhiteningTables:
    """The arrays that kernels take."""
    n = len(whitening.whiten)
    rows = np.zeros((2, n, -(-n // LANES) * LANES), np.float32)
    rows[:, :, :n] = whitening.whiten, whitening.color
    between = whitening.between.astype(np.float32).reshape(-1)
    side = len(whitening.between)
    return WhiteningTables(
        rows[0].reshape(-1), rows[1].reshape(-1), between, side, np.float32(whitening.power)
    )


@part
def patch_covariance(tables, places, row_length, m, T):
    """Write T to a side x side matrix, its upper triangle in whole blocks; beyond m, it is the identity."""
    side = padded(m)
    rows, columns = np.empty(m, np.intp), np.empty(m, np.intp)
    for j in range(m):
        rows[j] = places[j] // row_length
        columns[j] = places[j] - rows[j] * row_length
    reach = tables.side // 2
    middle = reach * (tables.side + 1)
    for i in range(side):
        for o in range(i * side, (i + 1) * side, LANES):
            store(T, o, splat(np.float32(0)))
        if i < m:
            for j in range(i, m):
                dy, dx = rows[j] - rows[i], columns[j] - columns[i]
                if abs(dy) <= reach and abs(dx) <= reach:  # otherwise, their frames are different
                    T[i * side + j] = tables.between[middle + dy * tables.side + dx]
            T[i * side + i] += np.float32(_INDEPENDENT_SHARE)
        else:
            T[i * side + i] = 1
    for p in range(0, side, LANES):  # the blocks on the diagonal are read as a whole
        for i in range(p, p + LANES):
            for j in range(p, i):
                T[i * side + j] = T[j * side + i]


@part
def factorise(tables, places, row_length, scales, m, U, K, v):
    """U'U = T, K = inverse of U', and the vector v of the reflection I - vv'; see `evaluate_whitened`.

    U and K are side x side; `scales` and v have padded(m) elements, those beyond m 0.
    """
    side = padded(m)
    patch_covariance(tables, places, row_length, m, U)
    inverse_factor(U, K, side)
    for p in range(0, side, LANES):
        _invert_block(U, K, p, side)
    squared = np.float32(0)
    for i in range(m):
        total = np.float32(0)
        for j in range(i + 1):
            total += K[i * side + j] * scales[j]
        v[i] = total
        squared += total * total
    unit, constant = 1 / np.sqrt(squared), 1 / np.sqrt(np.float32(m))
    squared = np.float32(0)
    for i in range(m):
        v[i] = v[i] * unit - constant
        squared += v[i] * v[i]
    scale = np.sqrt(2 / squared) if squared > np.float32(_PARALLEL) else np.float32(0)
    for i in range(side):
        v[i] = v[i] * scale if i < m else np.float32(0)


@part
def _invert_block(U, K, p, side):
    """Write the block of U at row p on the diagonal, which is the inverse of the transposed block of K."""
    first = p * side + p
    for i in range(LANES - 1, -1, -1):
        row = first + i * side
        store(U, row, splat(np.float32(0)))
        U[row + i] = 1
        s = load(U, row)
        for k in range(i + 1, LANES):
            s = fma(splat(-K[first + k * side + i]), load(U, first + k * side), s)
        store(U, row, s * splat(1 / K[row + i]))


@part
def whiten_group(tables, group, brightness, scales, K, v, n, m, inside, work, white):
    """white = the whitened group, padded with zeros; `work` has as many elements."""
    side, size = padded(m), padded(n)
    for j in range(m):
        for k in range(0, size, LANES):
            o = j * size + k
            centred = (load(group, o) - splat(brightness)) * load(inside, k)
            store(work, o, centred * splat(scales[j]))
    for o in range(m * size, side * size, LANES):
        store(work, o, splat(np.float32(0)))
    product(white, ZERO, size, work, ZERO, size, ONE, tables.whiten, ZERO, size, panels(m), size, n)
    for o in range(panels(m) * size, side * size, LANES):
        store(white, o, splat(np.float32(0)))
    for p in range(side - LANES, -1, -LANES):
        product(
            white, p * size, size, K, p * side, side, ONE, white, ZERO, size, _BLOCK, size, p + LANES
        )  # fmt: skip
    _reflect(white, v, size, m)


@part
def color_group(tables, denoised, brightness, scales, U, v, n, m, work):
    """Invert the whitening of a denoised group, in place; `work` has as many elements."""
    side, size = padded(m), padded(n)
    _reflect(denoised, v, size, m)
    for p in range(side - LANES, -1, -LANES):
        product(
            denoised, p * size, size, U, p, ONE, side, denoised, ZERO, size, _BLOCK, size, p + LANES
        )  # fmt: skip
    for o in range(0, side * size, LANES):
        store(work, o, load(denoised, o))
    product(
        denoised, ZERO, size, work, ZERO, size, ONE, tables.color, ZERO, size, panels(m), size, n
    )
    for j in range(m):
        unit = splat(1 / scales[j])
        for o in range(j * size, (j + 1) * size, LANES):
            store(denoised, o, fma(load(denoised, o), unit, splat(brightness)))


@part
def _reflect(group, v, size, m):
    """Multiply the rows of a group by I - vv'."""
    for k in range(0, size, LANES):
        s = splat(np.float32(0))
        for j in range(m):
            s = fma(splat(v[j]), load(group, j * size + k), s)
        for j in range(m):
            o = j * size + k
            store(group, o, fma(splat(-v[j]), s, load(group, o)))
