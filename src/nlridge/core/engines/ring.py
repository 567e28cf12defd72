"""The latest frames of a stream in memory, as kernels read them."""

from collections.abc import Iterable
from functools import cached_property
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
    """0 if the noise is the same in all frames."""


class Ring:
    """The latest frames of an image."""

    def __init__(self, planes: int, layout: Layout, outside: float) -> None:
        self.layout = layout
        self._planes = planes
        self._outside = outside

    @cached_property
    def pixels(self) -> Frame:
        """The planes one after the other, each of them one frame after the other."""
        return np.full(len(self) * self.layout.plane + 4 * LANES, self._outside, np.float32)

    def __len__(self) -> int:
        """The number of planes."""
        return self._planes

    def write(self, number: int, frame: Frame) -> None:
        """Write a frame in place of the oldest one."""
        planes, height, width = frame.shape
        slots, depth, rows, columns, margin = self.layout
        frames = self.pixels[: planes * self.layout.plane].reshape(planes, -1, rows, columns)
        for slot in range(number % slots, slots + depth - 1, slots):
            frames[:, slot, margin : margin + height, margin : margin + width] = frame

    def planes(self, planes: slice) -> Frame:
        """Some planes, one after the other, with room for whole vectors at the end."""
        return self.pixels[planes.start * self.layout.plane :]


class NoiseRing(Ring):
    """The variance of the noise in the latest frames: a map or a number for each.

    Numbers become maps only if they differ between frames: most videos need neither the memory nor the time.
    """

    def __init__(self, planes: int, layout: Layout, size: tuple[int, int]) -> None:
        super().__init__(planes, layout, 1)
        self._size = size
        self._latest: dict[int, Frame] = {}  # by slot
        self._mapped: set[int] = set()  # the slots whose numbers are in memory as maps

    def write(self, number: int, frame: Frame) -> None:
        """Write a map in place of the oldest one, or store a number."""
        slot = number % self.layout.slots
        self._latest[slot] = frame
        self._mapped.discard(slot)
        if frame.shape[1:] != (1, 1):
            super().write(number, frame)

    def differs(self, numbers: Iterable[int]) -> bool:
        """Whether the noise differs within or between some frames; if so, all of them have maps from now on."""
        latest = {number % self.layout.slots: number for number in numbers}
        variances = [self._latest[slot] for slot in latest]
        if any(variance.shape[1:] != (1, 1) for variance in variances):
            return True
        if all(np.array_equal(variance, variances[0]) for variance in variances):
            return False
        for slot in latest.keys() - self._mapped:
            maps = np.broadcast_to(self._latest[slot], (len(self), *self._size))
            super().write(latest[slot], maps)
            self._mapped.add(slot)
        return True


class Rings(NamedTuple):
    """The latest frames of the images that a pass reads."""

    noisy: Ring
    guide: Ring
    similar: Ring
    original: Ring | None
    variance: NoiseRing | None

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


def rings_of(iterators: StepInputs, planes: Planes, layout: Layout, size: tuple[int, int]) -> Rings:
    """Empty rings for the images of a pass, whose frames have the given size."""
    noisy = Ring(planes.noisy, layout, 0)
    partly = iterators.partly
    has_original = partly is not None and partly.original is not iterators.noisy
    return Rings(
        noisy,
        noisy if iterators.guide is iterators.noisy else Ring(planes.noisy, layout, 0),
        Ring(planes.similar, layout, float(FAR)),
        Ring(planes.noisy, layout, 0) if has_original else None,
        NoiseRing(planes.variance, layout, size) if planes.variance else None,
    )
