"""Matching across frames: follow a reference patch from frame to frame, and keep the m patches most similar to it.

In its own frame, the patch is compared with all patches of a window. In the next frame, it is compared with those of a
smaller window around the same place, and from then on around the place to which the best match has moved, if it goes
on moving as it did from the last frame to this one. So a small window is enough for fast motion. If frames move as a
whole, the windows move along.

The frames are one after the other in memory, each with a margin of `margin` pixels around it.
"""

import numpy as np

from ..kernels.compile import kernel
from ..kernels.linalg import padded
from ..kernels.simd import LANES
from .matching import FARTHEST, compare, distances, nearest


@kernel
def match_across(
    similar, row_length, plane, planes, margin, height, width, frames, shifts, own,
    ys, xs, stride, patch, window, near, far, variance, sizes, group_size, places, frame_of
):  # fmt: skip
    """Write to places[k group_size:] the offsets of the sizes[k] patches that are nearest to the k-th reference.

    frames[i] is the offset of the i-th frame, and frames[own] that of the references; frame_of receives the index i of
    the frame of each patch. shifts[2 i] and shifts[2 i + 1] are the rows and columns by which the i-th frame has moved as a
    whole, against that of the references. The windows in the next frames have `near` rows and columns, those farther
    away `far`. A patch consists of `planes` planes, which are `plane` elements apart. Returns the first and the last row,
    in the coordinates of the frames, in which patches were searched for.
    """
    half, lanes = window // 2, padded(window)
    own_size = window * lanes
    wide = padded(max(near, far))
    room = own_size + max(len(frames) - 1, 0) * max(near, far) * wide
    distance = np.empty(len(xs) * own_size, np.float32)
    values, offsets = np.empty(room, np.float32), np.empty(room, np.intp)
    frame_of_row = np.empty(room // LANES, np.intp)
    found, kept = np.empty(room + LANES, np.intp), np.empty(room + LANES, np.float32)
    chosen = np.empty(group_size, np.intp)
    sums, unused = np.empty(wide, np.float32), np.empty(wide, np.float32)
    lowest, highest = height, np.intp(0)
    k = 0
    for i in range(len(ys)):
        lowest, highest = min(lowest, ys[i] - half), max(highest, ys[i] + half)
        guess = np.float32(2 * planes * patch * patch) * variance
        first = 0
        while first < len(xs):
            count = 1  # references one stride apart
            while first + count < len(xs) and xs[first + count] - xs[first + count - 1] == stride:
                count += 1
            corner = frames[own] + (ys[i] + margin) * row_length + xs[first] + margin
            distances(
                similar, row_length, plane, planes, corner, count, stride, patch, window, distance
            )
            for c in range(count):
                here = corner + c * stride
                for dy in range(window):
                    there = here + (dy - half) * row_length - half
                    for o in range(dy * lanes, (dy + 1) * lanes):
                        values[o] = distance[c * own_size + o]
                        offsets[o] = there + o - dy * lanes
                for o in range(own_size // LANES):
                    frame_of_row[o] = own
                used = own_size
                for direction in (-1, 1):
                    # The place in the coordinates of the references, and how it moves from frame to frame.
                    still_y, still_x, move_y, move_x = ys[i], xs[first + c], np.intp(0), np.intp(0)
                    frame = own + direction
                    while 0 <= frame < len(frames):
                        side = near if abs(frame - own) == 1 else far
                        reach, lanes_there = side // 2, padded(side)
                        shift_y, shift_x = shifts[2 * frame], shifts[2 * frame + 1]
                        y = min(max(still_y + move_y + shift_y, 0), height - patch)
                        x = min(max(still_x + move_x + shift_x, 0), width - patch)
                        lowest, highest = min(lowest, y - reach), max(highest, y + reach)
                        best, best_y, best_x = FARTHEST, np.intp(0), np.intp(0)
                        for dy in range(-reach, reach + 1):
                            there = (
                                frames[frame] + (y + dy + margin) * row_length + x + margin - reach
                            )
                            for o in range(lanes_there):
                                values[used + o] = 0 if o < side else FARTHEST
                                offsets[used + o] = there + o
                            for o in range(used // LANES, (used + lanes_there) // LANES):
                                frame_of_row[o] = frame
                            for p in range(planes):
                                compare(
                                    sums, unused, 0, similar, here + p * plane,
                                    there + p * plane, row_length, patch, patch, 0, lanes_there,
                                )  # fmt: skip
                                for o in range(lanes_there):
                                    values[used + o] += sums[o]
                            for o in range(side):
                                if values[used + o] < best:
                                    best, best_y, best_x = values[used + o], dy, o - reach
                            used += lanes_there
                        move_y, move_x = move_y + best_y, move_x + best_x
                        still_y, still_x = y + best_y - shift_y, x + best_x - shift_x
                        frame += direction
                m = sizes[k]
                guess = nearest(
                    values, 0, used // LANES, LANES, m, guess, 0, LANES,
                    half * lanes + half, found, kept, chosen,
                )  # fmt: skip
                for j in range(m):
                    places[k * group_size + j] = offsets[found[j]]
                    frame_of[k * group_size + j] = frame_of_row[found[j] // LANES]
                k += 1
            first += count
    return max(lowest, 0), min(highest, height - patch)
