"""Pixels and those around them: extremes, orders and sums."""

import numpy as np

from .compile import kernel, part


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


@kernel
def sort_nine(wide, ordered):
    """Write each pixel and its eight neighbours to ordered[0 .. 8], in increasing order.

    `wide` has one more row and column on each side than the image.
    """
    height, width = wide.shape[0] - 2, wide.shape[1] - 2
    for y in range(height):
        above, own, below = wide[y], wide[y + 1], wide[y + 2]
        for x in range(width):
            # The columns in order, then their lowest, middle and highest values, then what may lie between these.
            a, b, c = _sort(above[x], own[x], below[x])
            d, e, f = _sort(above[x + 1], own[x + 1], below[x + 1])
            g, h, i = _sort(above[x + 2], own[x + 2], below[x + 2])
            a, d, g = _sort(a, d, g)
            b, e, h = _sort(b, e, h)
            c, f, i = _sort(c, f, i)
            b, d = min(b, d), max(b, d)
            f, h = min(f, h), max(f, h)
            c, e, g = _sort(c, e, g)
            c, d = min(c, d), max(c, d)
            f, g = min(f, g), max(f, g)
            ordered[0, y, x], ordered[1, y, x], ordered[2, y, x] = a, b, c
            ordered[3, y, x], ordered[4, y, x], ordered[5, y, x] = d, e, f
            ordered[6, y, x], ordered[7, y, x], ordered[8, y, x] = g, h, i


@part
def _sort(a, b, c):
    """Three numbers in increasing order."""
    a, b = min(a, b), max(a, b)
    b, c = min(b, c), max(b, c)
    return min(a, b), max(a, b), c


@kernel
def sums_around(values, reach, sums):
    """Write the sums of the values over the squares of 2 `reach` + 1 pixels around each pixel, all in whole numbers.

    Beyond the border there is nothing to add.
    """
    height, width = values.shape
    columns = np.zeros(width + 2 * reach + 1, sums.dtype)  # with as many zeros on both sides
    for y in range(-reach, height):
        if y + reach < height:
            enters = values[y + reach]
            for x in range(width):
                columns[reach + 1 + x] += enters[x]
        if y - reach > 0:
            leaves = values[y - reach - 1]
            for x in range(width):
                columns[reach + 1 + x] -= leaves[x]
        if y >= 0:
            total = columns[0]
            for x in range(2 * reach + 1):
                total += columns[x]
            for x in range(width):
                total += columns[x + 2 * reach + 1] - columns[x]
                sums[y, x] = total
