"""The last check of a result: what was removed must be noise, as far as its size tells, whatever went wrong before."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .doubts import issue
from .plan import Plan

Pixels = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

# What is removed is weaker than the noise, or as strong: estimates may be too low, and weak structure goes with it.
_MOST = 2.5
_ROWS = 64  # at a time


class UnexplainedWarning(UserWarning):
    """The category of warnings about images of which more was removed than their noise explains."""


def or_unchanged(
    plan: Plan, pixels: Pixels, result: Pixels, filled: Mask | None, levels: Pixels | None = None
) -> Pixels:
    """The result, or the pixels as they were, with a warning, if more was removed than the noise explains.

    Pixels that were `filled` in from their neighbours do not count. `levels` are those of the stabilised noise if they differ from pixel to pixel; they broadcast against the pixels.
    """
    tuning = plan.tuning
    most = _MOST * max(1.0, tuning.strength, tuning.colour_strength)
    if levels is None:
        levels = plan.levels[:, None, None]
    for channel in (channel for planes in plan.planes for channel in planes.channels):
        removed = _removed(plan, pixels, result, filled, np.asarray(levels), channel)
        if removed > most:
            issue(
                f"what was removed is {removed:.3g} times as strong as the noise, which cannot be right; "
                "the image is returned unchanged",
                UnexplainedWarning,
            )
            return pixels.astype(result.dtype)
    return result


def _removed(
    plan: Plan,
    pixels: Pixels,
    result: Pixels,
    filled: Mask | None,
    levels: Pixels,
    channel: int,
) -> float:
    """The root mean square of what was removed from a channel, in units of that of the noise."""
    removed, noise, typical = 0.0, 0.0, plan.levels[channel]
    own = np.broadcast_to(levels, pixels.shape)[channel]
    for top in range(0, pixels.shape[1], _ROWS):
        rows = slice(top, top + _ROWS)
        before = pixels[channel, rows].astype(result.dtype)  # rounding removes nothing
        after, level = result[channel, rows], own[rows]
        if filled is not None:
            present = ~filled[channel, rows]
            before, after, level = before[present], after[present], level[present]
        with np.errstate(all="ignore"):  # a custom model may return anything
            change = plan.noise.stabilise(before) / typical - plan.noise.stabilise(after) / typical
            removed += float(np.square(change).sum())
            noise += float(np.square(level / typical).sum())
    return float(np.sqrt(removed / noise)) if noise > 0 else 0.0
