"""Images that are computed in parts, with the same result to the bit as on the whole image.

The filters of `pyramid`, and those that fill in missing pixels, are short. A part of an image that has a margin as wide
as their reach, and starts at the same phase, gives the same numbers inside the margin.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..core.algorithm import filtering, pyramid
from ..core.algorithm.filling import AROUND, coarser_means, fill, fill_from
from ..core.algorithm.images import Images
from ..core.algorithm.inputs import PlaneNoise
from ..core.engines.grid import Window, split_range, whole_window
from ..core.engines.pool import in_order
from ..types import Image, Pixels, Shape
from .lazy import LazyImage

_REACH = (
    16  # how far the filters and their inverses extend to either side, in pixels of the finer image
)
_COLUMNS = 1024  # processed at a time, to limit the size of temporary arrays
_SMALL_IMAGE = 64 * 64  # pixels; missing pixels of an image up to this size are filled in at once


class Part(NamedTuple):
    """A part of an image."""

    window: Window
    pixels: Pixels

    def cut(self, window: Window) -> "Part":
        """Return a smaller part."""
        return Part(window, self.pixels[window.inside(self.window)])


Around: TypeAlias = Callable[[range], range]
"""Returns the rows, or columns, of one image that are needed to compute some rows, or columns, of another.

They may extend beyond the image.
"""
Function: TypeAlias = Callable[..., Image]
"""Computes a window of an image from the window and the parts of other images that are needed for it."""
Strips: TypeAlias = Iterator[tuple[Any, ...]]
"""A range of rows, and these rows of one or several images."""
Needed: TypeAlias = tuple[Any, Callable[[Window], Window]]
"""An image, and the function that returns the part of it that is needed to compute a part of another one."""


@dataclass(frozen=True, eq=False)
class SourceInParts:
    """The source of the pixels of an image: the image itself, its masks, and whatever else is known about each pixel."""

    images: Sequence[Any]
    """The image, its masks and its map of levels, all of the same size."""
    pixels: Callable[[range, Sequence[Pixels]], Any]
    """Returns some rows of pixels, and what is known about them, from these rows and the parts of the images there."""
    reach: int
    """The distance up to which pixels around a part matter to it."""
    shape: Shape


class ImagesInParts(Images, ABC):
    """Images that are computed part by part."""

    @abstractmethod
    def image_of(self, shape: Shape, function: Function, inputs: Sequence[Needed]) -> Any:
        """Return the image whose parts are function(window, *parts); parts are what is needed of the inputs."""

    def computed(self, shape: Shape, function: Function, *inputs: tuple[Any, Around]) -> Any:
        """Return the image whose parts are function(window, *parts), computed some columns at a time."""
        return self.image_of(*_in_parts(shape, function, inputs))

    def coarser(self, image: Any) -> Any:
        return self._coarser(image, pyramid.coarser)

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise:
        if isinstance(noise.variance, float):
            return pyramid.coarser_noise(noise)
        even = replace(noise, variance=1.0)
        variance = self._coarser(noise.variance, partial(_coarser_variance, even))
        return replace(pyramid.coarser_noise(even), variance=variance)

    def _coarser(self, image: Any, function: Callable[[Image], Image]) -> Any:
        part = partial(_coarser_part, function)
        return self.computed(_coarser_shape(image.shape), part, (image, _finer_span))

    def with_coarse(self, image: Any, coarse: Any, level: int, most: Any) -> Any:
        around = partial(_with_margin, level=level)
        small = partial(_coarse_span, around=around)
        inputs: list[tuple[Any, Around]] = [(image, around), (coarse, small)]
        for_all_pixels = isinstance(most, float | np.ndarray) and np.shape(most)[1:] in ((), (1, 1))
        if not for_all_pixels:
            inputs.append((most, small))
        function = partial(_with_coarse_part, level, most if for_all_pixels else None)
        return self.computed(image.shape, function, *inputs)

    def filtered(self, image: Any, taps: npt.NDArray[np.float32]) -> Any:
        around = partial(extended, by=filtering.reach_of(taps))
        return self.computed(image.shape, partial(_filtered_part, taps), (image, around))

    def each(self, function: Callable[..., Image], *images: Any, shape: Shape | None = None) -> Any:
        return self.image_of(*_each_in_parts(function, images, shape))

    def unstored(self, function: Callable[..., Image], *images: Any) -> LazyImage:
        """The image that `each` returns, but computed whenever a part of it is read."""
        shape, part, inputs = _each_in_parts(function, images, None)
        return LazyImage(shape, partial(read_part, part, inputs), inputs[0][0].rows_at_once)

    def steadied(self, noisy: Any, source: Any) -> tuple[Images, Any, None]:
        """See `Images`. A single image does not change."""
        return self, noisy, None

    def filled(self, image: Any) -> Any:
        """Return an image with pixels that are NaN filled in (see `fill`)."""
        _, height, width = image.shape
        if height * width <= _SMALL_IMAGE:
            return self.computed(image.shape, _filled_whole, (image, _everything))
        fine = partial(_finer_span, around=_even_span)
        means = self.computed(_coarser_shape(image.shape), _coarser_means_part, (image, fine))
        small = partial(_coarse_span, around=_even_span)
        inputs: list[tuple[Any, Around]] = [(image, _even_span), (self.filled(means), small)]
        return self.computed(image.shape, _filled_part, *inputs)


def _in_parts(
    shape: Shape, function: Function, inputs: Sequence[tuple[Any, Around]]
) -> tuple[Shape, Function, list[Needed]]:
    """The arguments of `ImagesInParts.image_of`."""
    needs = [
        same if around is same else partial(_needed, around, image.shape)
        for image, around in inputs
    ]
    needed: list[Needed] = [(image, need) for (image, _), need in zip(inputs, needs, strict=True)]
    return shape, partial(_in_columns, function, needs), needed


def _each_in_parts(
    function: Callable[..., Image], images: Sequence[Any], shape: Shape | None
) -> tuple[Shape, Function, list[Needed]]:
    """`_in_parts` for a function that treats every pixel alike; the first image may be a source."""
    first, *others = images
    shape = first.shape if shape is None else shape
    unchanged: list[tuple[Any, Around]] = [(image, same) for image in others]
    if not isinstance(first, SourceInParts):
        return _in_parts(shape, partial(_each_part, function), [(first, same), *unchanged])
    around: Around = partial(extended, by=first.reach) if first.reach else same
    part = partial(_from_source, function, first.pixels, len(first.images))
    return _in_parts(shape, part, [*((image, around) for image in first.images), *unchanged])


def read_part(function: Function, inputs: Sequence[Needed], window: Window) -> Image:
    """Compute a part of an image from parts of others."""
    needed = [(image, needed_of(window)) for image, needed_of in inputs]
    return function(window, *(Part(part, image.read(part)) for image, part in needed))


def strips_of(function: Function, inputs: Sequence[Needed], window: Window, workers: int) -> Strips:
    """Yield a part of an image in strips of rows (see `ImagesInParts.image_of`)."""

    def strip(rows: range) -> tuple[range, Image]:
        return rows, read_part(function, inputs, window._replace(rows=rows))

    # More than two threads would hold too many rows in memory.
    return in_order(strip, split_range(window.rows, inputs[0][0].rows_at_once), min(workers, 2))


def _needed(around: Around, shape: Shape, window: Window) -> Window:
    """Return the part of an image of some shape that is needed to compute a window of another one."""
    return Window(*map(around, window)).overlap(whole_window(shape[1:]))


def _in_columns(
    function: Function, needs: Sequence[Callable[[Window], Window]], window: Window, *parts: Part
) -> Image:
    """Compute a window some columns at a time, each from some columns of the parts."""
    pieces = []
    for columns in split_range(window.columns, _COLUMNS):
        some = window._replace(columns=columns)
        cut = [part.cut(need(some)) for part, need in zip(parts, needs, strict=True)]
        pieces.append(function(some, *cut))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=2)


def same(part: Any) -> Any:
    """Return the same rows, columns or window, if no others are needed."""
    return part


def extended(span: range, by: int) -> range:
    """Return some rows or columns, and those around them."""
    return range(span.start - by, span.stop + by)


def _everything(span: range) -> range:
    return range(sys.maxsize)


def _coarser_shape(shape: Shape) -> Shape:
    planes, height, width = shape
    return planes, *pyramid.coarser_shape((height, width))


def _with_margin(span: range, level: int = 1) -> range:
    """Return what is needed to compute rows or columns of `pyramid.with_coarse` at a level."""
    phase = 2**level
    wide = extended(span, _REACH * (phase - 1))
    return range(wide.start // phase * phase, -(-wide.stop // phase) * phase)


def _even_span(span: range) -> range:
    """Return what is needed to fill in pixels of some rows or columns; the first one is even."""
    return range((span.start - AROUND) // 2 * 2, span.stop + AROUND)


def _finer_span(span: range, around: Around = _with_margin) -> range:
    """Return the rows or columns of the finer image that correspond to those of the coarser one, and those around them."""
    return around(range(2 * span.start, 2 * span.stop))


def _coarse_span(span: range, around: Around = same) -> range:
    """Return the rows or columns of the coarser image that correspond to those around these."""
    span = around(span)
    return range(span.start // 2, -(-span.stop // 2))


def _coarse_window(window: Window) -> Window:
    return Window(*map(_coarse_span, window))


def _coarser_variance(even: PlaneNoise, variance: Image) -> Image:
    """Return the variance of the noise in the coarser image; apart from its variance, the noise is `even`."""
    coarse: Any = pyramid.coarser_noise(replace(even, variance=variance)).variance
    return np.asarray(coarse)


def _each_part(function: Callable[..., Image], window: Window, *parts: Part) -> Image:
    return function(*(part.pixels for part in parts))


def _from_source(
    function: Callable[..., Image],
    pixels_of: Callable[[range, Sequence[Pixels]], Any],
    count: int,
    window: Window,
    *parts: Part,
) -> Image:
    """Apply a function to the pixels of a source, whose parts come first, and to other images."""
    held = parts[0].window
    pixels = pixels_of(held.rows, [part.pixels for part in parts[:count]])
    return function(pixels[window.inside(held)], *(part.pixels for part in parts[count:]))


def _coarser_part(function: Callable[[Image], Image], window: Window, fine: Part) -> Image:
    return Part(_coarse_window(fine.window), function(fine.pixels)).cut(window).pixels


def _with_coarse_part(
    level: int, most: float | Image | None, window: Window, image: Part, coarse: Part, *limits: Part
) -> Image:
    """Compute a part of `pyramid.with_coarse`; `limits` stands for `most` if it is an image."""
    limit = limits[0].pixels if most is None else most
    part = pyramid.with_coarse(image.pixels, coarse.pixels, level, limit)
    return Part(image.window, part).cut(window).pixels


def _filtered_part(taps: npt.NDArray[np.float32], window: Window, image: Part) -> Image:
    """Compute a part of `filtered`; pixels beyond the image, which the part lacks, are mirrored."""
    reach = filtering.reach_of(taps)
    beyond = [
        (reach - span.start + held.start, reach - held.stop + span.stop)
        for span, held in zip(window, image.window, strict=True)
    ]
    wide = np.pad(image.pixels, [(0, 0), *beyond], "symmetric")
    part: Image = filtering.convolved(wide, taps)
    return part


def _filled_whole(window: Window, image: Part) -> Image:
    whole = np.stack([fill(plane) for plane in image.pixels])
    return Part(image.window, whole).cut(window).pixels


def _coarser_means_part(window: Window, fine: Part) -> Image:
    means = np.stack([coarser_means(plane) for plane in fine.pixels])
    return Part(_coarse_window(fine.window), means).cut(window).pixels


def _filled_part(window: Window, image: Part, coarse: Part) -> Image:
    filled = image.pixels
    if np.isnan(filled).any():
        planes = zip(image.pixels, coarse.pixels, strict=True)
        filled = np.stack([fill_from(*pair) for pair in planes])
    return Part(image.window, filled).cut(window).pixels


def around_gaps(shape: Shape, window: Window) -> Window:
    """Return the part of an image that is needed to fill in narrow gaps in a window."""
    return _needed(_even_span, shape, window)


def filled_window(read: Callable[[Window], Image], shape: Shape, window: Window) -> Image:
    """Compute a part of `ImagesInParts.filled` from as few pixels as possible.

    Coarser scales are computed only where gaps are so wide that pixels are filled in from them.
    """
    _, height, width = shape
    if height * width <= _SMALL_IMAGE:
        everything = whole_window((height, width))
        return _filled_whole(window, Part(everything, read(everything)))
    needed = around_gaps(shape, window)
    image, small = Part(needed, read(needed)), _coarse_window(needed)
    unknown = np.full((shape[0], *map(len, small)), np.float32(np.nan))
    filled = _filled_part(window, image, Part(small, unknown))
    if not np.isnan(filled).any():
        return filled

    def read_means(window: Window) -> Image:
        fine = _needed(partial(_finer_span, around=_even_span), shape, window)
        return _coarser_means_part(window, Part(fine, read(fine)))

    coarse = filled_window(read_means, _coarser_shape(shape), small)
    return _filled_part(window, image, Part(small, coarse))
