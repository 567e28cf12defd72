"""The PyTorch engine: one pass over images that are tensors, on whatever device they are.

Matching, gathering and averaging are written for tensors; groups are denoised by the family's formula, many at a
time.  Images are tensors of (planes, batch, height, width).  A strip is some rows of reference patches, of one
image or, where images are small, of several; it reads and writes the pixels that its windows reach.  Python
never looks at what is computed, so that it never waits for the device.
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
from ..arrays import sent
from ..families import GroupNoise
from ..families.family import applied
from ..patches.matching import BRIGHT, FAR
from .grid import Block, Positions, group_sizes, references

Groups: TypeAlias = dict[tuple[int, ...], Tensor]
"""Where the similar patches of each strip are, by its name."""
Sums: TypeAlias = tuple[Tensor, Tensor]

_LEAST_MEMORY = 2**20


class Strip(NamedTuple):
    """Evenly spaced rows of reference patches of some images, and the rows of pixels that they reach."""

    images: slice
    block: Block
    pixels: slice

    def of(self, image: Tensor) -> Tensor:
        return image[:, self.images, self.pixels]

    @property
    def name(self) -> tuple[int, ...]:
        return self.images.start, int(self.block.ys[0]), int(self.block.ys[-1])


def run_pass(
    inputs: StepInputs, step: Pass, groups: Groups | None = None, *, max_memory: int
) -> tuple[Tensor, Tensor]:
    """Match on `inputs.similar`, denoise the groups, and average them back into images.

    As `nlridge.engines.cpu.run_pass`, for tensors.  `max_memory` is what it may take at a time, in bytes; if the
    device runs out of memory, it tries again with half of that.
    """
    while True:
        try:
            return _run_pass(inputs, step, groups, max_memory)
        except torch.OutOfMemoryError:
            if max_memory <= _LEAST_MEMORY:
                raise
        max_memory //= 2
        if groups is not None:  # those of larger strips
            groups.clear()
        warnings.warn(
            f"{inputs.noisy.device} is out of memory; trying again with max_memory={max_memory} "
            "(pass max_memory to NLRidge to begin with less)",
            RuntimeWarning,
            stacklevel=2,
        )


def _run_pass(
    inputs: StepInputs, step: Pass, known: Groups | None, max_memory: int
) -> tuple[Tensor, Tensor]:
    noisy, similar, patch = inputs.noisy, inputs.similar, step.settings.patch_size
    sets = step.plane_sets(len(noisy))
    sums = noisy.new_zeros((2 if inputs.keeps_noise else 1, *noisy.shape))
    weight = noisy.new_zeros((len(sets), *noisy.shape[1:]))
    most = max(planes.group_size for planes in sets)
    for strip in _strips(similar, step, max_memory):
        places = _places(similar, strip, step, most, known)
        here = inputs.mapped(strip.of)
        for k, planes in enumerate(sets):
            average = _recomputed(partial(_sums, here, planes, step), inputs)
            for groups in _of_one_size(places, strip, noisy.shape[2:], step, planes.group_size):
                at_once = max_memory // _bytes_of_a_group(groups, planes, patch, noisy)
                for part in groups.split(max(1, at_once)):
                    some, corners = average(part)
                    sums[:, planes.planes, strip.images, strip.pixels] += some
                    weight[k, strip.images, strip.pixels] += corners
    found = torch.cat(
        [
            sums[:, planes.planes] / _spread(corners, patch)
            for planes, corners in zip(sets, weight, strict=True)
        ],
        dim=1,
    )
    # Next to pixels so bright that float32 cannot resolve the noise, the image is left as it is.
    found = noisy + torch.where(found.abs() < BRIGHT, found, 0)
    return found[0], found[-1]


def _strips(similar: Tensor, step: Pass, max_memory: int) -> Iterator[Strip]:
    """All reference patches, as many at a time as memory allows for matching."""
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
        for there in strips:
            reach = slice(
                max(0, int(there[0]) - radius),
                min(height, int(there[-1]) + settings.patch_size + radius),
            )
            yield Strip(slice(first, first + images), Block(there, xs), reach)


def _evenly_spaced(positions: Positions, stride: int) -> list[Positions]:
    """Positions that are a stride apart, together: all, but for the first and the last of an image at times."""
    return np.split(positions, 1 + np.flatnonzero(np.diff(positions) != stride))


def _places(similar: Tensor, strip: Strip, step: Pass, count: int, known: Groups | None) -> Tensor:
    """Those of `match`, which are remembered if there are rounds to come."""
    if known is None:
        return match(similar, strip, step, count)
    if strip.name not in known:
        known[strip.name] = match(similar, strip, step, count).int()
    return known[strip.name].long()


@torch.no_grad()
def match(similar: Tensor, strip: Strip, step: Pass, count: int) -> Tensor:
    """The `count` patches that are nearest to each reference, the nearest first: (references, count).

    A patch is named by the place of its corner among the pixels of the strip.  Where the window holds fewer, what
    comes after those means nothing.
    """
    planes, _, height, width = similar.shape
    settings = step.settings
    ys, xs = strip.block
    patch, stride, window = settings.patch_size, settings.stride, settings.window
    radius = window // 2
    top, bottom = int(ys[0]), int(ys[-1]) + patch
    here = similar[:, strip.images, top:bottom, None]
    there = pad(
        strip.of(similar),
        (radius, radius, max(0, radius - top), max(0, bottom + radius - height)),
        value=float(FAR),
    ).unfold(-1, width, 1)
    batch, rows = here.shape[1:3]
    squares, difference = similar.new_empty((2, batch, rows, window, width))
    distances = similar.new_empty((batch, len(ys), len(xs), window, window))
    for dy in range(window):
        torch.sub(there[0, :, dy : dy + rows], here[0], out=squares).square_()
        for k in range(1, planes):
            torch.sub(there[k, :, dy : dy + rows], here[k], out=difference)
            squares.addcmul_(difference, difference)
        tall = squares.unfold(1, patch, stride).sum(-1)
        column = 0
        for run in _evenly_spaced(xs, stride):
            wide = tall[..., run[0] : run[-1] + patch].unfold(-1, patch, stride).sum(-1).mT
            distances[:, :, column : column + len(run), dy] = wide
            column += len(run)
    distances[..., radius, radius] = -1  # the reference itself is always the first choice
    nearest = distances.flatten(-2).topk(min(count, window**2), largest=False).indices
    image = torch.arange(batch, device=similar.device)
    first = (image * (strip.pixels.stop - strip.pixels.start))[:, None, None, None]
    corner = ys - strip.pixels.start - radius
    y = sent(corner, similar)[:, None, None] + nearest // window
    x = sent(xs - radius, similar)[:, None] + nearest % window
    # Whatever the distances are, also if they are no numbers, these are patches of the image.
    y = y.clamp(0, strip.pixels.stop - strip.pixels.start - patch)
    x = x.clamp(0, width - patch)
    return ((first + y) * width + x).flatten(0, 2)


def _of_one_size(
    places: Tensor, strip: Strip, shape: tuple[int, int], step: Pass, most: int
) -> Iterator[Tensor]:
    """The groups of a strip, those of one size together: (groups, size)."""
    sizes = group_sizes(strip.block, shape, step.settings, most)
    for size in np.unique(sizes):
        if (sizes == size).all():
            yield places[:, :size]
        else:
            these = np.flatnonzero(np.tile(sizes == size, len(places) // len(sizes)))
            yield places[sent(these, places), :size]


def _bytes_of_a_group(groups: Tensor, planes: PlaneSet, patch: int, noisy: Tensor) -> int:
    """What a formula takes: the patches some times over, some square matrices, and where the patches are."""
    n, m = planes.number * patch**2, groups.shape[1]
    return noisy.element_size() * (8 * n * m + 6 * (m**2 + n**2)) + 8 * n * m


def _recomputed(function: Callable[..., Sums], inputs: StepInputs) -> Callable[..., Sums]:
    """The function, which for gradients is run again rather than all that it computes be kept."""
    wanted = (image.requires_grad for image in inputs.images())
    if not (torch.is_grad_enabled() and any(wanted)):
        return function
    return partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False)


def _sums(inputs: StepInputs, plane_set: PlaneSet, step: Pass, groups: Tensor) -> Sums:
    """The weighted sums of what changes in the patches, and the weights at their corners, in the shape of the strip.

    There are two kinds of sums if some noise is to be kept: without it and with it.
    """
    planes, patch, partly = plane_set.planes, step.settings.patch_size, inputs.partly
    noisy, guide, variance = inputs.noisy, inputs.guide, inputs.noise.variance
    keep = 0.0 if partly is None else partly.keep
    shape = noisy[planes].shape
    steps = torch.arange(patch, device=noisy.device)
    pixels = groups[:, None] + (steps[:, None] * shape[-1] + steps).flatten()[:, None]

    def gathered(image: Tensor) -> Tensor:
        """(groups, n, m)"""
        return torch.cat([plane.flatten()[pixels] for plane in image[planes]], dim=1)

    Y = gathered(noisy)
    X = Y if guide is noisy else gathered(guide)
    V = gathered(variance.expand_as(noisy)) if isinstance(variance, Tensor) else variance
    left = 1.0
    if partly is not None:
        spread = (gathered(partly.original) - Y).var((1, 2), correction=0, keepdim=True)
        typical = V.mean((1, 2), keepdim=True) if isinstance(V, Tensor) else V
        # A root has no gradient at 0.
        left = (1 - (spread / typical + 1e-12) ** 0.5).clip(min=keep + 1e-6)
    V = V * left**2
    # A formula is promised a number, or a tensor of the shape of Y.
    noise = GroupNoise(V.expand_as(Y) if isinstance(V, Tensor) else V)
    estimate, weights = applied(step.estimator.formula, Y, X, noise)
    if not (isinstance(estimate, Tensor) and isinstance(weights, Tensor)):
        raise TypeError(
            f"the formula gave {type(estimate).__name__} and {type(weights).__name__}; "
            "expected tensors for tensors"
        )
    expected = tuple(Y.shape), (Y.shape[0], Y.shape[-1])
    if (tuple(estimate.shape), tuple(weights.shape)) != expected:
        raise ValueError(
            f"the formula gave tensors of shapes {tuple(estimate.shape)} and {tuple(weights.shape)}; "
            f"expected {expected[0]} and {expected[1]}"
        )
    # What changes is averaged: sums of bright patches would lose digits.
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


def _spread(corners: Tensor, patch: int) -> Tensor:
    """The sum of the weights of the patches that cover each pixel, from the weights at their corners."""
    before = pad(corners[:, None], (patch - 1, 0, patch - 1, 0))
    return avg_pool2d(before, patch, stride=1, divisor_override=1)[:, 0]
