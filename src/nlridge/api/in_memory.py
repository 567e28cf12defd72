"""Images in memory: the plan for a frame, and the run of the algorithm."""

from functools import partial

import numpy as np

from ..core.engines.grid import Window, lines, whole_window
from ..core.engines.reuse import Kept
from ..images.array import arrays
from ..images.lazy import LazyImage
from ..planning.explained import or_unchanged
from ..planning.facts import facts_of
from ..planning.options import Options
from ..planning.parts import denoised_region, planned_parts
from ..planning.pixels import NoisyPixels
from ..planning.plan import Plan, plan_for
from ..planning.way import Planned, denoised_image, denoised_steps
from ..progress import Progress, progress_reporter
from ..types import Array, Mask, Pixels


def frame_for(
    pixels: Pixels, missing: Mask | None, levels: Array | None, options: Options, workers: int
) -> NoisyPixels:
    """Plan the denoising of an image of shape (channels, height, width).

    `levels` are the noise levels, if given, as an array that broadcasts against the image.
    """
    facts, usable = facts_of(pixels, missing, levels, options, workers)
    plan = plan_for(pixels.shape, facts, options)
    return NoisyPixels(plan, pixels, missing, usable, outliers=facts.outliers)


def denoise_frame(
    frame: NoisyPixels,
    workers: int,
    progress: Progress,
    window: Window | None = None,
    kept: Kept | None = None,
) -> Pixels:
    """Denoise a frame; returns an array of shape (channels, height, width), or only a window of it.

    Facts and plans hold for all windows, so many of them can be denoised one after the other. An exception that
    `progress` raises ends the work at once. Work that was `kept` from an earlier call, at another strength, is reused.
    """
    if window is not None:
        return _denoise_region(frame, window, workers, progress, kept)
    frame.repair(workers)
    with (
        progress_reporter(progress, blocks_of(frame.plan), "block") as tick,
        arrays(workers, tick, kept) as images,
    ):
        result = denoised_image(planned_for(frame), frame, images)
    return or_unchanged(frame, result, workers)


def steps_of_frame(frame: NoisyPixels, workers: int, progress: Progress) -> list[Array]:
    """Return the pilot and the result in the units of the image; one image if there is no noise to remove."""
    frame.repair(workers)
    with (
        progress_reporter(progress, blocks_of(frame.plan), "block") as tick,
        arrays(workers, tick) as images,
    ):
        *pilots, result = denoised_steps(planned_for(frame), frame, images)
    return [*pilots, or_unchanged(frame, result, workers)]


def planned_for(frame: NoisyPixels) -> Planned:
    """What is planned for a frame."""
    levels = frame.levels.all
    level_planes = None if levels.shape[1:] == (1, 1) else len(levels)
    return Planned(frame.plan, levels, level_planes, frame.filled is not None)


def blocks_of(plan: Plan) -> int:
    """Return the number of times that a run over the whole image calls `tick`."""
    return len(plan.planes) * sum(len(line) for one in plan.passes() for line in lines(*one))


def _denoise_region(
    frame: NoisyPixels, window: Window, workers: int, progress: Progress, kept: Kept | None
) -> Pixels:
    levels, missing = frame.levels, frame.missing
    typical = np.array([[[bound.typical]] for bound in levels.bounds])
    parts = planned_parts(
        frame.plan,
        typical if levels.bounds else levels.all,
        levels.bounds,
        may_have_gaps=missing is not None or levels.unreliable is not None,
    )
    known = [frame.pixels, missing, levels.given]
    images = [LazyImage(array.shape, partial(_part, array)) for array in known if array is not None]
    return denoised_region(parts, images, window, workers, progress, kept)


def _part(array: Pixels, window: Window) -> Pixels:
    return array[window.inside(whole_window(array.shape[1:]))]
