"""Matching across frames: follow a reference patch from frame to frame, and keep the m patches most similar to it.

In its own frame, the patch is compared with all patches of a window. In the next frame, it is compared with those of a
smaller window around the same place. In the frames beyond, the window is centred where the best match would be if it
kept moving as it did between the last two frames, so that a small window is enough even for fast motion. If frames
move as a whole, the windows move with them.

The frames are one after the other in memory, each with a margin of `margin` pixels around it.
"""

import numpy as np

from ..kernels.compile import kernel
from ..kernels.linalg import padded
from ..kernels.simd import LANES
from .matching import FARTHEST, ROWS, choose_covering, compare_rows, nearest


@kernel
def match_across(
    similar, row_length, plane, planes, margin, height, width, frames, shifts, own,
    ys, xs, stride, patch, every, window, near, far, variance, sizes, group_size, places, frame_of
):  # fmt: skip
    """Write to places[k group_size:] the offsets of the sizes[k] patches that are nearest to the k-th reference.

    frames[i] is the offset of the i-th frame, and frames[own] that of the references; frame_of receives the index i of
    the frame of each patch. shifts[2 i] and shifts[2 i + 1] are the rows and columns by which the i-th frame as a whole
    has moved relative to that of the references. The windows in the next frames have `near` rows and columns, those
    farther away `far`. A patch consists of `planes` planes, which are `plane` elements apart, and is compared at every
    `every`-th pixel along both axes. Returns the first and the last row, in the coordinates of the frames, that were
    searched.
    """
    side_compared = (patch + every - 1) // every
    widest = padded(max(window, near, far))
    room = (window + (len(frames) - 1) * max(near, far)) * widest
    values = np.empty(room, np.float32)
    offset_of, frame_of_vector = np.empty((2, room // LANES), np.intp)
    found, kept = np.empty(room + LANES, np.intp), np.empty(room + LANES, np.float32)
    chosen = np.empty(group_size, np.intp)
    beyond = np.zeros(2 * widest, np.float32)
    for o in range(widest, 2 * widest):
        beyond[o] = FARTHEST
    lowest, highest = height, np.intp(0)
    k = 0
    for i in range(len(ys)):
        guess = np.float32(2 * planes * side_compared**2) * variance
        for j in range(len(xs)):
            here = frames[own] + (ys[i] + margin) * row_length + xs[j] + margin
            used = 0
            # The place in the coordinates of the references, and how it moves from frame to frame.
            still_y, still_x, move_y, move_x = ys[i], xs[j], np.intp(0), np.intp(0)
            for step in range(len(frames)):  # its own frame, those before it, those after it
                frame = own - step if step <= own else step
                if step == 1 or step == own + 1:
                    still_y, still_x, move_y, move_x = ys[i], xs[j], np.intp(0), np.intp(0)
                distance = abs(frame - own)
                side = window if distance == 0 else near if distance == 1 else far
                reach, lanes = side // 2, padded(side)
                shift_y, shift_x = shifts[2 * frame], shifts[2 * frame + 1]
                y = min(max(still_y + move_y + shift_y, 0), height - patch)
                x = min(max(still_x + move_x + shift_x, 0), width - patch)
                lowest, highest = min(lowest, y - reach), max(highest, y + reach)
                corner = frames[frame] + (y - reach + margin) * row_length + x - reach + margin
                for column in range(0, lanes, LANES):
                    for row in range(0, side, ROWS):
                        compare_rows(
                            values, used + column, lanes, similar, row_length, plane, planes,
                            here, corner + column, patch, every, row, side - 1, beyond, widest - side + column,
                        )  # fmt: skip
                    for row in range(side):
                        vector = (used + row * lanes + column) // LANES
                        offset_of[vector] = corner + row * row_length + column
                        frame_of_vector[vector] = frame
                if every > 1 and not (
                    reach <= y <= height - patch - reach and reach <= x <= width - patch - reach
                ):  # the pixels beyond the frame may be among those that are not compared
                    for row in range(side):
                        for column in range(side):
                            if not (
                                0 <= y - reach + row <= height - patch
                                and 0 <= x - reach + column <= width - patch
                            ):
                                values[used + row * lanes + column] = FARTHEST
                if frame == own:
                    itself = used + reach * lanes + reach
                    values[itself] = -1  # always comes first
                    choose_covering(values, used, side, lanes, stride - patch)
                else:
                    best, best_y, best_x = FARTHEST, np.intp(0), np.intp(0)
                    for row in range(side):
                        for column in range(side):
                            value = values[used + row * lanes + column]
                            if value < best:
                                best, best_y, best_x = value, row - reach, column - reach
                    move_y, move_x = move_y + best_y, move_x + best_x
                    still_y, still_x = y + best_y - shift_y, x + best_x - shift_x
                used += side * lanes
            m = sizes[k]
            guess = nearest(
                values, 0, used // LANES, LANES, m, guess, 0, LANES, itself, found, kept, chosen
            )
            for q in range(m):
                vector = found[q] // LANES
                places[k * group_size + q] = offset_of[vector] + found[q] % LANES
                frame_of[k * group_size + q] = frame_of_vector[vector]
            k += 1
    return max(lowest, 0), min(highest, height - patch)
