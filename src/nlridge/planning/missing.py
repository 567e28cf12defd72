"""Fill in missing pixels from their neighbours, since the kernels cannot handle NaN."""

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]


def fill(image: Image, missing: npt.NDArray[np.bool_]) -> Image:
    """Replace each missing pixel by a weighted mean of the pixels around it.

    If all pixels around it are missing, the mean is taken at a coarser scale. An image without any pixels becomes 0.
    """
    if missing.all():
        return np.zeros_like(image)
    present = (~missing).astype(np.float32)
    total, weight = blurred(np.where(missing, np.float32(0), image)), blurred(present)
    has_mean = weight > 1e-3
    mean: Image = (total / np.where(has_mean, weight, 1)).astype(np.float32)
    if not has_mean.all():
        coarse_has_mean = has_mean[::2, ::2]
        if coarse_has_mean.any():
            coarse = fill(mean[::2, ::2], ~coarse_has_mean)
        else:
            coarse = np.full(coarse_has_mean.shape, mean[has_mean].mean())
        wide = coarse.repeat(2, axis=0).repeat(2, axis=1)[: image.shape[0], : image.shape[1]]
        mean = np.where(has_mean, mean, wide)
    return np.where(missing, mean, image).astype(np.float32, copy=False)


def blurred(a: Image) -> Image:
    """Filter an image by a binomial kernel of 5 x 5; pixels outside the image are 0."""
    for axis in (0, 1):
        reach = [(2, 2) if k == axis else (0, 0) for k in (0, 1)]
        wide = np.pad(a, reach)
        length = a.shape[axis]
        parts = [wide.take(np.arange(k, k + length), axis=axis) for k in range(5)]
        a = (parts[0] + parts[4] + 4 * (parts[1] + parts[3]) + 6 * parts[2]) / np.float32(16)
    return a
