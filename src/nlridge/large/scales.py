"""The functions of `pyramid` on some rows of an image, with the same result to the bit as on the whole image.

The filters of `pyramid` are short.  A part of an image that has a margin as wide as their reach, and starts at the same
phase, gives the same numbers inside the margin.
"""

from collections.abc import Iterator

import numpy as np

from ..algorithm import pyramid
from .lazy import Image

_REACH = 16  # upper limit of the reach of the filters to either side, in pixels of the finer image
_WIDE = 2048  # columns that are processed at a time, to limit the size of temporary arrays


def with_margin(rows: range, height: int, level: int) -> range:
    """Return the rows that are needed to compute `rows` of `pyramid.with_coarse` at a level."""
    phase = 2**level
    margin = _REACH * phase
    top = max(rows.start - margin, 0) // phase * phase
    return range(top, min(-(-(rows.stop + margin) // phase) * phase, height))


def coarse_rows(rows: range) -> range:
    """Return the rows of the coarser image that correspond to `rows`."""
    return range(rows.start // 2, -(-rows.stop // 2))


def fine_rows(rows: range, height: int) -> range:
    """Return the rows of the finer image that are needed to compute `rows` of the coarser one."""
    return with_margin(range(2 * rows.start, min(2 * rows.stop, height)), height, 1)


def coarser_part(image: Image, available: range, rows: range) -> Image:
    """Compute `rows` of `pyramid.coarser`; `image` holds the `available` rows of the finer image."""
    width = image.shape[2]
    coarse = np.empty((len(image), len(rows), -(-width // 2)), np.float32)
    for columns in _columns(coarse.shape[2]):
        needed = fine_rows(columns, width)
        small = pyramid.coarser(image[:, :, needed.start : needed.stop])
        coarse[:, :, columns.start : columns.stop] = small[
            :,
            slice_within(rows, coarse_rows(available)),
            slice_within(columns, coarse_rows(needed)),
        ]
    return coarse


def with_coarse_part(
    image: Image, coarse: Image, level: int, most: float, available: range, rows: range
) -> Image:
    """Compute `rows` of `pyramid.with_coarse`; `image` holds the `available` rows of the finer image."""
    width = image.shape[2]
    combined = np.empty((len(image), len(rows), width), np.float32)
    for columns in _columns(width):
        needed = with_margin(columns, width, level)
        small = coarse_rows(needed)
        part = pyramid.with_coarse(
            image[:, :, needed.start : needed.stop],
            coarse[:, :, small.start : small.stop],
            level,
            most,
        )
        combined[:, :, columns.start : columns.stop] = part[
            :, slice_within(rows, available), slice_within(columns, needed)
        ]
    return combined


def _columns(width: int) -> Iterator[range]:
    for left in range(0, width, _WIDE):
        yield range(left, min(left + _WIDE, width))


def slice_within(part: range, whole: range) -> slice:
    """Return the slice that selects the rows or columns `part` from those in `whole`."""
    return slice(part.start - whole.start, part.stop - whole.start)
