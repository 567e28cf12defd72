"""The latest frames of a stream in memory, as kernels read them."""

from typing import NamedTuple

import numpy as np

from ..algorithm.inputs import StepInputs
from ..kernels.simd import LANES
from ..patches.matching import FAR
from .stream import Frame


class Layout(NamedTuple):
    """The layout of the latest frames in memory: one after the other, each with a margin."""

    slots: int
    """The number of different frames."""
    depth: int
    """The number of frames of a patch. They are next to each other in memory, so that the first frames are stored twice."""
    height: int
    width: int
    margin: int

    @property
    def frame(self) -> int:
        """The distance between two frames."""
        return self.height * self.width

    @property
    def plane(self) -> int:
        """The distance between two planes."""
        return (self.slots + self.depth - 1) * self.frame


class Planes(NamedTuple):
    """The number of planes of the images that a pass reads."""

    noisy: int
    similar: int
    variance: int
    """0 if the noise is the same in the whole frame."""


class Ring:
    """The latest frames of an image."""

    def __init__(self, planes: int, layout: Layout, outside: float) -> None:
        self.layout = layout
        self._planes = planes
        self.pixels = np.full(planes * layout.plane + 4 * LANES, outside, np.float32)

    def __len__(self) -> int:
        """The number of planes."""
        return self._planes

    def write(self, number: int, frame: Frame) -> None:
        """Write a frame in the place of the oldest one."""
        planes, height, width = frame.shape
        slots, depth, rows, columns, margin = self.layout
        frames = self.pixels[: planes * self.layout.plane].reshape(planes, -1, rows, columns)
        for slot in range(number % slots, slots + depth - 1, slots):
            frames[:, slot, margin : margin + height, margin : margin + width] = frame

    def planes(self, planes: slice) -> Frame:
        """Some planes, one after the other, with room for whole vectors behind them."""
        return self.pixels[planes.start * self.layout.plane :]


class Rings(NamedTuple):
    """The latest frames of the images that a pass reads."""

    noisy: Ring
    guide: Ring
    similar: Ring
    original: Ring | None
    variance: Ring | None

    def write(self, number: int, frame: StepInputs) -> None:
        """Write a frame of each image."""
        self.noisy.write(number, frame.noisy)
        if self.guide is not self.noisy:
            self.guide.write(number, frame.guide)
        self.similar.write(number, frame.similar)
        if self.original is not None and frame.partly is not None:
            self.original.write(number, frame.partly.original)
        if self.variance is not None:
            self.variance.write(number, np.asarray(frame.noise.variance))


def rings_of(iterators: StepInputs, planes: Planes, layout: Layout) -> Rings:
    """Empty rings for the images of a pass."""
    noisy = Ring(planes.noisy, layout, 0)
    partly = iterators.partly
    has_original = partly is not None and partly.original is not iterators.noisy
    return Rings(
        noisy,
        noisy if iterators.guide is iterators.noisy else Ring(planes.noisy, layout, 0),
        Ring(planes.similar, layout, float(FAR)),
        Ring(planes.noisy, layout, 0) if has_original else None,
        Ring(planes.variance, layout, 1) if planes.variance else None,
    )
