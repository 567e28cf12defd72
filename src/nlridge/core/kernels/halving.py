"""Filters that halve the size of an image, or double it.

They compute some rows of the result, from `top` to `bottom`, and add up the same terms in the same order as the formulas in
`algorithm.pyramid`, so that their results have the same bits.
"""

import numpy as np

from .compile import kernel, part


@part
def _mirrored(place, length):
    """The place in an image that is extended by mirroring, again and again."""
    place = place % (2 * length)
    return min(place, 2 * length - 1 - place)


@part
def _add_differences(row, own, a, b, c, d, taps, k):
    """Add the differences of four other rows, or of parts of rows, from one, multiplied by taps[k : k + 4]."""
    s, t, u, v = taps[k], taps[k + 1], taps[k + 2], taps[k + 3]
    for x in range(len(row)):
        middle = own[x]
        row[x] = row[x] + (a[x] - middle) * s + (b[x] - middle) * t + (c[x] - middle) * u + (d[x] - middle) * v  # fmt: skip


@kernel
def halve_rows(image, taps, top, bottom, result):
    """`pyramid._halved` along the columns, for as many taps as are a multiple of four."""
    planes, height, width = image.shape
    first = 1 - len(taps) // 2
    for plane in range(planes):
        for y in range(top, bottom):
            row, own = result[plane, y], image[plane, 2 * y]
            for x in range(width):
                row[x] = 0
            for k in range(0, len(taps), 4):
                at = 2 * y + first + k
                _add_differences(
                    row, own,
                    image[plane, _mirrored(at, height)], image[plane, _mirrored(at + 1, height)],
                    image[plane, _mirrored(at + 2, height)], image[plane, _mirrored(at + 3, height)],
                    taps, k,
                )  # fmt: skip
            for x in range(width):
                row[x] += own[x]


@kernel
def halve_columns(image, taps, top, bottom, result):
    """`pyramid._halved` along the rows, for as many taps as are a multiple of four."""
    planes, _, width = image.shape
    half, first = result.shape[2], 1 - len(taps) // 2
    count = half + len(taps) // 2 - 1
    a, b = np.empty(count, np.float32), np.empty(count, np.float32)
    own = np.empty(half, np.float32)
    for plane in range(planes):
        for y in range(top, bottom):
            row, pixels = result[plane, y], image[plane, y]
            for j in range(count):  # adjacent in memory
                a[j] = pixels[_mirrored(first + 2 * j, width)]
                b[j] = pixels[_mirrored(first + 2 * j + 1, width)]
            for x in range(half):
                own[x] = pixels[2 * x]
                row[x] = 0
            for k in range(0, len(taps), 4):
                j = k // 2
                _add_differences(row, own, a[j:], b[j:], a[j + 1 :], b[j + 1 :], taps, k)
            for x in range(half):
                row[x] += own[x]


@part
def _add_pair(even, odd, here, after, taps, k):
    """Add a pixel and the one after it, or rows of them, to two rows of the result, multiplied by two taps each."""
    s, t = taps[k + 1], taps[k]
    for x in range(len(even)):
        even[x] += s * here[x]
        odd[x] += t * after[x]


@kernel
def upsample_rows(image, taps, top, bottom, result):
    """`pyramid._synthesised` along the columns, from an even row on."""
    planes, half, width = image.shape
    reach = len(taps) // 4
    beyond = np.empty(width, np.float32)  # in place of a row below the last one
    for plane in range(planes):
        for y in range(top, bottom, 2):
            even = result[plane, y]
            odd = result[plane, y + 1] if y + 1 < bottom else beyond
            for x in range(width):
                even[x] = odd[x] = np.float32(-0.0)
            for k in range(0, len(taps), 2):
                at = y // 2 + reach - k // 2
                here, after = max(min(at - 1, half - 1), 0), max(min(at, half - 1), 0)
                _add_pair(even, odd, image[plane, here], image[plane, after], taps, k)


@kernel
def upsample_columns(image, taps, top, bottom, result):
    """`pyramid._synthesised` along the rows."""
    planes, _, half = image.shape
    length, reach = result.shape[2], len(taps) // 4
    wide = np.empty(half + 2 * reach, np.float32)
    even, odd = np.empty(half, np.float32), np.empty(half, np.float32)
    for plane in range(planes):
        for y in range(top, bottom):
            row, pixels = result[plane, y], image[plane, y]
            for j in range(len(wide)):
                wide[j] = pixels[max(min(j - reach, half - 1), 0)]
            for x in range(half):
                even[x] = odd[x] = np.float32(-0.0)
            for k in range(0, len(taps), 2):
                j = 2 * reach - k // 2
                _add_pair(even, odd, wide[j - 1 :], wide[j:], taps, k)
            for x in range(length):
                row[x] = even[x // 2] if x % 2 == 0 else odd[x // 2]
