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
_ROUNDING = (
    3e-7  # of pixels that are so bright compared with the noise that float32 cannot resolve it
)
_ROWS = 64  # at a time


class UnexplainedWarning(UserWarning):
    """The category of warnings about images of which more was removed than their noise explains."""


def or_unchanged(
    plan: Plan, pixels: Pixels, result: Pixels, filled: Mask | None, levels: Pixels | None = None
) -> Pixels:
    """The result, or the pixels as they were, with a warning, if more was removed than the noise explains.

    Pixels that were `filled` in from their neighbours do not count. `levels` are those of the stabilised noise, which
    broadcast against the pixels; by a map of them, nothing is judged.
    """
    tuning = plan.tuning
    most = _MOST * max(1.0, tuning.strength, tuning.colour_strength)
    if levels is None:
        levels = plan.levels[:, None, None]
    if levels.size > len(
        levels
    ):  # calm pixels among noisy ones may change by more than their own noise
        return result
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
    """The root mean square of what was removed from a channel, in units of that of the noise, but for rounding."""
    removed, noise, brightest, typical = 0.0, 0.0, 0.0, plan.levels[channel]
    own = np.broadcast_to(levels, pixels.shape)[channel]
    for top in range(0, pixels.shape[1], _ROWS):
        rows = slice(top, top + _ROWS)
        before, after, level = pixels[channel, rows], result[channel, rows], own[rows]
        if filled is not None:
            present = ~filled[channel, rows]
            before, after, level = before[present], after[present], level[present]
        with np.errstate(all="ignore"):  # a custom model may return anything
            before, after = (plan.noise.stabilise(image) / typical for image in (before, after))
            brightest = max(brightest, float(np.abs(before).max(initial=0)))
            change = before - after
            removed += float(np.square(change).sum())
            noise += float(np.square(level / typical).sum())
    return float(np.sqrt(removed / noise)) - _ROUNDING * brightest if noise > 0 else 0.0
