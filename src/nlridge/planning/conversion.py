"""Conversion of the floats that denoising returns to the data type of a file or another library."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError, ArgumentTypeError
from ..types import Pixels
from .options import Options
from .plan import float_type


def to_dtype(image: npt.ArrayLike, dtype: npt.DTypeLike) -> Pixels:
    """Convert an image to another data type, rounding and clipping instead of wrapping around.

    Parameters
    ----------
    image : array_like
        The image, as integers or floats.
    dtype : dtype
        The target type, an integer or floating-point type. Usually the type of the noisy image.

    Returns
    -------
    ndarray
        The image as `dtype`. Each value becomes the nearest one that the type can represent; infinite
        values stay infinite in floating-point types. If the type does not change, the result may share
        memory with `image`.

    Raises
    ------
    ValueError
        If `image` contains NaN and `dtype` is an integer type.

    See Also
    --------
    denoise : Denoise an image; with `dtype`, it does the same to its result.

    Examples
    --------
    Pillow and scikit-image expect 8-bit colors:

    >>> import numpy as np
    >>> import nlridge
    >>> photo = np.random.default_rng(0).integers(90, 110, (32, 32, 3)).astype(np.uint8)
    >>> clean = nlridge.denoise(photo, channel_axis=-1)
    >>> clean.dtype
    dtype('float32')
    >>> nlridge.to_dtype(clean, photo.dtype).dtype
    dtype('uint8')
    >>> nlridge.to_dtype([-3.2, 99.7, 300.0], np.uint8)
    array([  0, 100, 255], dtype=uint8)
    """
    values, target = np.asarray(image), np.dtype(dtype)
    for name, checked in (("image", values.dtype), ("dtype", target)):
        if checked.kind not in "uif":
            raise ArgumentTypeError(name, checked, "integers or floats", "is of type {value}")
    if target == values.dtype:
        return values
    if target.kind == "f":
        with np.errstate(over="ignore"):
            result: Pixels = values.astype(target, copy=False)
        overflowed = np.isinf(result) & np.isfinite(values)
        if overflowed.any():
            result = np.where(overflowed, np.copysign(np.finfo(target).max, result), result)
        return result
    limits = np.iinfo(target)
    if values.dtype.kind != "f":
        own = np.iinfo(values.dtype)
        low, high = max(limits.min, own.min), min(limits.max, own.max)
        return np.asarray(np.clip(values, low, high), target)
    if np.isnan(values).any():
        raise ArgumentError("image", None, f"numbers to convert to {target}", "has NaN pixels")
    if target.itemsize <= 2:  # whose limits are exact in float32, which takes less memory
        rounded = np.rint(values, dtype=np.result_type(values, np.float32))
        return np.asarray(np.clip(rounded, limits.min, limits.max), target)
    exact = np.rint(values.astype(np.float64))
    # The largest 64-bit integers are not exact in float64, so the upper limit is handled separately.
    rounded = np.clip(exact, limits.min, np.nextafter(float(limits.max), 0)).astype(target)
    return np.where(exact >= limits.max, limits.max, rounded).astype(target, copy=False)


def result_type(options: Options, pixels: Pixels) -> np.dtype[Any]:
    """The type of the result for these pixels: the one that was asked for, or floats."""
    return float_type(pixels.dtype) if options.dtype is None else options.dtype
