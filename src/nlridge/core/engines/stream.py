"""Images that arrive frame by frame, and calculations with them that never hold more than a few frames."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from ...types import Shape
from ..algorithm.images import ImageOnDemand

Frame = npt.NDArray[np.float32]


class Stream(ImageOnDemand):
    """A sequence of frames of (planes, height, width), which takes the place of an image.

    Sums, multiples and the functions of `images.stream` describe another stream; nothing is computed until it is iterated
    over. Each frame is computed once, and kept until every iterator has received it, so all iterators must exist before
    the first of them is used.
    """

    def __init__(self, start: Callable[[], Iterator[Any]], shape: Shape) -> None:
        """`start` returns the frames. It is called once, by the first iterator, if at all."""
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

    def mapped(self, planes: int, function: Callable[..., Any], *others: Any) -> "Stream":
        return each(function, self, *others, shape=(planes, *self.shape[1:]))


def _received(
    frames: Iterator[Any], queues: list[deque[Any]], waiting: deque[Any]
) -> Iterator[Any]:
    """Yield the frames that are waiting for an iterator, or else the next one, which then waits for the others."""
    while True:
        if not waiting:
            try:
                frame = next(frames)
            except StopIteration:
                return
            for queue in queues:
                queue.append(frame)
        yield waiting.popleft()


def each(function: Callable[..., Any], *images: Any, shape: Shape | None = None) -> Stream:
    """The stream of function(*frames). Arguments that are not streams are passed to each call as they are."""

    def start() -> Iterator[Any]:
        sources = [iter(image) if isinstance(image, Stream) else repeat(image) for image in images]
        return map(function, *sources)

    first = next(image for image in images if isinstance(image, Stream))
    return Stream(start, shape or first.shape)
