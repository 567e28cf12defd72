"""The result of an image with one set of settings, computed part by part."""

import numpy as np

from ... import Summary
from ...files import Picture
from ...types import Pixels
from .messages import Rectangle

SIDE = 256
"""The side of the square cells that a result is divided into, and of a tile on the screen."""


class Result:
    """Pixels of the type of the image, some cells of which are done.

    They are those of a layer of the file, with all of its frames. Memory that is never written to costs nothing.
    """

    def __init__(self, pixels: Pixels, frames: int, height: int, width: int) -> None:
        self.pixels = pixels
        self.done = np.zeros((frames, -(-height // SIDE), -(-width // SIDE)), bool)
        self.overviews: dict[int, Pixels] = {}
        """Reduced copies of complete frames."""
        self.raw: Picture | None = None
        """The picture to save, if the pixels were developed from it."""
        self.details: Summary | None = None
        """What was found when the raw picture was denoised."""

    @property
    def is_complete(self) -> bool:
        return bool(self.done.all())

    def mark(self, frame: int, rectangle: Rectangle) -> None:
        """Mark the cells of a rectangle as done; it begins and ends at the edges of cells, or of the image."""
        rows, columns = cells(rectangle)
        self.done[frame, rows, columns] = True

    def covers(self, frame: int, rectangle: Rectangle) -> bool:
        """Return whether a rectangle of a frame is done."""
        rows, columns = cells(rectangle)
        return bool(self.done[frame, rows, columns].all())

    def missing(self, frame: int, rectangle: Rectangle, size: tuple[int, int]) -> Rectangle | None:
        """Return the smallest rectangle of whole cells that covers what is missing of a rectangle in an image of this size."""
        rows, columns = cells(rectangle)
        gone = ~self.done[frame, rows, columns]
        if not gone.any():
            return None
        ends = []
        for start, axis, length in ((rows.start, 1, size[0]), (columns.start, 0, size[1])):
            found = np.flatnonzero(gone.any(axis=axis)) + start
            first, last = int(found[0]) * SIDE, min(int(found[-1] + 1) * SIDE, length)
            ends.append((first, last - first))
        (top, height), (left, width) = ends
        return left, top, width, height


def cells(rectangle: Rectangle) -> tuple[slice, slice]:
    """Return the rows and columns of the cells that a rectangle touches."""
    left, top, width, height = rectangle
    return (
        slice(top // SIDE, -(-(top + height) // SIDE)),
        slice(left // SIDE, -(-(left + width) // SIDE)),
    )


def snapped(rectangle: Rectangle, size: tuple[int, int], side: int = SIDE) -> Rectangle:
    """Return the smallest rectangle of whole cells of a side around another, within an image of (height, width)."""
    left, top, width, height = rectangle
    x, y = left // side * side, top // side * side
    right = min(-(-(left + width) // side) * side, size[1])
    bottom = min(-(-(top + height) // side) * side, size[0])
    return x, y, right - x, bottom - y
