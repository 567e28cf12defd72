"""The level of the noise, by trial runs on a small part of the image.

If too little noise is removed, both the result and what was removed contain noise, and if too much is removed, both
contain texture. At the right level, they are least alike.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from . import Array
from .blocks import SIDE, Mask
from .curve import CurveNoise, scaled

Denoise: TypeAlias = Callable[[Array, CurveNoise, Array], Array]
"""Denoise an image of (channels, height, width) whose noise has the given level and correlation."""

_PART = 256  # side of the part of the image for trial runs
MUCH = 1.4  # more than the level measured, relative to it
_FACTORS = (0.5, 0.7, 1.0, MUCH, 2.0, 2.8)  # levels to try, relative to the one measured
_MISSED = 1.6  # typical ratio between the levels of sparse noise in most areas and in calm ones
# Texture makes the level of least likeness too low, the more so the shallower the minimum is. If the likeness falls by a
# factor of less than _CLEAR_FALL, the level is multiplied by (_CLEAR_FALL / fall)**_SHALLOW, at most by _MOST_RAISED.
_CLEAR_FALL, _SHALLOW, _MOST_RAISED = 1.75, 1.3, 2.2
_RISE = 1.05  # the likeness has passed a minimum if it is this much larger again
_CHANCE = 0.01  # likeness of unrelated images


class Level(NamedTuple):
    """The level at which result and residual are least alike."""

    factor: float
    """Relative to the level measured. If the noise is sparse, it is raised to what is typical of most areas."""
    least: float
    """The same before it is raised."""
    fall: float
    """By what factor the likeness fell up to there."""


class Part(NamedTuple):
    """The part of an image for trial runs."""

    image: Array
    """(channels, height, width); excluded pixels are no brighter or darker than the others."""
    counted: Mask
    """The pixels that are not excluded."""


def part_of(pixels: Sequence[Array], excluded: Sequence[Mask]) -> Part:
    rows, columns = (_places(length) for length in pixels[0].shape)
    part = np.ix_(rows, columns)
    image = np.stack([channel[part] for channel in pixels])
    counted = ~np.any([mask[part] for mask in excluded], axis=0)
    if not counted.any():
        return Part(np.zeros_like(image), ~counted)
    return Part(np.clip(image, image[:, counted].min(), image[:, counted].max()), counted)


class Brightness(NamedTuple):
    """The mean of the channels of that part, and its noise."""

    image: Array
    """(1, height, width)"""
    base: CurveNoise
    correlation: Array
    variance: float
    """Of the noise, relative to that of a channel."""
    counted: Mask


def trials_of(brightness: Brightness, denoise: Denoise) -> Callable[[float], Array]:
    """Return a function that denoises the brightness at a multiple of the level measured, once for each."""
    image, base, correlation, *_ = brightness
    return cache(lambda factor: denoise(image, scaled(base, factor), correlation)[0])


def best_level(brightness: Brightness, sparse: bool, tried: Callable[[float], Array]) -> Level:
    """Find the level at which result and residual are least alike; `tried` is a function that `trials_of` returned.

    It is the first minimum from below: a result that is far too smooth has little in common with anything. Unless the
    noise is `sparse`, the level measured is an upper limit.
    """
    gray, counted = brightness.image[0], brightness.counted
    radius = _detail_radius(brightness.correlation)
    likeness: list[float] = []
    for factor in _FACTORS if sparse else [f for f in _FACTORS if f <= 1]:
        result = tried(factor)
        details = (_details(image, radius)[counted] for image in (result, gray - result))
        likeness.append(_likeness(*details))
        if likeness[-1] > _RISE * min(likeness):
            break
    best = int(np.argmin(likeness))
    fall = (likeness[0] + _CHANCE) / (likeness[best] + _CHANCE)
    factor = _FACTORS[best]
    if 0 < best < len(likeness) - 1:
        # The lowest point of a parabola: the logarithms of factors are about equidistant.
        below, least, above = likeness[best - 1 : best + 2]
        step = _FACTORS[best + 1] / factor
        factor *= step ** ((below - above) / (2 * (below + above - 2 * least)))
    least = factor
    if sparse:  # half way to what is typical, as texture makes the minimum too low
        shallow = min(max(_CLEAR_FALL / fall, 1.0) ** _SHALLOW, _MOST_RAISED)
        factor = math.sqrt(factor * _MISSED) * shallow
    return Level(factor, least, fall)


def of_brightness(part: Part, base: CurveNoise, correlation: Array) -> Brightness:
    levels = np.broadcast_to(base.level, len(correlation))
    covariance = np.multiply.outer(levels, levels)[:, :, None, None] * correlation
    mean = covariance.mean(axis=(0, 1), keepdims=True)
    variance = float(mean[0, 0, SIDE - 1, SIDE - 1])
    gray = part.image.mean(axis=0, keepdims=True)
    level = CurveNoise(base.values, math.sqrt(variance) * np.array(base.sigmas))
    # Where the differences of channels have nearly all the power, little is left of the mean but errors.
    return Brightness(gray, level, np.clip(mean / variance, -1, 1), variance, part.counted)


def _places(length: int) -> npt.NDArray[np.intp]:
    """Which rows, or columns, belong to the part of the image for trial runs: all, or two runs of them."""
    if length <= _PART:
        return np.arange(length)
    half = np.arange(_PART // 2) - _PART // 4
    return np.concatenate([length // 4 + half, length - length // 4 + half])


def _neighbours_of(correlation: Array) -> float:
    """The correlation of neighbouring pixels in the brightness."""
    brightness = correlation.mean(axis=(0, 1))
    neighbours = brightness[[SIDE - 1, SIDE], [SIDE, SIDE - 1]].mean()
    return float(neighbours / brightness[SIDE - 1, SIDE - 1])


def _detail_radius(correlation: Array) -> float:
    """The size of the details to compare: a few times the width of the blur that would correlate noise as much."""
    ratio = min(max(_neighbours_of(correlation), 0.1), 0.95)
    return max(1.25 / math.sqrt(-math.log(ratio)), 2.0)


def _likeness(a: Array, b: Array) -> float:
    """The correlation of two images whose mean is 0, without its sign."""
    size = math.sqrt(float(np.mean(a**2) * np.mean(b**2)))
    return abs(float(np.mean(a * b))) / size if size > 0 else 0.0


def _details(a: Array, radius: float) -> Array:
    """An image less its mean around each pixel."""
    reach = math.ceil(3 * radius)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * radius**2))
    mean = np.pad(a, reach, mode="symmetric")
    for axis in (0, 1):
        windows = np.lib.stride_tricks.sliding_window_view(mean, len(weights), axis=axis)
        mean = windows @ (weights / weights.sum())
    return a - mean
