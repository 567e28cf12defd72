"""The frames of an array on disk, and what concerns the whole of one, found out before the work starts."""

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
from ..planning.plan import Facts, Plan, covariance_of, plan_for
from ..planning.ranges import block_means, block_shape, ends_of
from .bands import in_turn

Pixels = npt.NDArray[Any]

_SAMPLED = 512  # side of the parts that the noise is estimated from,
_PARTS = 4  # in rows and columns,
_BETWEEN = 8  # pixels that do not count between them


@dataclass(frozen=True)
class Frame:
    """One image of an array that has a shape, a dtype and slices: Zarr, a file, or in memory.

    `axes` has a letter for each axis: Y and X, C for channels, and any other for those along which images are
    stacked; `number` is that of the image along these.
    """

    array: Any
    axes: str
    number: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, height, width)"""
        found = dict(zip(self.axes, self.array.shape, strict=True))
        return found.get("C", 1), found["Y"], found["X"]

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = np.dtype(self.array.dtype)
        return found

    def read(self, rows: range, columns: range | None = None) -> Pixels:
        """Some rows, as (channels, rows, columns)."""
        columns = columns or range(self.shape[2])
        try:
            found = np.asarray(self.array[self._index(rows, columns)])
        except MemoryError:
            raise
        except (
            Exception
        ) as error:  # stores and codecs have exceptions of all kinds for what is damaged
            raise OSError(f"image cannot be read: {one_line(error)}") from error
        pixels: Pixels = found.transpose(self._order).reshape(-1, len(rows), len(columns))
        return pixels

    def write(self, rows: range, pixels: Pixels, workers: int) -> None:
        """Some rows, likewise; chunk by chunk, since a store copies what it is given at once."""
        width = self.shape[2]
        chunks = getattr(self.array, "chunks", None)
        side = chunks[self.axes.index("X")] if chunks else width
        ones = [1] * (len(self.axes) - 2 - ("C" in self.axes))
        channels = [len(pixels)] if "C" in self.axes else []

        def write(columns: range) -> None:
            part = pixels[..., columns.start : columns.stop]
            ordered = part.reshape(*ones, *channels, *part.shape[1:])
            self.array[self._index(rows, columns)] = ordered.transpose(np.argsort(self._order))

        for _ in in_order(write, in_turn(range(width), side), workers):
            pass

    @property
    def _order(self) -> list[int]:
        """Stacks, channels, height and width."""
        last = [self.axes.index(axis) for axis in "CYX" if axis in self.axes]
        return [k for k in range(len(self.axes)) if k not in last] + last

    def _index(self, rows: range, columns: range) -> tuple[slice, ...]:
        numbers = iter(self.number)
        known = {"Y": rows, "X": columns, "C": range(self.shape[0])}
        found = []
        for axis in self.axes:
            k = None if axis in known else next(numbers)
            some = known[axis] if k is None else range(k, k + 1)
            found.append(slice(some.start, some.stop))
        return tuple(found)

    @property
    def is_computed(self) -> bool:
        """Whether pixels are computed when they are asked for, so that nothing should be asked for twice."""
        return getattr(self.array, "is_computed", False)

    @property
    def rows_at_once(self) -> int:
        """How many rows are read together: those of a chunk, if there are chunks."""
        chunks = getattr(self.array, "chunks", None)
        found = chunks[self.axes.index("Y")] if chunks else 0
        return int(found) if self.is_computed or 64 <= found <= 1024 else 512


def frames_of(array: Any, axes: str) -> list[Frame]:
    """All images of an array."""
    stacked = [n for axis, n in zip(axes, array.shape, strict=True) if axis not in "CYX"]
    return [Frame(array, axes, number) for number in np.ndindex(*stacked)]


@dataclass(frozen=True, eq=False)
class Planned:
    """A frame with a plan for it."""

    frame: Frame
    plan: Plan
    levels: npt.NDArray[np.float64]
    """Of the stabilised noise, (channels or 1, 1, 1)."""
    digest: str
    """Of all pixels; empty if nobody looked through them."""


def planned(frame: Frame, layout: Layout, options: Options) -> Planned:
    """A plan for a frame of which no more than a part is ever in memory.

    The range, the correlation of channels and the digest are those of all pixels, which are read once; the noise,
    if it is not given, is that of a sample: 16 parts of 512 x 512 pixels, or all of a smaller image.
    """
    noise = options.noise
    if noise is None:
        pixels, missing = sampled(frame)
        noise = noise_of(expect_finite(pixels), missing, options.kind)
    levels = levels_for(noise, layout)
    channels = frame.shape[0]
    typical = np.broadcast_to(levels[:, 0, 0], channels)
    ends = [(noise.black_level, noise.black_level + (options.data_range or 0.0))]
    known = options.data_range is not None
    if frame.dtype == np.uint8 and not known:
        ends, known = [(0.0, 255.0)], True
    sample, digest = np.zeros((channels, 1)), ""
    # The pixels of a Dask array are looked at when they are computed.
    if not frame.is_computed or channels > 1 or not known:
        means, sample, digest = _looked_through(frame, with_means=not known)
        ends = ends if known else [ends_of(some) for some in means]
    facts = Facts(noise, typical, ends, covariance_of(noise, typical, sample))
    return Planned(frame, plan_for(frame.shape, facts, options), levels, digest)


def levels_for(noise: Noise, layout: Layout) -> npt.NDArray[np.float64]:
    """The levels of the noise of each frame; maps are refused."""
    levels = levels_of(noise, layout)
    if levels.shape[-2:] != (1, 1):
        raise ValueError(
            f"sigma has shape {np.shape(noise.level)}; expected a number, or one for each channel, for "
            "an image that is not held in memory"
        )
    first: npt.NDArray[np.float64] = levels[0]
    return first


def _looked_through(frame: Frame, with_means: bool) -> tuple[Sequence[Pixels], Pixels, str]:
    """The means of blocks of each channel, a sample of the pixels of all of them, and a digest of all pixels."""
    digest = hashlib.sha256()
    channels, height, width = frame.shape
    block = block_shape((height, width))
    step = -(-height * width // 2**20)
    means: list[list[Pixels]] = [[] for _ in range(channels)]
    sample: list[Pixels] = []
    at_once = -(-frame.rows_at_once // block[0]) * block[0]
    for rows in in_turn(range(height), at_once):
        pixels = expect_finite(frame.read(rows))
        digest.update(np.ascontiguousarray(pixels).data)
        if with_means:
            for channel, found in zip(pixels, means, strict=True):
                found.append(block_means(channel, block).ravel())
        first = -(rows.start * width) % step
        sample.append(pixels.reshape(channels, -1)[:, first::step].copy())  # and not all of it
    joined = [np.concatenate(some or [np.empty(0)]) for some in means]
    return joined, np.concatenate(sample, axis=1), digest.hexdigest()


def expect_finite(pixels: Pixels) -> Pixels:
    """The same pixels, if all of them are there."""
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise ValueError(
            "image has pixels that are NaN or infinite; expected finite ones in an image that is not held in memory"
        )
    expect_in_bounds(pixels)
    return pixels


def sampled(frame: Frame) -> tuple[Pixels, npt.NDArray[np.bool_] | None]:
    """Parts of a frame side by side, and which pixels are none of it; all of it if it is small."""
    channels, height, width = frame.shape
    if height * width <= (_PARTS * _SAMPLED) ** 2:
        return frame.read(range(height)), None
    rows, columns = (_places(length) for length in (height, width))
    size = [sum(map(len, some)) + _BETWEEN * (len(some) - 1) for some in (rows, columns)]
    pixels = np.zeros((channels, *size), frame.dtype)
    missing = np.ones(pixels.shape, bool)
    for i, ys in enumerate(rows):
        for j, xs in enumerate(columns):
            here = (
                slice(None),
                slice(i * (len(ys) + _BETWEEN), i * (len(ys) + _BETWEEN) + len(ys)),
                slice(j * (len(xs) + _BETWEEN), j * (len(xs) + _BETWEEN) + len(xs)),
            )
            pixels[here], missing[here] = frame.read(ys, xs), False
    return pixels, missing


def _places(length: int) -> list[range]:
    """Where parts begin and end along an axis: evenly spread, from end to end."""
    size = min(_SAMPLED, length)
    count = min(_PARTS, length // size)
    starts = np.linspace(0, length - size, count).astype(int) if count > 1 else [0]
    return [range(start, start + size) for start in map(int, starts)]
