"""From floats, which denoising gives, to the type that a file or another library expects."""

from typing import Any

import numpy as np
import numpy.typing as npt


def to_dtype(image: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Convert an image to another type of numbers; integers are rounded and clipped, never wrapped.

    Parameters
    ----------
    image : array_like
        The image, of integers or floats.
    dtype : dtype
        A type of integers or floats, such as that of the noisy image.

    Returns
    -------
    ndarray
        The image in that type, with each value at the nearest one that the type can hold; infinity stays
        infinity in floats. It may share memory with `image` if the type is the same.

    See Also
    --------
    denoise : which returns floats, whatever the type of its input.

    Examples
    --------
    Pillow and scikit-image expect colours of 8 bits:

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
    values, kind = np.asarray(image), np.dtype(dtype)
    for name, found in (("image", values.dtype), ("dtype", kind)):
        if found.kind not in "uif":
            raise TypeError(f"{name} is of type {found}; expected integers or floats")
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            result: npt.NDArray[Any] = values.astype(kind, copy=False)
        beyond = np.isinf(result) & np.isfinite(values)
        if beyond.any():
            result = np.where(beyond, np.copysign(np.finfo(kind).max, result), result)
        return result
    limits = np.iinfo(kind)
    if values.dtype.kind != "f":
        own = np.iinfo(values.dtype)
        low, high = max(limits.min, own.min), min(limits.max, own.max)
        return np.asarray(np.clip(values, low, high), kind)
    if np.isnan(values).any():
        raise ValueError(f"image has pixels that are NaN; expected numbers to convert to {kind}")
    exact = np.rint(values.astype(np.float64))
    # Ends that float64 does not hold exactly (64 bits) are set apart.
    rounded = np.clip(exact, limits.min, np.nextafter(float(limits.max), 0)).astype(kind)
    return np.where(exact >= limits.max, limits.max, rounded).astype(kind, copy=False)
