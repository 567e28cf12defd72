"""Images that are not held in memory."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..engines.grid import Window

Image = npt.NDArray[np.float32]


class ImageOnDemand(ABC):
    """An image of shape (planes, height, width) that is not held in memory, or not yet computed.

    ``image[:1]`` is the first plane.  Sums, differences, multiples and powers are images of the same kind.
    """

    shape: tuple[int, int, int]

    @abstractmethod
    def mapped(self, planes: int, function: Callable[..., Image], *others: Any) -> Any:
        """Return the image of so many planes whose pixels are function(pixels, *pixels of the others)."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        return self.mapped(len(range(*key.indices(len(self)))), partial(_select_planes, key))

    def __add__(self, other: Any) -> Any:
        return self.mapped(len(self), operator.add, other)

    def __sub__(self, other: Any) -> Any:
        return self.mapped(len(self), operator.sub, other)

    def __rmul__(self, factor: float) -> Any:
        return self.mapped(len(self), partial(operator.mul, factor))

    __mul__ = __rmul__

    def __pow__(self, exponent: float) -> Any:
        return self.mapped(len(self), partial(_power, exponent))


class ReadableImage(ImageOnDemand):
    """An image of which any part can be read: ``image[:, top:bottom, left:right]`` returns an array."""

    rows_at_once = 512
    """How many rows to read at a time where nothing else matters."""

    @abstractmethod
    def read(self, window: Window) -> npt.NDArray[Any]:
        """Read or compute a part of all planes."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return super().__getitem__(key)
        planes, *places = key
        spans = [range(length) for length in self.shape[1:]]
        spans[: len(places)] = [span[place] for span, place in zip(spans, places, strict=False)]
        return self.read(Window(*spans))[planes]


class LazyImage(ReadableImage):
    """An image whose parts are read or computed by a function whenever they are needed."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        function: Callable[[Window], npt.NDArray[Any]],
        rows_at_once: int = 512,
    ) -> None:
        self.shape, self.function, self.rows_at_once = shape, function, rows_at_once

    def read(self, window: Window) -> npt.NDArray[Any]:
        """See `ReadableImage`."""
        return self.function(window)

    def mapped(self, planes: int, function: Callable[..., Image], *others: Any) -> Any:
        """See `ImageOnDemand`."""
        return type(self)((planes, *self.shape[1:]), partial(_mapped, function, self, *others))


def _select_planes(planes: slice, image: Image) -> Image:
    return image[planes]


def _power(exponent: float, image: Image) -> Image:
    powers: Image = image**exponent
    return powers


def _mapped(function: Callable[..., Image], *images_and_window: Any) -> Image:
    *images, window = images_and_window
    return function(*(image.read(window) for image in images))


def from_rows(array: Image, first: int, shape: tuple[int, int, int]) -> LazyImage:
    """Return an image of `shape` of which only the rows in `array` can be read; `first` is the first of them."""
    held = Window(range(first, first + array.shape[1]), range(shape[2]))
    return LazyImage(shape, partial(_select, array, held))


def _select(array: Image, held: Window, window: Window) -> Image:
    return array[window.inside(held)]
