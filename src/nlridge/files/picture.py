"""What is in an image file."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Layer:
    """An array of images of one kind.

    `axes` has a letter for each axis: Y and X, C for channels, and any other for the frames of a stack.
    """

    pixels: Pixels
    axes: str

    @property
    def channel_axis(self) -> int | None:
        """The axis of channels in a frame."""
        frame = [axis for axis in self.axes if axis in "YXC"]
        return frame.index("C") if "C" in frame else None

    def frames(self) -> Iterator[tuple[int | slice, ...]]:
        """The index of each frame."""
        stacked = [
            n for axis, n in zip(self.axes, self.pixels.shape, strict=True) if axis not in "YXC"
        ]
        for found in np.ndindex(*stacked):
            numbers = iter(found)
            yield tuple(slice(None) if axis in "YXC" else next(numbers) for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Picture:
    """What is in an image file."""

    format: str
    """The module that read it."""
    layers: list[Layer]
    """Its pixels, without transparency: one array, unless a file holds images of several shapes."""
    alpha: Pixels | None = None
    """Its transparency, (height, width), if it has any: never denoised."""
    profile: bytes | None = None
    """The colour profile (ICC)."""
    exif: bytes | None = None
    turn: int = 1
    """How it is to be turned when it is looked at: an orientation of EXIF, 1 to 8."""
    negative: bool = False
    """Whether 0 is white."""
    channels: list[str] = field(default_factory=list)
    """Names of the channels, if the file has any."""
    origin: Any = None
    """What else the format needs to write it again."""
    notes: list[str] = field(default_factory=list)
    """What cannot be kept."""
