"""Denoise frames that belong together, one after the other, by one plan for all of them."""

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import denoised
from ..algorithm.inputs import PlaneNoise
from ..algorithm.passes import passes_of
from ..algorithm.settings import Recipe
from ..engines import frames as engine
from ..engines.pool import threads_of
from ..engines.stream import Frame, FrameScales, Stream, each
from ..planning.channels import Planes, select_channels
from ..planning.explained import or_unchanged
from ..planning.levels import UNKNOWN, Levels, usable_levels
from ..planning.missing import fill, union
from ..planning.outliers import repaired
from ..planning.photons import denoised_in_runs
from ..planning.pixels import counts_of, renewed, restored, stabilised, with_estimate
from ..planning.plan import Plan
from .flicker import MEMORY, gains
from .motion import motions

Pixels = npt.NDArray[Any]
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_MOST_WORKERS = 256  # each of them works on some frames of its own


class SourceFrame(NamedTuple):
    """A frame as it arrives."""

    pixels: Pixels
    """(channels, height, width)"""
    missing: Mask | None
    levels: Array
    """The levels of its noise, which broadcast against the pixels."""
    factor: float = 1.0
    """By how much they are larger than those of most frames, if they were estimated."""


class PreparedFrame(NamedTuple):
    """A frame without outliers, with its levels and the pixels that are filled in."""

    pixels: Pixels
    missing: Mask | None
    levels: Levels
    filled: Mask | None
    repeats: bool
    """Whether it is the same as the frame before."""
    factor: float


def denoised_frames(
    frames: Iterable[SourceFrame],
    plan: Plan,
    *,
    level_planes: int = 0,
    is_video: bool = True,
    workers: int,
    tick: Callable[[], None] = lambda: None,
    start_at: int = 0,
) -> Generator[list[npt.NDArray[np.floating[Any]]]]:
    """Yield the pilot and the result of each frame, in the units of the image; one image if there is only one step.

    `level_planes` is the number of planes of the maps of levels, 0 if the noise has the same level in a whole frame.
    In a video, flicker is removed before frames are compared, and put back, frames that move as a whole are followed, and
    a frame that repeats the one before is left out, and gets the same result. `start_at` is the number of the first frame,
    if the frames are a part of a longer sequence; see `reach_of`.
    """
    source = Stream(partial(_prepared, frames, plan, is_video), plan.shape)
    workers = min(workers, _MOST_WORKERS)
    with threads_of(workers) as threads:
        run = partial(
            engine.run_pass, workers=workers, threads=threads, tick=tick, start_at=start_at
        )
        # The pilot and the result of each set of planes.
        steps_of_planes = [
            [iter(step) for step in _steps(source, plan, planes, run, level_planes, is_video)]
            for planes in plan.planes
        ]
        results: list[npt.NDArray[np.floating[Any]]] = []
        for frame in source:
            steps = [[next(step) for step in steps] for steps in steps_of_planes]
            if frame.repeats:
                results = [image.copy() for image in results]
            else:
                results = [
                    restored(plan, frame.pixels, images, frame.missing)
                    for images in (zip(*steps, strict=True) if steps else [()])
                ]
                results[-1] = or_unchanged(
                    plan, frame.pixels, results[-1], frame.filled, frame.levels.all
                )
            yield results


def ticks_of(plan: Plan, count: int) -> int:
    """How often `denoised_frames` calls `tick` for so many frames."""
    return len(plan.planes) * sum(
        len(engine.blocks_of(size, step, number))
        for size, step in plan.passes()
        for number in range(count - step.frames.depth + 1)
    )


def reach_of(plan: Plan, is_video: bool) -> tuple[int, int]:
    """How many frames before, and how many after it, a frame of the result depends on.

    With these frames, `denoised_frames` returns the same bits for it as with the whole sequence. Each pass reaches farther
    by `engine.reach_of`. A coarse scale and the first step both begin with the noisy frames, so that the longer of the two
    ways counts. Gains depend on some more frames before.
    """
    recipes = [run.recipe for run in plan.runs] or [plan.recipe]
    reach = sum(map(_reach_of, recipes))
    return reach + (MEMORY if is_video and not plan.runs else 0), reach


def _reach_of(recipe: Recipe) -> int:
    first, *second = map(engine.reach_of, passes_of(recipe))
    coarse = 0 if recipe.coarse is None else _reach_of(recipe.coarse.recipe)
    return max(first, coarse) + sum(second)


def _prepared(frames: Iterable[SourceFrame], plan: Plan, is_video: bool) -> Iterator[PreparedFrame]:
    # Of a frame that is so much noisier than others, nothing is known.
    most = UNKNOWN * float(plan.levels.max())
    before = None
    for frame in frames:
        bounded = np.minimum(frame.levels, most) if most > 0 else frame.levels
        levels = usable_levels(bounded, frame.missing, frame.pixels)
        filled = union(frame.missing, levels.unreliable, frame.pixels.shape)
        if np.any(frame.levels > bounded):
            filled = union(filled, frame.levels > bounded, frame.pixels.shape)
        repeats = is_video and before is not None and same_frame(frame, before)
        pixels = repaired(plan, frame.pixels, frame.missing, levels.all).pixels
        yield PreparedFrame(pixels, frame.missing, levels, filled, repeats, frame.factor)
        before = frame


def same_frame(a: SourceFrame, b: SourceFrame) -> bool:
    """Whether two frames have the same pixels, of which the same are missing, and the same levels."""
    pairs: list[tuple[Any, Any]] = list(zip(a, b, strict=True))
    return all(x is y or np.array_equal(x, y) for x, y in pairs)


def _steps(
    source: Stream,
    plan: Plan,
    planes: Planes,
    run: Callable[..., Any],
    level_planes: int,
    is_video: bool,
) -> list[Stream]:
    """The pilot and the result for a set of planes, or the pilot alone."""
    count, size = len(planes.channels), plan.shape[1:]
    shape = count, *size
    variance = each(
        partial(_variance, plan, planes),
        source,
        shape=(1 if level_planes == 1 else count, *size) if level_planes else (1, 1, 1),
    )
    correlation = plan.correlation(planes)
    if plan.runs:
        counts = each(partial(_counts, plan, planes), source, shape=shape)
        return list(
            denoised_in_runs(
                counts,
                planes,
                PlaneNoise(variance, correlation),
                plan.runs,
                run,
                plan.tuning,
                each=each,
                scales=FrameScales(),
                renewed=lambda estimate: each(
                    partial(_with_estimate, planes), counts, source, estimate
                ),
            )
        )
    noisy = each(partial(_stable, plan, planes), source, shape=shape)
    image = each(planes.product, noisy)
    gain: Any = np.float32(1)
    if is_video:
        gain = gains(image)
        image = each(np.divide, image, gain)
        variance = each(lambda variance, gain: variance / gain**2, variance, gain)
        run = partial(run, motions=motions(image, source, gain), height=size[0])
    steps = denoised(
        image,
        PlaneNoise(variance, correlation),
        plan.recipe,
        run,
        plan.tuning,
        renewed=lambda pilot: each(partial(_renewed, planes), image, source, noisy, gain, pilot),
        scales=FrameScales(),
    )
    return [each(np.multiply, step, gain) for step in steps]


def _variance(plan: Plan, planes: Planes, frame: PreparedFrame) -> Frame:
    """The variance of the noise of a frame, as a number or a map for each plane or for all."""
    variance: Any = plan.plane_noise(planes, frame.levels.all).variance
    return np.asarray(variance, np.float32).reshape(-1, *(np.shape(variance)[1:] or (1, 1)))


def _stable(plan: Plan, planes: Planes, frame: PreparedFrame) -> Frame:
    """The channels of these planes, stabilised and filled in."""
    noisy = stabilised(plan, planes.channels, frame.pixels, frame.missing, frame.filled)
    return _filled(select_channels(noisy, planes.channels), frame)


def _counts(plan: Plan, planes: Planes, frame: PreparedFrame) -> Frame:
    """The same in photons."""
    return _filled(counts_of(plan, planes.channels, frame.pixels, frame.filled), frame)


def _filled(channels: Frame, frame: PreparedFrame) -> Frame:
    return channels if frame.filled is None else np.stack([fill(channel) for channel in channels])


def _renewed(
    planes: Planes, image: Frame, frame: PreparedFrame, noisy: Frame, gain: Any, pilot: Frame
) -> Frame:
    """The noisy planes of the second step."""
    if frame.filled is None:
        return image
    result: Frame = renewed(planes, noisy, frame.filled[planes.channels], pilot * gain) / gain
    return result


def _with_estimate(planes: Planes, counts: Frame, frame: PreparedFrame, estimate: Frame) -> Frame:
    if frame.filled is None:
        return counts
    return with_estimate(counts, frame.filled[planes.channels], estimate)
