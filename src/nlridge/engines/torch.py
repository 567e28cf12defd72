"""The PyTorch engine, which runs a pass over images that are tensors, on any device.

Matching, gathering and averaging are written for tensors; groups are denoised by the family's formula, many at a
time. Images are tensors of (planes, batch, height, width). A strip consists of rows of reference patches of one
image, or of several images if they are small; it reads and writes the pixels that its windows reach. Python
never reads a computed value, so that it never waits for the device.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad
from torch.utils.checkpoint import checkpoint

from ..algorithm.inputs import StepInputs
from ..algorithm.passes import Pass, PlaneSet
from ..arrays import to_device_of
from ..families import GroupNoise
from ..families.family import evaluate
from ..families.whitening import Whitening, evaluate_whitened, whitening_of
from ..patches.matching import BRIGHT, FAR
from .grid import Block, Positions, group_sizes, references

Groups: TypeAlias = dict[tuple[int, ...], Tensor]
"""The positions of the similar patches of each strip, by the strip's key."""
Sums: TypeAlias = tuple[Tensor, Tensor]

_LEAST_MEMORY = 2**20


class Strip(NamedTuple):
    """Evenly spaced rows of reference patches of some images, and the rows of pixels that they reach."""

    images: slice
    block: Block
    pixels: slice

    def of(self, image: Tensor) -> Tensor:
        """The pixels of an image that the strip reaches."""
        return image[:, self.images, self.pixels]

    @property
    def key(self) -> tuple[int, ...]:
        """What tells the strip from the other strips of a pass."""
        return self.images.start, int(self.block.ys[0]), int(self.block.ys[-1])


def run_pass(
    inputs: StepInputs, step: Pass, groups: Groups | None = None, *, max_memory: int
) -> tuple[Tensor, Tensor]:
    """Match on `inputs.similar`, denoise the groups, and average their patches into images.

    Like `nlridge.engines.cpu.run_pass`, for tensors. `max_memory` is the number of bytes to use at a time; if the
    device runs out of memory, the pass is repeated with half of it.
    """
    while True:
        try:
            return _run_pass(inputs, step, groups, max_memory)
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
    inputs: StepInputs, step: Pass, stored: Groups | None, max_memory: int
) -> tuple[Tensor, Tensor]:
    noisy, similar, patch = inputs.noisy, inputs.similar, step.settings.patch_size
    sets = step.plane_sets(len(noisy))
    whitenings = [_whitening(inputs, planes, step) for planes in sets]
    sums = noisy.new_zeros((2 if inputs.keeps_noise else 1, *noisy.shape))
    weight = noisy.new_zeros((len(sets), *noisy.shape[1:]))
    most = max(planes.group_size for planes in sets)
    for strip in _strips(similar, step, max_memory):
        places = _places(similar, strip, step, most, stored)
        strip_inputs = inputs.mapped(strip.of)
        for k, (planes, whitening) in enumerate(zip(sets, whitenings, strict=True)):
            sums_of = _recomputed(partial(_sums, strip_inputs, planes, step, whitening), inputs)
            for groups in _of_one_size(places, strip, noisy.shape[2:], step, planes.group_size):
                bytes_of_a_group = _bytes_of_a_group(groups, planes, patch, noisy)
                if whitening is not None:  # its matrices, and the whitened groups
                    bytes_of_a_group *= 2
                at_once = max_memory // bytes_of_a_group
                for part in groups.split(max(1, at_once)):
                    part_sums, corners = sums_of(part)
                    sums[:, planes.planes, strip.images, strip.pixels] += part_sums
                    weight[k, strip.images, strip.pixels] += corners
    change = torch.cat(
        [
            sums[:, planes.planes] / _weights_of_pixels(corners, patch)
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
    return whitening_of(correlation[planes.planes], settings.patch_size, settings.window)


def _strips(similar: Tensor, step: Pass, max_memory: int) -> Iterator[Strip]:
    """Divide the reference patches into strips, as large as memory allows for matching."""
    _, batch, height, width = similar.shape
    settings = step.settings
    ys, xs = (references(length, step) for length in (height, width))
    window, radius = settings.window, settings.window // 2
    floats_of_a_row = 4 * len(xs) * window**2 + 3 * settings.patch_size * window * width
    rows = max(1, max_memory // (floats_of_a_row * similar.element_size()))
    images = max(1, rows // len(ys))
    strips = [
        run[start : start + rows]
        for run in _evenly_spaced(ys, settings.stride)
        for start in range(0, len(run), rows)
    ]
    for first in range(0, batch, images):
        for strip_ys in strips:
            reach = slice(
                max(0, int(strip_ys[0]) - radius),
                min(height, int(strip_ys[-1]) + settings.patch_size + radius),
            )
            yield Strip(slice(first, first + images), Block(strip_ys, xs), reach)


def _evenly_spaced(positions: Positions, stride: int) -> list[Positions]:
    """Divide positions into runs of one stride; only the first and the last position of an axis may be off the grid."""
    return np.split(positions, 1 + np.flatnonzero(np.diff(positions) != stride))


def _places(similar: Tensor, strip: Strip, step: Pass, count: int, stored: Groups | None) -> Tensor:
    """The result of `match`, from `stored` if it is there, and kept there for the next round if it is not."""
    if stored is None:
        return match(similar, strip, step, count)
    if strip.key not in stored:
        stored[strip.key] = match(similar, strip, step, count).int()
    return stored[strip.key].long()


@torch.no_grad()
def match(similar: Tensor, strip: Strip, step: Pass, count: int) -> Tensor:
    """The `count` patches that are nearest to each reference, nearest first: (references, count).

    A patch is given by the index of its corner among the pixels of the strip. If the window contains fewer patches,
    the rest of the row is meaningless.
    """
    planes, _, height, width = similar.shape
    settings = step.settings
    ys, xs = strip.block
    patch, stride, window = settings.patch_size, settings.stride, settings.window
    radius = window // 2
    top, bottom = int(ys[0]), int(ys[-1]) + patch
    reference_rows = similar[:, strip.images, top:bottom, None]
    candidates = pad(
        strip.of(similar),
        (radius, radius, max(0, radius - top), max(0, bottom + radius - height)),
        value=float(FAR),
    ).unfold(-1, width, 1)
    batch, rows = reference_rows.shape[1:3]
    squares, difference = similar.new_empty((2, batch, rows, window, width))
    distances = similar.new_empty((batch, len(ys), len(xs), window, window))
    for dy in range(window):
        torch.sub(candidates[0, :, dy : dy + rows], reference_rows[0], out=squares).square_()
        for k in range(1, planes):
            torch.sub(candidates[k, :, dy : dy + rows], reference_rows[k], out=difference)
            squares.addcmul_(difference, difference)
        tall = squares.unfold(1, patch, stride).sum(-1)
        column = 0
        for run in _evenly_spaced(xs, stride):
            wide = tall[..., run[0] : run[-1] + patch].unfold(-1, patch, stride).sum(-1).mT
            distances[:, :, column : column + len(run), dy] = wide
            column += len(run)
    distances[..., radius, radius] = -1  # the reference itself always comes first
    nearest = distances.flatten(-2).topk(min(count, window**2), largest=False).indices
    image = torch.arange(batch, device=similar.device)
    first = (image * (strip.pixels.stop - strip.pixels.start))[:, None, None, None]
    corner = ys - strip.pixels.start - radius
    y = to_device_of(similar, corner)[:, None, None] + nearest // window
    x = to_device_of(similar, xs - radius)[:, None] + nearest % window
    # Even if distances are NaN, these must be patches of the image.
    y = y.clamp(0, strip.pixels.stop - strip.pixels.start - patch)
    x = x.clamp(0, width - patch)
    return ((first + y) * width + x).flatten(0, 2)


def _of_one_size(
    places: Tensor, strip: Strip, shape: tuple[int, int], step: Pass, most: int
) -> Iterator[Tensor]:
    """Yield the groups of a strip by their size: (groups, size)."""
    sizes = group_sizes(strip.block, shape, step.settings, most)
    for size in np.unique(sizes):
        if (sizes == size).all():
            yield places[:, :size]
        else:
            groups = np.flatnonzero(np.tile(sizes == size, len(places) // len(sizes)))
            yield places[to_device_of(places, groups), :size]


def _bytes_of_a_group(groups: Tensor, planes: PlaneSet, patch: int, noisy: Tensor) -> int:
    """The memory that a formula needs for a group: copies of the patches, square matrices, and pixel indices."""
    n, m = planes.number * patch**2, groups.shape[1]
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
    planes, patch, partly = plane_set.planes, step.settings.patch_size, inputs.partly
    noisy, guide, variance = inputs.noisy, inputs.guide, inputs.noise.variance
    keep = 0.0 if partly is None else partly.keep
    shape = noisy[planes].shape
    steps = torch.arange(patch, device=noisy.device)
    pixels = groups[:, None] + (steps[:, None] * shape[-1] + steps).flatten()[:, None]

    def gathered(image: Tensor) -> Tensor:
        """The groups of an image, (groups, n, m)."""
        return torch.cat([plane.flatten()[pixels] for plane in image[planes]], dim=1)

    Y = gathered(noisy)
    X = Y if guide is noisy else gathered(guide)
    V = gathered(variance.expand_as(noisy)) if isinstance(variance, Tensor) else variance
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
    formula, width = step.estimator.formula, shape[-1]
    if whitening is None:
        estimate, weights = evaluate(formula, Y, X, noise)
    else:
        estimate, weights = evaluate_whitened(
            formula, Y, X, noise, whitening, groups // width, groups % width
        )
    # Changes are averaged rather than pixels: sums of bright pixels would lose digits.
    change = estimate - Y
    kinds = [change, (1 - keep / left) * change] if keep > 0 else [change]

    def added(values: Tensor, places: Tensor) -> Tensor:
        sums = noisy.new_zeros(shape[1:].numel())
        return sums.index_add(0, places.flatten(), values.flatten()).view(shape[1:])

    sums = [
        added(values, pixels)
        for kind in kinds
        for values in (weights[:, None] * kind).split(patch**2, dim=1)
    ]
    return torch.stack(sums).view(len(kinds), *shape), added(weights, groups)


def _weights_of_pixels(corners: Tensor, patch: int) -> Tensor:
    """The sum of the weights of the patches that cover each pixel, from the weights at their corners."""
    before = pad(corners[:, None], (patch - 1, 0, patch - 1, 0))
    return avg_pool2d(before, patch, stride=1, divisor_override=1)[:, 0]
