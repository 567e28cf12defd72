"""An image that is not in memory."""

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]


class Lazy:
    """An image of (planes, height, width) that is read, or computed, when some rows of it are asked for.

    image[:, top:bottom] are those, in memory; image[:1] is the first plane, and sums and multiples of such
    images are such images, which nobody computes before rows of them are asked for.
    """

    def __init__(self, shape: tuple[int, int, int], read: Callable[[int, int], Image]) -> None:
        self.shape = shape
        self.read = read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            planes = len(range(*key.indices(len(self))))
            return Lazy((planes, *self.shape[1:]), partial(_planes, self, key))
        planes, rows = key
        return self.read(*rows.indices(self.shape[1])[:2])[planes]

    def __add__(self, other: "Lazy") -> "Lazy":
        return Lazy(self.shape, partial(_combined, operator.add, self, other))

    def __sub__(self, other: "Lazy") -> "Lazy":
        return Lazy(self.shape, partial(_combined, operator.sub, self, other))

    def __rmul__(self, factor: float) -> "Lazy":
        return Lazy(self.shape, partial(_multiplied, factor, self))


def _planes(image: Lazy, planes: slice, top: int, bottom: int) -> Image:
    return image.read(top, bottom)[planes]


def _combined(operation: Callable[..., Image], a: Lazy, b: Lazy, top: int, bottom: int) -> Image:
    return operation(a.read(top, bottom), b.read(top, bottom))


def _multiplied(factor: float, image: Lazy, top: int, bottom: int) -> Image:
    return factor * image.read(top, bottom)


def part(array: Image, first: int, shape: tuple[int, int, int]) -> Lazy:
    """An image of which some rows are in memory, from the `first` on, and no others will be asked for."""
    return Lazy(shape, partial(_cut, array, first))


def _cut(array: Image, first: int, top: int, bottom: int) -> Image:
    return array[:, top - first : bottom - first]
