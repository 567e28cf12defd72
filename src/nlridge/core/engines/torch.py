"""The PyTorch engine, which runs a pass over images that are tensors, on any device.

Matching, gathering and averaging are written for tensors; groups are denoised by the family's formula, many at a
time. Images are tensors of (planes, batch, height, width). A strip consists of rows of reference patches of one
image, or of several images if they are small; it reads and writes the pixels that its windows reach. If the batch
consists of frames that belong together, a strip has the reference patches of one frame, and reads and writes all frames
that are searched. Python never reads a computed value, and so never waits for the device.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad
from torch.utils.checkpoint import checkpoint

from ..algorithm.inputs import StepInputs
from ..algorithm.passes import ONE_FRAME, Pass, PlaneSet
from ..arrays import as_array_like, to_device_of
from ..families import GroupNoise
from ..families.family import evaluate
from ..families.guard import without_strays
from ..families.whitening import Whitening, evaluate_whitened, whitening_of
from ..patches.matching import BRIGHT
from .frame_grid import (
    Motion,
    group_sizes_across,
    references_of_frame,
    scaled_motion,
    searched_frames,
)
from .grid import Block, references
from .torch_matching import Strip, evenly_spaced, in_depth, match, match_across, strip_of

Groups: TypeAlias = dict[tuple[int, ...], Tensor]
"""Maps the key of each strip to the positions of its similar patches."""
Sums: TypeAlias = tuple[Tensor, Tensor]

_MIN_MEMORY = 2**20
# Rows between two frames of a group: their noise is independent, however few rows the frames have.
_ROWS_APART = 2**20


def run_pass(
    inputs: StepInputs,
    pass_: Pass,
    groups: Groups | None = None,
    *,
    max_memory: int,
    motions: Sequence[Motion] | None = None,
    height: int = 0,
) -> tuple[Tensor, Tensor]:
    """Match on `inputs.similar`, denoise the groups, and average their patches into images.

    Does what `engines.cpu.run_pass` does for arrays, or, if `motions` are given, what `engines.frames.run_pass` does for
    frames that belong together; they are then the images of a batch, and `motions` are given for frames of the given
    `height`. `max_memory` is the number of bytes to use at a time; if the device runs out of memory, the pass is
    repeated with half of it.
    """
    if motions is None:
        pass_ = replace(pass_, frames=ONE_FRAME)
    else:
        factor = inputs.noisy.shape[2] / height
        motions = [scaled_motion(factor, motion) for motion in motions]
    while True:
        try:
            return _run_pass(inputs, pass_, groups, max_memory, motions)
        except torch.OutOfMemoryError:
            if max_memory <= _MIN_MEMORY:
                raise
        max_memory //= 2
        if groups is not None:
            groups.clear()  # smaller strips have other groups
        warnings.warn(
            f"{inputs.noisy.device} is out of memory; trying again with max_memory={max_memory} "
            "(pass a smaller max_memory to NLRidge to avoid this)",
            RuntimeWarning,
            stacklevel=2,
        )


def _run_pass(
    inputs: StepInputs,
    pass_: Pass,
    stored: Groups | None,
    max_memory: int,
    motions: Sequence[Motion] | None,
) -> tuple[Tensor, Tensor]:
    noisy, similar = inputs.noisy, inputs.similar
    find = partial(match, variance=inputs.noise.variance)
    strips = _strips(similar, pass_, max_memory)
    if motions is not None:
        similar = in_depth(similar, pass_.frames.depth)
        find, strips = match_across, _strips_of_frames(similar, pass_, motions, max_memory)
    sets = pass_.plane_sets(len(noisy))
    whitenings = [_whitening(inputs, planes, pass_) for planes in sets]
    sums = noisy.new_zeros((2 if inputs.keeps_noise else 1, *noisy.shape))
    weight = noisy.new_zeros((len(sets), *noisy.shape[1:]))
    most = max(planes.group_size for planes in sets)
    for strip in strips:
        places = _stored(partial(find, similar, strip, pass_, most), strip, stored)
        strip_inputs = inputs.mapped(strip.of)
        for k, (planes, whitening) in enumerate(zip(sets, whitenings, strict=True)):
            sums_of = _recomputed(partial(_sums, strip_inputs, planes, pass_, whitening), inputs)
            for groups in _of_one_size(places, strip, noisy.shape[2:], pass_, planes.group_size):
                bytes_of_a_group = _bytes_of_a_group(groups, planes, pass_, noisy)
                if whitening is not None:  # its matrices, and the whitened groups
                    bytes_of_a_group *= 2
                at_once = max_memory // bytes_of_a_group
                for part in groups.split(max(1, at_once)):
                    part_sums, corners = sums_of(part)
                    sums[:, planes.planes, strip.searched, strip.pixels] += part_sums
                    weight[k, strip.searched, strip.pixels] += corners
    change = torch.cat(
        [
            sums[:, planes.planes] / _weights_of_pixels(corners, pass_)
            for planes, corners in zip(sets, weight, strict=True)
        ],
        dim=1,
    )
    # Next to pixels so bright that float32 cannot resolve the noise, the image stays unchanged.
    results = noisy + torch.where(change.abs() < BRIGHT, change, 0)
    return results[0], results[-1]


def _whitening(inputs: StepInputs, planes: PlaneSet, pass_: Pass) -> Whitening | None:
    """How the groups of some planes are whitened; None if their noise is white."""
    correlation, settings = inputs.noise.correlation, pass_.settings
    if correlation is None:
        return None
    own = np.repeat(correlation[planes.planes], pass_.frames.depth, axis=0)
    return whitening_of(own, settings.patch_size, pass_.widest_window)


def _strips(similar: Tensor, pass_: Pass, max_memory: int) -> Iterator[Strip]:
    """Divide the reference patches into strips, as large as memory allows for matching."""
    _, batch, height, width = similar.shape
    settings = pass_.settings
    ys, xs = (references(length, pass_) for length in (height, width))
    window = settings.window
    floats_of_a_row = 4 * len(xs) * window**2 + 3 * settings.patch_size * window * width
    rows = max(1, max_memory // (floats_of_a_row * similar.element_size()))
    images = max(1, rows // len(ys))
    strips = [
        run[start : start + rows]
        for run in evenly_spaced(ys, settings.stride)
        for start in range(0, len(run), rows)
    ]
    for first in range(0, batch, images):
        members = slice(first, first + images)
        for strip_ys in strips:
            yield strip_of(members, Block(strip_ys, xs), pass_, height)


def _strips_of_frames(
    similar: Tensor, pass_: Pass, motions: Sequence[Motion], max_memory: int
) -> Iterator[Strip]:
    """`_strips` for frames that belong together: a strip reads and writes all of the frames that are searched."""
    planes, count, height, width = similar.shape
    settings, search = pass_.settings, pass_.frames
    patch, side = settings.patch_size, max(search.near, search.far)
    candidates = settings.window**2 + 2 * search.radius * side**2
    compared = planes * (3 * side * patch**2 + 2 * (side + patch) ** 2)
    for number in range(count):
        if motions[number].repeats:
            continue
        first, last = max(0, number - search.radius), min(number + search.radius, count - 1)
        around = range(first, last + 1)
        searched, shifts = searched_frames([motions[k] for k in around], around, number)
        searched += range(searched[-1] + 1, searched[-1] + search.depth)
        ys, xs = references_of_frame((height, width), pass_, number)
        floats_of_a_row = len(xs) * (4 * candidates + compared)
        rows = max(1, max_memory // (floats_of_a_row * similar.element_size()))
        for run in evenly_spaced(ys, settings.stride):
            for start in range(0, len(run), rows):
                block = Block(run[start : start + rows], xs)
                own = slice(number, number + 1)
                yield Strip(own, block, slice(0, height), searched, shifts)


def _stored(find: Callable[[], Tensor], strip: Strip, stored: Groups | None) -> Tensor:
    """The places in `stored` for a strip; if there are none, those that `find` returns, stored for the next round."""
    if stored is None:
        return find()
    if strip.key not in stored:
        stored[strip.key] = find().int()
    return stored[strip.key].long()


def _of_one_size(
    places: Tensor, strip: Strip, shape: tuple[int, int], pass_: Pass, most: int
) -> Iterator[Tensor]:
    """Yield the groups of a strip by their size: (groups, size)."""
    others = 0 if strip.shifts is None else len(strip.shifts) - 1
    sizes = np.minimum(group_sizes_across(strip.block, shape, pass_, others), most)
    for size in np.unique(sizes):
        if (sizes == size).all():
            yield places[:, :size]
        else:
            groups = np.flatnonzero(np.tile(sizes == size, len(places) // len(sizes)))
            yield places[to_device_of(places, groups), :size]


def _bytes_of_a_group(groups: Tensor, planes: PlaneSet, pass_: Pass, noisy: Tensor) -> int:
    """The memory that a formula needs for a group: copies of the patches, square matrices, and pixel indices."""
    n, m = planes.number * pass_.frames.depth * pass_.settings.patch_size**2, groups.shape[1]
    return noisy.element_size() * (8 * n * m + 6 * (m**2 + n**2)) + 8 * n * m


def _recomputed(function: Callable[..., Sums], inputs: StepInputs) -> Callable[..., Sums]:
    """The function, with its intermediate results computed again rather than kept if gradients are needed."""
    wanted = (image.requires_grad for image in inputs.images())
    if not (torch.is_grad_enabled() and any(wanted)):
        return function
    return partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False)


def _sums(
    inputs: StepInputs,
    plane_set: PlaneSet,
    pass_: Pass,
    whitening: Whitening | None,
    groups: Tensor,
) -> Sums:
    """The weighted sums of the changes of the patches, and the weights at their corners, in the shape of the strip.

    The first axis of the sums has two entries if some noise is to be kept: the sums without it and with it.
    """
    planes, patch, depth = plane_set.planes, pass_.settings.patch_size, pass_.frames.depth
    noisy, guide, partly, variance = (
        inputs.noisy,
        inputs.guide,
        inputs.partly,
        inputs.noise.variance,
    )
    keep = 0.0 if partly is None else partly.keep
    shape = noisy[planes].shape
    height, width = shape[2:]
    steps, frames = (torch.arange(length, device=noisy.device) for length in (patch, depth))
    corners = (frames[:, None, None] * height + steps[:, None]) * width
    pixels = groups[:, None] + (corners + steps).flatten()[:, None]
    frame_of = groups // (height * width)

    def gathered(image: Tensor) -> Tensor:
        """The groups of an image, (groups, n, m)."""
        return torch.cat([plane.flatten()[pixels] for plane in image[planes]], dim=1)

    Y = gathered(noisy)
    X = Y if guide is noisy else gathered(guide)
    V = variance
    if isinstance(variance, Tensor):
        if variance.shape[2:] == (1, 1):  # the same in a whole frame
            V = variance[0].flatten()[frame_of[:, None]]
        else:
            V = gathered(variance.expand_as(noisy))
    V = inputs.noise.factor_of(planes) * V
    all_noise = V if whitening is None else whitening.power * V
    left = 1.0
    if partly is not None:
        spread = (gathered(partly.original) - Y).var((1, 2), correction=0, keepdim=True)
        typical = V.mean((1, 2), keepdim=True) if isinstance(V, Tensor) else V
        if whitening is not None:
            typical = whitening.power * typical
        # The root has no finite gradient at 0.
        left = (1 - (spread / typical + 1e-12) ** 0.5).clip(min=keep + 1e-6)
    V = V * left**2
    # A formula is promised a number, or a tensor of the shape of Y.
    noise = GroupNoise(V.expand_as(Y) if isinstance(V, Tensor) else V)
    formula = pass_.estimator.formula
    if whitening is None:
        estimate, weights = evaluate(formula, Y, X, noise)
    else:
        rows = groups // width + _ROWS_APART * frame_of
        estimate, weights = evaluate_whitened(formula, Y, X, noise, whitening, rows, groups % width)
    estimate, weights = without_strays(estimate, weights, Y, all_noise)
    # Changes are averaged rather than pixels: sums of bright pixels would lose digits.
    change = estimate - Y
    kinds = [change, (1 - keep / left) * change] if keep > 0 else [change]

    def added(values: Tensor, places: Tensor) -> Tensor:
        sums = noisy.new_zeros(shape[1:].numel())
        return sums.index_add(0, places.flatten(), values.flatten()).view(shape[1:])

    shares = weights[:, None]
    if pass_.estimator.window is not None:
        sides = pass_.estimator.pixel_weights(patch)
        window = np.tile(np.outer(sides, sides).ravel(), Y.shape[1] // patch**2)
        shares = shares * as_array_like(window[:, None], Y)
    sums = [
        added(values, pixels)
        for kind in kinds
        for values in (shares * kind).split(depth * patch**2, dim=1)
    ]
    return torch.stack(sums).view(len(kinds), *shape), added(weights, groups)


def _weights_of_pixels(corners: Tensor, pass_: Pass) -> Tensor:
    """The sum of the weights of the patches that cover each pixel, from the weights at their corners."""
    patch, depth = pass_.settings.patch_size, pass_.frames.depth
    if depth > 1:  # a patch extends over the frames after the one it begins in
        corners = pad(corners, (0, 0, 0, 0, depth - 1, 0)).unfold(0, depth, 1).sum(-1)
    before = pad(corners[:, None], (patch - 1, 0, patch - 1, 0))
    if pass_.estimator.window is None:
        weights = avg_pool2d(before, patch, stride=1, divisor_override=1)[:, 0]
    else:
        weights = _windowed(_windowed(before[:, 0], pass_).mT, pass_).mT
    return torch.where(weights > 0, weights, 1)  # repeated frames have no patches


def _windowed(before: Tensor, pass_: Pass) -> Tensor:
    """Along each row, the sum of the weights of the patches that cover a pixel, times its share of each of them.

    A convolution would do the same, but GPUs round its factors.
    """
    sides = pass_.estimator.pixel_weights(pass_.settings.patch_size)[::-1].tolist()
    width = before.shape[-1] - len(sides) + 1
    return sum(share * before[..., k : k + width] for k, share in enumerate(sides))
