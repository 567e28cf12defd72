"""The noise level of each pixel, and which pixels are so noisy that they are better filled in from their neighbours."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..checks import LARGEST
from ..noise import Noise, power_of_two
from .layout import Layout
from .missing import blurred

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# Smaller levels of a map count as this multiple of the typical level, which bounds the weight of a pixel.
FLOOR = 0.01
# A pixel is unreliable, and as good as missing, if its level is more than _OUTLYING times that of the pixels around it,
_OUTLYING = 5.0
# unless at least this share of the pixels around it stand out as well.
_FEW = 0.4
# A pixel is unknown if its level is so large that its value carries no information. The range of the pixels, noise
# included, is hardly ever less than a quarter of a true level. So a level of more than _BEYOND times the range means
# that nothing is known of the pixel, if others are known much better.
_BEYOND = 4.0
# This share of the pixels, those with the least noise, is never unknown by the range alone.
_BELIEVED = 0.25
# Beyond this multiple of the typical level, a pixel is unknown in any case: its weight would be less than 1e-8 of that
# of a typical pixel, which float32 cannot resolve.
UNKNOWN = 1e4


def expect_in_bounds(pixels: npt.NDArray[Any], present: Mask | bool = True) -> None:
    """Raise an error if pixels are so large that sums of them would overflow."""
    largest = max(abs(end(pixels, where=present, initial=0)) for end in (np.min, np.max))
    if float(largest) > LARGEST:
        raise ValueError(
            f"image has values up to {largest:.4g}; expected none larger than {LARGEST:g}"
        )


class Levels(NamedTuple):
    """Standard deviations of the noise of an image of (channels, height, width)."""

    all: Array
    """An array that broadcasts against the image; positive everywhere, or 0 for a whole channel."""
    typical: Array
    """One level for each channel: the median over the pixels that are neither missing nor unknown, where positive."""
    unreliable: Mask | None
    """Pixels to fill in from their neighbours: those that are much noisier than the pixels around them, and all
    unknown ones."""
    unknown: Mask | None = None
    """Pixels of which nothing is known. They count as missing, except that the result has values for them."""


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


def usable_levels(levels: Array, missing: Mask | None, pixels: npt.NDArray[Any]) -> Levels:
    """Check the noise levels of an image of (channels, height, width), and bound those of a map.

    `levels` broadcasts against the image.
    """
    channels = pixels.shape[0]
    if levels.shape[1:] == (1, 1):
        return Levels(levels, np.broadcast_to(levels[:, 0, 0], channels), None)
    maps, typical, unreliable, unknown = [], [], [], []
    for k, level in enumerate(levels):
        own = [k] if len(levels) == channels else range(channels)
        absent: Mask = np.zeros(level.shape, bool)
        if missing is not None:
            absent = np.all([missing[c] for c in own], axis=0)
        not_finite = np.count_nonzero(~np.isfinite(level) & ~absent)
        if not_finite:
            raise ValueError(
                f"sigma is not finite in {not_finite} pixels that are not missing; expected finite numbers, "
                "or a mask that marks these pixels as missing"
            )
        level = np.minimum(level, LARGEST)
        span = max(_range(pixels[c], None if missing is None else missing[c]) for c in own)
        unknown_here = _unknown(level, absent | ~(level > 0), span)
        valid = level[~absent & (level > 0) & ~unknown_here]
        middle = float(np.median(valid)) if valid.size else 0.0
        bounded = np.maximum(np.where(absent, middle, level), FLOOR * middle)
        bounded, unreliable_here = _without_outliers(bounded, unknown_here, middle)
        maps.append(bounded)
        typical.append(middle)
        unreliable.append(unreliable_here)
        unknown.append(unknown_here)
    return Levels(
        np.stack(maps),
        np.broadcast_to(np.array(typical), channels),
        *(np.stack(masks) if np.any(masks) else None for masks in (unreliable, unknown)),
    )


def _range(channel: npt.NDArray[Any], missing: Mask | None) -> float:
    """The range of the pixels that are not missing."""
    present = channel if missing is None else channel[~missing]
    return float(present.max()) - float(present.min()) if present.size else 0.0


def _unknown(level: Array, excluded: Mask, span: float) -> Mask:
    """The pixels of which nothing is known; `span` is the range of the image."""
    valid = level[~excluded]
    if not valid.size:
        return np.zeros(level.shape, bool)
    most = _BEYOND * span
    if valid.max() > most:
        most = max(most, float(np.quantile(valid, _BELIEVED)))
    typical = float(np.median(valid[valid <= most]))
    unknown: Mask = (level > most) & (level > _OUTLYING * typical) | (level > UNKNOWN * typical)
    return unknown & ~excluded


def _without_outliers(level: Array, unknown: Mask, typical: float) -> tuple[Array, Mask]:
    """The map with the levels of unreliable pixels replaced by that of the pixels around them, and these pixels."""
    if typical == 0:
        return level, unknown
    unit = power_of_two(typical)  # brings the levels within the range of float32
    level, typical = np.minimum(level, 1e10 * typical) / unit, typical / unit
    precision = np.where(unknown, 0, np.square(typical / level)).astype(np.float32)
    mean_precision = blurred(precision) / blurred(np.ones_like(precision))
    around = typical / np.sqrt(np.where(mean_precision > 0, mean_precision, 1))
    unreliable = level > _OUTLYING * around
    unreliable &= blurred(unreliable.astype(np.float32)) < _FEW
    unreliable |= unknown
    return np.where(unreliable, around, level) * unit, unreliable
