"""An image whose rows are read or computed on demand."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]


class LazyImage:
    """An image of shape (planes, height, width) that is not held in memory.

    ``image[:, top:bottom]`` reads or computes these rows and returns an array.  ``image[:1]`` is the first plane, as
    a lazy image again.  Sums, differences, multiples and powers of lazy images are lazy as well.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        read: Callable[[int, int], Any],
        rows_at_once: int = 512,
    ) -> None:
        self.shape = shape
        self.read = read
        self.rows_at_once = rows_at_once
        """How many rows to read at a time where nothing else matters."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            planes = len(range(*key.indices(len(self))))
            return LazyImage((planes, *self.shape[1:]), partial(_select_planes, self, key))
        planes, rows = key
        return self.read(*rows.indices(self.shape[1])[:2])[planes]

    def __add__(self, other: "LazyImage") -> "LazyImage":
        return LazyImage(self.shape, partial(_combine, operator.add, self, other))

    def __sub__(self, other: "LazyImage") -> "LazyImage":
        return LazyImage(self.shape, partial(_combine, operator.sub, self, other))

    def __rmul__(self, factor: float) -> "LazyImage":
        return LazyImage(self.shape, partial(_multiply, factor, self))

    __mul__ = __rmul__

    def __pow__(self, exponent: float) -> "LazyImage":
        return LazyImage(self.shape, partial(_power, exponent, self))


def _select_planes(image: LazyImage, planes: slice, top: int, bottom: int) -> Image:
    selected: Image = image.read(top, bottom)[planes]
    return selected


def _combine(
    operation: Callable[..., Image], a: LazyImage, b: LazyImage, top: int, bottom: int
) -> Image:
    return operation(a.read(top, bottom), b.read(top, bottom))


def _multiply(factor: float, image: LazyImage, top: int, bottom: int) -> Image:
    multiple: Image = factor * image.read(top, bottom)
    return multiple


def _power(exponent: float, image: LazyImage, top: int, bottom: int) -> Image:
    power: Image = image.read(top, bottom) ** exponent
    return power


def from_rows(array: Image, first: int, shape: tuple[int, int, int]) -> LazyImage:
    """Return an image of `shape` of which only the rows in `array` can be read; `first` is the first of them."""
    return LazyImage(shape, partial(_select_rows, array, first))


def _select_rows(array: Image, first: int, top: int, bottom: int) -> Image:
    return array[:, top - first : bottom - first]
