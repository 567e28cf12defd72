"""Pixels that are missing: filled in from their neighbours before the kernels, which know no NaN."""

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]


def fill(image: Image, missing: npt.NDArray[np.bool_]) -> Image:
    """The image with each missing pixel replaced by a weighted mean of those near it that are there.

    Where none is near, the mean is that of the next coarser scale, and 0 where there is none at all.
    """
    if missing.all():
        return np.zeros_like(image)
    there = (~missing).astype(np.float32)
    total, weight = blurred(np.where(missing, np.float32(0), image)), blurred(there)
    known = weight > 1e-3
    near: Image = (total / np.where(known, weight, 1)).astype(np.float32)
    if not known.all():
        seen = known[::2, ::2]
        coarse = (
            fill(near[::2, ::2], ~seen) if seen.any() else np.full(seen.shape, near[known].mean())
        )
        wide = coarse.repeat(2, axis=0).repeat(2, axis=1)[: image.shape[0], : image.shape[1]]
        near = np.where(known, near, wide)
    return np.where(missing, near, image).astype(np.float32, copy=False)


def blurred(a: Image) -> Image:
    """A binomial filter of 5 x 5; what lies outside the image is 0."""
    for axis in (0, 1):
        reach = [(2, 2) if k == axis else (0, 0) for k in (0, 1)]
        wide = np.pad(a, reach)
        length = a.shape[axis]
        parts = [wide.take(np.arange(k, k + length), axis=axis) for k in range(5)]
        a = (parts[0] + parts[4] + 4 * (parts[1] + parts[3]) + 6 * parts[2]) / np.float32(16)
    return a
