"""The level of the noise of each frame, if it changes, as with the gain or the exposure of a camera.

The noise of a video is estimated once, from some of its frames. If the noise of another frame clearly differs, its levels
are multiplied by a factor. The factor depends on the frame alone, so that it is the same wherever a stream begins, and it
is exactly 1 unless the change is significant. Patches are not searched for in frames whose noise has another level.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..noise import Noise
from ..noise.estimation import calm_level, sigma_of
from ..types import Array, Mask
from .frames import SourceFrame

_SIDE = 192  # side of the square in the middle of a frame in which the noise is measured
_MIN_PIXELS = 64 * 64  # the noise of smaller frames cannot be measured
# The level of calm blocks, which includes some texture, is measured first. Only if it changes by more than
# _SUSPECT_CHANGE, a slower and more precise estimate is made; changes of less than _CLEAR_CHANGE are ignored.
_SUSPECT_CHANGE = 1.2
_CLEAR_CHANGE = 1.3
_LARGEST_CHANGE = 16.0


class Exposure(NamedTuple):
    """The level of the noise in the frames that it was estimated from, for comparison with other frames."""

    noise: Noise
    calm: Array
    """The level of calm blocks after stabilisation, for each channel."""
    sigmas: Array
    """The level of the noise after stabilisation, for each channel."""

    def factor(self, frame: SourceFrame) -> float:
        """The factor by which the noise levels of a frame are larger."""
        middle = _middle(self.noise, frame)
        if middle is None or _ratio(middle.calm(), self.calm, _SUSPECT_CHANGE) == 1:
            return 1.0
        return _ratio(middle.sigmas(), self.sigmas, _CLEAR_CHANGE)


def exposure_of(sample: Sequence[SourceFrame], noise: Noise) -> Exposure | None:
    """The typical levels of the noise in some frames; None if they cannot be measured."""
    middles = [middle for frame in sample if (middle := _middle(noise, frame)) is not None]
    if not middles:
        return None
    calm, sigmas = (
        np.median([measure(middle) for middle in middles], axis=0)
        for measure in (_Middle.calm, _Middle.sigmas)
    )
    return Exposure(noise, calm, sigmas)


def alike(sample: Sequence[SourceFrame], noise: Noise) -> list[SourceFrame]:
    """The frames whose noise is close to the median level; all of them, unless the noise clearly changes."""
    middles = [_middle(noise, frame) for frame in sample]
    if None in middles or len(sample) < 2:
        return list(sample)
    levels = [float(np.median(middle.calm())) for middle in middles if middle is not None]
    if max(levels) <= _SUSPECT_CHANGE * min(levels):
        return list(sample)
    levels = [float(np.median(middle.sigmas())) for middle in middles if middle is not None]
    typical = sorted(levels)[(len(levels) - 1) // 2]
    if max(levels) <= _CLEAR_CHANGE * min(levels):
        return list(sample)
    return [
        frame
        for frame, level in zip(sample, levels, strict=True)
        if max(level, typical) <= _SUSPECT_CHANGE * min(level, typical)
    ]


class _Middle(NamedTuple):
    """The middle of a frame, after stabilisation."""

    pixels: Array
    missing: Mask

    def calm(self) -> Array:
        return np.array([calm_level(*channel) for channel in zip(*self, strict=True)])

    def sigmas(self) -> Array:
        return np.array([sigma_of(*channel) for channel in zip(*self, strict=True)])


def _middle(noise: Noise, frame: SourceFrame) -> _Middle | None:
    """The middle of a frame; None if it has too few pixels."""
    height, width = frame.pixels.shape[1:]
    rows, columns = (
        slice(max(0, (length - _SIDE) // 2), (length + _SIDE) // 2) for length in (height, width)
    )
    pixels: Any = frame.pixels[:, rows, columns].astype(np.float64)
    missing = np.zeros(pixels.shape, bool)
    if frame.missing is not None:
        missing = frame.missing[:, rows, columns]
        pixels = np.where(missing, noise.black_level, pixels)
    if min(channel.size - np.count_nonzero(channel) for channel in missing) < _MIN_PIXELS:
        return None
    return _Middle(np.asarray(noise.stabilise(pixels), np.float64), missing)


def _ratio(levels: Array, typical: Array, least: float) -> float:
    """The median ratio of levels; 1 if it is less than a factor, or unknown."""
    known = typical > 0
    if not known.any():
        return 1.0
    ratio = float(np.median(levels[known] / typical[known]))
    return (
        min(max(ratio, 1 / _LARGEST_CHANGE), _LARGEST_CHANGE)
        if not 1 / least <= ratio <= least
        else 1.0
    )
