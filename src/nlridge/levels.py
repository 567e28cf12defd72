"""How strong the noise is, and which pixels have so much of it that they are better found anew."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .missing import blurred

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FLOOR = 0.01  # of the typical level of a map: no pixel is trusted more than if it had that
_LOST = 5.0  # times the level of the pixels around it: such a pixel is as good as missing,
_FEW = 0.4  # if few of those are such pixels themselves


class Levels(NamedTuple):
    """Standard deviations of the noise of an image of (channels, height, width)."""

    all: Array
    """An array that broadcasts against the image; positive, or 0 for a whole channel."""
    typical: Array
    """One for each channel: the median of a map, where it is positive and the pixel there."""
    lost: Mask | None
    """Pixels among good ones that are hardly more than noise."""


def trusted(levels: Array, missing: Mask | None, channels: int) -> Levels:
    """The levels as they can be used; `levels` broadcasts against the image."""
    if levels.shape[1:] == (1, 1):
        return Levels(levels, np.broadcast_to(levels[:, 0, 0], channels), None)
    found, typical, lost = [], [], []
    for k, level in enumerate(levels):
        gone: Mask = np.zeros(level.shape, bool)
        if missing is not None:
            gone = missing[k] if len(levels) == channels else np.all(missing, axis=0)
        wrong = np.count_nonzero(~np.isfinite(level) & ~gone)
        if wrong:
            raise ValueError(
                f"sigma is not finite in {wrong} pixels that are not missing; expected finite numbers, "
                "or such pixels named by mask"
            )
        there = level[~gone & (level > 0)]
        middle = float(np.median(there)) if there.size else 0.0
        bounded = np.maximum(np.where(gone, middle, level), FLOOR * middle)
        bounded, bad = _without_lost(bounded, middle)
        found.append(bounded)
        typical.append(middle)
        lost.append(bad)
    bad_pixels = np.stack(lost)
    return Levels(
        np.stack(found),
        np.broadcast_to(np.array(typical), channels),
        bad_pixels if bad_pixels.any() else None,
    )


def _without_lost(level: Array, typical: float) -> tuple[Array, Mask]:
    """A map in which pixels that stand out from those around them have the level of those."""
    if typical == 0:
        return level, np.zeros(level.shape, bool)
    precision = np.square(typical / level).astype(np.float32)
    around = typical / np.sqrt(blurred(precision) / blurred(np.ones_like(precision)))
    lost = level > _LOST * around
    lost &= blurred(lost.astype(np.float32)) < _FEW
    return np.where(lost, around, level), lost
