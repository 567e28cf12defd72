"""The frames of an array on disk, and the plan for each, made before any pixel is denoised."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.pool import in_order
from ..files.damage import one_line
from ..noise import Noise
from ..noise.estimation import noise_of
from ..planning.layout import Layout
from ..planning.levels import expect_in_bounds, levels_of
from ..planning.options import Options
from ..planning.plan import SAMPLE, Facts, Plan, covariance_of, plan_for
from ..planning.ranges import block_means, block_shape, ends_of, known_ends
from .bands import split_range

Pixels = npt.NDArray[Any]

# The noise is estimated from a grid of 4 x 4 squares, evenly spaced in the image.
_SAMPLE_SIDE = 512
_SAMPLES_PER_AXIS = 4
_GAP = 8  # masked pixels between the squares


@dataclass(frozen=True)
class Frame:
    """One image of an array that has a shape and a dtype and can be sliced: a Zarr array, a file, or an ndarray.

    `axes` has one letter for each axis: Y and X, C for channels, and any other letter for axes along which images are
    stacked.  `number` is the index of the image along these.
    """

    array: Any
    axes: str
    number: tuple[int, ...] = ()

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
            values = np.asarray(self.array[self._index(rows, columns)])
        except MemoryError:
            raise
        # Stores and codecs raise exceptions of any kind if data are damaged.
        except Exception as error:
            raise OSError(f"image cannot be read: {one_line(error)}") from error
        pixels: Pixels = values.transpose(self._order).reshape(-1, len(rows), len(columns))
        return pixels

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
            self.array[self._index(rows, columns)] = ordered.transpose(np.argsort(self._order))

        for _ in in_order(write, split_range(range(width), side), workers):
            pass

    @property
    def _order(self) -> list[int]:
        """The order of axes that puts stacks first, then channels, height and width."""
        last = [self.axes.index(axis) for axis in "CYX" if axis in self.axes]
        return [k for k in range(len(self.axes)) if k not in last] + last

    def _index(self, rows: range, columns: range) -> tuple[slice, ...]:
        numbers = iter(self.number)
        spans = {"Y": rows, "X": columns, "C": range(self.shape[0])}
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


def frames_of(array: Any, axes: str) -> list[Frame]:
    """Return all images of an array."""
    stacked = [n for axis, n in zip(axes, array.shape, strict=True) if axis not in "CYX"]
    return [Frame(array, axes, number) for number in np.ndindex(*stacked)]


@dataclass(frozen=True, eq=False)
class PlannedFrame:
    """A frame with its plan."""

    frame: Frame
    plan: Plan
    levels: npt.NDArray[np.float64]
    """Levels of the stabilised noise, of shape (channels or 1, 1, 1)."""
    digest: str
    """Digest of all pixels; empty if they have not been read."""


def plan_frame(frame: Frame, layout: Layout, options: Options) -> PlannedFrame:
    """Plan the denoising of a frame without holding more than a part of it in memory.

    The range, the covariance of the channels and the digest are computed in one pass over all pixels.  The noise, if it
    is not given, is estimated from a sample: 16 squares of 512 x 512 pixels, or all pixels of a smaller image.
    """
    noise = options.noise
    if noise is None:
        pixels, missing = sample_of(frame)
        noise = noise_of(expect_finite(pixels), missing, options.kind)
    levels = levels_for(noise, layout)
    channels = frame.shape[0]
    typical = np.broadcast_to(levels[:, 0, 0], channels)
    ends = known_ends(frame.dtype, noise.black_level, options.data_range)
    sample, digest = np.zeros((channels, 1)), ""
    # The pixels of a Dask array are checked when they are computed.
    if not frame.computes_on_read or channels > 1 or ends is None:
        means, sample, digest = _scan(frame, with_means=ends is None)
        ends = ends or [ends_of(channel_means) for channel_means in means]
    facts = Facts(noise, typical, ends, covariance_of(noise, typical, sample), dtype=frame.dtype)
    return PlannedFrame(frame, plan_for(frame.shape, facts, options), levels, digest)


def levels_for(noise: Noise, layout: Layout) -> npt.NDArray[np.float64]:
    """Return the noise levels of a frame as (channels or 1, 1, 1); maps are not supported."""
    levels = levels_of(noise, layout)
    if levels.shape[-2:] != (1, 1):
        raise ValueError(
            f"sigma has shape {np.shape(noise.level)}; expected a number, or one for each channel, for "
            "an image that is not held in memory"
        )
    first: npt.NDArray[np.float64] = levels[0]
    return first


def _scan(frame: Frame, with_means: bool) -> tuple[Sequence[Pixels], Pixels, str]:
    """Read all pixels once; returns the block means of each channel, a sample of the pixels, and a digest."""
    digest = hashlib.sha256()
    channels, height, width = frame.shape
    block = block_shape((height, width))
    step = -(-height * width // SAMPLE)
    means: list[list[Pixels]] = [[] for _ in range(channels)]
    sample: list[Pixels] = []
    at_once = -(-frame.rows_at_once // block[0]) * block[0]
    for rows in split_range(range(height), at_once):
        pixels = expect_finite(frame.read(rows))
        digest.update(np.ascontiguousarray(pixels).data)
        if with_means:
            for channel, channel_means in zip(pixels, means, strict=True):
                channel_means.append(block_means(channel, block).ravel())
        first = -(rows.start * width) % step
        sample.append(pixels.reshape(channels, -1)[:, first::step].copy())
    joined = [np.concatenate(channel_means or [np.empty(0)]) for channel_means in means]
    return joined, np.concatenate(sample, axis=1), digest.hexdigest()


def expect_finite(pixels: Pixels) -> Pixels:
    """Return the pixels if all of them are finite and not too large."""
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise ValueError(
            "image has NaN or infinite pixels; expected finite ones in an image that is not held in memory"
        )
    expect_in_bounds(pixels)
    return pixels


def sample_of(frame: Frame) -> tuple[Pixels, npt.NDArray[np.bool_] | None]:
    """Return squares of a frame side by side, with a mask of the gaps between them; a small frame as a whole."""
    channels, height, width = frame.shape
    if height * width <= (_SAMPLES_PER_AXIS * _SAMPLE_SIDE) ** 2:
        return frame.read(range(height)), None
    rows, columns = (_sample_ranges(length) for length in (height, width))
    size = [sum(map(len, ranges)) + _GAP * (len(ranges) - 1) for ranges in (rows, columns)]
    pixels = np.zeros((channels, *size), frame.dtype)
    missing = np.ones(pixels.shape, bool)
    for i, ys in enumerate(rows):
        for j, xs in enumerate(columns):
            top, left = i * (len(ys) + _GAP), j * (len(xs) + _GAP)
            square = (slice(None), slice(top, top + len(ys)), slice(left, left + len(xs)))
            pixels[square], missing[square] = frame.read(ys, xs), False
    return pixels, missing


def _sample_ranges(length: int) -> list[range]:
    """Return the ranges of the squares along an axis, evenly spaced from end to end."""
    size = min(_SAMPLE_SIDE, length)
    count = min(_SAMPLES_PER_AXIS, length // size)
    starts = np.linspace(0, length - size, count).astype(int) if count > 1 else [0]
    return [range(start, start + size) for start in map(int, starts)]
