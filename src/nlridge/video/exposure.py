"""The level of the noise of each frame, if it changes, as with the gain or the exposure of a camera.

The noise of a video is estimated once. A frame whose noise differs clearly from that of the frames which it was estimated
from has levels that are larger or smaller by a factor. The factor depends on the frame alone, so that it is the same
wherever a stream begins, and it is exactly 1 unless the change is significant. Patches are not searched for in frames
with noise of another level.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..noise import Noise
from ..noise.estimation import calm_level, sigma_of
from .run import SourceFrame

Array = npt.NDArray[np.float64]

_SIDE = 192  # of the square in the middle of a frame in which the noise is measured
_FEWEST = 64 * 64  # pixels; the noise of smaller frames cannot be measured
# The level of calm blocks, which is measured first, includes some texture. Only if it differs so much,
_SUSPECT = 1.2
# an estimate decides that is more precise, but slower: a change by a smaller factor is left as it is.
_CLEAR = 1.3
_MOST = 16.0


class Exposure(NamedTuple):
    """What the noise of other frames is compared with: its level in the frames that it was estimated from."""

    noise: Noise
    calm: Array
    """The level of calm blocks after stabilisation, for each channel."""
    sigmas: Array
    """The level of the noise after stabilisation, for each channel."""

    def factor(self, frame: SourceFrame) -> float:
        """By how much the levels of the noise of a frame are larger."""
        middle = _middle(self.noise, frame)
        if middle is None or _ratio(middle.calm(), self.calm, _SUSPECT) == 1:
            return 1.0
        return _ratio(middle.sigmas(), self.sigmas, _CLEAR)


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
    """The frames whose noise is like that of the frame in the middle, sorted by noise; all, unless it changes clearly."""
    middles = [_middle(noise, frame) for frame in sample]
    if None in middles or len(sample) < 2:
        return list(sample)
    levels = [float(np.median(middle.calm())) for middle in middles if middle is not None]
    if max(levels) <= _SUSPECT * min(levels):
        return list(sample)
    levels = [float(np.median(middle.sigmas())) for middle in middles if middle is not None]
    typical = sorted(levels)[(len(levels) - 1) // 2]
    if max(levels) <= _CLEAR * min(levels):
        return list(sample)
    return [
        frame
        for frame, level in zip(sample, levels, strict=True)
        if max(level, typical) <= _SUSPECT * min(level, typical)
    ]


class _Middle(NamedTuple):
    """The middle of a frame, after stabilisation."""

    pixels: Array
    missing: npt.NDArray[np.bool_]

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
    if min(channel.size - np.count_nonzero(channel) for channel in missing) < _FEWEST:
        return None
    return _Middle(np.asarray(noise.stabilise(pixels), np.float64), missing)


def _ratio(levels: Array, typical: Array, least: float) -> float:
    """The median ratio of levels; 1 if it is less than a factor, or unknown."""
    known = typical > 0
    if not known.any():
        return 1.0
    ratio = float(np.median(levels[known] / typical[known]))
    return min(max(ratio, 1 / _MOST), _MOST) if not 1 / least <= ratio <= least else 1.0
