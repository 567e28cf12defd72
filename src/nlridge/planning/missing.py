"""Missing pixels: which ones they are."""

from typing import Any

import numpy as np

from ..checks import LARGEST
from ..errors import ArgumentError
from ..types import Mask, Pixels


def missing_pixels(pixels: Pixels, masked: Mask | None, where: str = "") -> Mask | None:
    """The missing pixels (masked or NaN), or None if there are none.

    Raises an error if others are infinite or too large; `where` names the part of the image in the message.
    """
    missing = np.zeros(pixels.shape, bool) if masked is None else masked.copy()
    if pixels.dtype.kind == "f":
        infinite = int(np.count_nonzero(np.isinf(pixels) & ~missing))
        if infinite:
            raise ArgumentError(
                "image",
                infinite,
                "finite values, or NaN for missing pixels",
                f"has {infinite} infinite pixels{where}",
            )
        missing |= np.isnan(pixels)
        _expect_in_bounds(pixels, ~missing)
    return missing if missing.any() else None


def _expect_in_bounds(pixels: Pixels, present: Mask) -> None:
    """Raise an error if pixels are so large that sums of them would overflow."""
    largest = max(abs(end(pixels, where=present, initial=0)) for end in (np.min, np.max))
    if float(largest) > LARGEST:
        raise ArgumentError(
            "image", largest, f"none larger than {LARGEST:g}", f"has values up to {largest:.4g}"
        )


def expect_numbers(pixels: Pixels, dtype: np.dtype[Any] | None) -> None:
    """Raise an error for NaN pixels, which are returned as they are, if the result is to consist of integers."""
    if dtype is None or dtype.kind == "f" or pixels.dtype.kind != "f":
        return
    if np.isnan(pixels).any():
        raise ArgumentError(
            "image",
            dtype,
            "a floating-point type, or no NaN pixels",
            "has NaN pixels and `dtype` is {value}",
        )


def union(one: Mask | None, other: Mask | None, shape: tuple[int, ...]) -> Mask | None:
    """The union of two masks, which broadcast against `shape`; None if both are None."""
    masks = [mask for mask in (one, other) if mask is not None]
    if not masks:
        return None
    return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*masks)), shape)
