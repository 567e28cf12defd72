"""The groups of a block: gather their patches, denoise them, and add them up.

Groups are denoised by the family's kernel, or by its formula if there is no kernel.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import types

from ...types import Array, Floats, Image
from ..algorithm.passes import Pass, PlaneSet
from ..families import Estimate, GroupNoise
from ..families.family import evaluate
from ..families.guard import discard_strays, without_strays
from ..families.whitening import (
    Whitening,
    WhiteningTables,
    color_group,
    evaluate_whitened,
    factorise,
    patch_covariance,
    tables_of,
    whiten_group,
    whitening_of,
)
from ..kernels.compile import compiled, kernel, part
from ..kernels.linalg import ones, padded
from ..kernels.simd import LANES, NARROW, fma, load, load_narrow, splat, splat_narrow, store
from ..kernels.simd import total as add_up
from ..kernels.variances import patch_scales, patch_variance
from ..patches.groups import (
    aggregate,
    aggregate_all,
    aggregate_weights,
    gather,
    gather_all,
    normalise,
)
from ..patches.matching import BRIGHT


class GroupImages(NamedTuple):
    """The images that groups are gathered from: planes of a window, one after the other."""

    noisy: Any
    guide: Any
    guide_is_noisy: bool
    variance: Any
    """One number, or one plane for all planes, or one plane for each."""
    variance_plane: int
    """The distance between two planes of the variance; 0 if there is one for all."""
    variance_factor: np.float32
    """A factor on the variance."""
    original: Any
    """The planes with all of their noise; empty if `noisy` still has all of it."""
    keep: np.float32
    """The share of the noise to leave in `GroupSums.rest`."""


class GroupSums(NamedTuple):
    """The weighted sums that denoised groups are added to: planes of the same window."""

    total: Any
    rest: Any
    """The same sums with some of the noise left in them; empty if they are not needed."""
    weight: Any
    """The weights of the patches, at their corners."""


class GroupPlaces(NamedTuple):
    """The positions of the patches of each group; those of group k are the first sizes[k] from index k row on."""

    offsets: Any
    """Positions in the images."""
    targets: Any
    """Positions in the sums."""
    row: int
    sizes: Any


class GroupShape(NamedTuple):
    """The shape of groups, and of the images and sums that their patches are part of."""

    row_length: int
    plane: int
    """The distance between two planes of the images."""
    target_plane: int
    """The distance between two planes of the sums."""
    planes: int
    patch: int
    group_size: int


_FLOATS = types.Array(types.float32, 1, "C")
_INDEX = types.intp
_INDICES = types.Array(types.intp, 1, "C")
ESTIMATE = types.void(_FLOATS, _FLOATS, _FLOATS, _FLOATS, _INDEX, _INDEX, _FLOATS, _FLOATS)
"""The signature of a family's kernel: Y, X, denoised, weights, n, m, variance, parameters."""
_GROUPS = (
    types.NamedTuple(
        [_FLOATS, _FLOATS, types.boolean, _FLOATS, _INDEX, types.float32, _FLOATS, types.float32],
        GroupImages,
    ),
    types.NamedUniTuple(_FLOATS, 3, GroupSums),
    types.NamedTuple([_INDICES, _INDICES, _INDEX, _INDICES], GroupPlaces),
    types.NamedUniTuple(_INDEX, 6, GroupShape),
)
_ESTIMATOR = (types.FunctionType(ESTIMATE), _FLOATS, _INDICES, _FLOATS)
_DENOISE_GROUPS = types.void(*_ESTIMATOR, *_GROUPS)
_TABLES = types.NamedTuple([_FLOATS, _FLOATS, _FLOATS, _INDEX, types.float32], WhiteningTables)
_DENOISE_WHITENED_GROUPS = types.void(*_ESTIMATOR, _TABLES, *_GROUPS)
_ESTIMATE_CORRELATED = types.void(*ESTIMATE.args, _FLOATS, _FLOATS, _FLOATS, _FLOATS)
_DENOISE_CORRELATED_GROUPS = types.void(
    types.FunctionType(_ESTIMATE_CORRELATED), *_ESTIMATOR[1:], _TABLES, *_GROUPS
)


class GroupDenoiser(NamedTuple):
    """A set of planes, and the function that denoises its groups."""

    planes: PlaneSet
    denoise_groups: Callable[[GroupImages, GroupSums, GroupPlaces, GroupShape], None]
    window: Floats
    """The weights of the pixels along a side of a patch."""


def denoiser_of(
    planes: PlaneSet, pass_: Pass, correlation: Array | None, sizes: Iterable[int]
) -> GroupDenoiser:
    """The denoiser of a set of planes for groups of the given sizes: the kernel with its parameters, or the formula."""
    estimator, group_size, settings = pass_.estimator, planes.group_size, pass_.settings
    depth = pass_.frames.depth
    window = estimator.pixel_weights(settings.patch_size)
    padded_window = np.pad(window, (0, -len(window) % LANES))
    whitening = None
    if correlation is not None:
        own = np.repeat(correlation[planes.planes], depth, axis=0)
        whitening = whitening_of(own, settings.patch_size, pass_.widest_window)
    if estimator.kernel is None:
        by_formula = partial(
            _denoise_groups_by_formula, estimator.formula, padded_window, whitening
        )
        return GroupDenoiser(planes, by_formula, window)
    n = planes.number * depth * settings.patch_size**2
    parameters: list[Floats] = []
    starts = np.zeros(group_size + 1, np.intp)
    for m in sorted({min(size, group_size) for size in sizes}):
        starts[m] = sum(part.size for part in parameters)
        parameters.append(np.asarray(estimator.parameters(n, m), np.float32).reshape(-1))
    options = np.concatenate(parameters), starts, padded_window
    if whitening is None:
        kernel = compiled(estimator.kernel, ESTIMATE)
        denoise = partial(compiled(_denoise_groups, _DENOISE_GROUPS), kernel, *options)
    elif estimator.correlated_kernel is None:
        kernel = compiled(estimator.kernel, ESTIMATE)
        groups = compiled(_denoise_whitened_groups, _DENOISE_WHITENED_GROUPS)
        denoise = partial(groups, kernel, *options, tables_of(whitening))
    else:
        kernel = compiled(estimator.correlated_kernel, _ESTIMATE_CORRELATED)
        groups = compiled(_denoise_correlated_groups, _DENOISE_CORRELATED_GROUPS)
        denoise = partial(groups, kernel, *options, tables_of(whitening))
    return GroupDenoiser(planes, denoise, window)


def average(denoisers: Sequence[GroupDenoiser], total: Image, rest: Image, weight: Image) -> None:
    """Divide the sums by the weights of the patches, which are stored at the corners of the patches."""
    for denoiser, corners in zip(denoisers, weight, strict=True):
        planes = denoiser.planes.planes
        normalise(total[planes], corners, denoiser.window)
        if len(rest):
            normalise(rest[planes], corners, denoiser.window)


def apply_change(change: Image, noisy: Image) -> None:
    """Add the noisy image to the change of each pixel, in place, which gives the result."""
    if len(change):
        # Next to pixels so bright that float32 cannot resolve the noise, the image stays unchanged.
        change[~(np.abs(change) < BRIGHT)] = 0
        change += noisy


@kernel
def _denoise_groups(estimate, parameters, starts, window, images, sums, places, shape):
    Y, X, V, denoised, weights = _buffers(images, shape)
    n = shape.planes * shape.patch * shape.patch
    for k in range(len(places.sizes)):
        m = places.sizes[k]
        here = places.offsets[k * places.row : k * places.row + m]
        there = places.targets[k * places.row : k * places.row + m]
        left = _gather_group(images, shape, here, m, Y, X, V, np.float32(1))
        estimate(Y, X, denoised, weights, n, m, V, parameters[starts[m] :])
        discard_strays(denoised, weights, Y, V, 1 / (left * left), n, m)
        _add_group(denoised, Y, weights, left, images.keep, sums, shape, there, m, window)


@kernel
def _denoise_correlated_groups(
    estimate, parameters, starts, window, tables, images, sums, places, shape
):
    """`_denoise_groups` for correlated noise, by a kernel that takes the covariances."""
    Y, X, V, denoised, weights = _buffers(images, shape)
    n = shape.planes * shape.patch * shape.patch
    most = padded(shape.group_size)
    T = np.empty(most * most, np.float32)
    scales, level = np.empty(most, np.float32), np.empty(1, np.float32)
    for k in range(len(places.sizes)):
        m = places.sizes[k]
        here = places.offsets[k * places.row : k * places.row + m]
        there = places.targets[k * places.row : k * places.row + m]
        left = _gather_group(images, shape, here, m, Y, X, V, tables.power)
        level[0], _ = patch_scales(scales, V, n, m)
        patch_covariance(tables, here, shape.row_length, m, T)
        estimate(
            Y, X, denoised, weights, n, m, level, parameters[starts[m] :],
            scales, tables.whiten, tables.color, T,
        )  # fmt: skip
        discard_strays(denoised, weights, Y, V, tables.power / (left * left), n, m)
        _add_group(denoised, Y, weights, left, images.keep, sums, shape, there, m, window)


@kernel
def _denoise_whitened_groups(
    estimate, parameters, starts, window, tables, images, sums, places, shape
):
    """`_denoise_groups` for correlated noise: groups are whitened first; see `families.whitening`."""
    Y, X, V, denoised, weights = _buffers(images, shape)
    n = shape.planes * shape.patch * shape.patch
    inside = ones(n)
    white_Y, work = np.zeros_like(Y), np.zeros_like(Y)
    white_X = white_Y if images.guide_is_noisy else np.zeros_like(Y)
    most = padded(shape.group_size)
    U, K = np.empty(most * most, np.float32), np.empty(most * most, np.float32)
    scales, v = np.empty(most, np.float32), np.empty(most, np.float32)
    level = np.empty(1, np.float32)
    for k in range(len(places.sizes)):
        m = places.sizes[k]
        here = places.offsets[k * places.row : k * places.row + m]
        there = places.targets[k * places.row : k * places.row + m]
        left = _gather_group(images, shape, here, m, Y, X, V, tables.power)
        level[0], _ = patch_scales(scales, V, n, m)
        brightness = np.float32(0)
        for i in range(n):
            brightness += Y[i]
        brightness /= np.float32(n)
        factorise(tables, here, shape.row_length, scales, m, U, K, v)
        whiten_group(tables, Y, brightness, scales, K, v, n, m, inside, work, white_Y)
        if not images.guide_is_noisy:
            whiten_group(tables, X, brightness, scales, K, v, n, m, inside, work, white_X)
        estimate(white_Y, white_X, denoised, weights, n, m, level, parameters[starts[m] :])
        color_group(tables, denoised, brightness, scales, U, v, n, m, work)
        variance = np.float32(0)
        for j in range(m):
            variance += 1 / weights[j]
        for j in range(m):
            weights[j] = np.float32(m) / variance * scales[j] * scales[j]
        discard_strays(denoised, weights, Y, V, tables.power / (left * left), n, m)
        _add_group(denoised, Y, weights, left, images.keep, sums, shape, there, m, window)


@part
def _buffers(images, shape):
    """Y, X, variance, denoised and weights of a group; X is Y if there is no separate guide."""
    size, most = padded(shape.planes * shape.patch * shape.patch), padded(shape.group_size)
    # Zeros, since arithmetic on whole vectors also reads elements that no pixel is ever written to.
    Y = np.zeros(most * size + LANES, np.float32)
    X = Y if images.guide_is_noisy else np.zeros(most * size + LANES, np.float32)
    same_noise = len(images.variance) == 1
    V = images.variance.copy() if same_noise else np.zeros(most * size + LANES, np.float32)
    denoised = np.zeros(most * size + LANES, np.float32)
    return Y, X, V, denoised, np.empty(most, np.float32)


@part
def _gather_group(images, shape, here, m, Y, X, V, power):
    """Copy a group to Y and X, and its variance to V; returns the share of the noise that is left in it.

    `power` is the mean variance of a pixel, in units of the variance of the noise.
    """
    row_length, plane, _, planes, patch, _ = shape
    n = planes * patch * patch
    gather(images.noisy, row_length, plane, planes, here, m, patch, Y)
    if not images.guide_is_noisy:
        gather(images.guide, row_length, plane, planes, here, m, patch, X)
    same_noise = len(images.variance) == 1
    if same_noise:
        V[0] = images.variance_factor * images.variance[0]
    else:
        gather(images.variance, row_length, images.variance_plane, planes, here, m, patch, V)
        if images.variance_factor != 1:
            for o in range(0, m * padded(n), LANES):
                store(V, o, splat(images.variance_factor) * load(V, o))
    left = np.float32(1)
    if len(images.original) > 0:
        least = images.keep + np.float32(1e-6)
        left = max(_noise_left(images, shape, here, m, V, power), least)
        if same_noise:
            V[0] = left * left * V[0]
        else:
            for o in range(0, m * padded(n), LANES):
                store(V, o, splat(left * left) * load(V, o))
    return left


@part
def _add_group(denoised, Y, weights, left, keep, sums, shape, there, m, window):
    """Add the changes of the patches of a group, and their weights, to the sums."""
    row_length, _, plane, planes, patch, _ = shape
    aggregate_weights(weights, there, m, sums.weight)
    aggregate(
        denoised, Y, weights, there, m, patch, window,
        sums.total, sums.rest, 1 - keep / left, row_length, plane, planes,
    )  # fmt: skip


@part
def _noise_left(images, shape, here, m, variance, power):
    """The share of the noise that remains in a group, estimated from the variance of what has been removed from it."""
    row_length, plane, _, planes, patch, _ = shape
    n = planes * patch * patch
    mask = ones(patch)  # excludes the excess of whole vectors
    sums = squares = splat_narrow(np.float32(0))
    for j in range(m):
        for v in range(0, patch, NARROW):
            for c in range(planes):
                first = here[j] + c * plane + v
                for o in range(first, first + patch * row_length, row_length):
                    removed = load_narrow(images.original, o) - load_narrow(images.noisy, o)
                    removed = removed * load_narrow(mask, v)
                    sums, squares = sums + removed, fma(removed, removed, squares)
    mean = add_up(sums) / np.float32(n * m)
    spread = add_up(squares) / np.float32(n * m) - mean * mean
    noise = variance[0]
    if len(variance) > 1:
        noise = np.float32(0)
        for j in range(m):
            noise += patch_variance(variance, j, n)
        noise /= np.float32(m)
    return 1 - np.sqrt(max(spread, np.float32(0)) / (noise * power))


def _denoise_groups_by_formula(
    formula: Callable[..., Estimate],
    window: Floats,
    whitening: Whitening | None,
    images: GroupImages,
    sums: GroupSums,
    places: GroupPlaces,
    shape: GroupShape,
) -> None:
    """Denoise the groups by the formula in float64, all groups of one size at once."""
    row_length, plane, target_plane, planes, patch, _ = shape
    n = planes * patch * patch
    for m in map(int, np.unique(places.sizes)):
        here, there = (
            offsets.reshape(-1, places.row)[places.sizes == m, :m].copy()
            for offsets in (places.offsets, places.targets)
        )

        def groups(image, distance=plane, here=here, m=m):
            gathered = gather_all(image, row_length, distance, planes, here, patch)
            return gathered[:, :m, :n].mT.astype(np.float64)

        Y, X = groups(images.noisy), groups(images.guide)
        V: Any = (
            float(images.variance[0])
            if len(images.variance) == 1
            else groups(images.variance, images.variance_plane)
        )
        V = images.variance_factor * V
        all_noise = V if whitening is None else whitening.power * V
        left = 1.0
        if len(images.original):
            spread = np.var(groups(images.original) - Y, axis=(1, 2), keepdims=True)
            mean = np.mean(V, axis=(-2, -1), keepdims=True) if np.ndim(V) else V
            if whitening is not None:
                mean = whitening.power * mean
            left = np.maximum(1 - np.sqrt(spread / mean), images.keep + 1e-6)
            V = np.broadcast_to(V * left**2, Y.shape)  # the shape that `GroupNoise` promises
        noise = GroupNoise(V)
        if whitening is None:
            estimate, weights = evaluate(formula, Y, X, noise)
        else:
            positions = here // row_length, here % row_length
            estimate, weights = evaluate_whitened(formula, Y, X, noise, whitening, *positions)
        estimate, weights = without_strays(estimate, weights, Y, all_noise)
        # Kernels must not see NaN: patches whose weight or estimate is not finite do not change the image.
        with np.errstate(over="ignore", invalid="ignore"):
            weights = np.array(weights, np.float32)
            weights[~np.isfinite(weights)] = 0
            change = estimate - Y
            change[~(np.abs(change) < BRIGHT)] = 0
        for values, total, corners in (
            (change, sums.total, sums.weight),
            ((1 - images.keep / left) * change, sums.rest, np.zeros_like(sums.weight)),
        ):
            if len(total):
                rows = np.zeros(
                    (len(here), -(-m // LANES) * LANES, -(-n // LANES) * LANES), np.float32
                )
                rows[:, :m, :n] = values.mT
                aggregate_all(
                    rows,
                    weights,
                    there,
                    patch,
                    window,
                    total,
                    row_length,
                    target_plane,
                    planes,
                    corners,
                )
