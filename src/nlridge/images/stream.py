"""Images that are streams of frames, only a few of which are in memory at a time."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.algorithm import filtering, pyramid
from ..core.algorithm.filling import fill_planes
from ..core.algorithm.images import Images
from ..core.algorithm.inputs import Image, PlaneNoise, StepInputs
from ..core.algorithm.passes import Pass
from ..core.engines import frames as engine
from ..core.engines.pool import threads_of
from ..core.engines.stream import Frame, Stream, each
from ..types import Shape
from .flicker import gains
from .motion import motions

_MAX_WORKERS = 256  # each works on some frames of its own


@dataclass(frozen=True)
class Streams(Images):
    """Streams of frames that belong together. Nothing is computed until one of them is iterated over."""

    workers: int
    threads: Executor | None
    tick: Callable[[], None]
    is_video: bool
    """Whether frames may flicker and move."""
    start_at: int
    """The number of the first frame, if the frames are a part of a longer sequence."""
    motions: Stream | None = None
    """The `Motion` of each frame, if they may move."""
    height: int = 0
    """The height of the frames to which the motion refers."""

    def run_pass(
        self, inputs: StepInputs, pass_: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[Stream, Stream]:
        return engine.run_pass(
            inputs,
            pass_,
            groups,
            workers=self.workers,
            threads=self.threads,
            tick=self.tick,
            motions=self.motions,
            height=self.height,
            start_at=self.start_at,
        )

    def each(
        self, function: Callable[..., Any], *images: Image, shape: Shape | None = None
    ) -> Stream:
        return each(function, *images, shape=shape)

    def coarser(self, image: Stream) -> Stream:
        return each(pyramid.coarser, image, shape=_coarser_shape(image))

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise:
        if not isinstance(noise.variance, Stream):
            return pyramid.coarser_noise(noise)
        variance = each(_coarser_variance, noise.variance, shape=_coarser_shape(noise.variance))
        correlation = pyramid.coarser_noise(PlaneNoise(1.0, noise.correlation)).correlation
        return PlaneNoise(variance, correlation)

    def with_coarse(self, image: Stream, coarse: Stream, level: int, most: Any) -> Stream:
        return each(pyramid.with_coarse, image, coarse, level, most)

    def filtered(self, image: Stream, taps: npt.NDArray[np.float32]) -> Stream:
        return each(filtering.filtered, image, taps)

    def filled(self, image: Stream) -> Stream:
        return each(fill_planes, image)

    def steadied(self, noisy: Stream, source: Stream) -> tuple[Images, Stream, Stream | None]:
        if not self.is_video:
            return self, noisy, None
        gain = gains(noisy)
        steady = each(np.divide, noisy, gain)
        moving = motions(steady, source, gain)
        return replace(self, motions=moving, height=noisy.shape[1]), steady, gain


@contextmanager
def streams(
    workers: int, tick: Callable[[], None], *, is_video: bool, start_at: int
) -> Iterator[Streams]:
    """Provide `Streams` whose passes share their threads."""
    workers = min(workers, _MAX_WORKERS)
    with threads_of(workers) as threads:
        yield Streams(workers, threads, tick, is_video, start_at)


def _coarser_shape(image: Stream) -> Shape:
    planes, height, width = image.shape
    return planes, *pyramid.coarser_shape((height, width))


def _coarser_variance(variance: Frame) -> Frame:
    if variance.shape[1:] == (1, 1):  # the same for the whole frame
        return variance / np.float32(4)
    coarser: Any = pyramid.coarser_noise(PlaneNoise(variance)).variance
    return np.asarray(coarser)
