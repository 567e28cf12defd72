"""Matching: find the m patches in a window that are most similar to a reference patch, by squared distance."""

import numpy as np

from ..kernels.compile import kernel, part
from ..kernels.linalg import padded
from ..kernels.simd import (
    LANES,
    at_most_bits,
    bits_of,
    count_bits,
    distance_tile,
    fma,
    load,
    lowest_bit,
    number_of,
    splat,
    store,
)

# The brightest pixel, in units of the noise: sums of squares of brighter ones would overflow float32.
BRIGHT = 1e12
# The value of the pixels around the image: patches that contain one are never similar.
FAR = np.float32(1e15)
# The distance at positions that pad a row of the window: adding finite distances does not change it.
FARTHEST = np.float32(3e38)
# Distances between patches of the image are smaller; distances to a patch that extends beyond it are larger.
OUTSIDE = np.float32(1e29)
# An upper bound on the distances within a window.
_DISTANCE_BOUND = np.float32(2.9e38)

_WIDE_TILE = 48 // LANES
_distances_wide = distance_tile(_WIDE_TILE)
_distances_wide_31 = distance_tile(_WIDE_TILE, (3, 1))  # patches of 7 and 11 pixels, 4 apart
_distances_wide_13 = distance_tile(_WIDE_TILE, (1, 3))  # of 9 pixels
_distances_2 = distance_tile(2)
_distances_1 = distance_tile(1)


@part
def compare(heads, wholes, o, image, here, there, image_row, rows, head, tail, lanes):
    """Compare the strip at `here` with those at `there + d`, d < lanes.

    Writes the distances of their heads to heads[o + d], and those of whole strips to wholes[o + d].
    """
    d = 0
    while d < lanes:
        if lanes - d >= _WIDE_TILE * LANES:
            at = there + d
            if head == 3 and tail == 1:
                _distances_wide_31(
                    heads, wholes, o + d, image, here, at, image_row, rows, head, tail
                )
            elif head == 1 and tail == 3:
                _distances_wide_13(
                    heads, wholes, o + d, image, here, at, image_row, rows, head, tail
                )
            else:
                _distances_wide(heads, wholes, o + d, image, here, at, image_row, rows, head, tail)
            d += _WIDE_TILE * LANES
        elif lanes - d >= 2 * LANES:
            _distances_2(heads, wholes, o + d, image, here, there + d, image_row, rows, head, tail)
            d += 2 * LANES
        else:
            _distances_1(heads, wholes, o + d, image, here, there + d, image_row, rows, head, tail)
            d += LANES


@part
def distances(image, image_row, plane, planes, corner, count, stride, patch, window, out):
    """Squared distances from `count` references, `stride` pixels apart, to the patches around each.

    out[c, dy, dx], with dx padded to whole vectors, is the distance to the patch displaced by (dy, dx) - radius
    from reference c. That of the reference itself is -1, so that it always comes first. Where the patches of neighbouring
    references overlap, sums over strips of `stride` columns are computed once, and a patch consists of whole strips
    and the head of the next one; otherwise, a patch is the head of its strip. A distance does not depend on which
    references are computed together. It is summed over all planes, which are `plane` elements apart.
    """
    radius = window // 2
    lanes = padded(window)
    strips, head = patch // stride, patch % stride
    heads = np.empty((count + strips) * lanes, np.float32)
    wholes = np.empty((count + strips) * lanes, np.float32)
    beyond = np.zeros(
        lanes, np.float32
    )  # the initial sums: large where a row of the window is padded
    for dx in range(window, lanes):
        beyond[dx] = FARTHEST
    for k in range(planes):
        first = k == 0
        for dy in range(window):
            for c in range(count + strips):
                here = k * plane + corner + c * stride
                there = here + (dy - radius) * image_row - radius
                tail = stride - head if strips > 0 and c < count + strips - 1 else 0
                compare(
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
def sampled_distances(image, image_row, plane, planes, here, patch, every, window, beyond, out):
    """Squared distances from a reference to the patches around it, as in `distances`, but at some pixels only.

    Patches are compared at every `every`-th pixel along both axes. beyond[:2 lanes] holds `lanes` zeros followed by as
    many large numbers, where `lanes` is the padded width of the window.
    """
    lanes, radius = padded(window), window // 2
    corner = here - radius * (image_row + 1)
    for v in range(0, lanes, LANES):
        for row in range(0, window, ROWS):
            compare_rows(
                out, v, lanes, image, image_row, plane, planes, here, corner + v, patch, every,
                row, window - 1, beyond, lanes - window + v,
            )  # fmt: skip
    out[radius * lanes + radius] = -1


ROWS = 5  # rows of a window that are compared at once


@part
def compare_rows(
    values, o, lanes, image, row_length, plane, planes, here, there, patch, every,
    first, last, beyond, b
):  # fmt: skip
    """Compare the patch at `here` with those displaced by 0 .. LANES - 1 from the rows of a window, from `first` on.

    `there` is the corner of the patch in row 0 of the window, and `last` its last row. values[o + r lanes:] receives the
    distances of row r. They are added to beyond[b:], which is large where a row is padded. Several rows at a time keep
    the processor busy: each sum has to wait for the one before.
    """
    r0, r1, r2, r3, r4 = first, min(first + 1, last), min(first + 2, last), min(first + 3, last), min(first + 4, last)  # fmt: skip
    s0 = s1 = s2 = s3 = s4 = load(beyond, b)
    for p in range(planes):
        for y in range(0, patch, every):
            for x in range(0, patch, every):
                shift = p * plane + y * row_length + x
                pixel, at = splat(image[here + shift]), there + shift
                d0 = pixel - load(image, at + r0 * row_length)
                d1 = pixel - load(image, at + r1 * row_length)
                d2 = pixel - load(image, at + r2 * row_length)
                d3 = pixel - load(image, at + r3 * row_length)
                d4 = pixel - load(image, at + r4 * row_length)
                s0, s1, s2 = fma(d0, d0, s0), fma(d1, d1, s1), fma(d2, d2, s2)
                s3, s4 = fma(d3, d3, s3), fma(d4, d4, s4)
    store(values, o + r0 * lanes, s0)
    store(values, o + r1 * lanes, s1)
    store(values, o + r2 * lanes, s2)
    store(values, o + r3 * lanes, s3)
    store(values, o + r4 * lanes, s4)


@part
def _count_at_most(values, size, threshold):
    count = 0
    t = splat(threshold)
    for o in range(0, size, LANES):
        count += count_bits(at_most_bits(load(values, o), t))
    return count


@part
def nearest(values, v, rows, lanes, m, guess, first, row_length, itself, places, kept, chosen):
    """Write to places[:m] the places of the m smallest distances, nearest first.

    values[v:] are the distances of one reference: `rows` rows of `lanes`, which fill whole vectors. The places of a row
    are consecutive, those of the first row begin at `first`, and the rows are `row_length` apart. Ties are broken by
    position. `guess` is a guess at the m-th distance; a good one saves time, and none affects the result. Returns a
    guess for the next reference. `kept` and `chosen` are work space. Patches whose distance is NaN are replaced by the
    reference `itself`.
    """
    block = values[v : v + rows * lanes]

    # Find a threshold that keeps at least m patches and not many more. The guess may be NaN and is compared by its
    # bits, since kernels are compiled on the assumption that there is no NaN.
    if bits_of(guess) < 0 or bits_of(guess) > bits_of(_DISTANCE_BOUND):
        guess = _DISTANCE_BOUND
    low, high, threshold = np.float32(0), FARTHEST, guess
    for _ in range(48):
        count = _count_at_most(block, rows * lanes, threshold)
        if count < m:
            low = threshold
        elif count > 2 * m + 8:
            high = threshold
        else:
            break
        if high == FARTHEST:
            threshold = threshold * np.float32(1.5) + np.float32(0.01)
        else:
            threshold = np.float32(0.5) * (low + high)
        threshold = min(threshold, _DISTANCE_BOUND)
    if count < m or count > 2 * m + 8:
        threshold = min(high, _DISTANCE_BOUND)

    # Collect the patches that it keeps.
    size = 0
    t = splat(threshold)
    for row in range(rows):
        for o in range(0, lanes, LANES):
            bits = at_most_bits(load(block, row * lanes + o), t)
            while bits != 0:
                lane = o + lowest_bit(bits)
                places[size] = first + row * row_length + lane
                kept[size] = block[row * lanes + lane]
                size += 1
                bits &= bits - np.uint32(1)

    # Find the m-th distance among these exactly: fewer than m are <= below, at least m are <= above.
    for o in range(size, padded(size)):
        kept[o] = FARTHEST
    below, above = np.int32(-1), bits_of(threshold)
    spare = m  # how many of the patches at exactly the m-th distance are taken
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
    for j in range(count, m):  # in place of patches whose distance is NaN: the reference itself
        chosen[j] = itself
        kept[j] = _DISTANCE_BOUND

    # Sort: a patch comes after all that are nearer, and the last of equals comes last.
    for o in range(m, padded(m)):
        kept[o] = FARTHEST
    for j in range(m):
        places[j] = -1
    for j in range(m - 1, -1, -1):
        rank = max(min(_count_at_most(kept, padded(m), kept[j]), m), 1) - 1
        while rank > 0 and places[rank] >= 0:
            rank -= 1
        places[rank] = chosen[j]
    return last * np.float32(1.05)


@part
def choose_covering(distance, o, window, lanes, gap):
    """Set the distances of the patches that cover the gap between a reference and the next to -1, like its own.

    If the stride is larger than a patch, these are the patches `gap` pixels to the right, below, and both.
    """
    if gap > 0:
        here = o + window // 2 * (lanes + 1)
        for shift in (gap, gap * lanes, gap * lanes + gap):
            if distance[here + shift] < OUTSIDE:
                distance[here + shift] = -1


# The distance in pixels at which `Step.nearness` adds that many variances of the noise to each squared difference.
FAR_AWAY = 32.0


@part
def prefer_near(distance, o, window, lanes, cost):
    """Add `cost` times the square of its displacement in pixels to the distance of each patch in the window."""
    radius = window // 2
    for dy in range(-radius, radius + 1):
        row = o + (dy + radius) * lanes + radius
        for dx in range(-radius, radius + 1):
            distance[row + dx] += cost * np.float32(dy * dy + dx * dx)
    distance[o + radius * (lanes + 1)] = -1


@kernel
def match(
    guide, row_length, plane, planes, ys, xs, stride, patch, every, window, variance, nearness,
    sizes, group_size, places
):  # fmt: skip
    """Write to places[k group_size:] the offsets of the sizes[k] patches that are nearest to the k-th reference.

    The patches of all groups cover the image, even if the references do not: see `choose_covering`.
    Patches are compared at every `every`-th pixel along both axes. At least one of these pixels must be `FAR` in a patch
    that may not be chosen. `variance` is that of the noise, of one pixel or of each.
    """
    lanes = padded(window)
    candidates = window * lanes
    together = len(xs) if every == 1 else 1  # references whose distances are computed together
    distance = np.empty(together * candidates, np.float32)
    nearest_places = np.empty(candidates + LANES, np.intp)
    chosen = np.empty(group_size, np.intp)
    kept = np.empty(candidates + LANES, np.float32)
    beyond = np.zeros(2 * lanes, np.float32)
    for o in range(lanes, 2 * lanes):
        beyond[o] = FARTHEST
    side = (patch + every - 1) // every
    compared = planes * side * side  # pixels of a patch
    cost = np.float32(compared / FAR_AWAY**2) * nearness
    k = 0
    for i in range(len(ys)):
        guess = np.float32(2 * compared) * variance[0]
        first = 0
        while first < len(xs):
            corner = ys[i] * row_length + xs[first]
            count = 1
            if every > 1:
                sampled_distances(
                    guide, row_length, plane, planes, corner, patch, every, window, beyond, distance
                )
            else:  # references one stride apart: all, or all but the last of the image
                while (
                    first + count < len(xs) and xs[first + count] - xs[first + count - 1] == stride
                ):
                    count += 1
                distances(
                    guide, row_length, plane, planes, corner, count, stride, patch, window, distance
                )
            for c in range(count):
                here = corner + c * stride
                if nearness > 0:
                    own = variance[here if len(variance) > 1 else 0]
                    prefer_near(distance, c * candidates, window, lanes, cost * own)
                choose_covering(distance, c * candidates, window, lanes, stride - patch)
                guess = nearest(
                    distance,
                    c * candidates,
                    window,
                    lanes,
                    sizes[k],
                    guess,
                    here - (window // 2) * (row_length + 1),
                    row_length,
                    here,
                    nearest_places,
                    kept,
                    chosen,
                )
                for j in range(sizes[k]):
                    places[k * group_size + j] = nearest_places[j]
                k += 1
            first += count
