"""A part of a coarser image, or of one that a coarser image helps, the same to the bit as in the whole.

The filters of `pyramid` are short: a part that is cut out with a margin as wide as they reach, and where their
phase is the same, gives the same numbers within the margin.
"""

from collections.abc import Iterator

import numpy as np

from ..algorithm import pyramid
from .lazy import Image

_REACH = 16  # pixels that filters reach to either side, at the size of the finer image, and more
_WIDE = 2048  # columns at a time, so that what is computed on the way is small


def around(rows: range, height: int, level: int) -> range:
    """The rows that are needed for some rows of `pyramid.with_coarse` of a level."""
    phase = 2**level
    margin = _REACH * phase
    top = max(rows.start - margin, 0) // phase * phase
    return range(top, min(-(-(rows.stop + margin) // phase) * phase, height))


def halved(rows: range) -> range:
    """The rows of the coarser image that belong to those."""
    return range(rows.start // 2, -(-rows.stop // 2))


def fine_rows(rows: range, height: int) -> range:
    """The rows that are needed for some rows of the coarser image."""
    return around(range(2 * rows.start, min(2 * rows.stop, height)), height, 1)


def coarser_part(image: Image, there: range, rows: range) -> Image:
    """Some rows of `pyramid.coarser`, from the rows `there` of the image."""
    width = image.shape[2]
    found = np.empty((len(image), len(rows), -(-width // 2)), np.float32)
    for columns in _columns(found.shape[2]):
        needed = fine_rows(columns, width)
        small = pyramid.coarser(image[:, :, needed.start : needed.stop])
        found[:, :, columns.start : columns.stop] = small[
            :, within(rows, halved(there)), within(columns, halved(needed))
        ]
    return found


def with_coarse_part(
    image: Image, coarse: Image, level: int, most: float, there: range, rows: range
) -> Image:
    """Some rows of `pyramid.with_coarse`, from the rows `there` of the image."""
    width = image.shape[2]
    found = np.empty((len(image), len(rows), width), np.float32)
    for columns in _columns(width):
        needed = around(columns, width, level)
        small = halved(needed)
        helped = pyramid.with_coarse(
            image[:, :, needed.start : needed.stop],
            coarse[:, :, small.start : small.stop],
            level,
            most,
        )
        found[:, :, columns.start : columns.stop] = helped[
            :, within(rows, there), within(columns, needed)
        ]
    return found


def _columns(width: int) -> Iterator[range]:
    for left in range(0, width, _WIDE):
        yield range(left, min(left + _WIDE, width))


def within(some: range, all: range) -> slice:
    """Where some rows or columns are among others."""
    return slice(some.start - all.start, some.stop - all.start)
