"""How strong the noise is where, and which pixels have so much of it that they are better filled in."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..checks import LARGEST
from ..noise import Noise, power_of_two
from .layout import Layout
from .missing import blurred

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

FLOOR = 0.01  # of the typical level of a map: no pixel is trusted more than if it had that
_LOST = 5.0  # times the level of the pixels around it: such a pixel is as good as missing,
_FEW = 0.4  # if few of those are such pixels themselves
# Noise is part of what the pixels show: hardly any of many pixels whose sigma is true differ by less than a quarter of
# it.  More than that says that nothing is known of a pixel, if others are known much better.
_BEYOND = 4.0  # times the range of all pixels, noise included,
_BELIEVED = 0.25  # the share of the pixels, those with the least noise, of which something is known in any case
# And if it is not said so, float32 cannot tell: beside typical pixels, this one has a weight of 1e-8.
HOPELESS = 1e4  # times the typical level


def expect_in_bounds(pixels: npt.NDArray[Any], there: Mask | bool = True) -> None:
    """No pixel is so large that sums of them overflow."""
    largest = max(abs(end(pixels, where=there, initial=0)) for end in (np.min, np.max))
    if float(largest) > LARGEST:
        raise ValueError(
            f"image has values up to {largest:.4g}; expected none larger than {LARGEST:g}"
        )


class Levels(NamedTuple):
    """Standard deviations of the noise of an image of (channels, height, width)."""

    all: Array
    """An array that broadcasts against the image; positive, or 0 for a whole channel."""
    typical: Array
    """One for each channel: the median of a map, where it is positive and the pixel there."""
    lost: Mask | None
    """Pixels that are hardly more than noise: some among good ones, and all that are hopeless."""
    hopeless: Mask | None = None
    """Pixels of which nothing is known: they count as missing, but for their place in the result."""


def levels_of(noise: Noise, layout: Layout) -> npt.NDArray[np.float64]:
    """The level of the noise as an array that broadcasts against (frames, channels, height, width)."""
    levels = np.asarray(noise.level, np.float64)
    if levels.ndim == 0:
        return levels.reshape(1, 1, 1, 1)
    channels = 1 if layout.channel is None else layout.shape[layout.channel]
    if levels.ndim == 1:
        if levels.shape != (channels,) or layout.channel is None:
            raise ValueError(
                f"sigma has {len(levels)} numbers; expected one, or one for each channel, "
                + (
                    "and channel_axis"
                    if layout.channel is None
                    else f"of which there are {channels}"
                )
            )
        return levels.reshape(1, -1, 1, 1)
    return layout.spread("sigma", levels, "a number, one for each channel, or ")


def trusted(levels: Array, missing: Mask | None, pixels: npt.NDArray[Any]) -> Levels:
    """The levels as they can be used; `levels` broadcasts against the image of (channels, height, width)."""
    channels = pixels.shape[0]
    if levels.shape[1:] == (1, 1):
        return Levels(levels, np.broadcast_to(levels[:, 0, 0], channels), None)
    found, typical, lost, hopeless = [], [], [], []
    for k, level in enumerate(levels):
        own = [k] if len(levels) == channels else range(channels)
        gone: Mask = np.zeros(level.shape, bool)
        if missing is not None:
            gone = np.all([missing[c] for c in own], axis=0)
        wrong = np.count_nonzero(~np.isfinite(level) & ~gone)
        if wrong:
            raise ValueError(
                f"sigma is not finite in {wrong} pixels that are not missing; expected finite numbers, "
                "or such pixels named by mask"
            )
        level = np.minimum(level, LARGEST)
        span = max(_range(pixels[c], None if missing is None else missing[c]) for c in own)
        bad = _hopeless(level, gone | ~(level > 0), span)
        there = level[~gone & (level > 0) & ~bad]
        middle = float(np.median(there)) if there.size else 0.0
        bounded = np.maximum(np.where(gone, middle, level), FLOOR * middle)
        bounded, lost_here = _without_lost(bounded, bad, middle)
        found.append(bounded)
        typical.append(middle)
        lost.append(lost_here)
        hopeless.append(bad)
    return Levels(
        np.stack(found),
        np.broadcast_to(np.array(typical), channels),
        *(np.stack(masks) if np.any(masks) else None for masks in (lost, hopeless)),
    )


def _range(channel: npt.NDArray[Any], missing: Mask | None) -> float:
    """Of the pixels that are there."""
    there = channel if missing is None else channel[~missing]
    return float(there.max()) - float(there.min()) if there.size else 0.0


def _hopeless(level: Array, gone: Mask, span: float) -> Mask:
    """Pixels of which nothing is known; `span` is the range of the image."""
    there = level[~gone]
    if not there.size:
        return np.zeros(level.shape, bool)
    most = _BEYOND * span
    if there.max() > most:
        most = max(most, float(np.quantile(there, _BELIEVED)))
    typical = float(np.median(there[there <= most]))
    hopeless: Mask = (level > most) & (level > _LOST * typical) | (level > HOPELESS * typical)
    return hopeless & ~gone


def _without_lost(level: Array, hopeless: Mask, typical: float) -> tuple[Array, Mask]:
    """A map in which pixels that stand out from those around them, or are hopeless, have the level of those."""
    if typical == 0:
        return level, hopeless
    unit = power_of_two(typical)  # beyond some scale, float32 has no numbers
    level, typical = np.minimum(level, 1e10 * typical) / unit, typical / unit
    precision = np.where(hopeless, 0, np.square(typical / level)).astype(np.float32)
    seen = blurred(precision) / blurred(np.ones_like(precision))
    around = typical / np.sqrt(np.where(seen > 0, seen, 1))
    lost = level > _LOST * around
    lost &= blurred(lost.astype(np.float32)) < _FEW
    lost |= hopeless
    return np.where(lost, around, level) * unit, lost
