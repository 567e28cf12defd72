"""The PyTorch engine, which runs a pass over images that are tensors, on any device.

Matching, gathering and averaging are written for tensors; groups are denoised by the family's formula, many at a
time. Images are tensors of (planes, batch, height, width). A strip consists of rows of reference patches of one
image, or of several images if they are small; it reads and writes the pixels that its windows reach. If the batch
consists of frames that belong together, a strip has the reference patches of one frame, and reads and writes all frames
that are searched. Python never reads a computed value, so that it never waits for the device.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

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
from ..patches.matching import BRIGHT, FAR, OUTSIDE
from .frames import (
    Motion,
    group_sizes_across,
    references_of_frame,
    scaled_motion,
    searched_frames,
)
from .grid import Block, Positions, references

Groups: TypeAlias = dict[tuple[int, ...], Tensor]
"""The positions of the similar patches of each strip, by the strip's key."""
Sums: TypeAlias = tuple[Tensor, Tensor]

_LEAST_MEMORY = 2**20
# Rows between two frames of a group: their noise is independent, however few rows they have.
_APART = 2**20


class Strip(NamedTuple):
    """Evenly spaced rows of reference patches of some images, and the rows of pixels that they reach."""

    images: slice
    """The images, or the frame, that the reference patches belong to."""
    block: Block
    pixels: slice
    searched: slice | list[int]
    """The images that are read and written: the same, or the frames in which patches are searched for."""
    shifts: Positions | None = None
    """The rows and columns by which each of these frames has moved as a whole."""

    def of(self, image: Tensor) -> Tensor:
        """The pixels of an image that the strip reaches."""
        return image[:, self.searched, self.pixels]

    @property
    def key(self) -> tuple[int, ...]:
        """What tells the strip from the other strips of a pass."""
        return self.images.start, int(self.block.ys[0]), int(self.block.ys[-1])


def run_pass(
    inputs: StepInputs,
    step: Pass,
    groups: Groups | None = None,
    *,
    max_memory: int,
    motions: Sequence[Motion] | None = None,
    height: int = 0,
) -> tuple[Tensor, Tensor]:
    """Match on `inputs.similar`, denoise the groups, and average their patches into images.

    Like `nlridge.engines.cpu.run_pass`, for tensors; like `nlridge.engines.frames.run_pass` if the images of a batch
    are frames that belong together, whose `motions` are given for frames of some `height`. `max_memory` is the number of
    bytes to use at a time; if the device runs out of memory, the pass is repeated with half of it.
    """
    if motions is None:
        step = replace(step, frames=ONE_FRAME)
    else:
        factor = inputs.noisy.shape[2] / height
        motions = [scaled_motion(factor, motion) for motion in motions]
    while True:
        try:
            return _run_pass(inputs, step, groups, max_memory, motions)
        except torch.OutOfMemoryError:
            if max_memory <= _LEAST_MEMORY:
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
    step: Pass,
    stored: Groups | None,
    max_memory: int,
    motions: Sequence[Motion] | None,
) -> tuple[Tensor, Tensor]:
    noisy, similar = inputs.noisy, inputs.similar
    find, strips = match, _strips(similar, step, max_memory)
    if motions is not None:
        similar = _in_depth(similar, step.frames.depth)
        find, strips = match_across, _strips_of_frames(similar, step, motions, max_memory)
    sets = step.plane_sets(len(noisy))
    whitenings = [_whitening(inputs, planes, step) for planes in sets]
    sums = noisy.new_zeros((2 if inputs.keeps_noise else 1, *noisy.shape))
    weight = noisy.new_zeros((len(sets), *noisy.shape[1:]))
    most = max(planes.group_size for planes in sets)
    for strip in strips:
        places = _stored(partial(find, similar, strip, step, most), strip, stored)
        strip_inputs = inputs.mapped(strip.of)
        for k, (planes, whitening) in enumerate(zip(sets, whitenings, strict=True)):
            sums_of = _recomputed(partial(_sums, strip_inputs, planes, step, whitening), inputs)
            for groups in _of_one_size(places, strip, noisy.shape[2:], step, planes.group_size):
                bytes_of_a_group = _bytes_of_a_group(groups, planes, step, noisy)
                if whitening is not None:  # its matrices, and the whitened groups
                    bytes_of_a_group *= 2
                at_once = max_memory // bytes_of_a_group
                for part in groups.split(max(1, at_once)):
                    part_sums, corners = sums_of(part)
                    sums[:, planes.planes, strip.searched, strip.pixels] += part_sums
                    weight[k, strip.searched, strip.pixels] += corners
    change = torch.cat(
        [
            sums[:, planes.planes] / _weights_of_pixels(corners, step)
            for planes, corners in zip(sets, weight, strict=True)
        ],
        dim=1,
    )
    # Next to pixels so bright that float32 cannot resolve the noise, the image stays unchanged.
    results = noisy + torch.where(change.abs() < BRIGHT, change, 0)
    return results[0], results[-1]


def _whitening(inputs: StepInputs, planes: PlaneSet, step: Pass) -> Whitening | None:
    """How the groups of some planes are whitened; None if their noise is white."""
    correlation, settings = inputs.noise.correlation, step.settings
    if correlation is None:
        return None
    own = np.repeat(correlation[planes.planes], step.frames.depth, axis=0)
    return whitening_of(own, settings.patch_size, step.widest_window)


def _strips(similar: Tensor, step: Pass, max_memory: int) -> Iterator[Strip]:
    """Divide the reference patches into strips, as large as memory allows for matching."""
    _, batch, height, width = similar.shape
    settings = step.settings
    ys, xs = (references(length, step) for length in (height, width))
    window = settings.window
    floats_of_a_row = 4 * len(xs) * window**2 + 3 * settings.patch_size * window * width
    rows = max(1, max_memory // (floats_of_a_row * similar.element_size()))
    images = max(1, rows // len(ys))
    strips = [
        run[start : start + rows]
        for run in _evenly_spaced(ys, settings.stride)
        for start in range(0, len(run), rows)
    ]
    for first in range(0, batch, images):
        members = slice(first, first + images)
        for strip_ys in strips:
            yield _strip(members, Block(strip_ys, xs), step, height)


def _strip(images: slice, block: Block, step: Pass, height: int) -> Strip:
    radius, patch = step.settings.window // 2, step.settings.patch_size
    top, bottom = int(block.ys[0]) - radius, int(block.ys[-1]) + patch + radius
    return Strip(images, block, slice(max(0, top), min(height, bottom)), images)


def _strips_of_frames(
    similar: Tensor, step: Pass, motions: Sequence[Motion], max_memory: int
) -> Iterator[Strip]:
    """The same for frames that belong together: a strip reads and writes all of the frames that are searched."""
    planes, count, height, width = similar.shape
    settings, search = step.settings, step.frames
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
        ys, xs = references_of_frame((height, width), step, number)
        floats_of_a_row = len(xs) * (4 * candidates + compared)
        rows = max(1, max_memory // (floats_of_a_row * similar.element_size()))
        for run in _evenly_spaced(ys, settings.stride):
            for start in range(0, len(run), rows):
                block = Block(run[start : start + rows], xs)
                own = slice(number, number + 1)
                yield Strip(own, block, slice(0, height), searched, shifts)


def _evenly_spaced(positions: Positions, stride: int) -> list[Positions]:
    """Divide positions into runs of one stride; only the first and the last position of an axis may be off the grid."""
    return np.split(positions, 1 + np.flatnonzero(np.diff(positions) != stride))


def _stored(find: Callable[[], Tensor], strip: Strip, stored: Groups | None) -> Tensor:
    """The places that `find` returns, from `stored` if they are there, and kept there for the next round if not."""
    if stored is None:
        return find()
    if strip.key not in stored:
        stored[strip.key] = find().int()
    return stored[strip.key].long()


@torch.no_grad()
def match(similar: Tensor, strip: Strip, step: Pass, count: int) -> Tensor:
    """The `count` patches that are nearest to each reference, nearest first: (references, count).

    A patch is given by the index of its corner among the pixels of the strip. If the window contains fewer patches,
    the rest of the row is meaningless.
    """
    batch, width = len(similar[0, strip.images]), similar.shape[-1]
    patch, window = step.settings.patch_size, step.settings.window
    ys, xs = strip.block
    distances = _distances(similar, strip, step)
    nearest = distances.flatten(-2).topk(min(count, window**2), largest=False).indices
    image = torch.arange(batch, device=similar.device)
    first = (image * (strip.pixels.stop - strip.pixels.start))[:, None, None, None]
    corner = ys - strip.pixels.start - window // 2
    y = to_device_of(similar, corner)[:, None, None] + nearest // window
    x = to_device_of(similar, xs - window // 2)[:, None] + nearest % window
    # Even if distances are NaN, these must be patches of the image.
    y = y.clamp(0, strip.pixels.stop - strip.pixels.start - patch)
    x = x.clamp(0, width - patch)
    return ((first + y) * width + x).flatten(0, 2)


def _distances(similar: Tensor, strip: Strip, step: Pass) -> Tensor:
    """The squared distances of the patches in the window of each reference: (batch, rows, columns, window, window)."""
    planes, _, height, width = similar.shape
    settings = step.settings
    ys, xs = strip.block
    patch, stride, window = settings.patch_size, settings.stride, settings.window
    every, ignored = step.every, step.ignored
    radius = window // 2
    top, bottom = int(ys[0]), int(ys[-1]) + patch
    reference_rows = similar[:, strip.images, top:bottom, None]
    # Where the last rows and columns of patches are not compared, they would not show what is beyond the image.
    seen = strip.of(similar)[..., : height - ignored - strip.pixels.start, : width - ignored]
    above = max(0, radius - top)
    below = bottom - top + 2 * radius - above - seen.shape[-2]
    candidates = pad(seen, (radius, radius + ignored, above, below), value=float(FAR)).unfold(
        -1, width, 1
    )
    batch, rows = reference_rows.shape[1:3]
    squares, difference = similar.new_empty((2, batch, rows, window, width))
    distances = similar.new_empty((batch, len(ys), len(xs), window, window))
    for dy in range(window):
        torch.sub(candidates[0, :, dy : dy + rows], reference_rows[0], out=squares).square_()
        for k in range(1, planes):
            torch.sub(candidates[k, :, dy : dy + rows], reference_rows[k], out=difference)
            squares.addcmul_(difference, difference)
        tall = squares.unfold(1, patch, stride)[..., ::every].sum(-1)
        column = 0
        for run in _evenly_spaced(xs, stride):
            wide = tall[..., run[0] : run[-1] + patch].unfold(-1, patch, stride)[..., ::every]
            distances[:, :, column : column + len(run), dy] = wide.sum(-1).mT
            column += len(run)
    distances[..., radius, radius] = -1  # the reference itself always comes first
    gap = stride - patch
    if gap > 0:  # so do the patches that cover the gap between a reference and the next
        for dy, dx in ((0, gap), (gap, 0), (gap, gap)):
            covering = distances[..., radius + dy, radius + dx]
            covering.masked_fill_(covering < float(OUTSIDE), -1)
    return distances


def _in_depth(similar: Tensor, depth: int) -> Tensor:
    """The frames in which patches are searched for; those of a patch that extends over several are its planes."""
    if depth == 1:
        return similar
    return similar[0].unfold(0, depth, 1).movedim(-1, 0)


@torch.no_grad()
def match_across(similar: Tensor, strip: Strip, step: Pass, count: int) -> Tensor:
    """`match` for frames that belong together: references are followed from frame to frame.

    See `patches.tracking`. A patch is given by the index of its corner among the pixels of all frames of the strip.
    """
    height, width = similar.shape[2:]
    search, patch, radius = step.frames, step.settings.patch_size, step.settings.window // 2
    assert isinstance(strip.searched, list)
    assert strip.shifts is not None
    number, shifts = strip.searched.index(strip.images.start), strip.shifts.tolist()
    ys, xs = (
        to_device_of(similar, np.ravel(corners))
        for corners in np.meshgrid(*strip.block, indexing="ij")
    )
    own = _strip(strip.images, strip.block, step, height)
    distances = [_distances(similar, own, step).flatten(0, 2).flatten(1)]

    def window(y: Tensor, x: Tensor, frame: int, reach: int) -> Tensor:
        """The places of the patches around (y, x)."""
        steps = torch.arange(-reach, reach + 1, device=similar.device)
        # Even if distances are NaN, these must be patches of the frame.
        rows = (y[:, None] + steps).clamp(0, height - patch)
        columns = (x[:, None] + steps).clamp(0, width - patch)
        corners = (frame * height + rows)[:, :, None] * width + columns[:, None]
        return corners.flatten(1)

    places = [window(ys, xs, number, radius)]
    references = _cut(similar[:, strip.images.start], ys, xs, patch)
    for direction in (-1, 1):
        # The place in the coordinates of the references, and how it moves from frame to frame.
        still_y, still_x, move_y, move_x = ys, xs, torch.zeros_like(ys), torch.zeros_like(xs)
        frame = number + direction
        while 0 <= frame < len(shifts):
            side = search.near if abs(frame - number) == 1 else search.far
            reach = side // 2
            shift_y, shift_x = shifts[frame]
            y = (still_y + move_y + shift_y).clamp(0, height - patch)
            x = (still_x + move_x + shift_x).clamp(0, width - patch)
            around = pad(similar[:, strip.searched[frame]], (reach,) * 4, value=float(FAR))
            squares = _compared(_cut(around, y, x, side + patch - 1), references, side)
            distances.append(squares)
            places.append(window(y, x, frame, reach))
            best = squares.argmin(-1)
            best_y, best_x = best // side - reach, best % side - reach
            move_y, move_x = move_y + best_y, move_x + best_x
            still_y, still_x = y + best_y - shift_y, x + best_x - shift_x
            frame += direction
    values = torch.cat(distances, dim=1)
    nearest = values.topk(min(count, values.shape[1]), largest=False).indices
    return torch.cat(places, dim=1).gather(1, nearest)


def _cut(frame: Tensor, y: Tensor, x: Tensor, side: int) -> Tensor:
    """The squares of a frame of (planes, height, width) with the given corners: (planes, squares, side, side)."""
    steps = torch.arange(side, device=frame.device)
    return frame[:, (y[:, None] + steps)[:, :, None], (x[:, None] + steps)[:, None]]


def _compared(around: Tensor, references: Tensor, side: int) -> Tensor:
    """The squared distances of the patches around each place from the reference: (references, side * side)."""
    patch = references.shape[-1]
    rows = []
    for dy in range(side):
        patches = around[:, :, dy : dy + patch].unfold(-1, patch, 1)
        rows.append((patches - references[..., None, :]).square_().sum((0, 2, 4)))
    return torch.cat(rows, dim=1)


def _of_one_size(
    places: Tensor, strip: Strip, shape: tuple[int, int], step: Pass, most: int
) -> Iterator[Tensor]:
    """Yield the groups of a strip by their size: (groups, size)."""
    others = 0 if strip.shifts is None else len(strip.shifts) - 1
    sizes = np.minimum(group_sizes_across(strip.block, shape, step, others), most)
    for size in np.unique(sizes):
        if (sizes == size).all():
            yield places[:, :size]
        else:
            groups = np.flatnonzero(np.tile(sizes == size, len(places) // len(sizes)))
            yield places[to_device_of(places, groups), :size]


def _bytes_of_a_group(groups: Tensor, planes: PlaneSet, step: Pass, noisy: Tensor) -> int:
    """The memory that a formula needs for a group: copies of the patches, square matrices, and pixel indices."""
    n, m = planes.number * step.frames.depth * step.settings.patch_size**2, groups.shape[1]
    return noisy.element_size() * (8 * n * m + 6 * (m**2 + n**2)) + 8 * n * m


def _recomputed(function: Callable[..., Sums], inputs: StepInputs) -> Callable[..., Sums]:
    """The function, with its intermediate results computed again rather than kept if gradients are needed."""
    wanted = (image.requires_grad for image in inputs.images())
    if not (torch.is_grad_enabled() and any(wanted)):
        return function
    return partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False)


def _sums(
    inputs: StepInputs, plane_set: PlaneSet, step: Pass, whitening: Whitening | None, groups: Tensor
) -> Sums:
    """The weighted sums of the changes of the patches, and the weights at their corners, in the shape of the strip.

    The first axis of the sums has two entries if some noise is to be kept: the sums without it and with it.
    """
    planes, patch, depth = plane_set.planes, step.settings.patch_size, step.frames.depth
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
    formula = step.estimator.formula
    if whitening is None:
        estimate, weights = evaluate(formula, Y, X, noise)
    else:
        rows = groups // width + _APART * frame_of
        estimate, weights = evaluate_whitened(formula, Y, X, noise, whitening, rows, groups % width)
    estimate, weights = without_strays(estimate, weights, Y, all_noise)
    # Changes are averaged rather than pixels: sums of bright pixels would lose digits.
    change = estimate - Y
    kinds = [change, (1 - keep / left) * change] if keep > 0 else [change]

    def added(values: Tensor, places: Tensor) -> Tensor:
        sums = noisy.new_zeros(shape[1:].numel())
        return sums.index_add(0, places.flatten(), values.flatten()).view(shape[1:])

    shares = weights[:, None]
    if step.estimator.window is not None:
        sides = step.estimator.pixel_weights(patch)
        window = np.tile(np.outer(sides, sides).ravel(), Y.shape[1] // patch**2)
        shares = shares * as_array_like(window[:, None], Y)
    sums = [
        added(values, pixels)
        for kind in kinds
        for values in (shares * kind).split(depth * patch**2, dim=1)
    ]
    return torch.stack(sums).view(len(kinds), *shape), added(weights, groups)


def _weights_of_pixels(corners: Tensor, step: Pass) -> Tensor:
    """The sum of the weights of the patches that cover each pixel, from the weights at their corners."""
    patch, depth = step.settings.patch_size, step.frames.depth
    if depth > 1:  # a patch that begins in a frame extends over the next ones
        corners = pad(corners, (0, 0, 0, 0, depth - 1, 0)).unfold(0, depth, 1).sum(-1)
    before = pad(corners[:, None], (patch - 1, 0, patch - 1, 0))
    if step.estimator.window is None:
        weights = avg_pool2d(before, patch, stride=1, divisor_override=1)[:, 0]
    else:
        weights = _windowed(_windowed(before[:, 0], step).mT, step).mT
    return torch.where(weights > 0, weights, 1)  # frames that are repeated have no patches


def _windowed(before: Tensor, step: Pass) -> Tensor:
    """Along each row, the sum of the weights of the patches that cover a pixel, times its share of each of them.

    A convolution would do, but GPUs round its factors.
    """
    sides = step.estimator.pixel_weights(step.settings.patch_size)[::-1].tolist()
    width = before.shape[-1] - len(sides) + 1
    return sum(share * before[..., k : k + width] for k, share in enumerate(sides))
