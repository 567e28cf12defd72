"""The grid of reference patches, divided into blocks, and the part of an image that a block reads and writes.

All blocks have the same number of rows and columns of reference patches, counted from the top left corner of the image,
except for those at the bottom and on the right.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ...types import Image, Positions
from ..algorithm.passes import Pass
from ..algorithm.settings import Step

_ROWS, _COLUMNS = 16, 32  # rows and columns of reference patches in a block


class Block(NamedTuple):
    """The coordinates, in the image, of the corners of a block's reference patches."""

    ys: Positions
    xs: Positions


class BlockPart(NamedTuple):
    """The reference patches of a block that are denoised: all of them, or only some."""

    some: Block
    whole: Block


class Window(NamedTuple):
    """Some rows and columns of an image; the window of a block may extend beyond the image."""

    rows: range
    columns: range

    def inside(self, held: "Window") -> tuple[slice, slice, slice]:
        """The index of this window in an array of (planes, rows, columns) that holds another window."""
        return (
            slice(None),
            slice_within(self.rows, held.rows),
            slice_within(self.columns, held.columns),
        )

    def overlap(self, other: "Window") -> "Window":
        """The part that two windows have in common."""
        return Window(_common(self.rows, other.rows), _common(self.columns, other.columns))

    def cut(self, image: Image, held: "Window", outside: float) -> Image:
        """A copy of this part of an image that covers the window `held`, padded with the value `outside`."""
        copy = np.full((len(image), len(self.rows), len(self.columns)), outside, np.float32)
        common = self.overlap(held)
        copy[common.inside(self)] = image[common.inside(held)]
        return copy

    def add(self, part: Image, image: Image, held: "Window") -> None:
        """Add `part`, which has the size of this window, to an image that covers the window `held`."""
        common = self.overlap(held)
        image[common.inside(held)] += part[common.inside(self)]


def whole_window(shape: tuple[int, int]) -> Window:
    """All rows and columns of an image."""
    height, width = shape
    return Window(range(height), range(width))


def slice_within(part: range, whole: range) -> slice:
    """The slice that selects the rows or columns `part` from those in `whole`."""
    return slice(part.start - whole.start, part.stop - whole.start)


def _common(a: range, b: range) -> range:
    start = max(a.start, b.start)
    return range(start, max(min(a.stop, b.stop), start))


def lines(
    shape: tuple[int, int], pass_: Pass, window: Window | None = None, *, trimmed: bool = False
) -> list[list[BlockPart]]:
    """The blocks of reference patches of an image, line by line; if a window is given, only those that reach it.

    If they are `trimmed`, only the reference patches that reach the window are denoised. The others add nothing to it,
    so its pixels have the same bits. Formulas receive all groups of a block at once, and need whole blocks.
    """
    trimmed = trimmed and pass_.estimator.kernel is not None
    rows, columns = (
        _runs(references(length, pass_), count, pass_, span, trimmed)
        for length, count, span in zip(
            shape, (_ROWS, _COLUMNS), window or whole_window(shape), strict=True
        )
    )
    return [
        [BlockPart(Block(ys, xs), Block(all_ys, all_xs)) for xs, all_xs in columns]
        for ys, all_ys in rows
    ]


def _runs(
    corners: Positions, count: int, pass_: Pass, span: range, trimmed: bool
) -> list[tuple[Positions, Positions]]:
    """The corners, along an axis, of each block that reaches a span of pixels: those to denoise, and all of them."""
    radius, patch = pass_.settings.window // 2, pass_.settings.patch_size
    reaching = (corners - radius < span.stop) & (corners + patch + radius > span.start)
    runs = []
    for k in range(0, len(corners), count):
        run, reached = corners[k : k + count], reaching[k : k + count]
        if reached.any():
            runs.append((run[reached] if trimmed else run, run))
    return runs


def references(length: int, pass_: Pass, shift: int = 0) -> Positions:
    """The positions of the reference patches along an axis: one stride apart, plus the first and the last position.

    `shift` moves the grid by as many pixels, modulo the stride.
    """
    settings = pass_.settings
    last = length - settings.patch_size
    start = ((settings.stride // 2 if pass_.is_shifted else 0) + shift) % settings.stride
    return np.union1d(np.arange(start, last + 1, settings.stride), [0, last]).astype(np.intp)


def reach(grid: Sequence[Sequence[BlockPart]], shape: tuple[int, int], settings: Step) -> Window:
    """The part of the image that lines of blocks read, and add to."""
    radius, first, last = settings.window // 2, grid[0][0].some, grid[-1][-1].some
    rows, columns = (
        range(int(start) - radius, int(end) + settings.patch_size + radius)
        for start, end in ((first.ys[0], last.ys[-1]), (first.xs[0], last.xs[-1]))
    )
    return Window(rows, columns).overlap(whole_window(shape))


def group_sizes(block: Block, shape: tuple[int, int], settings: Step, most: int) -> Positions:
    """The number of patches in the group of each reference: `most`, or as many as its window contains."""
    rows, columns = map(partial(_inside, settings=settings), block, shape)
    return np.minimum(np.outer(rows, columns), most).reshape(-1)


def distinct_sizes(
    grid: Sequence[Sequence[BlockPart]], shape: tuple[int, int], settings: Step, most: int
) -> set[int]:
    """The `group_sizes` that occur in some lines of blocks."""
    ys = np.concatenate([line[0].some.ys for line in grid])
    xs = np.concatenate([block.some.xs for block in grid[0]])  # the same in all lines
    rows, columns = (
        np.unique(_inside(corners, length, settings))
        for corners, length in zip((ys, xs), shape, strict=True)
    )
    return set(np.minimum(np.outer(rows, columns), most).ravel().tolist())


def _inside(corners: Positions, length: int, settings: Step) -> Positions:
    """The number of positions, along an axis, in the window of each corner."""
    radius, last = settings.window // 2, length - settings.patch_size
    inside: Positions = np.minimum(corners + radius, last) - np.maximum(corners - radius, 0) + 1
    return inside


def split_range(rows: range, count: int) -> Iterator[range]:
    """Yield consecutive parts of a range, of `count` elements each; the last one may be shorter."""
    for start in range(rows.start, rows.stop, count):
        yield range(start, min(start + count, rows.stop))
