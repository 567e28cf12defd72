"""The meaning of the axes of an image."""

import operator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import library
from ..core.engines.grid import Window
from ..errors import ArgumentError, ArgumentTypeError
from ..types import Pixels

_COLOR_CHANNELS = 4  # largest number of channels of a color image
_LIKELY_CHANNELS = 16  # a longer axis is rarely one of channels


class Layout(NamedTuple):
    """The shape of an image, and which of its axes, if any, have a meaning of their own."""

    shape: tuple[int, ...]
    stack: int | None
    """The axis of independent images."""
    channel: int | None
    sequence: int | None = None
    """The axis of frames that belong together."""

    @property
    def _named(self) -> list[int]:
        axes = (self.stack, self.sequence, self.channel)
        return [axis for axis in axes if axis is not None]

    @property
    def axes(self) -> str:
        """One letter for each axis: T for frames, C for channels, Y and X for height and width.

        I stands for a stack of sequences of frames.
        """
        letters = {self.stack: "T" if self.sequence is None else "I", self.channel: "C"}
        if self.sequence is not None:
            letters[self.sequence] = "T"
        rest = iter("YX")
        return "".join(letters.get(k) or next(rest) for k in range(len(self.shape)))

    def frames(self, array: Pixels) -> Pixels:
        """A view of the image as (frames, channels, height, width).

        With frames that belong together, it is (stack, frames, channels, height, width).
        """
        array = library(array).moveaxis(array, self._named, list(range(len(self._named))))
        if self.channel is None:
            array = array[..., None, :, :]
        return array[None] if self.stack is None else array

    def like_image(self, frames: Pixels) -> Pixels:
        """The inverse of `frames`: a view with the shape of the image."""
        array = frames[0] if self.stack is None else frames
        if self.channel is None:
            array = array[..., 0, :, :]
        image: Pixels = library(array).moveaxis(array, list(range(len(self._named))), self._named)
        return image

    def spread(self, name: str, array: Pixels, instead: str = "") -> Pixels:
        """`frames` of an array that may lack axes (see `lacking`); those have a length of 1."""
        return self.frames(np.expand_dims(array, self.lacking(name, array.shape, instead)))

    def lacking(self, name: str, shape: tuple[int, ...], instead: str = "") -> tuple[int, ...]:
        """The axes of the image that an array lacks: none, or some of those with a meaning of their own.

        `name` and `instead` appear in the error message: the name of the array, and what may be given instead of an
        array.
        """
        expected = []
        may_lack = [self.channel, self.stack, self.sequence]
        named = [axis for axis in may_lack if axis is not None]
        for known in (axes for n in range(len(named) + 1) for axes in combinations(named, n)):
            rest = tuple(n for axis, n in enumerate(self.shape) if axis not in known)
            if shape == rest:
                return known
            expected.append(str(rest))
        raise ArgumentError(name, shape, f"{instead}{' or '.join(expected)}", "has shape {value}")


class SequenceAxis(NamedTuple):
    """The axis of frames that belong together, and what is known about them."""

    name: str
    """"time_axis" or "depth_axis"."""
    axis: Any
    spacing: tuple[float, float, float] | None = None

    @property
    def is_time(self) -> bool:
        """Whether the frames follow each other in time, so that they may flicker."""
        return self.name == "time_axis"


def layout_of(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    stack_axis: Any = None,
    channel_axis: Any = None,
    sequence: SequenceAxis | None = None,
    *,
    may_be_stack: bool = True,
) -> Layout:
    """Check the shape and dtype of an image and the given axes, and return its layout."""
    if dtype.kind not in "uif":
        raise ArgumentTypeError("image", dtype, "integers or floats", "has dtype {value}")
    frames = sequence or SequenceAxis("time_axis", None)
    names = {"stack_axis": stack_axis, "channel_axis": channel_axis, frames.name: frames.axis}
    named = [name for name, axis in names.items() if axis is not None]
    dimensions = 2 + len(named)
    if len(shape) != dimensions:
        because = (
            f" for an image with {' and '.join(f'`{name}`' for name in named)}" if named else ""
        )
        advice = ""
        if len(shape) > dimensions:
            advice = _axes_to_pass(shape, *names.values(), may_be_stack=may_be_stack)
        raise ArgumentError(
            "image",
            shape,
            f"{('two', 'three', 'four', 'five')[len(named)]} dimensions{because}{advice}",
            "has shape {value}",
        )
    layout = Layout(shape, *(_checked_axis(name, axis, dimensions) for name, axis in names.items()))
    if len(set(layout._named)) < len(named):
        first, *others = named
        found = " and ".join(
            [f"is {names[first]}", *(f"`{name}` is {names[name]}" for name in others)]
        )
        raise ArgumentError(
            first, names[first], f"{('two', 'three')[len(named) - 2]} different axes", found
        )
    if 0 in shape:
        raise ArgumentError("image", shape, "at least one pixel", "has shape {value}")
    _expect_plausible_channels(layout)
    return layout


def _axes_to_pass(
    shape: tuple[int, ...], stack: Any, channel: Any, sequence: Any, *, may_be_stack: bool
) -> str:
    """The end of the message for an image with too many axes: which arguments to pass; empty if none would help."""
    axes = (stack, channel, sequence)
    given = {int(axis) % len(shape) for axis in axes if isinstance(axis, int | np.integer)}
    free = [axis for axis in range(len(shape)) if axis not in given]
    unnamed = len(free) - 2
    color = None
    if channel is None:
        color = next((axis for axis in (free[-1], *free) if shape[axis] <= _COLOR_CHANNELS), None)
    number = "" if color is None else f"={-1 if color == len(shape) - 1 else color}"
    along = free[0] if unnamed == 1 else next((axis for axis in free if axis != color), 0)
    frames = []
    if may_be_stack and sequence is None:
        frames += [f"time_axis={along} for a video", f"depth_axis={along} for a volume"]
    if may_be_stack and stack is None:
        frames += [f"`stack_axis`={along} for a stack of images"]
    if unnamed == 1:
        colors = [f"`channel_axis`{number} for a color image"] if channel is None else []
        return _one_of([*colors, *frames])
    if unnamed == 2 and channel is None and frames:
        return f"; pass `channel_axis`{number}, and{_one_of(frames).removeprefix('; pass')}"
    if unnamed in (2, 3) and frames:
        return "; pass `stack_axis`, time_axis or depth_axis, and `channel_axis` for colors"
    return "" if may_be_stack else "; pass one image at a time"


def _one_of(offers: list[str]) -> str:
    if not offers:
        return ""
    *others, last = offers
    return f"; pass {', '.join(others)}{', or ' if others else ''}{last}"


def _expect_plausible_channels(layout: Layout) -> None:
    """Refuse a channel axis that is the height or the width of a color image.

    An image that really has many channels and is only a few pixels wide is accepted with its channels along the last
    axis; one that is only a few pixels high, with its channels along the first.
    """
    if layout.channel is None:
        return
    rows, columns = (k for k, letter in enumerate(layout.axes) if letter in "YX")
    height, width, count = (layout.shape[k] for k in (rows, columns, layout.channel))
    if (
        layout.channel < columns
        and width <= _COLOR_CHANNELS
        and min(height, count) > _LIKELY_CHANNELS
    ):
        meant = -1 if columns == len(layout.shape) - 1 else columns
    elif (
        layout.channel > rows and height <= _COLOR_CHANNELS and min(width, count) > _LIKELY_CHANNELS
    ):
        meant = rows
    else:
        return
    raise ArgumentError(
        "channel_axis",
        layout.channel,
        f"`channel_axis`={meant}, with the channels moved there if there are {count} of them",
        f"is {layout.channel}, which means {count} channels of {height} x {width} pixels",
    )


def window_of(region: Any, layout: Layout) -> Window:
    """Check a region, which consists of slices of the height and the width, and return its rows and columns."""
    if (
        not isinstance(region, tuple)
        or len(region) != 2
        or not all(isinstance(part, slice) for part in region)
    ):
        raise ArgumentTypeError(
            "region",
            region,
            "two slices, of the rows and the columns, such as numpy.s_[100:200, 300:400]",
        )
    lengths = [n for n, letter in zip(layout.shape, layout.axes, strict=True) if letter in "YX"]
    spans = []
    for name, part, length in zip(("rows", "columns"), region, lengths, strict=True):
        try:
            start, stop, step = (
                default if end is None else operator.index(end)
                for end, default in ((part.start, 0), (part.stop, length), (part.step, 1))
            )
        except TypeError:
            raise ArgumentTypeError("region", region, "whole numbers") from None
        span = range(*(end + length if end < 0 else end for end in (start, stop)))
        if step != 1 or not span or span.start < 0 or span.stop > length:
            raise ArgumentError(
                "region",
                name,
                f"one or several successive {name} of the image, which has {length}",
                f"has the {name} {start}:{stop}{('' if step == 1 else f':{step}')}",
            )
        spans.append(span)
    return Window(*spans)


def _checked_axis(name: str, value: Any, dimensions: int) -> int | None:
    if value is None:
        return None
    try:
        axis = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(name, value, "a whole number or None") from None
    if not -dimensions <= axis < dimensions:
        raise ArgumentError(name, axis, f"a number from {-dimensions} to {dimensions - 1}")
    return axis % dimensions
