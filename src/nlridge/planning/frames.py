"""Denoise frames that belong together, one after the other, by one plan for all of them."""

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.algorithm.passes import passes_of
from ..core.algorithm.settings import Recipe
from ..core.engines.frame_grid import blocks_of
from ..core.engines.frame_grid import reach_of as reach_of_pass
from ..core.engines.stream import Stream
from ..images.flicker import MEMORY
from ..images.stream import streams
from ..types import Array, Mask, Pixels
from .explained import or_unchanged
from .levels import UNKNOWN, usable_levels
from .missing import union
from .pixels import NoisyPixels
from .plan import Plan
from .way import Planned, denoised_steps


class SourceFrame(NamedTuple):
    """A frame as it arrives."""

    pixels: Pixels
    """(channels, height, width)"""
    missing: Mask | None
    levels: Array
    """The levels of its noise, which broadcast against the pixels."""
    factor: float = 1.0
    """The factor by which they are larger than those of most frames, if they were estimated."""
    similar: Pixels | None = None
    """Another image of the same scene, (1, height, width), in which similar patches are searched for."""


def denoised_frames(
    frames: Iterable[SourceFrame],
    plan: Plan,
    *,
    level_planes: int = 0,
    is_video: bool = True,
    has_similar: bool = False,
    workers: int,
    tick: Callable[[], None] = lambda: None,
    start_at: int = 0,
) -> Generator[list[Array]]:
    """Yield the pilot and the result of each frame, in the units of the image; one image if there is only one step.

    `level_planes` is the number of planes of the maps of levels, 0 if the noise has the same level in a whole frame;
    `has_similar` says whether similar patches are searched for in another image of each frame. In a video, flicker is removed before frames are compared, and restored afterwards; the motion of whole frames is followed;
    and a frame that repeats the one before is skipped, and gets the same result. `start_at` is the number of the first
    frame, if the frames are part of a longer sequence; see `reach_of`.
    """
    source = Stream(partial(noisy_frames, frames, plan, is_video), plan.shape)
    planned = Planned(plan, plan.levels[:, None, None], level_planes, has_similar=has_similar)
    results: list[Array] = []
    with streams(workers, tick, is_video=is_video, start_at=start_at) as images:
        steps = [iter(step) for step in denoised_steps(planned, source, images)]
        for frame in source:
            latest = [next(step) for step in steps]
            if frame.repeats:
                results = [image.copy() for image in results]
            else:
                results = latest
                results[-1] = or_unchanged(frame, results[-1])
            yield results


def ticks_of(plan: Plan, count: int) -> int:
    """The number of times that `denoised_frames` calls `tick` for `count` frames."""
    return len(plan.planes) * sum(
        len(blocks_of(size, step, number))
        for size, step in plan.passes()
        for number in range(count - step.frames.depth + 1)
    )


def reach_of(plan: Plan, is_video: bool) -> tuple[int, int]:
    """The numbers of frames before and after it that a frame of the result depends on.

    With these frames, `denoised_frames` returns the same bits for it as with the whole sequence. Each pass adds
    `reach_of_pass`. A coarse scale and the first step both start from the noisy frames, so the longer of the two chains
    counts. Gains depend on some more frames before.
    """
    recipes = [run.recipe for run in plan.runs] or [plan.recipe]
    reach = sum(map(_reach_of, recipes))
    return reach + (MEMORY if is_video and not plan.runs else 0), reach


def _reach_of(recipe: Recipe) -> int:
    first, *second = map(reach_of_pass, passes_of(recipe))
    coarse = 0 if recipe.coarse is None else _reach_of(recipe.coarse.recipe)
    return max(first, coarse) + sum(second)


def noisy_frames(
    frames: Iterable[SourceFrame], plan: Plan, is_video: bool
) -> Iterator[NoisyPixels]:
    """Yield each frame with what is known about its pixels."""
    # Nothing is known about a frame that is this much noisier than others.
    most = UNKNOWN * float(plan.levels.max())
    before = None
    for frame in frames:
        bounded = np.minimum(frame.levels, most) if most > 0 else frame.levels
        levels = usable_levels(bounded, frame.missing, frame.pixels)
        if np.any(frame.levels > bounded):
            unreliable = union(levels.unreliable, frame.levels > bounded, frame.pixels.shape)
            levels = levels._replace(unreliable=unreliable)
        repeats = is_video and before is not None and same_frame(frame, before)
        yield NoisyPixels(
            plan,
            frame.pixels,
            frame.missing,
            levels,
            repeats=repeats,
            factor=frame.factor,
            similar=frame.similar,
        )
        before = frame


def same_frame(a: SourceFrame, b: SourceFrame) -> bool:
    """Whether two frames have the same pixels, of which the same are missing, and the same levels."""
    pairs: list[tuple[Any, Any]] = list(zip(a, b, strict=True))
    return all(x is y or np.array_equal(x, y) for x, y in pairs)
