"""Matching: the m patches of a window that are most similar to a reference patch, in the L2 sense."""

import numpy as np

from ..kernels.compile import part
from ..kernels.linalg import padded
from ..kernels.simd import (
    LANES,
    at_most_bits,
    bits_of,
    count_bits,
    distance_tile,
    load,
    lowest_bit,
    number_of,
    splat,
    store,
)

BRIGHT = 1e12  # in units of the noise: squares of larger numbers, many of them added up, are too large for float32
FAR = np.float32(1e15)  # what surrounds the image: patches that touch it are never similar
_FARTHEST = np.float32(3e38)  # what is added to it is lost
_FAR_ENOUGH = np.float32(2.9e38)  # no distance within a window is larger

_MANY = 48 // LANES
_distances_many = distance_tile(_MANY)
_distances_many_31 = distance_tile(_MANY, (3, 1))  # patches of 7 and 11 pixels, 4 apart
_distances_many_13 = distance_tile(_MANY, (1, 3))  # of 9 pixels
_distances_2 = distance_tile(2)
_distances_1 = distance_tile(1)


@part
def _compare(heads, wholes, o, image, here, there, image_row, rows, head, tail, lanes):
    """heads[o + d], wholes[o + d] = distances of a strip at `here` from those at `there + d`, d < lanes."""
    d = 0
    while d < lanes:
        if lanes - d >= _MANY * LANES:
            at = there + d
            if head == 3 and tail == 1:
                _distances_many_31(
                    heads, wholes, o + d, image, here, at, image_row, rows, head, tail
                )
            elif head == 1 and tail == 3:
                _distances_many_13(
                    heads, wholes, o + d, image, here, at, image_row, rows, head, tail
                )
            else:
                _distances_many(heads, wholes, o + d, image, here, at, image_row, rows, head, tail)
            d += _MANY * LANES
        elif lanes - d >= 2 * LANES:
            _distances_2(heads, wholes, o + d, image, here, there + d, image_row, rows, head, tail)
            d += 2 * LANES
        else:
            _distances_1(heads, wholes, o + d, image, here, there + d, image_row, rows, head, tail)
            d += LANES


@part
def distances(image, image_row, plane, planes, corner, count, stride, patch, window, out):
    """Squared distances from `count` references, `stride` pixels apart, to the patches around each.

    out[c, dy, dx] (dx padded to whole vectors) belongs to the patch displaced by (dy, dx) - radius
    from reference c; the reference itself gets -1, so that it is always the first choice.  Patches
    of neighbouring references overlap, so that the sums over strips of `stride` columns are computed
    once for all: a patch is some whole strips and the head of the next.  A distance does not depend
    on which references are computed together.  It is a sum over all planes, which are `plane` apart.
    """
    radius = window // 2
    lanes = padded(window)
    strips, head = patch // stride, patch % stride
    heads = np.empty((count + strips) * lanes, np.float32)
    wholes = np.empty((count + strips) * lanes, np.float32)
    beyond = np.zeros(lanes, np.float32)  # of the window
    for dx in range(window, lanes):
        beyond[dx] = _FARTHEST
    for k in range(planes):
        first = k == 0
        for dy in range(window):
            for c in range(count + strips):
                here = k * plane + corner + c * stride
                there = here + (dy - radius) * image_row - radius
                tail = stride - head if c < count + strips - 1 else 0
                _compare(
                    heads,
                    wholes,
                    c * lanes,
                    image,
                    here,
                    there,
                    image_row,
                    patch,
                    head,
                    tail,
                    lanes,
                )
            for c in range(count):
                row = (c * window + dy) * lanes
                for v in range(0, lanes, LANES):
                    s = load(beyond, v) if first else load(out, row + v)
                    s = s + load(heads, (c + strips) * lanes + v)
                    for strip in range(c, c + strips):
                        s = s + load(wholes, strip * lanes + v)
                    store(out, row + v, s)
    for c in range(count):
        out[(c * window + radius) * lanes + radius] = -1


@part
def _count_at_most(values, size, threshold):
    count = 0
    t = splat(threshold)
    for o in range(0, size, LANES):
        count += count_bits(at_most_bits(load(values, o), t))
    return count


@part
def nearest(values, v, window, m, guess, image_row, corner, places, kept, chosen):
    """places[:m] = offsets of the m patches with the smallest distances, the nearest first.

    values[v:] are the distances of one reference at `corner`.  Of equal distances the first in
    position counts as smaller.  `guess` is a guess at the m-th distance: it saves time and has no
    influence on the result.  Returns a guess for the next reference.  `kept` and `chosen` are room
    for work.  Whatever the distances are, also if they are no numbers, places are those of patches of the window.
    """
    lanes = padded(window)
    radius = window // 2
    block = values[v : v + window * lanes]

    # A threshold that keeps at least m patches and not many more.  Numbers are compared by their bits where they may be
    # no numbers, which kernels are compiled not to expect.
    if bits_of(guess) < 0 or bits_of(guess) > bits_of(_FAR_ENOUGH):
        guess = _FAR_ENOUGH
    low, high, threshold = np.float32(0), _FARTHEST, guess
    for _ in range(48):
        count = _count_at_most(block, window * lanes, threshold)
        if count < m:
            low = threshold
        elif count > 2 * m + 8:
            high = threshold
        else:
            break
        if high == _FARTHEST:
            threshold = threshold * np.float32(1.5) + np.float32(0.01)
        else:
            threshold = np.float32(0.5) * (low + high)
        threshold = min(threshold, _FAR_ENOUGH)
    if count < m or count > 2 * m + 8:
        threshold = min(high, _FAR_ENOUGH)

    # What it keeps.
    size = 0
    t = splat(threshold)
    for dy in range(window):
        row = corner + (dy - radius) * image_row - radius
        for o in range(0, lanes, LANES):
            bits = at_most_bits(load(block, dy * lanes + o), t)
            while bits != 0:
                lane = o + lowest_bit(bits)
                places[size] = row + lane
                kept[size] = block[dy * lanes + lane]
                size += 1
                bits &= bits - np.uint32(1)

    # The m-th distance among those, exactly: fewer than m are <= below, at least m are <= above.
    for o in range(size, padded(size)):
        kept[o] = _FARTHEST
    below, above = np.int32(-1), bits_of(threshold)
    spare = m  # how many of those equal to the m-th have a place
    while above - below > 1:
        middle = np.int32((np.int64(below) + above) // 2)
        count = _count_at_most(kept, padded(size), number_of(middle))
        if count < m:
            below = middle
            spare = m - count
        else:
            above = middle
            if count == m:
                break
    sure = np.float32(-0.5) if below < 0 else number_of(below)
    last = number_of(above)
    if below < 0:
        spare = m - _count_at_most(kept, padded(size), sure)
    count = 0
    for i in range(size):
        take = kept[i] <= sure
        if not take and kept[i] <= last and spare > 0:
            take = True
            spare -= 1
        if take and count < m:
            chosen[count] = places[i]
            kept[count] = kept[i]
            count += 1
    for j in range(count, m):  # of distances that are no numbers: the reference itself
        chosen[j] = corner
        kept[j] = _FAR_ENOUGH

    # In order: a patch comes after all that are nearer, and the last of equals takes the last place.
    for o in range(m, padded(m)):
        kept[o] = _FARTHEST
    for j in range(m):
        places[j] = -1
    for j in range(m - 1, -1, -1):
        rank = max(min(_count_at_most(kept, padded(m), kept[j]), m), 1) - 1
        while rank > 0 and places[rank] >= 0:
            rank -= 1
        places[rank] = chosen[j]
    return last * np.float32(1.05)
