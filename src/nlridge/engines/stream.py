"""Images that arrive frame by frame, and calculations with them that never hold more than a few frames."""

import operator
from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm import pyramid
from ..algorithm.inputs import PlaneNoise

Frame = npt.NDArray[np.float32]


class Stream:
    """A sequence of frames of (planes, height, width), which takes the place of an image.

    Sums, multiples and the functions of `FrameScales` describe another stream; nothing is computed until it is iterated
    over. Each frame is computed once, and kept until every iterator has received it, so that all iterators must exist
    before the first of them is used.
    """

    def __init__(self, start: Callable[[], Iterator[Any]], shape: tuple[int, int, int]) -> None:
        """`start` returns the frames. It is called once, by the first iterator, if there is one."""
        self.shape = shape
        self._start = start
        self._frames: Iterator[Any] | None = None
        self._waiting: list[deque[Any]] = []

    def __iter__(self) -> Iterator[Any]:
        if self._frames is None:
            self._frames = self._start()
        waiting: deque[Any] = deque()
        self._waiting.append(waiting)
        return _received(self._frames, self._waiting, waiting)

    def __len__(self) -> int:
        """The number of planes."""
        return self.shape[0]

    def __getitem__(self, planes: slice) -> "Stream":
        shape = len(range(*planes.indices(len(self)))), *self.shape[1:]
        return each(operator.itemgetter(planes), self, shape=shape)

    def __add__(self, other: Any) -> "Stream":
        return each(operator.add, self, other)

    def __sub__(self, other: Any) -> "Stream":
        return each(operator.sub, self, other)

    def __mul__(self, other: Any) -> "Stream":
        return each(operator.mul, self, other)

    __rmul__ = __mul__

    def __pow__(self, exponent: float) -> "Stream":
        return each(operator.pow, self, exponent)


def _received(
    frames: Iterator[Any], queues: list[deque[Any]], waiting: deque[Any]
) -> Iterator[Any]:
    """Yield the frames that wait for an iterator, or else the next one, which then waits for all of them."""
    while True:
        if not waiting:
            try:
                frame = next(frames)
            except StopIteration:
                return
            for queue in queues:
                queue.append(frame)
        yield waiting.popleft()


def each(
    function: Callable[..., Any], *images: Any, shape: tuple[int, int, int] | None = None
) -> Stream:
    """The stream of function(*frames). What is not a stream is passed on to each call as it is."""

    def start() -> Iterator[Any]:
        sources = [iter(image) if isinstance(image, Stream) else repeat(image) for image in images]
        return map(function, *sources)

    first = next(image for image in images if isinstance(image, Stream))
    return Stream(start, shape or first.shape)


class FrameScales:
    """The functions of the module `pyramid`, for streams."""

    @staticmethod
    def coarser(image: Stream) -> Stream:
        planes, height, width = image.shape
        shape = planes, *pyramid.coarser_shape((height, width))
        return each(pyramid.coarser, image, shape=shape)

    @staticmethod
    def coarser_noise(noise: PlaneNoise) -> PlaneNoise:
        if not isinstance(noise.variance, Stream):
            return pyramid.coarser_noise(noise)
        planes, height, width = noise.variance.shape
        shape = planes, *pyramid.coarser_shape((height, width))
        variance = each(_coarser_variance, noise.variance, shape=shape)
        correlation = pyramid.coarser_noise(PlaneNoise(1.0, noise.correlation)).correlation
        return PlaneNoise(variance, correlation)

    @staticmethod
    def with_coarse(image: Stream, coarse: Stream, level: int, most: Any) -> Stream:
        return each(pyramid.with_coarse, image, coarse, level, most)

    @staticmethod
    def filtered(image: Stream, taps: npt.NDArray[np.float32]) -> Stream:
        return each(pyramid.filtered, image, taps)


def _coarser_variance(variance: Frame) -> Frame:
    if variance.shape[1:] == (1, 1):  # the same for the whole frame
        return variance / np.float32(4)
    coarser: Any = pyramid.coarser_noise(PlaneNoise(variance)).variance
    return np.asarray(coarser)
