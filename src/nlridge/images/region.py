"""A part of the result, computed from no more than it depends on, with the same bits as in the whole.

Running the algorithm on these images only records their dependencies. The part of each image that is needed is derived
backwards from the wanted window; then each part is computed once, and freed after its last use.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ..core.algorithm.inputs import StepInputs
from ..core.algorithm.passes import Pass
from ..core.engines import cpu
from ..core.engines.grid import Window, lines, reach
from ..core.engines.reuse import Kept
from ..types import Image, Pixels, Shape
from .lazy import ReadableImage
from .parts import Function, ImagesInParts, Needed, around_gaps, filled_window, strips_of

Tick: TypeAlias = Callable[[], None]
Compute: TypeAlias = Callable[[Window, int, Tick], Pixels]
"""Computes a part of an image with a number of threads; calls `tick` for each block of a pass."""


class DemandedImage(ReadableImage):
    """An image of which one window is computed: the part that is needed."""

    def __init__(
        self, parts: "Demands", shape: Shape, inputs: Sequence[Needed], compute: Compute
    ) -> None:
        self.parts, self.shape, self.inputs, self.compute = parts, shape, inputs, compute
        self.made_by: Pass | None = None
        """The pass that computes it, if one does."""
        self.window: Window | None = None
        self.pixels: Pixels | None = None

    def demand(self, window: Window) -> None:
        """Extend the window that is needed."""
        spans = zip(self.window or window, window, strict=True)
        self.window = Window(*(range(min(a.start, b.start), max(a.stop, b.stop)) for a, b in spans))

    def read(self, window: Window) -> Pixels:
        assert self.window is not None
        assert self.pixels is not None
        return self.pixels[window.inside(self.window)]

    def mapped(self, planes: int, function: Callable[..., Image], *others: Any) -> Any:
        return self.parts.each(function, self, *others, shape=(planes, *self.shape[1:]))


class SourceImage(DemandedImage):
    """An image that is read from elsewhere; pixels beyond its window are read whenever they are needed."""

    def __init__(self, parts: "Demands", image: ReadableImage) -> None:
        super().__init__(parts, image.shape, [], lambda window, *_: image.read(window))
        self.image = image

    def read(self, window: Window) -> Pixels:
        if self.window is not None and window.overlap(self.window) == window:
            return super().read(window)
        return self.image.read(window)


class Demands(ImagesInParts):
    """Images that record which part of them has to be computed."""

    def __init__(self, kept: Kept | None = None) -> None:
        self.engine = cpu.run_pass if kept is None else kept.engine()
        self.images: list[DemandedImage] = []
        """In the order in which they can be computed."""

    def _recorded(self, shape: Shape, inputs: Sequence[Needed], compute: Compute) -> DemandedImage:
        self.images.append(DemandedImage(self, shape, inputs, compute))
        return self.images[-1]

    def source(self, image: ReadableImage) -> DemandedImage:
        """Return an image that is read from elsewhere."""
        self.images.append(SourceImage(self, image))
        return self.images[-1]

    def image_of(self, shape: Shape, function: Function, inputs: Sequence[Needed]) -> DemandedImage:
        return self._recorded(shape, inputs, partial(_compute, function, inputs))

    def run_pass(
        self, inputs: StepInputs, pass_: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[DemandedImage, DemandedImage]:
        """Run a pass of the engine; returns the result, and the result that keeps some of the noise."""
        planes, height, width = inputs.noisy.shape

        def needed(window: Window) -> Window:
            grid = lines((height, width), pass_, window, trimmed=True)
            return reach(grid, (height, width), pass_.settings)

        both = self._recorded(
            (planes * (1 + inputs.keeps_noise), height, width),
            [(image, needed) for image in inputs.images()],
            partial(_run_pass, self.engine, inputs, pass_, groups),
        )
        both.made_by = pass_
        return both[:planes], both[-planes:]

    def filled(self, image: DemandedImage) -> DemandedImage:
        """See `ImagesInParts`. How much is needed depends on the width of the gaps, and is read once they are known.

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
            if image.made_by is not None and image.window is not None
            for line in lines(image.shape[1:], image.made_by, image.window, trimmed=True)
        )

    def compute(self, result: DemandedImage, workers: int, tick: Tick) -> Pixels:
        """Compute all that is needed for the result."""
        self.images.reverse()
        while self.images:
            image = self.images.pop()
            if image.window is not None:
                image.pixels = image.compute(image.window, workers, tick)
            # Images that no other image depends on are freed.
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
    pass_: Pass,
    groups: Any,
    window: Window,
    workers: int,
    tick: Tick,
) -> Image:
    """Return some planes of the result, followed by those that keep some of the noise if these are asked for."""
    results = engine(inputs, pass_, groups, window=window, workers=workers, tick=tick)
    return np.concatenate(results) if inputs.keeps_noise else results[0]
