"""The frames of an array on disk, and the plan for each, made before any pixel is denoised."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.engines.grid import Window, split_range
from ..core.engines.pool import in_order
from ..errors import ArgumentError
from ..files.damage import one_line
from ..images.lazy import LazyImage
from ..noise.gaussian import GaussianNoise
from ..planning.blind import Estimate
from ..planning.facts import Tally, given_or_estimated
from ..planning.layout import Layout
from ..planning.levels import Bounds, bounds_of, levels_of, unknown_pixels
from ..planning.options import Options
from ..planning.parts import SourcePart, part_of, planned_parts
from ..planning.plan import Plan, plan_for
from ..planning.way import Planned
from ..types import Mask, Pixels, Shape

# The noise is estimated from a grid of 4 x 4 squares, evenly spaced in the image.
_SAMPLE_SIDE = 512
_SAMPLES_PER_AXIS = 4
_GAP = 8  # masked pixels between the squares
_COLUMNS = (
    1024  # columns of a map that are measured at a time, to limit the size of temporary arrays
)


@dataclass(frozen=True)
class Frame:
    """One image of an array that has a shape and a dtype and can be sliced: a Zarr array, a file, or an ndarray.

    `axes` has one letter for each axis: Y and X, C for channels, and any other letter for axes along which images are
    stacked. `number` is the index of the image along these. `name` is the name of the array in messages.
    """

    array: Any
    axes: str
    number: tuple[int, ...] = ()
    name: str = "image"

    @property
    def place(self) -> dict[str, int]:
        """`number` by the letters of its axes."""
        stacked = (axis for axis in self.axes if axis not in "CYX")
        return dict(zip(stacked, self.number, strict=True))

    @property
    def shape(self) -> Shape:
        """(channels, height, width)"""
        sizes = dict(zip(self.axes, self.array.shape, strict=True))
        return sizes.get("C", 1), sizes["Y"], sizes["X"]

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = np.dtype(self.array.dtype)
        return dtype

    def read(self, rows: range, columns: range | None = None) -> Pixels:
        """Read some rows as (channels, rows, columns)."""
        columns = columns or range(self.shape[2])
        try:
            values = np.asarray(self.array[self.index(rows, columns)])
        except MemoryError:
            raise
        # Stores and codecs raise exceptions of any kind if data are damaged.
        except Exception as error:
            raise OSError(f"{self.name} cannot be read: {one_line(error)}") from error
        pixels: Pixels = values.transpose(self.order).reshape(-1, len(rows), len(columns))
        return pixels

    def read_window(self, window: Window) -> Pixels:
        """Read a part of the image."""
        return self.read(*window)

    def write(self, rows: range, pixels: Pixels, workers: int) -> None:
        """Write some rows chunk by chunk, since a store copies everything that it gets in one call."""
        width = self.shape[2]
        chunks = getattr(self.array, "chunks", None)
        side = chunks[self.axes.index("X")] if chunks else width
        ones = [1] * (len(self.axes) - 2 - ("C" in self.axes))
        channels = [len(pixels)] if "C" in self.axes else []

        def write(columns: range) -> None:
            part = pixels[..., columns.start : columns.stop]
            ordered = part.reshape(*ones, *channels, *part.shape[1:])
            self.array[self.index(rows, columns)] = ordered.transpose(np.argsort(self.order))

        for _ in in_order(write, split_range(range(width), side), workers):
            pass

    @property
    def order(self) -> list[int]:
        """The order of axes that puts stacks first, then channels, height and width."""
        last = [self.axes.index(axis) for axis in "CYX" if axis in self.axes]
        return [k for k in range(len(self.axes)) if k not in last] + last

    def index(self, rows: range | None = None, columns: range | None = None) -> tuple[slice, ...]:
        """The index of some rows and columns of this image in the array; by default, of all of them."""
        channels, height, width = self.shape
        spans = {"Y": rows or range(height), "X": columns or range(width), "C": range(channels)}
        numbers = iter(self.number)
        index = []
        for axis in self.axes:
            k = None if axis in spans else next(numbers)
            span = spans[axis] if k is None else range(k, k + 1)
            index.append(slice(span.start, span.stop))
        return tuple(index)

    @property
    def computes_on_read(self) -> bool:
        """Whether reading pixels computes them, so that none should be read twice."""
        return getattr(self.array, "computes_on_read", False)

    @property
    def rows_at_once(self) -> int:
        """The number of rows to read at a time: the height of a chunk, if there are chunks."""
        chunks = getattr(self.array, "chunks", None)
        height = chunks[self.axes.index("Y")] if chunks else 0
        return int(height) if self.computes_on_read or 64 <= height <= 1024 else 512


def frames_of(array: Any, axes: str, name: str = "image") -> list[Frame]:
    """Return all images of an array."""
    stacked = [n for axis, n in zip(axes, array.shape, strict=True) if axis not in "CYX"]
    return [Frame(array, axes, number, name) for number in np.ndindex(*stacked)]


@dataclass(frozen=True)
class Source:
    """A frame, with the masks of its missing pixels and the map of its noise, if there are any."""

    image: Frame
    masks: tuple[Frame, ...] = ()
    """Missing pixels are True in one of them."""
    levels: Frame | None = None
    """The standard deviation of the noise of each pixel."""

    @property
    def frames(self) -> list[Frame]:
        """The image, the masks and the map of levels."""
        return [self.image, *self.masks, *([] if self.levels is None else [self.levels])]

    @property
    def in_stack(self) -> bool:
        """Whether the frame is one of several, so that it may have no valid pixels."""
        return len(self.image.number) > 0

    def mapped(self, function: Callable[[Frame], Frame]) -> "Source":
        """Return the source with function(frame) in place of each frame."""
        levels = None if self.levels is None else function(self.levels)
        return Source(function(self.image), tuple(map(function, self.masks)), levels)

    def read(self, rows: range, columns: range | None = None) -> "SourcePart":
        """Read some rows."""
        return part_of(rows, [frame.read(rows, columns) for frame in self.frames])


def sources_of(
    frames: Sequence[Frame], masks: Sequence[Sequence[Frame]] = (), levels: Sequence[Frame] = ()
) -> list[Source]:
    """Return each frame with its masks and its map of levels, which may lack some of the axes of the stack."""

    def of(companions: Sequence[Frame], frame: Frame) -> Frame:
        first = companions[0]
        return replace(first, number=tuple(frame.place[axis] for axis in first.place))

    return [
        Source(
            frame, tuple(of(mask, frame) for mask in masks), of(levels, frame) if levels else None
        )
        for frame in frames
    ]


@dataclass(frozen=True, eq=False)
class PlannedFrame:
    """A frame with its plan."""

    source: Source
    parts: Planned
    is_empty: bool
    """Whether all pixels are missing, as far as they have been read."""
    digest: str
    """Digest of all pixels, masks and levels; empty if they have not been read."""

    @property
    def plan(self) -> Plan:
        return self.parts.plan

    def images(self) -> list[LazyImage]:
        """The image, its masks and its map of levels, read whenever they are needed."""
        return [
            LazyImage(frame.shape, frame.read_window, frame.rows_at_once)
            for frame in self.source.frames
        ]


def plan_frame(source: Source, layout: Layout, options: Options) -> PlannedFrame:
    """Plan the denoising of a frame without holding more than a part of it in memory.

    The range, the covariance of the channels and the digest are computed in one pass over all pixels, after another one
    over the map of levels if there is one. The noise, if it is not given, is estimated from a sample: 16 squares of
    512 x 512 pixels, or all pixels of a smaller image.
    """
    image = source.image
    noise, doubt, _ = Estimate(options.noise or GaussianNoise(0))
    if options.noise is None:
        noise, doubt, _ = given_or_estimated(options, *sample_of(source), workers=1)
    levels = levels_of(noise, layout)[0]
    if source.levels is not None and image.shape[1:] == (1, 1):  # one number for each channel
        levels = source.levels.read(range(1)).astype(np.float64)
        source = replace(source, levels=None)
    bounds = _bounds(source)
    if bounds:
        levels = np.array([[[typical]] for typical, _ in bounds])
    tally, digest = Tally(image.shape, image.dtype, noise, options), ""
    may_have_gaps = bool(bounds or source.masks) or image.dtype.kind == "f"
    # The pixels of a Dask array are checked when they are computed.
    if tally.needs_sample or tally.ends is None or not image.computes_on_read:
        digest = _read_all(source, bounds, tally)
        may_have_gaps = bool(bounds) or tally.has_missing
    typical = np.broadcast_to(levels[:, 0, 0], image.shape[0])
    plan = plan_for(image.shape, tally.facts(typical, doubt), options)
    parts = planned_parts(plan, levels, bounds, may_have_gaps=may_have_gaps)
    return PlannedFrame(source, parts, bool(tally.empty.all()), digest)


def _bounds(source: Source) -> tuple[Bounds, ...]:
    """Check the map of levels, and return its bounds; none if there is no map."""
    if source.levels is None:
        return ()
    negative = positive = 0

    def parts() -> Iterator[tuple[Any, Mask | None, Pixels]]:
        nonlocal negative, positive
        for rows in split_range(range(source.image.shape[1]), source.image.rows_at_once):
            arrays = [frame.read(rows) for frame in source.frames]
            for columns in split_range(range(source.image.shape[2]), _COLUMNS):
                some = [array[:, :, columns.start : columns.stop] for array in arrays]
                pixels, missing, levels = part_of(rows, some)
                assert levels is not None
                negative += int(np.count_nonzero(levels < 0))
                positive += int(np.count_nonzero(levels > 0))
                yield levels, missing, pixels

    bounds = bounds_of(parts())
    if negative:
        raise ArgumentError("sigma", negative, "0 or more", "is negative in {value} pixels")
    if not positive and not source.in_stack:
        shape = source.levels.array.shape
        raise ArgumentError(
            "sigma", shape, "at least one", "has shape {value} and no positive value"
        )
    return bounds


def _read_all(source: Source, bounds: Sequence[Bounds], tally: Tally) -> str:
    """Read all pixels once, and add them to the tally; returns a digest of them, and of masks and levels."""
    height, block = source.image.shape[1], tally.block[0]
    digests = [hashlib.sha256() for _ in source.frames]
    at_once = -(-source.image.rows_at_once // block) * block
    for rows in split_range(range(height), at_once):
        arrays = [frame.read(rows) for frame in source.frames]
        for digest, array in zip(digests, arrays, strict=True):
            digest.update(np.ascontiguousarray(array).data)
        pixels, missing, levels = part_of(rows, arrays)
        unknown = None if levels is None else unknown_pixels(levels, missing, bounds)
        tally.add(rows.start, pixels, missing, unknown)
    if tally.empty.all() and not source.in_stack:
        raise ArgumentError("image", None, "at least one", "has no valid pixels")
    return "-".join(digest.hexdigest() for digest in digests)


def sample_of(source: Source) -> tuple[Pixels, Mask | None]:
    """Return squares of a frame side by side, and which of their pixels are missing; a small frame as a whole.

    The gaps between the squares are missing as well.
    """
    source = replace(source, levels=None)
    channels, height, width = source.image.shape
    if height * width <= (_SAMPLES_PER_AXIS * _SAMPLE_SIDE) ** 2:
        return source.read(range(height))[:2]
    rows, columns = map(_sample_ranges, (height, width))
    size = [sum(map(len, ranges)) + _GAP * (len(ranges) - 1) for ranges in (rows, columns)]
    pixels = np.zeros((channels, *size), source.image.dtype)
    missing = np.ones(pixels.shape, bool)
    for i, ys in enumerate(rows):
        for j, xs in enumerate(columns):
            top, left = i * (len(ys) + _GAP), j * (len(xs) + _GAP)
            square = (slice(None), slice(top, top + len(ys)), slice(left, left + len(xs)))
            pixels[square], missing_here, _ = source.read(ys, xs)
            missing[square] = False if missing_here is None else missing_here
    return pixels, missing


def _sample_ranges(length: int) -> list[range]:
    """Return the ranges of the squares along an axis, evenly spaced from end to end."""
    size = min(_SAMPLE_SIDE, length)
    count = min(_SAMPLES_PER_AXIS, length // size)
    starts = np.linspace(0, length - size, count).astype(int) if count > 1 else [0]
    return [range(start, start + size) for start in map(int, starts)]
