"""The PyTorch engine: one step of the algorithm on tensors, on whatever device they are.

Matching, gathering and averaging are written for tensors; groups are denoised by the family's formula, many at a
time.  Images are tensors of (planes, batch, height, width).  A strip is some rows of reference patches, of one
image or, where images are small, of several; it reads and writes the pixels that its windows reach.  Python
never looks at what is computed, so that it never waits for the device.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, pad
from torch.utils.checkpoint import checkpoint

from ..arrays import sent
from ..families import Estimator, applied
from ..patches.matching import BRIGHT, FAR
from ..recipes import Step
from ..rounds import Partly
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


class _Images(NamedTuple):
    """What a step reads."""

    noisy: Tensor
    guide: Tensor
    variance: float | Tensor
    original: Tensor | None

    def of(self, strip: Strip) -> "_Images":
        """The part of all of them that belongs to a strip."""
        parts = [strip.of(image) if isinstance(image, Tensor) else image for image in self]
        if self.guide is self.noisy:
            parts[1] = parts[0]
        return _Images(*parts)


def step(
    noisy: Tensor,
    guide: Tensor,
    estimator: Estimator,
    settings: Step,
    variance: float | Tensor,
    *,
    similar: Tensor,
    bands: Sequence[range],
    partly: Partly | None = None,
    groups: Groups | None = None,
    shifted: bool = False,
    max_memory: int,
) -> tuple[Tensor, Tensor]:
    """Match on `similar`, denoise the groups, and average them back into images.

    As `nlridge.engines.cpu.step`, for tensors.  `max_memory` is what it may take at a time, in bytes; where the
    device has not as much, it is tried again with half of it.
    """
    run = partial(_step, bands=bands, estimator=estimator, settings=settings, shifted=shifted)
    keep = 0.0 if partly is None else partly.keep
    images = _Images(noisy, guide, variance, None if partly is None else partly.original)
    while True:
        try:
            return run(images, similar, keep=keep, known=groups, max_memory=max_memory)
        except torch.OutOfMemoryError:
            if max_memory <= _LEAST_MEMORY:
                raise
        max_memory //= 2
        if groups is not None:  # those of larger strips
            groups.clear()
        warnings.warn(
            f"{noisy.device} is out of memory; trying again with max_memory={max_memory} "
            "(pass max_memory to NLRidge to begin with less)",
            RuntimeWarning,
            stacklevel=2,
        )


def _step(
    images: _Images,
    similar: Tensor,
    *,
    bands: Sequence[range],
    estimator: Estimator,
    settings: Step,
    shifted: bool,
    keep: float,
    known: Groups | None,
    max_memory: int,
) -> tuple[Tensor, Tensor]:
    noisy, patch = images.noisy, settings.patch_size
    sums = noisy.new_zeros((2 if keep > 0 else 1, *noisy.shape))
    weight = noisy.new_zeros((len(bands), *noisy.shape[1:]))
    sizes = [
        settings.group_size if k == 0 else settings.chroma_group_size or settings.group_size
        for k in range(len(bands))
    ]
    for strip in _strips(similar, settings, shifted, max_memory):
        places = _places(similar, strip, settings, max(sizes), known)
        here = images.of(strip)
        for k, planes in enumerate(bands):
            there = slice(planes.start, planes.stop)
            average = _recomputed(partial(_sums, here, there, estimator, patch, keep), images)
            for groups in _of_one_size(places, strip, noisy.shape[2:], settings, sizes[k]):
                most = max_memory // _bytes_of_a_group(groups, planes, patch, noisy)
                for part in groups.split(max(1, most)):
                    some, corners = average(part)
                    sums[:, there, strip.images, strip.pixels] += some
                    weight[k, strip.images, strip.pixels] += corners
    found = torch.cat(
        [
            sums[:, planes.start : planes.stop] / _spread(corners, patch)
            for planes, corners in zip(bands, weight, strict=True)
        ],
        dim=1,
    )
    # Next to pixels so bright that float32 cannot resolve the noise, the image is left as it is.
    found = noisy + torch.where(found.abs() < BRIGHT, found, 0)
    return found[0], found[-1]


def _strips(similar: Tensor, settings: Step, shifted: bool, max_memory: int) -> Iterator[Strip]:
    """All reference patches, as many at a time as memory allows for matching."""
    _, batch, height, width = similar.shape
    ys, xs = (references(length, settings, shifted) for length in (height, width))
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


def _places(
    similar: Tensor, strip: Strip, settings: Step, count: int, known: Groups | None
) -> Tensor:
    """Those of `match`, which are remembered if there are rounds to come."""
    if known is None:
        return match(similar, strip, settings, count)
    if strip.name not in known:
        known[strip.name] = match(similar, strip, settings, count).int()
    return known[strip.name].long()


@torch.no_grad()
def match(similar: Tensor, strip: Strip, settings: Step, count: int) -> Tensor:
    """The `count` patches that are nearest to each reference, the nearest first: (references, count).

    A patch is named by the place of its corner among the pixels of the strip.  Where the window holds fewer, what
    comes after those means nothing.
    """
    planes, _, height, width = similar.shape
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
    places: Tensor, strip: Strip, shape: tuple[int, int], settings: Step, most: int
) -> Iterator[Tensor]:
    """The groups of a strip, those of one size together: (groups, size)."""
    sizes = group_sizes(strip.block, shape, settings, most)
    for size in np.unique(sizes):
        if (sizes == size).all():
            yield places[:, :size]
        else:
            these = np.flatnonzero(np.tile(sizes == size, len(places) // len(sizes)))
            yield places[sent(these, places), :size]


def _bytes_of_a_group(groups: Tensor, planes: range, patch: int, noisy: Tensor) -> int:
    """What a formula takes: the patches some times over, some square matrices, and where the patches are."""
    n, m = len(planes) * patch**2, groups.shape[1]
    return noisy.element_size() * (8 * n * m + 6 * (m**2 + n**2)) + 8 * n * m


def _recomputed(function: Callable[..., Sums], images: _Images) -> Callable[..., Sums]:
    """The function, which for gradients is run again rather than all that it computes be kept."""
    wanted = (isinstance(image, Tensor) and image.requires_grad for image in images)
    if not (torch.is_grad_enabled() and any(wanted)):
        return function
    return partial(checkpoint, function, use_reentrant=False, preserve_rng_state=False)


def _sums(
    images: _Images, planes: slice, estimator: Estimator, patch: int, keep: float, groups: Tensor
) -> Sums:
    """The weighted sums of what changes in the patches, and the weights at their corners, in the shape of the strip.

    There are two kinds of sums if some noise is to be kept: without it and with it.
    """
    noisy, guide, variance, original = images
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
    if original is not None:
        spread = (gathered(original) - Y).var((1, 2), correction=0, keepdim=True)
        typical = V.mean((1, 2), keepdim=True) if isinstance(V, Tensor) else V
        # A root has no gradient at 0.
        left = (1 - (spread / typical + 1e-12) ** 0.5).clip(min=keep + 1e-6)
    V = V * left**2
    # A formula is promised a number, or a tensor of the shape of Y.
    variances = V.expand_as(Y) if isinstance(V, Tensor) else V
    estimate, weights = applied(estimator.formula, Y, X, variances)
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
