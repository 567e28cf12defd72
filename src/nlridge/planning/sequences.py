"""The plan for frames that belong together: one for all of them, made from a sample of some frames."""

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ..core.algorithm.settings import Recipe
from ..noise import Noise
from ..noise.changing import share_that_changes
from ..noise.correlated import CorrelatedNoise
from ..noise.curve import CurveNoise, scaled
from ..types import Array, Mask, Pixels
from .exposure import Exposure, alike, exposure_of
from .facts import facts_of
from .frames import SourceFrame, denoised_frames, reach_of, same_frame, ticks_of
from .layout import SequenceAxis
from .missing import union
from .options import Options
from .plan import Plan, plan_for

SAMPLED = 8
"""The number of frames that the noise is estimated from."""
_PIXELS = 2**21  # most pixels used from all of these frames together
_LEAST_SHARE = 1e-3  # of noise in what differs between frames: a level is never 0
_PAIRED = 512  # side of the square in the middle of frames that are compared in pairs
# Voxels are isotropic if their depth is at most this multiple of their width, or, if that is unknown, if the mean square
# difference of slices is at most _MAX_DIFFERENCE times that of neighbouring pixels.
_MAX_DEPTH = 1.5
_MAX_DIFFERENCE = 2.0


@dataclass(frozen=True, eq=False)
class SequencePlan:
    """How to denoise frames that belong together. It holds no pixels."""

    plan: Plan
    count: int
    """The number of frames."""
    is_video: bool
    """Whether the frames follow each other in time, so that they may move, flicker and repeat."""
    levels: Array | None
    """The levels of the noise, which broadcast against a frame, if they were estimated."""
    level_planes: int
    """The number of planes of the maps of levels, 0 if there are none."""
    exposure: Exposure | None = None
    """The level that the noise of each frame is compared with, if it was estimated and may change."""
    has_similar: bool = False
    """Whether similar patches are searched for in another image of each frame."""

    def ticks(self) -> int:
        """Return the number of times that `run` calls `tick` for all frames."""
        return ticks_of(self.plan, self.count)

    @property
    def reach(self) -> tuple[int, int]:
        """The numbers of frames before and after it that a frame of the result depends on."""
        return reach_of(self.plan, self.is_video)

    def needed(self, frames: range) -> range:
        """Return the frames that the result for some frames depends on."""
        before, after = self.reach
        return range(max(frames.start - before, 0), min(frames.stop + after, self.count))

    def run(
        self,
        read: Callable[[int], SourceFrame],
        workers: int,
        tick: Callable[[], None] = lambda: None,
        frames: range | None = None,
        earliest: int = 0,
    ) -> Generator[list[Pixels]]:
        """Yield the pilot and the result of each frame, or of some; one image if there is only one step.

        `read` returns the frame with a given number. Frames are read one by one, in order, and none before `earliest`.
        """
        frames = range(self.count) if frames is None else frames
        first = frames.start
        # The result of a repeated frame is that of the first one.
        while self.is_video and first > earliest and same_frame(read(first - 1), read(first)):
            first -= 1
        needed = self.needed(range(first, frames.stop))
        needed = range(max(needed.start, earliest), needed.stop)
        results = denoised_frames(
            map(self.with_levels, map(read, needed)),
            self.plan,
            level_planes=self.level_planes,
            is_video=self.is_video,
            has_similar=self.has_similar,
            workers=workers,
            tick=tick,
            start_at=needed.start,
        )
        with closing(results):
            yield from islice(results, frames.start - needed.start, frames.stop - needed.start)

    def with_levels(self, frame: SourceFrame) -> SourceFrame:
        """Return the frame with the levels that were estimated, if they were."""
        if self.levels is None:
            return frame
        factor = 1.0 if self.exposure is None else self.exposure.factor(frame)
        levels = self.levels if factor == 1 else factor * self.levels
        return frame._replace(levels=levels, factor=factor)


def plan_sequence(
    read: Callable[[int], SourceFrame],
    count: int,
    options: Options,
    axis: SequenceAxis,
    workers: int,
) -> SequencePlan:
    """Plan how to denoise `count` frames that belong together, from a sample of them.

    `read` returns the frame with a given number. If the noise is not given, the levels of the frames are 0.
    """
    sample = sampled_frames(read, count)
    if axis.is_time:
        pairs = ((read(k), read(k + 1)) for k in sampled_numbers(count - 1)[::2])
        return plan_video(sample, pairs, options, count, workers)
    plan = plan_of(sample, options, count, workers)
    levels = levels_if_estimated(plan, options)
    if kind_of_volume(read, count, plan, axis.spacing) == "volume":
        known = replace(options, noise=plan.noise)
        # Noise that was estimated is never in doubt.
        plan = replace(plan_of(sample, known, count, workers, "volume"), doubt=plan.doubt)
    level_planes = level_planes_of(sample[0].levels if levels is None else levels)
    return SequencePlan(plan, count, False, levels, level_planes)


def plan_video(
    sample: Sequence[SourceFrame],
    pairs: Iterable[tuple[SourceFrame, SourceFrame]],
    options: Options,
    count: int,
    workers: int,
) -> SequencePlan:
    """Plan how to denoise `count` frames that follow each other in time, from a sample of them.

    In `pairs` of frames, one after the other, correlated noise is told from texture; see `changing`.
    """
    plan = plan_of(sample, options, count, workers)
    levels = levels_if_estimated(plan, options)
    has_similar = sample[0].similar is not None
    if levels is None:
        level_planes = level_planes_of(sample[0].levels)
        return SequencePlan(plan, count, True, None, level_planes, has_similar=has_similar)
    steady = alike(sample, plan.noise)
    if len(steady) < len(sample):
        plan = plan_of(steady, options, count, workers)
        levels = levels_if_estimated(plan, options)
    exposure = exposure_of(steady, plan.noise)
    if options.kind == "auto" and isinstance(plan.noise, CorrelatedNoise):
        noise = _as_far_as_it_changes(plan.noise, pairs)
        # How much of it is noise is known now, so that nothing is in doubt.
        plan = plan_of(steady, replace(options, noise=noise), count, workers)
    return SequencePlan(plan, count, True, levels, 0, exposure, has_similar)


def _as_far_as_it_changes(
    noise: CorrelatedNoise, pairs: Iterable[tuple[SourceFrame, SourceFrame]]
) -> CorrelatedNoise:
    """The noise with only that power, and removed only to that extent, that differs from frame to frame."""
    shares = [
        share for before, after in pairs if (share := _share(noise, before, after)) is not None
    ]
    if not shares or not isinstance(noise.noise, CurveNoise):
        return noise
    share = max(float(np.median(shares)), _LEAST_SHARE)
    level = scaled(noise.noise, math.sqrt(share))
    return CorrelatedNoise(level, noise.correlation, min(noise.share, share))


def _share(noise: Noise, before: SourceFrame, after: SourceFrame) -> float | None:
    """The share of the noise that differs between two frames; None if they are the same, or if it cannot be measured."""
    if same_frame(before, after):
        return None
    shape = before.pixels.shape
    middle = slice(None), *(_middle(length, _PAIRED / length) for length in shape[1:])
    missing = union(before.missing, after.missing, shape)
    gone = np.zeros(shape, bool) if missing is None else missing
    one, next_one = (noise.stabilise(frame.pixels[middle]) for frame in (before, after))
    return share_that_changes(one, next_one, gone[middle])


def levels_if_estimated(plan: Plan, options: Options) -> Array | None:
    """The levels of the noise, which broadcast against a frame, if they were estimated."""
    if options.noise is not None:
        return None
    return np.asarray(plan.noise.level, np.float64).reshape(-1, 1, 1)


def level_planes_of(levels: Array) -> int:
    """The number of planes of the levels of a frame, if they are maps of (planes, height, width); otherwise 0."""
    return 0 if levels.shape[1:] == (1, 1) else len(levels)


def sampled_numbers(count: int) -> list[int]:
    """The numbers of the frames to sample from `count` frames."""
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, SAMPLED))})


def sampled_frames(read: Callable[[int], SourceFrame], count: int) -> list[SourceFrame]:
    """Read the frames to sample. If a channel has no pixels in one of them, the next frame that has some is added."""
    starts = sampled_numbers(count)
    sample = []
    for start, stop in zip(starts, [*starts[1:], count], strict=True):
        lacking: Mask = np.array(True)
        for frame in map(read, range(start, stop)):
            present = has_pixels(frame)
            if (present & lacking).any():
                sample.append(frame)
                lacking = lacking & ~present
            if not lacking.any():
                break
    return sample or [read(0)]


def has_pixels(frame: SourceFrame) -> Mask:
    """Whether each channel has pixels that are not missing."""
    if frame.missing is None:
        return np.ones(len(frame.pixels), bool)
    return ~np.asarray(frame.missing.all(axis=(1, 2)))


def plan_of(
    sample: Sequence[SourceFrame], options: Options, count: int, workers: int, kind: str = "video"
) -> Plan:
    """Plan how to denoise `count` frames; `kind` is as in `recipe`. The noise is estimated if it is not given."""
    kind = kind if count > 1 else "image"
    shape = sample[0].pixels.shape
    pixels, missing, levels = _montage(sample)
    if options.noise is not None and levels.max() == 0:  # estimated before
        levels = np.asarray(options.noise.level, np.float64).reshape(-1, 1, 1)
    facts, _ = facts_of(pixels, missing, levels, options, workers)
    plan = plan_for(shape, facts, options, kind=kind)
    return replace(
        plan,
        recipe=with_depth(plan.recipe, count),
        runs=tuple(replace(run, recipe=with_depth(run.recipe, count)) for run in plan.runs),
    )


def with_depth(recipe: Recipe, count: int) -> Recipe:
    """The recipe, with patches that extend over no more than `count` frames."""
    if recipe.frames is None or recipe.frames.depth <= count:
        return recipe
    coarse = recipe.coarse
    if coarse is not None:
        coarse = replace(coarse, recipe=with_depth(coarse.recipe, count))
    return replace(recipe, frames=replace(recipe.frames, depth=count), coarse=coarse)


def _montage(sample: Sequence[SourceFrame]) -> tuple[Pixels, Mask | None, Array]:
    """The middle of some frames, one below the other, as one image with its missing pixels and its levels."""
    _, height, width = sample[0].pixels.shape
    share = min(1.0, (_PIXELS / (len(sample) * height * width)) ** 0.5)
    rows, columns = (_middle(length, share) for length in (height, width))
    pixels = np.concatenate([frame.pixels[:, rows, columns] for frame in sample], axis=1)
    missing = None
    if any(frame.missing is not None for frame in sample):
        missing = np.concatenate(
            [
                np.zeros(frame.pixels.shape, bool)[:, rows, columns]
                if frame.missing is None
                else frame.missing[:, rows, columns]
                for frame in sample
            ],
            axis=1,
        )
    levels = sample[0].levels
    if levels.shape[1:] != (1, 1):
        levels = np.concatenate([frame.levels[:, rows, columns] for frame in sample], axis=1)
    return pixels, missing, levels


def _middle(length: int, share: float) -> slice:
    size = max(min(length, 32), int(share * length))
    return slice((length - size) // 2, (length - size) // 2 + size)


def kind_of_volume(
    read: Callable[[int], SourceFrame],
    count: int,
    plan: Plan,
    spacing: tuple[float, float, float] | None,
) -> str:
    """The kind of a volume of `count` slices, as in `recipe`: "volume" if voxels are isotropic.

    Without `spacing`, this depends on how much neighbouring slices differ, compared with neighbouring pixels. `read`
    returns the slice with a given number; some pairs of slices are compared.
    """
    if spacing is not None:
        deeper = spacing[0] / ((spacing[1] + spacing[2]) / 2)
        return "volume" if deeper <= _MAX_DEPTH else "video"
    if count < 3 or min(plan.shape[1:]) < 3:
        return "video"
    typical = np.full((1, 1), plan.levels[0])
    sums, numbers = np.zeros(3), np.zeros(3)
    for number in sampled_numbers(count - 1):
        pair = np.stack([_some_rows(read(k)) for k in (number, number + 1)])
        differences = np.diff(pair, axis=0), np.diff(pair, axis=2)
        with np.errstate(over="ignore", invalid="ignore"):
            noise = plan.noise.variance(np.nan_to_num(pair), typical)
            squares = [np.where(np.isnan(pair), np.nan, noise), *map(np.square, differences)]
            sums += [np.nansum(values) for values in squares]
        numbers += [np.count_nonzero(~np.isnan(values)) for values in squares]
    noise, between, within = sums / np.maximum(numbers, 1)
    isotropic = between - 2 * noise <= _MAX_DIFFERENCE * max(within - 2 * noise, 0.0)
    return "volume" if isotropic else "video"


def _some_rows(frame: SourceFrame) -> Array:
    """Some rows of the first channel; NaN where pixels are missing."""
    rows = slice(None, None, max(1, frame.pixels.shape[1] // 256))
    some: Array = frame.pixels[0, rows].astype(np.float64)
    if frame.missing is not None:
        some[frame.missing[0, rows]] = np.nan
    return some
