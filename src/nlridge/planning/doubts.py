"""A level of noise that cannot be meant, most often because it is in other units than the image."""

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..noise import Noise
from ..noise.correlated import CorrelatedNoise
from ..noise.curve import CurveNoise
from ..noise.gaussian import GaussianNoise

VISIBLE = 1e-6
"""As a share of the range: weaker noise is invisible, and float32 hardly resolves it."""
ROUNDING = 1 / math.sqrt(12)
"""The standard deviation of the error of rounding to integers, which is part of the noise."""
# The range, which is that of means over small blocks, is about half of the level of white noise or more, and less if
# pixels were clipped.
_BEYOND = 6.0
_BEYOND_PIXELS = 2.0  # times the range of single pixels
_ENOUGH = 256  # pixels to judge the range by


class NoiseWarning(UserWarning):
    """The category of warnings about noise that cannot be meant."""


def doubt_about(
    noise: Noise | None,
    levels: npt.NDArray[np.float64],
    ends: Sequence[tuple[float, float]],
    dtype: np.dtype[Any] | None,
    pixels: float,
) -> str:
    """Return a sentence if the noise that was given cannot be meant, otherwise an empty string.

    `levels` are the typical levels of the channels, `ends` the darkest and brightest values (see `Facts`), and `dtype`
    is the type of the image and `pixels` the number of pixels of a channel. Noise that grows with the signal, or that was
    estimated, is never in doubt.
    """
    base = noise.noise if isinstance(noise, CorrelatedNoise) else noise
    ranges = np.broadcast_to([high - low for low, high in ends], levels.shape)
    known = (levels > 0) & (ranges > 0)  # a constant channel tells nothing
    if not isinstance(base, GaussianNoise) or not known.any():
        return ""
    levels, ranges = levels[known], ranges[known]
    given = f"sigma is {'up to ' if np.ptp(levels) else ''}{levels.max():.4g}"
    expected = "expected a standard deviation in the units of the image"
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    image = f"the image ranges from {low:.4g} to {high:.4g}"
    if np.all(levels <= VISIBLE * ranges):
        return f"{given}, which has no effect, since {image}; {expected}"
    if dtype is not None and dtype.kind in "ui":
        largest = np.iinfo(dtype).max
        if levels.max() < ROUNDING:
            return f"{given}, which is less than the rounding error of {dtype}, {ROUNDING:.2f}; {expected}"
        if levels.min() > largest / 2:  # no set of such numbers deviates so much
            return f"{given}, but the largest value of {dtype} is {largest}; {expected}"
    # Correlated noise may have means of blocks much smaller than that.
    if base is noise and pixels >= _ENOUGH and np.all(levels > _BEYOND * ranges):
        return f"{given}, but {image}; {expected}"
    return ""


def doubt_about_units(
    levels: npt.NDArray[np.float64], low: float, high: float, data_range: float
) -> str:
    """Return a sentence if levels are not in the units of pixels from `low` to `high`, or these not in `data_range`.

    The levels are those of all images of a batch. No set of numbers deviates from its mean by more than half of its
    range; noise that was clipped may have done so before.
    """
    given = f"sigma is {'at least ' if np.ptp(levels) else ''}{levels.min():.4g}"
    pixels = f"the images range from {low:.4g} to {high:.4g}"
    if high > low and levels.min() > _BEYOND_PIXELS * (high - low):
        return f"{given}, but {pixels}; expected a standard deviation in the units of the images"
    if levels.min() > _BEYOND_PIXELS * data_range:
        return f"{given} and data_range is {data_range:g}, but {pixels}; expected the range of the images"
    return ""


def doubt_about_colour(colour: float, planes: Sequence[int]) -> str:
    """Return a sentence if the factor for colours has no effect; `planes` are the numbers of planes of each set."""
    if colour == 1 or not planes or max(planes) > 1:
        return ""
    apart = "the channels are denoised separately" if len(planes) > 1 else "the image is gray"
    return f"colour is {colour:g}, which has no effect, since {apart}; expected 1"


def doubt_about_rest(noise: CorrelatedNoise) -> str:
    """Return a sentence on noise of which only a share is removed, since it may be texture."""
    level = float(np.median(noise.noise.sigmas)) if isinstance(noise.noise, CurveNoise) else 0.0
    return f"noise of about {level:.2g} is probably left, since it may be texture; noise='correlated' removes it"


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
