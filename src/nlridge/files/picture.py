"""The content of an image file."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..noise import Noise
from ..planning.mosaic import Mosaic
from ..types import Pixels


@dataclass(frozen=True, eq=False)
class Layer:
    """An array of one or more images of the same shape.

    `axes` has one letter for each axis: Y and X, C for channels, and any other letter for the frames of a stack: T if
    they follow each other in time, Z if they are slices of a volume.
    """

    pixels: Pixels
    axes: str
    spacing: tuple[float, float, float] | None = None
    """The size of a voxel along Z, Y and X, if the file has it; NaN for an axis of unknown size."""
    unit: str = ""
    """The unit of `spacing` as in OME metadata, such as µm, nm, mm or Å; empty if it is unknown."""
    mosaic: Mosaic | None = None
    """The pattern of a raw image."""
    noise: Noise | None = None
    """The noise that the file states, or what is left of it. For a mosaic, its black level counts as 0."""

    @property
    def voxel(self) -> tuple[float, float, float] | None:
        """The spacing if it is known along all three axes."""
        return self.spacing if self.spacing and all(map(math.isfinite, self.spacing)) else None

    @property
    def channel_axis(self) -> int | None:
        """The channel axis of a single frame, or None."""
        return self.axis_of("C")

    def axis_of(self, axis: str, together: str = "") -> int | None:
        """The index of an axis in a frame, or in a sequence of frames along the axis `together`; None if absent."""
        kept = [letter for letter in self.axes if letter in "YXC" + together]
        return kept.index(axis) if axis in kept else None

    def frames(self, together: str = "") -> Iterator[tuple[int | slice, ...]]:
        """Yield the index of each frame, or of each sequence of frames along the axis `together`."""
        kept = "YXC" + together
        stacked = [
            n for axis, n in zip(self.axes, self.pixels.shape, strict=True) if axis not in kept
        ]
        for number in np.ndindex(*stacked):
            numbers = iter(number)
            yield tuple(slice(None) if axis in kept else next(numbers) for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Picture:
    """The content of an image file."""

    format: str
    """The name of the module that read it."""
    layers: list[Layer]
    """The pixels without transparency: one layer, unless the file holds images of several shapes."""
    alpha: Pixels | None = None
    """The transparency, of shape (height, width), if there is any. It is not denoised."""
    profile: bytes | None = None
    """The ICC color profile."""
    exif: bytes | None = None
    """The EXIF data."""
    iptc: bytes | None = None
    """The IPTC data: captions, keywords and copyright."""
    tables: bool = False
    """Whether the file has lookup tables, by which gray values are shown in color."""
    turn: int = 1
    """The orientation for display, from 1 to 8 as in EXIF."""
    negative: bool = False
    """Whether the image is a negative, in which 0 is white."""
    channels: list[str] = field(default_factory=list)
    """The names of the channels, if the file has any."""
    origin: Any = None
    """Whatever else the module needs to write the same file again."""
    notes: list[str] = field(default_factory=list)
    """Sentences on what cannot be preserved."""


def checked_spacing(z: Any, y: Any, x: Any) -> tuple[float, float, float] | None:
    """Return the size of a voxel, NaN where it is not a positive number; None if no size is known in the plane."""
    sizes = []
    for size in (z, y, x):
        try:
            number = float(size)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        sizes.append(number if 0 < number < math.inf else math.nan)
    z, y, x = sizes
    return None if math.isnan(y) or math.isnan(x) else (z, y, x)
