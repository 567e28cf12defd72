"""Where reference patches stand, in blocks, and which part of an image a block reads and writes.

A block is a fixed number of reference rows and columns, counted from the corner of the image.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..algorithm.passes import Pass
from ..algorithm.settings import Step

Image = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

_ROWS, _COLUMNS = 16, 32  # reference patches of a block


class Block(NamedTuple):
    """The corners of the reference patches of a block, in the coordinates of the image."""

    ys: Positions
    xs: Positions


class Window(NamedTuple):
    """The part of the image that a block reads and writes; it may reach beyond the image."""

    top: int
    left: int
    height: int
    width: int

    def cut(self, image: Image, outside: float) -> Image:
        """A padded copy of this part of the image."""
        copy = np.full((len(image), self.height, self.width), outside, np.float32)
        here, there = self._overlap(image)
        copy[here] = image[there]
        return copy

    def add(self, part: Image, image: Image) -> None:
        """Add this part to the image."""
        here, there = self._overlap(image)
        image[there] += part[here]

    def _overlap(self, image: Image) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Where the window and the image overlap, in coordinates of the one and of the other."""
        _, height, width = image.shape
        y0, y1 = max(self.top, 0), min(self.top + self.height, height)
        x0, x1 = max(self.left, 0), min(self.left + self.width, width)
        here = slice(y0 - self.top, y1 - self.top), slice(x0 - self.left, x1 - self.left)
        return (slice(None), *here), (slice(None), slice(y0, y1), slice(x0, x1))


def lines(shape: tuple[int, int], step: Pass, rows: range | None = None) -> list[list[Block]]:
    """The reference patches of an image, in lines of blocks; only those that reach some rows, if they are given.

    They are a grid of the given stride, and the first and last row and column.
    """
    ys, xs = (references(length, step) for length in shape)
    columns = [xs[j : j + _COLUMNS] for j in range(0, len(xs), _COLUMNS)]
    found = []
    for i in range(0, len(ys), _ROWS):
        line = [Block(ys[i : i + _ROWS], some) for some in columns]
        reach = rows_read([line], shape, step.settings)
        if rows is None or (reach.start < rows.stop and rows.start < reach.stop):
            found.append(line)
    return found


def references(length: int, step: Pass) -> Positions:
    """Where the reference patches of an axis begin."""
    settings = step.settings
    last = length - settings.patch_size
    start = settings.stride // 2 if step.is_shifted else 0
    return np.union1d(np.arange(start, last + 1, settings.stride), [0, last]).astype(np.intp)


def rows_read(some: Sequence[Sequence[Block]], shape: tuple[int, int], settings: Step) -> range:
    """The rows of the image that lines of blocks read, which are those that they add to."""
    radius = settings.window // 2
    first, last = some[0][0].ys[0], some[-1][0].ys[-1]
    return range(
        max(int(first) - radius, 0), min(int(last) + settings.patch_size + radius, shape[0])
    )


def group_sizes(block: Block, shape: tuple[int, int], settings: Step, most: int) -> Positions:
    """How many patches the group of each reference has: fewer than `most` where its window holds fewer."""
    radius = settings.window // 2
    rows, columns = (
        np.minimum(corners + radius, length - settings.patch_size) - np.maximum(corners - radius, 0)
        for corners, length in zip(block, shape, strict=True)
    )
    return np.minimum(np.outer(rows + 1, columns + 1), most).reshape(-1)
