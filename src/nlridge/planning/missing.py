"""Missing pixels: which ones they are, and how they are filled in from their neighbours for the kernels."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import LARGEST

Image = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]

AROUND = 2  # pixels to either side that the mean around a pixel is taken over


def missing_pixels(
    pixels: npt.NDArray[Any], masked: Mask | None, where: str = ""
) -> npt.NDArray[np.bool_] | None:
    """The missing pixels (masked or NaN), or None if there are none.

    Raises an error if others are infinite or too large; `where` says in the message which part of the image it is.
    """
    missing = np.zeros(pixels.shape, bool) if masked is None else masked.copy()
    if pixels.dtype.kind == "f":
        infinite = int(np.count_nonzero(np.isinf(pixels) & ~missing))
        if infinite:
            raise ValueError(
                f"image has {infinite} infinite pixels{where}; expected finite values, or NaN for missing pixels"
            )
        missing |= np.isnan(pixels)
        _expect_in_bounds(pixels, ~missing)
    return missing if missing.any() else None


def _expect_in_bounds(pixels: npt.NDArray[Any], present: Mask) -> None:
    """Raise an error if pixels are so large that sums of them would overflow."""
    largest = max(abs(end(pixels, where=present, initial=0)) for end in (np.min, np.max))
    if float(largest) > LARGEST:
        raise ValueError(
            f"image has values up to {largest:.4g}; expected none larger than {LARGEST:g}"
        )


def expect_numbers(pixels: npt.NDArray[Any], dtype: np.dtype[Any] | None) -> None:
    """Raise an error for NaN pixels, which are returned as they are, if the result is to consist of integers."""
    if dtype is None or dtype.kind == "f" or pixels.dtype.kind != "f":
        return
    if np.isnan(pixels).any():
        raise ValueError(
            f"image has NaN pixels and dtype is {dtype}; expected a floating-point type, or no NaN pixels"
        )


def union(one: Mask | None, other: Mask | None, shape: tuple[int, ...]) -> Mask | None:
    """The union of two masks, which broadcast against `shape`; None if both are None."""
    masks = [mask for mask in (one, other) if mask is not None]
    if not masks:
        return None
    return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*masks)), shape)


def fill(image: Image) -> Image:
    """Replace each pixel that is NaN by a weighted mean of the pixels around it.

    If all pixels around it are NaN, the mean is taken at a coarser scale. An image without any pixels becomes 0.
    """
    missing = np.isnan(image)
    if missing.all():
        return np.zeros_like(image)
    return fill_from(image, fill(coarser_means(image))) if missing.any() else image


def coarser_means(image: Image) -> Image:
    """The means around every other pixel of every other row; NaN where all pixels around are NaN."""
    return _means_around(image)[::2, ::2]


def fill_from(image: Image, coarse: Image) -> Image:
    """Replace pixels that are NaN by the mean around them, or where there is none, by pixels of `coarse`.

    `coarse` has half the size of the image: it is `coarser_means`, filled in.
    """
    height, width = image.shape
    wide = coarse.repeat(2, axis=0)[:height].repeat(2, axis=1)[:, :width]
    means = _means_around(image)
    return np.where(np.isnan(image), np.where(np.isnan(means), wide, means), image)


def _means_around(image: Image) -> Image:
    missing = np.isnan(image)
    total = blurred(np.where(missing, np.float32(0), image))
    weight = blurred((~missing).astype(np.float32))
    means: Image = np.full_like(image, np.nan)
    return np.divide(total, weight, out=means, where=weight > 1e-3)


def blurred(a: Image) -> Image:
    """Filter an image by a binomial kernel of 5 x 5; pixels outside the image are 0."""
    for _ in range(2):
        wide, length = np.pad(a, ((AROUND, AROUND), (0, 0))), len(a)
        parts = [wide[k : k + length] for k in range(2 * AROUND + 1)]
        a = (parts[0] + parts[4] + 4 * (parts[1] + parts[3]) + 6 * parts[2]) / np.float32(16)
        a = a.T
    return a
