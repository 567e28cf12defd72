"""Flicker: changes of the brightness from frame to frame, such as those of lamps and of automatic exposure.

Patches of frames of different brightness are not similar, so frames are divided by their gain before they are denoised.
A gain is relative to the frames just before: slow changes stay as they are.
"""

from collections import deque
from collections.abc import Iterator

import numpy as np

from ..core.arrays import block_means
from ..core.engines.stream import Frame, Stream
from ..types import Array

_BLOCK = 16  # side of the blocks that are compared, in pixels
_MIN_BLOCKS = 12  # with fewer blocks, frames are not compared
_MIN_BRIGHTNESS = 2.0  # in units of the noise; darker blocks are not compared
# The largest median deviation of the logarithms; beyond it, the scene has changed rather than its brightness.
_MAX_DEVIATION = 0.05
# Smaller changes are ignored, and those of fewer median deviations of the mean of all blocks.
_MIN_CHANGE, _SIGNIFICANT = 0.01, 5.0
MEMORY = 8
"""The number of frames before that a gain depends on."""


def gains(frames: Stream) -> Stream:
    """The gain of each frame of (planes, height, width), in units of the noise, by its first plane."""

    def start() -> Iterator[np.float32]:
        return gains_of(iter(frames))

    return Stream(start, (1, 1, 1))


def gains_of(frames: Iterator[Frame]) -> Iterator[np.float32]:
    """Yield the gain of each frame."""
    changes: deque[float] = deque([0.0] * MEMORY, MEMORY)
    before = None
    weights = np.arange(1, MEMORY + 1) / MEMORY  # the latest change counts fully
    for frame in frames:
        means = block_means(frame[0], (_BLOCK, _BLOCK))
        changes.append(0.0 if before is None else change_between(before, means))
        before = means
        yield np.float32(np.exp(np.dot(weights, changes)))


def change_between(before: Array, after: Array) -> float:
    """The logarithm of the change in brightness between two frames, from the means of their blocks.

    It is 0 if there is no change, or none that is the same in most of the frame.
    """
    compared = np.minimum(before, after) > _MIN_BRIGHTNESS
    if np.count_nonzero(compared) < _MIN_BLOCKS:
        return 0.0
    ratios = np.log(after[compared] / before[compared])
    change = float(np.median(ratios))
    deviation = float(np.median(np.abs(ratios - change)))
    least = max(_MIN_CHANGE, _SIGNIFICANT * deviation / len(ratios) ** 0.5)
    return change if abs(change) >= least and deviation <= _MAX_DEVIATION else 0.0
