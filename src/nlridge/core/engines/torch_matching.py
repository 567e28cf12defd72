"""Matching for the PyTorch engine: the nearest patches of each reference patch of a strip, within an image or across frames."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from ...types import Positions
from ..algorithm.passes import Pass
from ..arrays import to_device_of
from ..patches.matching import FAR, FAR_AWAY, OUTSIDE
from .grid import Block


class Strip(NamedTuple):
    """Evenly spaced rows of reference patches of some images, and the rows of pixels that they reach."""

    images: slice
    """The images, or the frame, that the reference patches belong to."""
    block: Block
    pixels: slice
    searched: slice | list[int]
    """The images that are read and written: the same, or the frames in which patches are searched for."""
    shifts: Positions | None = None
    """The rows and columns by which each of these frames as a whole has moved."""

    def of(self, image: Tensor) -> Tensor:
        """The pixels of an image that the strip reaches."""
        return image[:, self.searched, self.pixels]

    @property
    def key(self) -> tuple[int, ...]:
        """What distinguishes the strip from the others of a pass."""
        return self.images.start, int(self.block.ys[0]), int(self.block.ys[-1])


def strip_of(images: slice, block: Block, pass_: Pass, height: int) -> Strip:
    radius, patch = pass_.settings.window // 2, pass_.settings.patch_size
    top, bottom = int(block.ys[0]) - radius, int(block.ys[-1]) + patch + radius
    return Strip(images, block, slice(max(0, top), min(height, bottom)), images)


def evenly_spaced(positions: Positions, stride: int) -> list[Positions]:
    """Divide positions into runs of one stride; only the first and the last position of an axis may be off the grid."""
    return np.split(positions, 1 + np.flatnonzero(np.diff(positions) != stride))


@torch.no_grad()
def match(
    similar: Tensor, strip: Strip, pass_: Pass, count: int, variance: float | Tensor
) -> Tensor:
    """The `count` patches that are nearest to each reference, nearest first: (references, count).

    A patch is given by the index of its corner among the pixels of the strip. If the window contains fewer patches,
    the rest of the row is meaningless.
    """
    batch, width = len(similar[0, strip.images]), similar.shape[-1]
    patch, window = pass_.settings.patch_size, pass_.settings.window
    ys, xs = strip.block
    distances = _distances(similar, strip, pass_, variance)
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


def _distances(similar: Tensor, strip: Strip, pass_: Pass, variance: float | Tensor) -> Tensor:
    """The squared distances of the patches in the window of each reference: (batch, rows, columns, window, window)."""
    planes, _, height, width = similar.shape
    settings = pass_.settings
    ys, xs = strip.block
    patch, stride, window = settings.patch_size, settings.stride, settings.window
    every, ignored = settings.every, pass_.ignored
    radius = window // 2
    top, bottom = int(ys[0]), int(ys[-1]) + patch
    reference_rows = similar[:, strip.images, top:bottom, None]
    # The last rows and columns of a patch may not be compared: the border of the image moves inwards by as many, so that
    # patches that extend beyond the image are still recognised.
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
        for run in evenly_spaced(xs, stride):
            wide = tall[..., run[0] : run[-1] + patch].unfold(-1, patch, stride)[..., ::every]
            distances[:, :, column : column + len(run), dy] = wide.sum(-1).mT
            column += len(run)
    if pass_.nearness > 0:
        if isinstance(variance, Tensor):  # that of each reference
            rows_of, columns_of = (to_device_of(similar, places) for places in (ys, xs))
            own = variance[0].expand(similar.shape[1:])[strip.images]
            variance = own[:, rows_of][:, :, columns_of][..., None, None]
        offset = torch.arange(-radius, radius + 1, device=similar.device) / FAR_AWAY
        away = (offset[:, None] ** 2 + offset**2).to(similar.dtype)
        compared = planes * len(range(0, patch, every)) ** 2
        distances += pass_.nearness * compared * variance * away
    distances[..., radius, radius] = -4  # the reference itself always comes first
    gap = stride - patch
    # Then come the patches that cover the gap between a reference and the next, in reading order.
    if gap > 0:
        for rank, (dy, dx) in zip((-3, -2, -1), ((0, gap), (gap, 0), (gap, gap)), strict=True):
            covering = distances[..., radius + dy, radius + dx]
            covering.masked_fill_(covering < float(OUTSIDE), rank)
    return distances


def in_depth(similar: Tensor, depth: int) -> Tensor:
    """The frames in which patches are searched for; the frames of a patch that extends over several are its planes."""
    if depth == 1:
        return similar
    return similar[0].unfold(0, depth, 1).movedim(-1, 0)


@torch.no_grad()
def match_across(similar: Tensor, strip: Strip, pass_: Pass, count: int) -> Tensor:
    """`match` for frames that belong together: references are followed from frame to frame.

    See `patches.tracking`. A patch is given by the index of its corner among the pixels of all frames of the strip.
    """
    height, width = similar.shape[2:]
    search, patch, radius = pass_.frames, pass_.settings.patch_size, pass_.settings.window // 2
    every = pass_.settings.every
    assert isinstance(strip.searched, list)
    assert strip.shifts is not None
    number, shifts = strip.searched.index(strip.images.start), strip.shifts.tolist()
    ys, xs = (
        to_device_of(similar, np.ravel(corners))
        for corners in np.meshgrid(*strip.block, indexing="ij")
    )
    own = strip_of(strip.images, strip.block, pass_, height)
    distances = [_distances(similar, own, pass_, 1.0).flatten(0, 2).flatten(1)]

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
            squares = _compared(_cut(around, y, x, side + patch - 1), references, side, every)
            if every > 1:  # the pixels beyond the frame may be among those that are not compared
                steps = torch.arange(-reach, reach + 1, device=similar.device)
                rows, columns = y[:, None] + steps, x[:, None] + steps
                above, left = (
                    (rows < 0) | (rows > height - patch),
                    (columns < 0) | (columns > width - patch),
                )
                squares.masked_fill_((above[:, :, None] | left[:, None]).flatten(1), float("inf"))
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
    """Squares with the given corners, cut from a frame of (planes, height, width): (planes, squares, side, side)."""
    steps = torch.arange(side, device=frame.device)
    return frame[:, (y[:, None] + steps)[:, :, None], (x[:, None] + steps)[:, None]]


def _compared(around: Tensor, references: Tensor, side: int, every: int) -> Tensor:
    """The squared distances between each reference and the patches around it: (references, side * side).

    Patches are compared at every `every`-th pixel along both axes.
    """
    patch = references.shape[-1]
    compared = references[..., ::every, None, ::every]
    rows = []
    for dy in range(side):
        patches = around[:, :, dy : dy + patch : every].unfold(-1, patch, 1)[..., ::every]
        rows.append((patches - compared).square_().sum((0, 2, 4)))
    return torch.cat(rows, dim=1)
