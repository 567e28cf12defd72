"""The last check of a result: whatever went wrong before, what was removed must be no larger than noise."""

import numpy as np

from ..core.engines.pool import in_order
from ..types import Mask, Pixels
from .doubts import issue
from .pixels import NoisyPixels, by_value
from .plan import Plan

# The largest plausible strength of what is removed, relative to the noise. Ideally it is at most 1, but estimates of the
# noise may be too low, and weak structure is removed with it.
_LARGEST_RATIO = 2.5
# The relative rounding error of pixels that are so bright compared with the noise that float32 cannot resolve it.
_ROUNDING = 3e-7
_ROWS = 64  # rows compared at a time


class UnexplainedWarning(UserWarning):
    """The category of warnings about images from which more was removed than their noise explains."""


def or_unchanged(noisy: NoisyPixels, result: Pixels, workers: int = 1) -> Pixels:
    """The result, or the pixels as they were, with a warning, if more was removed than the noise explains.

    Pixels that were filled in from their neighbours do not count, nor do outliers. With a map of levels, nothing is
    judged: quiet pixels among noisy ones may change by more than their own noise.
    """
    plan, levels = noisy.plan, noisy.levels.all
    most = _LARGEST_RATIO * max(1.0, plan.tuning.strength, plan.tuning.color_strength)
    if levels.size > len(levels):
        return result
    pixels = noisy.repaired.pixels
    for channel in (channel for planes in plan.planes for channel in planes.channels):
        removed = _removed(plan, pixels, result, noisy.filled, levels, channel, workers)
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
    workers: int,
) -> float:
    """The root mean square of what was removed from a channel, in units of that of the noise, but for rounding."""
    level = float(np.ravel(levels)[min(channel, levels.size - 1)])

    def in_rows(top: int) -> tuple[float, int, float]:
        """The sum of squares, the number of pixels and the largest value in some rows."""
        rows = slice(top, top + _ROWS)
        before, after = pixels[channel, rows], result[channel, rows]
        if filled is not None:
            present = ~filled[channel, rows]
            before, after = before[present], after[present]
        if not before.size:
            return 0.0, 0, 0.0
        with np.errstate(all="ignore"):  # a custom model may return anything
            before, after = (by_value(plan.noise.stabilise, part) for part in (before, after))
            brightest = max(abs(float(end)) for end in (before.min(), before.max()))
            removed = float(np.square((before - after) / level).sum())
        return removed, before.size, brightest

    removed, count, brightest = 0.0, 0, 0.0
    for squares, number, most in in_order(in_rows, range(0, pixels.shape[1], _ROWS), workers):
        removed, count, brightest = removed + squares, count + number, max(brightest, most)
    return np.sqrt(removed / count) - _ROUNDING * brightest / level if count else 0.0
