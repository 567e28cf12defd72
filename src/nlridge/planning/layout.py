"""The meaning of the axes of an image."""

import operator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import library
from ..checks import shown
from ..engines.grid import Window

_FEW = 4  # the most channels of a colour image
_MANY = 16  # an axis that is longer is rarely one of colours


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

    def frames(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A view of the image as (frames, channels, height, width).

        With frames that belong together, it is (stack, frames, channels, height, width).
        """
        array = library(array).moveaxis(array, self._named, list(range(len(self._named))))
        if self.channel is None:
            array = array[..., None, :, :]
        return array[None] if self.stack is None else array

    def like_image(self, frames: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The inverse of `frames`: a view with the shape of the image."""
        array = frames[0] if self.stack is None else frames
        if self.channel is None:
            array = array[..., 0, :, :]
        image: npt.NDArray[Any] = library(array).moveaxis(
            array, list(range(len(self._named))), self._named
        )
        return image

    def spread(self, name: str, array: npt.NDArray[Any], instead: str = "") -> npt.NDArray[Any]:
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
        raise ValueError(f"{name} has shape {shape}; expected {instead}{' or '.join(expected)}")


def layout_of(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    stack_axis: Any = None,
    channel_axis: Any = None,
    *,
    may_be_stack: bool = True,
    sequence_axis: Any = None,
    sequence_name: str = "time_axis",
) -> Layout:
    """Check the shape and dtype of an image and the given axes, and return its layout.

    `sequence_name` is what the caller calls the axis of frames that belong together.
    """
    if dtype.kind not in "uif":
        raise TypeError(f"image has dtype {dtype}; expected integers or floats")
    names = {
        "stack_axis": stack_axis,
        "channel_axis": channel_axis,
        sequence_name: sequence_axis,
    }
    named = [name for name, axis in names.items() if axis is not None]
    dimensions = 2 + len(named)
    if len(shape) != dimensions:
        because = f" for an image with {' and '.join(named)}" if named else ""
        advice = ""
        if len(shape) > dimensions:
            advice = _axes_to_pass(shape, *names.values(), may_be_stack=may_be_stack)
        raise ValueError(
            f"image has shape {shape}; expected {('two', 'three', 'four', 'five')[len(named)]} "
            f"dimensions{because}{advice}"
        )
    layout = Layout(
        shape,
        *(_checked_axis(name, axis, dimensions) for name, axis in names.items()),
    )
    given = [f"{name} is {axis}" for name, axis in names.items() if axis is not None]
    if len(set(layout._named)) < len(given):
        number = ("two", "three")[len(given) - 2]
        raise ValueError(f"{' and '.join(given)}; expected {number} different axes")
    if 0 in shape:
        raise ValueError(f"image has shape {shape}; expected at least one pixel")
    _expect_plausible_channels(layout)
    return layout


def _axes_to_pass(
    shape: tuple[int, ...], stack: Any, channel: Any, sequence: Any, *, may_be_stack: bool
) -> str:
    """The end of the message for an image with too many axes: which arguments to pass; empty if none would do."""
    axes = (stack, channel, sequence)
    given = {int(axis) % len(shape) for axis in axes if isinstance(axis, int | np.integer)}
    free = [axis for axis in range(len(shape)) if axis not in given]
    unnamed = len(free) - 2
    colour = None
    if channel is None:
        colour = next((axis for axis in (free[-1], *free) if shape[axis] <= _FEW), None)
    number = "" if colour is None else f"={-1 if colour == len(shape) - 1 else colour}"
    along = free[0] if unnamed == 1 else next((axis for axis in free if axis != colour), 0)
    frames = []
    if may_be_stack and sequence is None:
        frames += [f"time_axis={along} for a video", f"depth_axis={along} for a volume"]
    if may_be_stack and stack is None:
        frames += [f"stack_axis={along} for a stack of images"]
    if unnamed == 1:
        colours = [f"channel_axis{number} for a colour image"] if channel is None else []
        return _one_of([*colours, *frames])
    if unnamed == 2 and channel is None and frames:
        return f"; pass channel_axis{number}, and{_one_of(frames).removeprefix('; pass')}"
    if unnamed in (2, 3) and frames:
        return "; pass stack_axis, time_axis or depth_axis, and channel_axis for colours"
    return "" if may_be_stack else "; pass one image at a time"


def _one_of(offers: list[str]) -> str:
    if not offers:
        return ""
    *others, last = offers
    return f"; pass {', '.join(others)}{', or ' if others else ''}{last}"


def _expect_plausible_channels(layout: Layout) -> None:
    """Refuse a channel axis that is the height or the width of a colour image.

    An image that does have many channels, and is a few pixels wide, is accepted with its channels along the last axis;
    one that is a few pixels high is accepted with its channels along the first.
    """
    if layout.channel is None:
        return
    rows, columns = (k for k, letter in enumerate(layout.axes) if letter in "YX")
    height, width, count = (layout.shape[k] for k in (rows, columns, layout.channel))
    if layout.channel < columns and width <= _FEW and min(height, count) > _MANY:
        meant = -1 if columns == len(layout.shape) - 1 else columns
    elif layout.channel > rows and height <= _FEW and min(width, count) > _MANY:
        meant = rows
    else:
        return
    raise ValueError(
        f"channel_axis is {layout.channel}, which means {count} channels of {height} x {width} pixels; "
        f"expected channel_axis={meant}, with the channels moved there if there are {count} of them"
    )


def window_of(region: Any, layout: Layout) -> Window:
    """Check a region, which consists of slices of the height and the width, and return its rows and columns."""
    if (
        not isinstance(region, tuple)
        or len(region) != 2
        or not all(isinstance(part, slice) for part in region)
    ):
        raise TypeError(
            f"region is {shown(region)}; expected two slices, of the rows and the columns, such as "
            "numpy.s_[100:200, 300:400]"
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
            raise TypeError(f"region is {shown(region)}; expected whole numbers") from None
        span = range(*(end + length if end < 0 else end for end in (start, stop)))
        if step != 1 or not span or span.start < 0 or span.stop > length:
            raise ValueError(
                f"region has the {name} {start}:{stop}{'' if step == 1 else f':{step}'}; expected one or several "
                f"successive {name} of the image, which has {length}"
            )
        spans.append(span)
    return Window(*spans)


def _checked_axis(name: str, value: Any, dimensions: int) -> int | None:
    if value is None:
        return None
    try:
        axis = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; expected a whole number or None") from None
    if not -dimensions <= axis < dimensions:
        raise ValueError(
            f"{name} is {shown(axis)}; expected a number from {-dimensions} to {dimensions - 1}"
        )
    return axis % dimensions
