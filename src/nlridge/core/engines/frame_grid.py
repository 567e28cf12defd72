"""The grid of reference patches of frames that belong together, and the frames in which each of them is searched for."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...types import Positions
from ..algorithm.passes import Pass
from .grid import Block, group_sizes, references

_ROWS = 16  # rows of reference patches in a block
# The rows and columns by which the grid of reference patches moves from frame to frame, so that its gaps do not coincide.
_STAGGER = 2, 3
# Frames whose levels of noise differ by a larger factor do not share groups: noisier patches hardly help.
_LARGEST_NOISE_RATIO = 1.5


class Motion(NamedTuple):
    """How a frame as a whole differs from the one before."""

    rows: float = 0.0
    columns: float = 0.0
    repeats: bool = False
    """Whether it is the same frame again. Its noise, being the same, would be mistaken for structure."""
    noise: float = 1.0
    """The level of its noise, as a multiple of that of most frames."""


def scaled_motion(factor: float, motion: Motion) -> Motion:
    """The motion, in pixels of frames that are larger by a factor."""
    return motion._replace(rows=factor * motion.rows, columns=factor * motion.columns)


def reach_of(pass_: Pass) -> int:
    """The number of frames before and after it that a frame of the result of a pass depends on.

    The frame is changed by references up to the radius away from it, and these search frames up to the radius away
    from them. Patches extend over `depth` frames.
    """
    return 2 * pass_.frames.radius + pass_.frames.depth - 1


def blocks_of(size: tuple[int, int], pass_: Pass, number: int) -> list[Block]:
    """The blocks of reference patches of the frame with this number in the whole sequence."""
    ys, xs = references_of_frame(size, pass_, number)
    return [Block(ys[k : k + _ROWS], xs) for k in range(0, len(ys), _ROWS)]


def references_of_frame(size: tuple[int, int], pass_: Pass, number: int) -> Block:
    """The reference patches of the frame with this number in the whole sequence."""
    ys, xs = (
        references(length, pass_, shift * number)
        for length, shift in zip(size, _STAGGER, strict=True)
    )
    return Block(ys, xs)


def all_sizes(size: tuple[int, int], pass_: Pass) -> set[int]:
    """The sizes that groups of any frame can have."""
    radius = pass_.settings.window // 2
    corners = (np.arange(length - pass_.settings.patch_size + 1) for length in size)
    # All windows that are not near a border contain the same number of patches.
    places = Block(*(ys[(ys <= radius) | (ys >= ys[-1] - radius)] for ys in corners))
    others = range(2 * pass_.frames.radius + 1)
    return {int(m) for k in others for m in np.unique(group_sizes_across(places, size, pass_, k))}


def group_sizes_across(block: Block, size: tuple[int, int], pass_: Pass, others: int) -> Positions:
    """The number of patches in the group of each reference, if `others` other frames are searched.

    If the windows may contain fewer patches than asked for, it is the number that they contain for certain: the windows
    in other frames follow the motion, and as little as a quarter of each may be inside the image.
    """
    settings, search = pass_.settings, pass_.frames
    reach = min(search.near, search.far) // 2
    inside = [min(reach, length - settings.patch_size) + 1 for length in size]
    own = group_sizes(block, size, settings, settings.window**2)
    most = max(settings.group_size, settings.size_of_chroma_groups)
    return np.minimum(own + others * inside[0] * inside[1], most)


def searched_frames(
    motions: Sequence[Motion], around: range, number: int
) -> tuple[list[int], Positions]:
    """The frames around a frame in which patches are searched for, and the rows and columns that each has moved."""
    own = motions[number - around.start].noise
    is_new = [
        (not motion.repeats or k == 0)
        and max(motion.noise, own) <= _LARGEST_NOISE_RATIO * min(motion.noise, own)
        for k, motion in enumerate(motions)
    ]
    searched = [k for k, new in zip(around, is_new, strict=True) if new]
    return searched, _shifts(motions, number - around.start)[is_new]


def _shifts(motions: Sequence[Motion], own: int) -> Positions:
    """The rows and columns by which frames have moved relative to frame `own`, from the motion since the frame before.

    They are added up starting at that frame, so that rounding errors do not depend on where the stream begins.
    """
    moves = np.array([motion[:2] for motion in motions])
    before = -np.cumsum(moves[own:0:-1], axis=0)[::-1]
    after = np.cumsum(moves[own + 1 :], axis=0)
    return np.round(np.concatenate([before, np.zeros((1, 2)), after])).astype(np.intp)
