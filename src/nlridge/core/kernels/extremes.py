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
def contrasts(wide, middle, jump, contrast, spread, extreme):
    """Write how each pixel and its eight neighbours differ, and whether it is one of the two darkest or brightest of them.

    Of the nine in increasing order, `middle` receives the fifth, `contrast` the difference between the last and the first,
    `spread` that between the eighth and the second, and `jump` the largest step from the second to the eighth. The step
    beyond the second, or to the eighth, counts only if the pixel itself is not one of the seven on the near side: beside
    two outliers, it is one of them. `extreme` receives 1 if the pixel is as bright as the eighth, and -1 if it is as dark as
    the second. `wide` has one more row and column on each side than the image.
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
            value = own[x + 1]
            dark, bright = value <= b, value >= h
            largest = max(max(d - c, e - d), max(f - e, g - f))
            largest = max(largest, c - b if dark else 0.0)
            jump[y, x] = max(largest, h - g if bright else 0.0)
            middle[y, x], contrast[y, x], spread[y, x] = e, i - a, h - b
            extreme[y, x] = np.int8(bright) - np.int8(dark)


@kernel
def in_deviations(
    values, middle, deviation, contrast, spread, extreme, most, far, steps,
    jump, distance, extremes, spreads
):  # fmt: skip
    """Divide what `contrasts` has found by the standard deviation of the noise, which may differ from pixel to pixel.

    A `jump` becomes 0 unless it is more than the share `most` of the contrast, apart from noise. `distance` is that from
    the middle; for an `extreme`, if it is more than `far`, it is in `extremes` too, with its sign, and others are 0.
    `spreads` are in whole `steps` of a deviation.
    """
    height, width = values.shape
    for y in range(height):
        for x in range(width):
            own = deviation[y, x]
            sharp = jump[y, x] + 2 * own > most * contrast[y, x]
            jump[y, x] = jump[y, x] / own if sharp else 0.0
            distance[y, x] = abs(values[y, x] - middle[y, x]) / own
            spreads[y, x] = _in_steps(spread[y, x] / own, steps)
            extremes[y, x] = extreme[y, x] * distance[y, x] if distance[y, x] > far else 0.0


@kernel
def limited(distance, sums, rows, columns, unit, steps, result):
    """Write the distances in whole steps, as if none were larger than three times the mean spread around it in `unit`.

    The mean is that of `rows` times `columns` pixels, whose `sums` are in steps.
    """
    height, width = distance.shape
    for y in range(height):
        for x in range(width):
            mean = sums[y, x] / (steps * rows[y] * columns[x]) / unit
            result[y, x] = _in_steps(min(distance[y, x], 3 * mean), steps)


@part
def _in_steps(value, steps):
    """A number in whole steps, so that sums do not depend on where they begin."""
    return np.int32(min(steps * value, 1048576.0))


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
