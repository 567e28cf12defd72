"""Images of other sizes, computed in bands, with the same result to the bit as on the whole image.

The filters of `pyramid`, and those that fill in missing pixels, are short.  A part of an image that has a margin as wide
as their reach, and starts at the same phase, gives the same numbers inside the margin.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..algorithm import filtering, pyramid
from ..algorithm.inputs import PlaneNoise
from ..planning.missing import AROUND, coarser_means, fill, fill_from
from .lazy import Image

_REACH = 16  # upper limit of the reach of the filters to either side, in pixels of the finer image
_WIDE = 2048  # columns that are processed at a time, to limit the size of temporary arrays
_SMALL = 64 * 64  # pixels; missing pixels of so small an image are filled in at once


class Part(NamedTuple):
    """Some rows of an image."""

    rows: range
    pixels: npt.NDArray[Any]

    def within(self, rows: range) -> npt.NDArray[Any]:
        """Return some of these rows."""
        return self.pixels[:, slice_within(rows, self.rows)]


Needed: TypeAlias = tuple[Any, Callable[[range], range]]
"""An image, and the function that returns the rows of it that are needed to compute some rows of another one."""


class BandScales(ABC):
    """The functions of `pyramid` on images that are computed in bands of rows, in one way or another."""

    @abstractmethod
    def computed(
        self, shape: tuple[int, int, int], function: Callable[..., Any], *inputs: Needed
    ) -> Any:
        """Return the image whose rows are function(rows, *parts); parts are the needed rows of the inputs."""

    def coarser(self, image: Any) -> Any:
        """See `pyramid`."""
        return self._coarser(image, pyramid.coarser)

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise:
        """See `pyramid`."""
        if isinstance(noise.variance, float):
            return pyramid.coarser_noise(noise)
        even = replace(noise, variance=1.0)
        variance = self._coarser(noise.variance, partial(_coarser_variance, even))
        return replace(pyramid.coarser_noise(even), variance=variance)

    def _coarser(self, image: Any, function: Callable[[Image], Image]) -> Any:
        height = image.shape[1]
        rows = partial(_fine_rows, height=height)
        return self.computed(_coarser_shape(image), partial(_coarser_part, function), (image, rows))

    def with_coarse(self, image: Any, coarse: Any, level: int, most: Any) -> Any:
        """See `pyramid`."""
        rows = partial(_with_margin, height=image.shape[1], level=level)
        small = partial(_coarse_rows, around=rows)
        function = partial(_with_coarse_part, level, most)
        inputs = [(image, rows), (coarse, small)]
        for_all_pixels = isinstance(most, float | np.ndarray) and np.shape(most)[1:] in ((), (1, 1))
        if not for_all_pixels:
            function = partial(_with_coarse_part, level, None)
            inputs.append((most, small))
        return self.computed(image.shape, function, *inputs)

    def filtered(self, image: Any, taps: npt.NDArray[np.float32]) -> Any:
        """See `filtering`."""
        rows = partial(_rows_of_filter, height=image.shape[1])
        return self.computed(image.shape, partial(_filtered_part, taps), (image, rows))

    def each(self, function: Callable[..., Image], *images: Any) -> Any:
        """Apply a function to the pixels of images of the same shape."""
        inputs = [(image, same_rows) for image in images]
        return self.computed(images[0].shape, partial(_each_part, function), *inputs)

    def filled(self, image: Any) -> Any:
        """Return an image with pixels that are NaN filled in (see `fill`)."""
        _, height, width = image.shape
        if height * width <= _SMALL:
            return self.computed(image.shape, _filled_whole, (image, partial(_all_rows, height)))
        fine = partial(_fine_rows_around, height=height)
        means = self.computed(_coarser_shape(image), _coarser_means_part, (image, fine))
        rows = partial(_rows_around, height=height)
        small = partial(_coarse_rows, around=rows)
        inputs = [(image, rows), (self.filled(means), small)]
        return self.computed(image.shape, _filled_part, *inputs)


def same_rows(rows: range) -> range:
    """Return the rows themselves, if no others are needed."""
    return rows


def _each_part(function: Callable[..., Image], rows: range, *parts: Part) -> Image:
    return function(*(part.pixels for part in parts))


def _all_rows(height: int, rows: range) -> range:
    return range(height)


def _coarser_shape(image: Any) -> tuple[int, int, int]:
    planes, height, width = image.shape
    return planes, *pyramid.coarser_shape((height, width))


def _with_margin(rows: range, height: int, level: int) -> range:
    """Return the rows that are needed to compute `rows` of `pyramid.with_coarse` at a level."""
    phase = 2**level
    margin = _REACH * phase
    top = max(rows.start - margin, 0) // phase * phase
    return range(top, min(-(-(rows.stop + margin) // phase) * phase, height))


def _rows_of_filter(rows: range, height: int) -> range:
    """Return the rows that are needed to compute `rows` of `filtered`."""
    return range(max(rows.start - filtering.REACH, 0), min(rows.stop + filtering.REACH, height))


def _fine_rows(rows: range, height: int) -> range:
    """Return the rows of the finer image that are needed to compute `rows` of the coarser one."""
    return _with_margin(range(2 * rows.start, min(2 * rows.stop, height)), height, 1)


def _rows_around(rows: range, height: int) -> range:
    """Return the rows that are needed to fill in pixels of `rows`; the first one is even."""
    return range(max(rows.start - AROUND, 0) // 2 * 2, min(rows.stop + AROUND, height))


def _fine_rows_around(rows: range, height: int) -> range:
    return _rows_around(range(2 * rows.start, min(2 * rows.stop, height)), height)


def _coarse_rows(rows: range, around: Callable[[range], range] = same_rows) -> range:
    """Return the rows of the coarser image that correspond to `rows`, or to those `around` them."""
    rows = around(rows)
    return range(rows.start // 2, -(-rows.stop // 2))


def _coarser_variance(even: PlaneNoise, variance: Image) -> Image:
    """Return the variance of the coarser image of noise that is `even` but for its variance."""
    coarse: Any = pyramid.coarser_noise(replace(even, variance=variance)).variance
    return np.asarray(coarse)


def _coarser_part(function: Callable[[Image], Image], rows: range, fine: Part) -> Image:
    width = fine.pixels.shape[2]
    coarse = np.empty((len(fine.pixels), len(rows), -(-width // 2)), np.float32)
    for columns in _columns(coarse.shape[2]):
        needed = _fine_rows(columns, width)
        small = function(fine.pixels[:, :, needed.start : needed.stop])
        coarse[:, :, columns.start : columns.stop] = small[
            :,
            slice_within(rows, _coarse_rows(fine.rows)),
            slice_within(columns, _coarse_rows(needed)),
        ]
    return coarse


def _with_coarse_part(
    level: int, most: float | Image | None, rows: range, image: Part, coarse: Part, *limits: Part
) -> Image:
    """Compute some rows of `pyramid.with_coarse`; `limits` stands for `most` if it is an image."""
    planes, _, width = image.pixels.shape
    combined = np.empty((planes, len(rows), width), np.float32)
    for columns in _columns(width):
        needed = _with_margin(columns, width, level)
        small = _coarse_rows(needed)
        part = pyramid.with_coarse(
            image.pixels[:, :, needed.start : needed.stop],
            coarse.pixels[:, :, small.start : small.stop],
            level,
            limits[0].pixels[:, :, small.start : small.stop] if most is None else most,
        )
        combined[:, :, columns.start : columns.stop] = part[
            :, slice_within(rows, image.rows), slice_within(columns, needed)
        ]
    return combined


def _filtered_part(taps: npt.NDArray[np.float32], rows: range, image: Part) -> Image:
    """Compute some rows of `filtered`; rows beyond the available ones are beyond the image, and mirrored."""
    reach = filtering.REACH
    beyond = [
        (0, 0),
        (reach - rows.start + image.rows.start, reach - image.rows.stop + rows.stop),
        (reach, reach),
    ]
    part: Image = filtering.convolved(np.pad(image.pixels, beyond, "symmetric"), taps)
    return part


def _filled_whole(rows: range, image: Part) -> Image:
    return np.stack([fill(plane)[rows.start : rows.stop] for plane in image.pixels])


def _coarser_means_part(rows: range, fine: Part) -> Image:
    planes, _, width = fine.pixels.shape
    means = np.empty((planes, len(rows), -(-width // 2)), np.float32)
    for columns in _columns(means.shape[2]):
        needed = _fine_rows_around(columns, width)
        inside = (
            slice_within(rows, _coarse_rows(fine.rows)),
            slice_within(columns, _coarse_rows(needed)),
        )
        for plane, plane_means in zip(fine.pixels, means, strict=True):
            part = coarser_means(plane[:, needed.start : needed.stop])
            plane_means[:, columns.start : columns.stop] = part[inside]
    return means


def _filled_part(rows: range, image: Part, coarse: Part) -> Image:
    if not np.isnan(image.pixels).any():
        return image.within(rows)
    planes, _, width = image.pixels.shape
    filled = np.empty((planes, len(rows), width), np.float32)
    for columns in _columns(width):
        needed = _rows_around(columns, width)
        small = _coarse_rows(needed)
        inside = slice_within(rows, image.rows), slice_within(columns, needed)
        for k, plane in enumerate(image.pixels):
            part = fill_from(
                plane[:, needed.start : needed.stop], coarse.pixels[k, :, small.start : small.stop]
            )
            filled[k, :, columns.start : columns.stop] = part[inside]
    return filled


def _columns(width: int) -> Iterator[range]:
    for left in range(0, width, _WIDE):
        yield range(left, min(left + _WIDE, width))


def slice_within(part: range, whole: range) -> slice:
    """Return the slice that selects the rows or columns `part` from those in `whole`."""
    return slice(part.start - whole.start, part.stop - whole.start)
