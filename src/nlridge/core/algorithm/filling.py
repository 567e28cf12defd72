"""Fill in pixels that have no value, which are NaN, from their neighbours."""

from typing import Any

import numpy as np

from ..arrays import is_tensor, library
from .inputs import Image

AROUND = 2  # pixels to each side of the mean around a pixel


def fill(plane: Image) -> Image:
    """Replace each pixel that is NaN by a weighted mean of the pixels around it.

    If all pixels around it are NaN, the mean is taken at a coarser scale. A plane without any pixels becomes 0.
    """
    missing = library(plane).isnan(plane)
    if missing.all():
        return library(plane).zeros_like(plane)
    return fill_from(plane, fill(coarser_means(plane))) if missing.any() else plane


def fill_planes(image: Image) -> Image:
    """Fill in each plane of an image."""
    if not library(image).isnan(image).any():
        return image
    return library(image).stack([fill(plane) for plane in image])


def coarser_means(plane: Image) -> Image:
    """The means around every other pixel of every other row; NaN where all pixels around are NaN."""
    return _means_around(plane)[..., ::2, ::2]


def fill_from(plane: Image, coarse: Image) -> Image:
    """Replace pixels that are NaN by the mean around them, or where there is none, by pixels of `coarse`.

    `coarse` has half the size of the plane: it is `coarser_means`, filled in.
    """
    height, width = plane.shape[-2:]
    wide = _repeated(_repeated(coarse, -2)[..., :height, :], -1)[..., :width]
    means, lib = _means_around(plane), library(plane)
    return lib.where(lib.isnan(plane), lib.where(lib.isnan(means), wide, means), plane)


def _repeated(plane: Image, axis: int) -> Image:
    """Each row or column twice."""
    return plane.repeat_interleave(2, axis) if is_tensor(plane) else plane.repeat(2, axis=axis)


def _means_around(plane: Image) -> Image:
    lib = library(plane)
    missing = lib.isnan(plane)
    total = blurred(lib.where(missing, lib.zeros_like(plane), plane))
    weight = blurred(1 - lib.asarray(missing, dtype=plane.dtype))
    known = weight > 1e-3
    means: Any = total / lib.where(known, weight, lib.ones_like(weight))
    return lib.where(known, means, lib.full_like(means, np.nan))


def blurred(plane: Image) -> Image:
    """Filter a plane by a binomial kernel of 5 x 5; pixels outside the image are 0."""
    for axis in (-2, -1):
        length = plane.shape[axis]
        wide = _with_zeros(plane, axis)
        parts = [
            wide[..., k : k + length, :] if axis == -2 else wide[..., k : k + length]
            for k in range(2 * AROUND + 1)
        ]
        plane = (parts[0] + parts[4] + 4 * (parts[1] + parts[3]) + 6 * parts[2]) / 16
    return plane


def _with_zeros(plane: Image, axis: int) -> Image:
    """The plane with `AROUND` more rows or columns of zeros at both ends."""
    shape = list(plane.shape)
    shape[axis] = AROUND
    zeros = plane.new_zeros(shape) if is_tensor(plane) else np.zeros(shape, plane.dtype)
    return library(plane).concatenate([zeros, plane, zeros], axis)
