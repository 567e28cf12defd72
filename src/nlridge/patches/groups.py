"""Groups: copying similar patches out of an image, and averaging them back into one.

A group holds one patch a row, its pixels in reading order, and rows are padded to whole vectors.
(In the paper's matrices patches are columns: a group in memory is Y', row after row.)
"""

import numpy as np

from ..kernels.compile import kernel, part
from ..kernels.linalg import padded
from ..kernels.simd import LANES, fma, load, splat, store


@part
def gather(image, image_row, places, m, patch, group):  # type: ignore[no-untyped-def]
    """group[j] = the patch of `image` at places[j]; rows after the m-th, up to a whole vector, are zero.

    Whole vectors are copied: what is too much in one row of a patch is overwritten by the next.
    """
    size = padded(patch * patch)
    for j in range(m):
        for i in range(patch):
            source = places[j] + i * image_row
            target = j * size + i * patch
            for v in range(0, patch, LANES):
                store(group, target + v, load(image, source + v))
    for o in range(m * size, padded(m) * size, LANES):
        store(group, o, splat(np.float32(0)))


@part
def aggregate(group, weights, places, m, patch, mask, total, total_row, weight):  # type: ignore[no-untyped-def]
    """Add weights[j] group[j] to `total` at places[j], and weights[j] to `weight` at its corner only.

    mask: ones for the pixels of a patch's row, zeros for the rest of its last vector.
    """
    size = padded(patch * patch)
    for j in range(m):
        weight[places[j]] += weights[j]
        w = splat(weights[j])
        for v in range(0, patch, LANES):
            factor = w * load(mask, v)
            source = j * size + v
            target = places[j] + v
            for _ in range(patch):
                store(total, target, fma(factor, load(group, source), load(total, target)))
                source += patch
                target += total_row


@kernel
def normalise(total, weight, patch):  # type: ignore[no-untyped-def]
    """In place: divide each pixel by the sum of the weights of the patches that cover it."""
    height, width = total.shape
    columns = np.empty(width, np.float32)
    for y in range(height):
        for x in range(width):
            columns[x] = weight[y, x]
        for i in range(max(0, y - patch + 1), y):
            for x in range(width):
                columns[x] += weight[i, x]
        for x in range(min(patch - 1, width)):
            covered = np.float32(0)
            for k in range(x + 1):
                covered += columns[x - k]
            total[y, x] /= covered
        for x in range(patch - 1, width):
            covered = np.float32(0)
            for k in range(patch):
                covered += columns[x - k]
            total[y, x] /= covered
