"""Images that are not held in memory."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from ..core.algorithm.images import ImageOnDemand
from ..core.engines.grid import Window
from ..types import Image, Pixels, Shape


class ReadableImage(ImageOnDemand):
    """An image of which any part can be read: ``image[:, top:bottom, left:right]`` returns an array."""

    rows_at_once = 512
    """The number of rows to read at a time by default."""

    @abstractmethod
    def read(self, window: Window) -> Pixels:
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
        self, shape: Shape, function: Callable[[Window], Pixels], rows_at_once: int = 512
    ) -> None:
        self.shape, self.function, self.rows_at_once = shape, function, rows_at_once

    def read(self, window: Window) -> Pixels:
        return self.function(window)

    def mapped(self, planes: int, function: Callable[..., Image], *others: Any) -> Any:
        return type(self)((planes, *self.shape[1:]), partial(_mapped, function, self, *others))


def _mapped(function: Callable[..., Image], *images_and_window: Any) -> Image:
    *images, window = images_and_window
    return function(*(image.read(window) for image in images))


def from_rows(array: Image, first: int, shape: Shape) -> LazyImage:
    """Return an image of `shape` of which only the rows in `array` can be read; `first` is the first of them."""
    held = Window(range(first, first + array.shape[1]), range(shape[2]))
    return LazyImage(shape, partial(_select, array, held))


def _select(array: Image, held: Window, window: Window) -> Image:
    return array[window.inside(held)]
