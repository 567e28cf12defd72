"""The plan for frames that belong together: one for all of them, made from a sample of some frames."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.settings import Recipe
from ..noise import Noise
from ..planning.facts import facts_of
from ..planning.options import Options
from ..planning.plan import Plan, plan_for
from .run import SourceFrame

SAMPLED = 8
"""The number of frames that the noise is estimated from."""
_PIXELS = 2**21  # of all of these frames together
# Voxels are isotropic if they are at most this much deeper than wide,
_DEEPER = 1.5
# or if slices differ at most this much more, in mean squares, than neighbouring pixels.
_MORE_DIFFERENT = 2.0


def sampled_numbers(count: int) -> list[int]:
    """The numbers of the frames to sample out of so many."""
    return sorted({int(k) for k in np.linspace(0, count - 1, min(count, SAMPLED))})


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


def _montage(
    sample: Sequence[SourceFrame],
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None, npt.NDArray[np.float64]]:
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
    slices: npt.NDArray[Any], noise: Noise, spacing: tuple[float, float, float] | None
) -> str:
    """The kind of a volume of (slices, channels, height, width), as in `recipe`: "volume" if voxels are isotropic.

    Without `spacing`, that depends on how different slices are, compared with neighbouring pixels.
    """
    if spacing is not None:
        deeper = spacing[0] / ((spacing[1] + spacing[2]) / 2)
        return "volume" if deeper <= _DEEPER else "video"
    if len(slices) < 3 or min(slices.shape[2:]) < 3:
        return "video"
    some = slices[:, 0, :: max(1, slices.shape[2] // 256)].astype(np.float64)
    level = np.asarray(noise.level, np.float64)
    typical = np.full((1, 1, 1), np.median(level) if level.size else 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        doubled = 2 * float(np.nanmean(noise.variance(np.nan_to_num(some), typical)))
        between, within = (
            float(np.nanmean(np.square(np.diff(pixels, axis=axis)))) - doubled
            for pixels, axis in ((some, 0), (slices[:, 0].astype(np.float64), 2))
        )
    return "volume" if between <= _MORE_DIFFERENT * max(within, 0.0) else "video"
