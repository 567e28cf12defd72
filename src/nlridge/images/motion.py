"""The motion of a whole frame relative to the one before, as with a panning camera.

Similar patches are followed from frame to frame in small windows. A motion of more than a few pixels that a whole frame
has in common is measured first, and the windows move with it.
"""

from collections.abc import Iterator

import numpy as np

from ..core.arrays import block_means
from ..core.engines.frame_grid import Motion
from ..core.engines.stream import Frame, Stream
from ..types import Array

_BLOCK = 4  # side of the blocks that frames are reduced to: less noise, and less work
_MIN_BLOCKS = 16  # with fewer blocks along an axis, motion is not measured
_AROUND = 2  # blocks around the peak of the correlation in which the motion is refined
_SHORTEST_MOTION = 2.0  # pixels; windows follow a shorter motion on their own
_LARGEST_RATIO = 0.7  # largest ratio of the differences with and without the motion
_MIN_OVERLAP = 0.25  # share of a frame that two frames have in common


def motions(frames: Stream, source: Stream, gains: Stream) -> Stream:
    """The `Motion` of each frame of (planes, height, width), by its first plane.

    The frames of `source` tell which of them are repeated, and by which factor their noise is stronger. Frames have been
    divided by their `gains`, and their noise with them.
    """

    def start() -> Iterator[Motion]:
        about = zip(source, gains, strict=True)
        return motions_of(
            iter(frames), ((frame.repeats, frame.factor / float(gain)) for frame, gain in about)
        )

    return Stream(start, (1, 1, 1))


def motions_of(frames: Iterator[Frame], about: Iterator[tuple[bool, float]]) -> Iterator[Motion]:
    """Yield the `Motion` of each frame; `about` tells which are repeated, and how noisy each is."""
    before = None
    for frame, (repeats, noise) in zip(frames, about, strict=True):
        means = block_means(frame[0], (_BLOCK, _BLOCK))
        rows, columns = 0.0, 0.0
        if before is not None and not repeats:
            rows, columns = _BLOCK * motion_between(before, means)
        yield Motion(rows, columns, repeats, noise)
        before = means


def motion_between(before: Array, after: Array) -> Array:
    """The rows and columns by which a scene has moved; 0 if it has hardly moved, or not as a whole."""
    still = np.zeros(2)
    if min(before.shape) < _MIN_BLOCKS:
        return still
    # Phase correlation, with a window that hides the borders, which do not match.
    taper = np.outer(*(np.hanning(length + 2)[1:-1] for length in before.shape))
    a, b = (np.fft.rfft2((image - image.mean()) * taper) for image in (before, after))
    product = b * np.conj(a)
    correlation = np.fft.irfft2(product / np.sqrt(np.abs(product) + 1e-12), before.shape)
    peak = np.unravel_index(np.argmax(correlation), before.shape)
    guess = [k if k <= n // 2 else k - n for k, n in zip(map(int, peak), before.shape, strict=True)]
    rows, columns = (range(k - _AROUND - 1, k + _AROUND + 2) for k in guess)
    differences = np.array([[_difference(before, after, y, x) for x in columns] for y in rows])
    inner = differences[1:-1, 1:-1]
    y, x = (int(k) + 1 for k in np.unravel_index(np.argmin(inner), inner.shape))
    if not differences[y, x] < _LARGEST_RATIO * _difference(before, after, 0, 0):
        return still
    moved = np.array(
        [
            rows[y] + _lowest(differences[y - 1 : y + 2, x]),
            columns[x] + _lowest(differences[y, x - 1 : x + 2]),
        ]
    )
    return moved if np.abs(moved).max() * _BLOCK >= _SHORTEST_MOTION else still


def _lowest(values: Array) -> float:
    """The position of the minimum of a parabola through three values, relative to the middle one."""
    left, middle, right = values
    curvature = left - 2 * middle + right
    if not (np.isfinite(curvature) and curvature > 0):
        return 0.0
    return float(np.clip(0.5 * (left - right) / curvature, -0.5, 0.5))


def _difference(before: Array, after: Array, rows: int, columns: int) -> float:
    """The mean squared difference of two frames, the first of which is moved by so many blocks."""
    height, width = before.shape
    if (height - abs(rows)) * (width - abs(columns)) < _MIN_OVERLAP * height * width:
        return np.inf
    moved = before[
        max(-rows, 0) : height - max(rows, 0), max(-columns, 0) : width - max(columns, 0)
    ]
    same = after[max(rows, 0) : height - max(-rows, 0), max(columns, 0) : width - max(-columns, 0)]
    return float(np.mean(np.square(moved - same)))
