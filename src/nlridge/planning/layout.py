"""The meaning of the axes of an image."""

import operator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import library
from ..checks import shown


class Layout(NamedTuple):
    """The shape of an image, and which of its axes, if any, are those of the stack and of the channels."""

    shape: tuple[int, ...]
    stack: int | None
    channel: int | None

    @property
    def _named(self) -> list[int]:
        return [axis for axis in (self.stack, self.channel) if axis is not None]

    @property
    def axes(self) -> str:
        """One letter for each axis: T for the stack, C for the channels, Y and X for height and width."""
        letters = {self.stack: "T", self.channel: "C"}
        rest = iter("YX")
        return "".join(letters.get(k) or next(rest) for k in range(len(self.shape)))

    def frames(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A view of the image as (frames, channels, height, width)."""
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
        """The axes of the image that an array lacks: none, that of the stack, of the channels, or both.

        `name` and `instead` appear in the error message: the name of the array, and what may be given instead of an
        array.
        """
        expected = []
        for axes in [], [self.channel], [self.stack], [self.stack, self.channel]:
            known = tuple(axis for axis in axes if axis is not None)
            if len(known) < len(axes):
                continue
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
) -> Layout:
    """Check the shape and dtype of an image and the given axes, and return its layout."""
    if dtype.kind not in "uif":
        raise TypeError(f"image has dtype {dtype}; expected integers or floats")
    names = {"stack_axis": stack_axis, "channel_axis": channel_axis}
    named = [name for name, axis in names.items() if axis is not None]
    dimensions = 2 + len(named)
    if len(shape) != dimensions:
        because = f" for an image with {' and '.join(named)}" if named else ""
        hint = ""
        if len(shape) == dimensions + 1 and len(named) < 2:
            hint = "; pass channel_axis for a colour image"
            hint += ", or stack_axis for a stack of images" if may_be_stack else ""
        raise ValueError(
            f"image has shape {shape}; expected {('two', 'three', 'four')[len(named)]} "
            f"dimensions{because}{hint}"
        )
    layout = Layout(
        shape,
        *(_checked_axis(name, axis, dimensions) for name, axis in names.items()),
    )
    if layout.stack is not None and layout.stack == layout.channel:
        raise ValueError(
            f"stack_axis is {stack_axis} and channel_axis is {channel_axis}; expected two different axes"
        )
    if 0 in shape:
        raise ValueError(f"image has shape {shape}; expected at least one pixel")
    return layout


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
