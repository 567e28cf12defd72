"""How much of what was measured as noise in the frames of a video differs from frame to frame.

Noise does, whereas texture moves with the scene. If a share r of the power of what was measured differs, then the power of
the noise is r times as large. What is removed at that level may still contain texture in this proportion: removing the
fraction a of it leaves an error of a² (1 - r) + (1 - a)² r, which is least at a = r.
"""

from typing import Any

import numpy as np

from ..types import Array, Mask, Pixels
from .blocks import CALM, IMAGE, SIDE, coefficients_of, energy_of

_STRIDE = 9  # between blocks; odd, as in `blocks`
_CONTEXT = 8  # pixels around a block that must move with it
_REACH = 7  # the longest motion, in pixels along an axis
# A motion counts only if it lowers the difference to this share: the best of many matches of mere noise does not.
_LOWER = 0.75
_FEWEST = 8  # blocks that are enough


def share_that_changes(before: Pixels, after: Pixels, missing: Mask) -> float | None:
    """The share of the noise that differs between two frames of (channels, height, width), after stabilisation.

    It is measured in the calm blocks of the first one, compared with those that they move to. `missing` marks pixels that
    are missing in either frame. Returns None if it cannot be measured.
    """
    margin = _CONTEXT + _REACH
    ends = [length - SIDE - margin for length in before.shape[1:]]
    ys, xs = (np.arange(margin, end + 1, _STRIDE) for end in ends)
    corners = np.stack(np.meshgrid(ys, xs, indexing="ij"), axis=-1).reshape(-1, 2)
    gone = np.asarray(missing.any(axis=0, keepdims=True))
    around = 2 * margin + SIDE
    corners = corners[[not _square(gone, c - margin, around).any() for c in corners]]
    if len(corners) < _FEWEST:
        return None
    blocks = np.stack([_square(before, corner, SIDE) for corner in corners], axis=1)
    coefficients = coefficients_of(blocks)
    order = np.argsort(energy_of(coefficients, IMAGE), kind="stable")
    calm = order[: max(int(CALM * len(order)), _FEWEST)]
    moved = np.stack([_followed(before, after, corner) for corner in corners[calm]], axis=1)
    differences = coefficients_of((blocks[:, calm] - moved) / np.sqrt(2))
    measured, changing = (
        energy_of(some, ~IMAGE).mean() for some in (coefficients[:, calm], differences)
    )
    return float(min(changing / measured, 1.0)) if measured > 0 else None


def _square(image: Any, corner: Array, side: int) -> Any:
    y, x = corner
    return image[:, y : y + side, x : x + side]


def _followed(before: Pixels, after: Pixels, corner: Array) -> Pixels:
    """The block of the next frame that a block has moved to."""
    side = SIDE + 2 * _CONTEXT
    block = _square(before, corner - _CONTEXT, side)
    area = _square(after, corner - _CONTEXT - _REACH, side + 2 * _REACH)
    places = np.lib.stride_tricks.sliding_window_view(area, (side, side), axis=(1, 2))
    differences = np.square(places - block[:, None, None]).sum(axis=(0, 3, 4))
    best = np.unravel_index(np.argmin(differences), differences.shape)
    still = _REACH, _REACH
    y, x = best if differences[best] <= _LOWER * differences[still] else still
    inner: Pixels = places[:, y, x, _CONTEXT:-_CONTEXT, _CONTEXT:-_CONTEXT]
    return inner
