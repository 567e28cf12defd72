"""A part of the result, computed from no more than it depends on, with the same bits as in the whole.

Running the algorithm on these images only records what depends on what.  From the window that is wanted, the part that
is needed of each image is derived backwards; then each part is computed once, and freed after its last use.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..algorithm.inputs import StepInputs
from ..algorithm.passes import Pass
from ..engines import cpu
from ..engines.grid import Window, lines, reach
from ..engines.reuse import Kept
from ..planning.doubts import warn_about
from ..planning.layout import Layout
from ..planning.options import Options
from ..progress import Progress, progress_reporter
from .frames import Frame, PlannedFrame, Source, plan_frame
from .lazy import Image, ReadableImage
from .planes import denoised_image
from .scales import Function, ImagesInParts, Needed, Shape, around_gaps, filled_window
from .stages import strips_of

Tick: TypeAlias = Callable[[], None]
Compute: TypeAlias = Callable[[Window, int, Tick], npt.NDArray[Any]]
"""Computes a part of an image with a number of threads; calls `tick` for each block of a pass."""


def denoise_regions(
    sources: Sequence[Source],
    layout: Layout,
    options: Options,
    window: Window,
    workers: int,
    progress: Progress,
) -> npt.NDArray[Any]:
    """Return a part of each denoised frame of an array that is not in memory, in the layout of the image."""
    stacked = layout.stack is not None
    results: list[npt.NDArray[Any]] = []
    with progress_reporter(stacked and progress, len(sources), "image") as tick:
        for source in sources:
            planned = plan_frame(source, layout, options)
            if not results:  # the same noise for all
                warn_about(planned.plan.doubt)
            results.append(denoise_region(planned, window, workers, not stacked and progress))
            tick()
    return layout.like_image(np.stack(results))


def denoise_region(
    planned: PlannedFrame,
    window: Window,
    workers: int,
    progress: Progress,
    kept: Kept | None = None,
) -> npt.NDArray[Any]:
    """Return a part of the denoised frame, as (channels, rows, columns).

    An exception that `progress` raises ends the work at once. What is `kept` of an earlier call is not computed again.
    """
    parts = Demands(kept)
    sources = [parts.source(frame) for frame in planned.source.frames]
    result = denoised_image(planned, sources, parts, parts.run_pass)
    parts.demand(result, window)
    with progress_reporter(progress, parts.blocks(), "block") as tick:
        return parts.compute(result, workers, tick)


class DemandedImage(ReadableImage):
    """An image of which one window is computed: all that is needed of it."""

    def __init__(
        self, parts: "Demands", shape: Shape, inputs: Sequence[Needed], compute: Compute
    ) -> None:
        self.parts, self.shape, self.inputs, self.compute = parts, shape, inputs, compute
        self.step: Pass | None = None
        """The pass that computes it, if one does."""
        self.window: Window | None = None
        self.pixels: npt.NDArray[Any] | None = None

    def demand(self, window: Window) -> None:
        """Extend the window that is needed."""
        spans = zip(self.window or window, window, strict=True)
        self.window = Window(*(range(min(a.start, b.start), max(a.stop, b.stop)) for a, b in spans))

    def read(self, window: Window) -> npt.NDArray[Any]:
        """See `ReadableImage`."""
        assert self.window is not None
        assert self.pixels is not None
        return self.pixels[window.inside(self.window)]

    def mapped(self, planes: int, function: Callable[..., Image], *others: Any) -> Any:
        """See `ImageOnDemand`."""
        return self.parts.each(function, self, *others, planes=planes)


class SourceImage(DemandedImage):
    """An image that is read from an array; what is needed beyond its window is read whenever it is needed."""

    def __init__(self, parts: "Demands", frame: Frame) -> None:
        super().__init__(parts, frame.shape, [], lambda window, *_: frame.read_window(window))
        self.frame = frame

    def read(self, window: Window) -> npt.NDArray[Any]:
        """See `ReadableImage`."""
        if self.window is not None and window.overlap(self.window) == window:
            return super().read(window)
        return self.frame.read_window(window)


class Demands(ImagesInParts):
    """Passes and scales for `framework.denoised` that record what is to be computed."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.engine = cpu.run_pass if kept is None else kept.engine()
        self.images: list[DemandedImage] = []
        """In the order in which they can be computed."""

    def _recorded(self, shape: Shape, inputs: Sequence[Needed], compute: Compute) -> DemandedImage:
        self.images.append(DemandedImage(self, shape, inputs, compute))
        return self.images[-1]

    def source(self, frame: Frame) -> DemandedImage:
        """Return an image that is read from an array."""
        self.images.append(SourceImage(self, frame))
        return self.images[-1]

    def image_of(self, shape: Shape, function: Function, inputs: Sequence[Needed]) -> DemandedImage:
        """See `ImagesInParts`."""
        return self._recorded(shape, inputs, partial(_compute, function, inputs))

    def run_pass(
        self, inputs: StepInputs, step: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[DemandedImage, DemandedImage]:
        """Run a pass of the engine; returns the result, and the result that keeps some of the noise."""
        planes, height, width = inputs.noisy.shape

        def needed(window: Window) -> Window:
            grid = lines((height, width), step, window, trimmed=True)
            return reach(grid, (height, width), step.settings)

        both = self._recorded(
            (planes * (1 + inputs.keeps_noise), height, width),
            [(image, needed) for image in inputs.images()],
            partial(_run_pass, self.engine, inputs, step, groups),
        )
        both.step = step
        return both[:planes], both[-planes:]

    def filled(self, image: DemandedImage) -> DemandedImage:
        """See `ImagesInParts`.  How much is needed depends on how wide the gaps are: it is read when they are known.

        The image is computed from sources alone.
        """
        compute, shape = image.compute, image.shape
        inputs = [
            (source, partial(_in_turn, part, partial(around_gaps, shape)))
            for source, part in image.inputs
        ]

        def compute_filled(window: Window, workers: int, tick: Tick) -> Image:
            return filled_window(lambda some: compute(some, workers, tick), shape, window)

        return self._recorded(shape, inputs, compute_filled)

    def demand(self, result: DemandedImage, window: Window) -> None:
        """Derive what is needed of each image from a window of the result."""
        result.demand(window)
        for image in reversed(self.images):
            if image.window is not None:
                for needed, part in image.inputs:
                    needed.demand(part(image.window))

    def blocks(self) -> int:
        """Return the number of times that `compute` calls `tick`."""
        return sum(
            len(line)
            for image in self.images
            if image.step is not None and image.window is not None
            for line in lines(image.shape[1:], image.step, image.window, trimmed=True)
        )

    def compute(self, result: DemandedImage, workers: int, tick: Tick) -> npt.NDArray[Any]:
        """Compute all that is needed for the result."""
        self.images.reverse()
        while self.images:
            image = self.images.pop()
            if image.window is not None:
                image.pixels = image.compute(image.window, workers, tick)
            # What no other image depends on is freed.
            del image.inputs, image.compute
        assert result.pixels is not None
        return result.pixels


def _in_turn(
    outer: Callable[[Window], Window], inner: Callable[[Window], Window], window: Window
) -> Window:
    return outer(inner(window))


def _compute(
    function: Function, inputs: Sequence[Needed], window: Window, workers: int, tick: Tick
) -> Image:
    strips = [pixels for _, pixels in strips_of(function, inputs, window, workers)]
    return strips[0] if len(strips) == 1 else np.concatenate(strips, axis=1)


def _run_pass(
    engine: Callable[..., tuple[Image, Image]],
    inputs: StepInputs,
    step: Pass,
    groups: Any,
    window: Window,
    workers: int,
    tick: Tick,
) -> Image:
    """Return some planes of the result, then those that keep some of the noise, if they are asked for."""
    results = engine(inputs, step, groups, window=window, workers=workers, tick=tick)
    return np.concatenate(results) if inputs.keeps_noise else results[0]
