"""Images in memory: their frames, the plan for each frame, and the run of the algorithm."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import RunPass, denoised
from ..algorithm.pyramid import Scales
from ..arrays import Each
from ..engines import cpu
from ..engines.grid import Window, lines, whole_window
from ..engines.pool import in_order, threads_of
from ..engines.reuse import Kept
from ..planning.channels import Image, select_channels
from ..planning.doubts import warn_about
from ..planning.explained import or_unchanged
from ..planning.facts import facts_of
from ..planning.layout import Layout
from ..planning.levels import Levels, levels_of, usable_levels
from ..planning.missing import expect_numbers, fill, union
from ..planning.options import Options
from ..planning.outliers import Repaired, repaired
from ..planning.photons import denoised_in_runs
from ..planning.pixels import counts_of, renewed, restored, stabilised, with_estimate
from ..planning.plan import Plan, plan_for
from ..progress import Progress, progress_reporter
from .arguments import checked_image, frame_of, missing_pixels
from .conversion import result_type, to_dtype

if TYPE_CHECKING:
    from ..large.frames import PlannedFrame

Pixels = npt.NDArray[Any]
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_SMALL = 2**20  # the most pixels, of all channels, of a frame that one worker denoises alone


@dataclass(frozen=True, eq=False)
class Frames:
    """An image or a stack as (frames, channels, height, width), with the options for denoising it."""

    pixels: Pixels
    masked: Mask | None
    levels: Array | None
    """Noise levels, if given; they broadcast against the pixels."""
    layout: Layout
    options: Options
    workers: int
    """Threads to estimate the noise with."""

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def window(self) -> Window:
        """All rows and columns."""
        return whole_window(self.pixels.shape[2:])

    def __getitem__(self, k: int) -> "Frame":
        """Return the k-th frame with its plan."""
        levels = frame_of(self.levels, k)
        return frame_for(self.pixels[k], self._missing(k), levels, self.options, self.workers)

    def _missing(self, k: int) -> Mask | None:
        may_be_all = self.layout.stack is not None
        return missing_pixels(self.pixels[k], frame_of(self.masked, k), may_be_all=may_be_all)

    def check(self) -> None:
        """Check all frames before any of them is denoised."""
        for k, pixels in enumerate(self.pixels):
            missing = self._missing(k)
            if self.levels is not None:
                usable_levels(frame_of(self.levels, k), missing, pixels)


def frames_of(
    image: Any,
    options: Options,
    *,
    mask: Any,
    stack_axis: Any,
    channel_axis: Any,
    workers: int,
    may_be_stack: bool = True,
) -> Frames:
    """Check an image and return its frames."""
    pixels, masked, layout = checked_image(
        image, mask, stack_axis, channel_axis, may_be_stack=may_be_stack
    )
    expect_numbers(pixels, options.dtype)
    levels = None if options.noise is None else levels_of(options.noise, layout)
    frames = Frames(pixels, masked, levels, layout, options, workers)
    if layout.stack is not None:
        frames.check()
    return frames


def denoise_array(
    frames: Frames, workers: int, progress: Progress, window: Window | None = None
) -> npt.NDArray[Any]:
    """Denoise all frames; returns an array of the shape of the image, or only a window of each frame."""
    dtype = result_type(frames.options, frames.pixels)
    if frames.layout.stack is None:
        frame = frames[0]
        warn_about(frame.plan.doubt)
        result = to_dtype(denoise_frame(frame, workers, progress, window), dtype)
        return frames.layout.like_image(result[None])
    # A small frame has too few blocks to keep several workers busy: each worker gets frames of its own.
    is_small = frames.pixels[0].size <= _SMALL
    at_once = min(workers, len(frames)) if is_small else 1
    own = replace(frames, workers=workers // at_once)

    def denoise_one(k: int) -> tuple[str, npt.NDArray[Any]]:
        frame = own[k]
        return frame.plan.doubt, to_dtype(denoise_frame(frame, own.workers, False, window), dtype)

    shape = (*frames.pixels.shape[:2], *map(len, window or frames.window))
    results = np.empty(shape, dtype)
    with (
        progress_reporter(progress, len(frames), "image") as tick,
        closing(in_order(denoise_one, range(len(frames)), at_once)) as denoised_frames,
    ):
        for k, (doubt, result) in enumerate(denoised_frames):
            if k == 0:  # the same noise for all
                warn_about(doubt)
            results[k] = result
            tick()
    return frames.layout.like_image(results)


def denoise_frame(
    frame: "Frame",
    workers: int,
    progress: Progress,
    window: Window | None = None,
    kept: Kept | None = None,
) -> npt.NDArray[Any]:
    """Denoise a frame; returns an array of shape (channels, height, width), or only a window of it.

    Facts and plans hold for all windows: many of them may be denoised one after the other. An exception that `progress`
    raises ends the work at once. What is `kept` of an earlier call, at another strength, is not computed again.
    """
    if window is not None:
        from ..large.region import denoise_region

        return denoise_region(_planned(frame), window, workers, progress, kept)
    with progress_reporter(progress, frame.blocks(), "block") as tick:
        return frame.result(workers, tick, kept)


def _planned(frame: "Frame") -> "PlannedFrame":
    """A frame as the functions for parts of images take it."""
    from ..large.frames import Frame as ArrayFrame
    from ..large.frames import PlannedFrame, Source

    missing, levels = frame.missing, frame.levels
    source = Source(
        ArrayFrame(frame.pixels, "CYX"),
        () if missing is None else (ArrayFrame(missing, "CYX"),),
        None if levels.given is None else ArrayFrame(levels.given, "CYX"),
    )
    typical = np.array([[[bound.typical]] for bound in levels.bounds])
    return PlannedFrame(
        source,
        frame.plan,
        typical if levels.bounds else levels.all,
        levels.bounds,
        may_have_gaps=missing is not None or levels.unreliable is not None,
        is_empty=missing is not None and bool(missing.all()),
        digest="",
    )


@dataclass(frozen=True, eq=False)
class Frame:
    """One image as (channels, height, width), with its plan."""

    pixels: Pixels
    missing: Mask | None
    levels: Levels
    """Levels of the stabilised noise."""
    plan: Plan

    @cached_property
    def repaired(self) -> Repaired:
        """The pixels without outliers, and the number of these."""
        return repaired(self.plan, self.pixels, self.missing, self.levels.all)

    def blocks(self) -> int:
        """Return the number of times that `run` calls `tick`."""
        passes = self.plan.passes()
        return len(self.plan.planes) * sum(len(line) for one in passes for line in lines(*one))

    def run(self, workers: int, tick: Callable[[], None]) -> Iterator[npt.NDArray[Any]]:
        """Yield the pilot and the result in the units of the image; nothing if there is no noise to remove."""
        with _engine(workers, tick) as (engine, each):
            steps = list(self._steps(engine, each))
            for images in steps[:-1]:
                yield restored(self.plan, self.repaired.pixels, images, self.missing, each)
            for images in steps[-1:]:
                yield self._restored(images, each)

    def result(
        self, workers: int, tick: Callable[[], None], kept: Kept | None = None
    ) -> npt.NDArray[np.floating[Any]]:
        """Run the algorithm; returns the last image, or the pixels unchanged if there is no noise to remove."""
        last: tuple[Image, ...] = ()
        with _engine(workers, tick, kept) as (engine, each):
            for images in self._steps(engine, each):
                last = images
            return self._restored(last, each)

    def _restored(self, images: tuple[Image, ...], each: Each) -> npt.NDArray[np.floating[Any]]:
        plan, pixels = self.plan, self.repaired.pixels
        result = restored(plan, pixels, images, self.missing, each)
        return or_unchanged(plan, pixels, result, self._filled(), self.levels.all)

    def _filled(self) -> Mask | None:
        """The pixels that take their values from their neighbours."""
        return union(self.missing, self.levels.unreliable, self.pixels.shape)

    def _steps(self, engine: RunPass, each: Each) -> Iterator[tuple[Image, ...]]:
        """Return the pilots of all sets of planes, and then their results."""
        filled = self._filled()
        run = self._in_runs if self.plan.runs else self._in_one_run
        return zip(*run(engine, each, filled), strict=True)

    def _in_one_run(
        self, engine: RunPass, each: Each, filled: Mask | None
    ) -> list[Iterator[Image]]:
        """Return the pilot and the result for each set of planes."""
        plan, pixels = self.plan, self.repaired.pixels
        channels = sorted(channel for planes in plan.planes for channel in planes.channels)
        noisy = stabilised(plan, channels, pixels, self.missing, filled, each)
        if filled is not None:
            for channel in channels:
                noisy[channel] = fill(noisy[channel])
        steps_of_planes = []
        for planes in plan.planes:
            renew = None
            if filled is not None:
                channels_of_planes = select_channels(noisy, planes.channels)
                renew = partial(renewed, planes, channels_of_planes, filled[planes.channels])
            noise = plan.plane_noise(planes, self.levels.all)
            image = planes.of(noisy)
            steps_of_planes.append(
                denoised(
                    image,
                    noise,
                    plan.recipe,
                    engine,
                    plan.tuning,
                    renewed=renew,
                    scales=Scales(each),
                )
            )
        return steps_of_planes

    def _in_runs(self, engine: RunPass, each: Each, filled: Mask | None) -> list[Iterator[Image]]:
        """Return the same for an image of few photons."""
        plan = self.plan
        steps_of_planes = []
        for planes in plan.planes:
            counts = counts_of(plan, planes.channels, self.repaired.pixels, filled)
            renew = None
            if filled is not None:
                counts = np.stack([fill(channel) for channel in counts])
                renew = partial(with_estimate, counts, filled[planes.channels])
            noise = plan.plane_noise(planes, self.levels.all)
            steps_of_planes.append(
                denoised_in_runs(
                    counts,
                    planes,
                    noise,
                    plan.runs,
                    engine,
                    plan.tuning,
                    renewed=renew,
                    scales=Scales(each),
                )
            )
        return steps_of_planes


@contextmanager
def _engine(
    workers: int, tick: Callable[[], None], kept: Kept | None = None
) -> Iterator[tuple[RunPass, Each]]:
    """The engine for passes, and a function like `map` for whole images; both use the same threads."""
    run_pass = cpu.run_pass if kept is None else kept.engine()
    with threads_of(workers) as threads:
        yield (
            partial(run_pass, workers=workers, threads=threads, tick=tick),
            partial(in_order, workers=workers, threads=threads),
        )


def frame_for(
    pixels: Pixels, missing: Mask | None, levels: Array | None, options: Options, workers: int
) -> Frame:
    """Plan the denoising of an image of shape (channels, height, width).

    `levels` are the noise levels, if given, as an array that broadcasts against the image.
    """
    facts, usable = facts_of(pixels, missing, levels, options, workers)
    return Frame(pixels, missing, usable, plan_for(pixels.shape, facts, options))
