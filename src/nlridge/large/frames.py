"""The frames of an array on disk, and the plan for each, made before any pixel is denoised."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..engines.grid import Window
from ..engines.pool import in_order
from ..files.damage import one_line
from ..noise.gaussian import GaussianNoise
from ..noise.poisson import PoissonGaussianNoise
from ..planning.blind import estimate_of
from ..planning.layout import Layout
from ..planning.levels import Bounds, bounds_of, levels_of, unknown_pixels
from ..planning.missing import missing_pixels, union
from ..planning.options import Options
from ..planning.photons import typical_photons
from ..planning.plan import SAMPLE, Facts, Plan, covariance_of, filled_sample, plan_for
from ..planning.ranges import block_shape, ends_of, known_ends, masked_means
from .bands import split_range

Pixels = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# The noise is estimated from a grid of 4 x 4 squares, evenly spaced in the image.
_SAMPLE_SIDE = 512
_SAMPLES_PER_AXIS = 4
_GAP = 8  # masked pixels between the squares
_COLUMNS = 1024  # of a map that are measured at a time, to limit the size of temporary arrays


@dataclass(frozen=True)
class Frame:
    """One image of an array that has a shape and a dtype and can be sliced: a Zarr array, a file, or an ndarray.

    `axes` has one letter for each axis: Y and X, C for channels, and any other letter for axes along which images are
    stacked.  `number` is the index of the image along these.  `name` is what messages call the array.
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
    def shape(self) -> tuple[int, int, int]:
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
    """A frame, with the frames that say which of its pixels are missing, and how noisy they are, if there are any."""

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


class SourcePart(NamedTuple):
    """Some rows of a frame."""

    pixels: Pixels
    missing: Mask | None
    levels: npt.NDArray[np.float64] | None


def part_of(rows: range, arrays: Sequence[Pixels]) -> SourcePart:
    """Return what some rows of `Source.frames` say; raises an error if pixels are infinite or too large."""
    pixels, *others = arrays
    masked = levels = None
    for other in others:
        if other.dtype == bool:
            masked = union(masked, other, pixels.shape)
        else:
            levels = other.astype(np.float64, copy=False)
    missing = missing_pixels(pixels, masked, f" in rows {rows.start} to {rows.stop - 1}")
    return SourcePart(pixels, missing, levels)


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
    plan: Plan
    levels: npt.NDArray[np.float64]
    """Levels of the stabilised noise, of shape (channels or 1, 1, 1); the typical ones if there is a map."""
    bounds: tuple[Bounds, ...]
    """The bounds of the map of levels; none if there is no map."""
    may_have_gaps: bool
    """Whether some pixels may have to be filled in."""
    is_empty: bool
    """Whether all pixels are missing, as far as they have been read."""
    digest: str
    """Digest of all pixels, masks and levels; empty if they have not been read."""


def plan_frame(source: Source, layout: Layout, options: Options) -> PlannedFrame:
    """Plan the denoising of a frame without holding more than a part of it in memory.

    The range, the covariance of the channels and the digest are computed in one pass over all pixels, after another one
    over the map of levels if there is one.  The noise, if it is not given, is estimated from a sample: 16 squares of
    512 x 512 pixels, or all pixels of a smaller image.
    """
    image, noise, doubt = source.image, options.noise, ""
    channels = image.shape[0]
    if noise is None:
        pixels, missing = sample_of(source)
        noise = GaussianNoise(0)
        if missing is None or not missing.all():
            strength = options.tuning.strength
            noise, doubt = estimate_of(pixels, missing, options.kind, strength=strength)
    levels = levels_of(noise, layout)[0]
    if source.levels is not None and image.shape[1:] == (1, 1):  # one number for each channel
        levels = source.levels.read(range(1)).astype(np.float64)
        source = replace(source, levels=None)
    bounds = _bounds(source)
    if bounds:
        levels = np.array([[[typical]] for typical, _ in bounds])
    typical = np.broadcast_to(levels[:, 0, 0], channels)
    ends = known_ends(image.dtype, noise.black_level, options.data_range)
    sample, empty, digest = np.zeros((channels, 1)), None, ""
    may_have_gaps = bool(bounds or source.masks) or image.dtype.kind == "f"
    # The pixels of a Dask array are checked when they are computed.
    needed = channels > 1 or isinstance(noise, PoissonGaussianNoise)
    if needed or ends is None or not image.computes_on_read:
        scan = _scan(source, bounds, with_means=ends is None)
        ends = ends or [ends_of(*means) for means in scan.means]
        sample, empty, digest = scan.sample, scan.empty, scan.digest
        may_have_gaps = bool(bounds) or scan.has_missing
    covariance, photons = covariance_of(noise, typical, sample), typical_photons(noise, sample)
    facts = Facts(noise, typical, ends, covariance, empty, photons, image.dtype, doubt=doubt)
    plan = plan_for(image.shape, facts, options)
    is_empty = empty is not None and bool(empty.all())
    return PlannedFrame(source, plan, levels, bounds, may_have_gaps, is_empty, digest)


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
        raise ValueError(f"sigma is negative in {negative} pixels; expected 0 or more")
    if not positive and not source.in_stack:
        shape = source.levels.array.shape
        raise ValueError(f"sigma has shape {shape} and no positive value; expected at least one")
    return bounds


class Scan(NamedTuple):
    """The facts about a frame that all of its pixels are read for."""

    means: list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]
    """The results of `masked_means` for each channel, if they are needed."""
    sample: Pixels
    empty: Mask
    """Which channels have only missing pixels."""
    has_missing: bool
    digest: str


def _scan(source: Source, bounds: Sequence[Bounds], with_means: bool) -> Scan:
    """Read all pixels once."""
    channels, height, width = source.image.shape
    digests = [hashlib.sha256() for _ in source.frames]
    block = block_shape((height, width))
    step = -(-height * width // SAMPLE)
    means: list[list[tuple[Pixels, Pixels]]] = [[] for _ in range(channels)]
    samples: list[tuple[Pixels, Mask]] = []
    missing_counts = np.zeros(channels, np.int64)
    at_once = -(-source.image.rows_at_once // block[0]) * block[0]
    for rows in split_range(range(height), at_once):
        arrays = [frame.read(rows) for frame in source.frames]
        for digest, array in zip(digests, arrays, strict=True):
            digest.update(np.ascontiguousarray(array).data)
        pixels, missing, levels = part_of(rows, arrays)
        unknown = None if levels is None else unknown_pixels(levels, missing, bounds)
        excluded = union(missing, unknown, pixels.shape)
        if missing is not None:
            missing_counts += np.count_nonzero(missing, axis=(1, 2))
        for k, channel in enumerate(pixels if with_means else ()):
            channel_means, share = masked_means(
                channel, None if excluded is None else excluded[k], block
            )
            shares = np.broadcast_to(share, channel_means.shape)
            means[k].append((channel_means.ravel(), shares.ravel()))
        places = slice(-(rows.start * width) % step, None, step)
        some = pixels.reshape(channels, -1)[:, places].copy()
        gone = np.zeros(some.shape, bool)
        if excluded is not None:
            gone = excluded.reshape(channels, -1)[:, places].copy()
        samples.append((some, gone))
    empty = missing_counts == height * width
    if empty.all() and not source.in_stack:
        raise ValueError("image has no valid pixels; expected at least one")
    sample, gone = (np.concatenate(parts, axis=1) for parts in zip(*samples, strict=True))
    return Scan(
        [
            (np.concatenate(a), np.concatenate(b))
            for a, b in (zip(*parts, strict=True) for parts in means if parts)
        ],
        filled_sample(sample, gone) if gone.any() else sample,
        empty,
        bool(missing_counts.any()),
        "-".join(digest.hexdigest() for digest in digests),
    )


def sample_of(source: Source, side: int | None = None) -> tuple[Pixels, Mask | None]:
    """Return squares of a frame side by side, and which of their pixels are missing; a small frame as a whole.

    `side` is that of the squares, 512 by default. The gaps between them are missing as well.
    """
    source, side = replace(source, levels=None), side or _SAMPLE_SIDE
    channels, height, width = source.image.shape
    if height * width <= (_SAMPLES_PER_AXIS * side) ** 2:
        return source.read(range(height))[:2]
    rows, columns = (_sample_ranges(length, side) for length in (height, width))
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


def _sample_ranges(length: int, side: int) -> list[range]:
    """Return the ranges of the squares along an axis, evenly spaced from end to end."""
    size = min(side, length)
    count = min(_SAMPLES_PER_AXIS, length // size)
    starts = np.linspace(0, length - size, count).astype(int) if count > 1 else [0]
    return [range(start, start + size) for start in map(int, starts)]
