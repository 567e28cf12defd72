"""Groups: copy similar patches out of an image, and average them back into one.

An image has one plane or several, one after the other in memory. Each row of a group is a patch: its
pixels in reading order, plane after plane, padded to whole vectors. (In the paper's matrices, patches
are columns: a group in memory is Y', row by row.)
"""

import numpy as np

from ..kernels.compile import kernel, part
from ..kernels.linalg import padded
from ..kernels.simd import LANES, NARROW, fma, load_narrow, splat, splat_narrow, store


@part
def gather(image, image_row, plane, planes, places, m, patch, group):
    """Copy the patches of `image` at places[:m] to the rows of `group`; its other rows become zero.

    Planes are `plane` elements apart. Whole vectors are copied: the excess of one row of a patch is overwritten
    by the next row.
    """
    size = padded(planes * patch * patch)
    for j in range(m):
        target = j * size
        for c in range(planes):
            source = places[j] + c * plane
            if patch <= NARROW:  # a loop would take as long as its body
                for _ in range(patch):
                    store(group, target, load_narrow(image, source))
                    source += image_row
                    target += patch
            else:
                for _ in range(patch):
                    for v in range(0, patch, NARROW):
                        store(group, target + v, load_narrow(image, source + v))
                    source += image_row
                    target += patch
    for o in range(m * size, padded(m) * size, LANES):
        store(group, o, splat(np.float32(0)))


@part
def aggregate_weights(weights, places, m, weight):
    """Add weights[j] to `weight`, at the corner places[j] only; `normalise` spreads it over the patch."""
    for j in range(m):
        weight[places[j]] += weights[j]


@part
def aggregate(
    denoised, noisy, weights, places, m, patch, window, total, rest, share, total_row, plane, planes
):
    """Add weights[j] (denoised[j] - noisy[j]) to `total` at places[j], and `share` times that to `rest`, if not empty.

    Changes are added up rather than pixels, since sums of bright pixels would lose digits. `window` holds the weights
    of the pixels along a side of a patch. Its padding with zeros keeps whole vectors from changing pixels beyond the
    row of a patch.
    """
    size = padded(planes * patch * patch)
    for j in range(m):
        for v in range(0, patch, NARROW):
            columns = splat_narrow(weights[j]) * load_narrow(window, v)
            for c in range(planes):
                source = j * size + c * patch * patch + v
                target = places[j] + c * plane + v
                for y in range(patch):
                    change = load_narrow(denoised, source) - load_narrow(noisy, source)
                    factor = columns * splat_narrow(window[y])
                    store(total, target, fma(factor, change, load_narrow(total, target)))
                    if len(rest) > 0:
                        factor = factor * splat_narrow(share)
                        store(rest, target, fma(factor, change, load_narrow(rest, target)))
                    source += patch
                    target += total_row


@kernel
def gather_all(image, image_row, plane, planes, places, patch):
    """Gather the group of each row of `places` into one array."""
    count, m = places.shape
    rows, size = padded(m), padded(planes * patch * patch)
    group = np.zeros(rows * size + LANES, np.float32)
    groups = np.empty((count, rows, size), np.float32)
    for k in range(count):
        gather(image, image_row, plane, planes, places[k], m, patch, group)
        groups[k].reshape(-1)[:] = group[:-LANES]
    return groups


@kernel
def aggregate_all(groups, weights, places, patch, window, total, total_row, plane, planes, weight):
    """`aggregate` for the group of each row of `places`."""
    count, m = places.shape
    group = np.zeros(padded(m) * padded(planes * patch * patch) + LANES, np.float32)
    zeros = np.zeros_like(group)
    for k in range(count):
        group[:-LANES] = groups[k].reshape(-1)
        aggregate(
            group, zeros, weights[k], places[k], m, patch, window,
            total, total[:0], np.float32(0), total_row, plane, planes,
        )  # fmt: skip
        aggregate_weights(weights[k], places[k], m, weight)


@kernel
def normalise(total, weight, window):
    """Divide each pixel of `total`, in all planes, by the sum of the weights of the patches that cover it.

    `window` holds the weights of the pixels along a side of a patch.
    """
    planes, height, width = total.shape
    patch = len(window)
    columns = np.zeros(patch - 1 + width, np.float32)  # no patch begins left of the image
    sums = np.empty(width, np.float32)
    here = columns[patch - 1 :]
    for y in range(height):
        row = weight[y]
        for x in range(width):
            here[x] = window[0] * row[x]
        for i in range(max(0, y - patch + 1), y):
            row, share = weight[i], window[y - i]
            for x in range(width):
                here[x] += share * row[x]
        for x in range(width):
            sums[x] = window[0] * here[x]
        for k in range(patch - 1):
            left, share = columns[k : k + width], window[patch - 1 - k]
            for x in range(width):
                sums[x] += share * left[x]
        for c in range(planes):
            row = total[c, y]
            for x in range(width):
                row[x] /= sums[x]
