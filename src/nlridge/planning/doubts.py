"""Doubts about a noise level that cannot be right, most often because it is not in the units of the image."""

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import Words
from ..noise import Noise
from ..noise.correlated import CorrelatedNoise
from ..noise.curve import CurveNoise
from ..noise.gaussian import GaussianNoise
from ..types import Array

VISIBLE = 1e-6
"""The share of the range below which noise is invisible, and hardly resolved by float32."""
ROUNDING = 1 / math.sqrt(12)
"""The standard deviation of the error of rounding to integers, which is part of the noise."""
# The largest plausible level, as a multiple of the range of means over small blocks. This range is about half of the
# level of white noise or more, and less if pixels were clipped.
_LARGEST_LEVEL = 6.0
_LARGEST_LEVEL_OF_PIXELS = 2.0  # the same, as a multiple of the range of single pixels
_MIN_PIXELS = 256  # fewer pixels are too few to judge the range by


class NoiseWarning(UserWarning):
    """The category of warnings about implausible noise."""


def doubt_about(
    noise: Noise | None,
    levels: Array,
    ends: Sequence[tuple[float, float]],
    dtype: np.dtype[Any] | None,
    pixels: float,
) -> str:
    """Return a sentence if the given noise is implausible, otherwise an empty string.

    `levels` are the typical levels of the channels, `ends` the darkest and brightest values (see `Facts`), and `dtype`
    is the type of the image and `pixels` the number of pixels of a channel. Noise that grows with the signal, or that was
    estimated, is never in doubt.
    """
    base = noise.noise if isinstance(noise, CorrelatedNoise) else noise
    ranges = np.broadcast_to([high - low for low, high in ends], levels.shape)
    known = (levels > 0) & (ranges > 0)  # a constant channel carries no information
    if not isinstance(base, GaussianNoise) or not known.any():
        return ""
    levels, ranges = levels[known], ranges[known]
    given = f"`sigma` is {'up to ' if np.ptp(levels) else ''}{levels.max():.4g}"
    expected = "expected a standard deviation in the units of the image"
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    image = f"the image ranges from {low:.4g} to {high:.4g}"
    if np.all(levels <= VISIBLE * ranges):
        return Words(f"{given}, which has no effect, since {image}; {expected}")
    if dtype is not None and dtype.kind in "ui":
        largest = np.iinfo(dtype).max
        if levels.max() < ROUNDING:
            return Words(
                f"{given}, which is less than the rounding error of {dtype}, {ROUNDING:.2f}; {expected}"
            )
        if levels.min() > largest / 2:  # no set of such numbers deviates so much
            return Words(f"{given}, but the largest value of {dtype} is {largest}; {expected}")
    # The means of blocks of correlated noise may be much smaller than that.
    if base is noise and pixels >= _MIN_PIXELS and np.all(levels > _LARGEST_LEVEL * ranges):
        return Words(f"{given}, but {image}; {expected}")
    return ""


def doubt_about_units(levels: Array, low: float, high: float, data_range: float) -> str:
    """Return a sentence if the levels do not fit pixels from `low` to `high`, or if these do not fit `data_range`.

    The levels are those of all images of a batch. No set of numbers deviates from its mean by more than half of its
    range, but noise that was clipped may have done so before.
    """
    given = f"`sigma` is {'at least ' if np.ptp(levels) else ''}{levels.min():.4g}"
    pixels = f"the images range from {low:.4g} to {high:.4g}"
    if high > low and levels.min() > _LARGEST_LEVEL_OF_PIXELS * (high - low):
        return Words(
            f"{given}, but {pixels}; expected a standard deviation in the units of the images"
        )
    if levels.min() > _LARGEST_LEVEL_OF_PIXELS * data_range:
        return Words(
            f"{given} and `data_range` is {data_range:g}, but {pixels}; expected the range of the images"
        )
    return ""


def doubt_about_color(color: float, planes: Sequence[int]) -> str:
    """Return a sentence if the factor for colors has no effect; `planes` are the numbers of planes of each set."""
    if color == 1 or not planes or max(planes) > 1:
        return ""
    apart = "the channels are denoised separately" if len(planes) > 1 else "the image is gray"
    return Words(f"`color` is {color:g}, which has no effect, since {apart}; expected 1")


def doubt_about_rest(noise: CorrelatedNoise, probability: float) -> str:
    """Return a sentence on noise of which only a share is removed, since it is texture with some probability."""
    level = float(np.median(noise.noise.sigmas)) if isinstance(noise.noise, CurveNoise) else 0.0
    return Words(
        f"noise of about {level:.2g} is left, since it is texture with a probability of {probability:.0%}; "
        "`noise='correlated'` removes it"
    )


def doubt_about_texture(probability: float) -> str:
    """Return a sentence on texture that is removed with some probability, since it is taken for noise."""
    return Words(
        f"what is removed is texture, rather than noise, with a probability of {probability:.0%}; "
        "`noise='gaussian'` keeps it"
    )


def warn_about(doubt: str) -> None:
    """Issue a warning, unless the doubt is empty."""
    if doubt:
        issue(doubt, NoiseWarning)


def issue(sentence: str, category: type[Warning]) -> None:
    """Issue a warning that points at the line of the caller."""
    inside = (__name__.partition(".")[0], "torch")  # PyTorch calls the forward method of a module
    frame, depth = sys._getframe(), 1
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in inside:
        frame, depth = frame.f_back, depth + 1
    warnings.warn(sentence, category, stacklevel=depth)
