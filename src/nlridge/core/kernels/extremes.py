"""Pixels that lie beyond all of their neighbours."""

import numpy as np

from .compile import kernel


@kernel
def beyond_neighbours(wide, least, places, nearest):
    """Find the pixels that are brighter, or darker, than all of their eight neighbours by more than `least`.

    `wide` has one more row and column on each side than the image. Writes the indices of these pixels in the image and
    the values of their nearest neighbours, and returns their number, which is at most half of all pixels.
    """
    height, width = wide.shape[0] - 2, wide.shape[1] - 2
    highest, lowest = np.empty(width + 2, wide.dtype), np.empty(width + 2, wide.dtype)
    count = 0
    for y in range(height):
        above, own, below = wide[y], wide[y + 1], wide[y + 2]
        for x in range(width + 2):  # without the pixel itself
            highest[x], lowest[x] = max(above[x], below[x]), min(above[x], below[x])
        for x in range(width):
            value = own[x + 1]
            left, right = own[x], own[x + 2]
            if value - max(left, right) > least:
                other = max(max(highest[x], highest[x + 2]), max(highest[x + 1], max(left, right)))
                if value - other > least:
                    places[count], nearest[count] = y * width + x, other
                    count += 1
            elif min(left, right) - value > least:
                other = min(min(lowest[x], lowest[x + 2]), min(lowest[x + 1], min(left, right)))
                if other - value > least:
                    places[count], nearest[count] = y * width + x, other
                    count += 1
    return count
