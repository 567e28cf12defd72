"""The grid of reference patches, divided into blocks, and the part of an image that a block reads and writes.

All blocks have the same number of rows and columns of reference patches, counted from the top left corner of the image,
except for those at the bottom and at the right.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..algorithm.passes import Pass
from ..algorithm.settings import Step

Image = npt.NDArray[np.float32]
Positions = npt.NDArray[np.intp]

_ROWS, _COLUMNS = 16, 32  # rows and columns of reference patches in a block


class Block(NamedTuple):
    """The coordinates, in the image, of the corners of a block's reference patches."""

    ys: Positions
    xs: Positions


class Window(NamedTuple):
    """The part of the image that a block reads and writes; it may extend beyond the image."""

    top: int
    left: int
    height: int
    width: int

    def cut(self, image: Image, outside: float) -> Image:
        """A copy of this part of the image, padded with the value `outside`."""
        copy = np.full((len(image), self.height, self.width), outside, np.float32)
        in_window, in_image = self._overlap(image)
        copy[in_window] = image[in_image]
        return copy

    def add(self, part: Image, image: Image) -> None:
        """Add `part`, which has the size of the window, to this part of the image."""
        in_window, in_image = self._overlap(image)
        image[in_image] += part[in_window]

    def _overlap(self, image: Image) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """The overlap of the window and the image, in the coordinates of each."""
        _, height, width = image.shape
        y0, y1 = max(self.top, 0), min(self.top + self.height, height)
        x0, x1 = max(self.left, 0), min(self.left + self.width, width)
        in_window = slice(y0 - self.top, y1 - self.top), slice(x0 - self.left, x1 - self.left)
        return (slice(None), *in_window), (slice(None), slice(y0, y1), slice(x0, x1))


def lines(shape: tuple[int, int], step: Pass, rows: range | None = None) -> list[list[Block]]:
    """The blocks of reference patches of an image, line by line; if `rows` are given, only lines that reach them."""
    ys, xs = (references(length, step) for length in shape)
    columns = [xs[j : j + _COLUMNS] for j in range(0, len(xs), _COLUMNS)]
    grid = []
    for i in range(0, len(ys), _ROWS):
        line = [Block(ys[i : i + _ROWS], block_columns) for block_columns in columns]
        reach = rows_read([line], shape, step.settings)
        if rows is None or (reach.start < rows.stop and rows.start < reach.stop):
            grid.append(line)
    return grid


def references(length: int, step: Pass, shift: int = 0) -> Positions:
    """The positions of the reference patches along an axis: one stride apart, and the first and the last position.

    `shift` is the position of the second one, or a multiple of the stride more.
    """
    settings = step.settings
    last = length - settings.patch_size
    start = ((settings.stride // 2 if step.is_shifted else 0) + shift) % settings.stride
    return np.union1d(np.arange(start, last + 1, settings.stride), [0, last]).astype(np.intp)


def rows_read(grid: Sequence[Sequence[Block]], shape: tuple[int, int], settings: Step) -> range:
    """The rows of the image that lines of blocks read, and add to."""
    radius = settings.window // 2
    first, last = grid[0][0].ys[0], grid[-1][0].ys[-1]
    return range(
        max(int(first) - radius, 0), min(int(last) + settings.patch_size + radius, shape[0])
    )


def group_sizes(block: Block, shape: tuple[int, int], settings: Step, most: int) -> Positions:
    """The number of patches in the group of each reference: `most`, or as many as its window contains."""
    radius = settings.window // 2
    rows, columns = (
        np.minimum(corners + radius, length - settings.patch_size) - np.maximum(corners - radius, 0)
        for corners, length in zip(block, shape, strict=True)
    )
    return np.minimum(np.outer(rows + 1, columns + 1), most).reshape(-1)
