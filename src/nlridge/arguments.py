"""The arguments of the public functions: each is checked before any work starts, in one clear sentence."""

import operator
import os
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .noise import Noise
from .noise.gaussian import Gaussian
from .recipes import Recipe, recipe

Progress: TypeAlias = bool | Callable[[int, int], object]
Mask: TypeAlias = npt.NDArray[np.bool_]


def checked_noise(sigma: Any, noise: Any) -> Noise | None:
    """The noise model, if there is any; `sigma` stands for Gaussian noise."""
    if sigma is not None and noise is not None:
        raise ValueError(f"sigma is {sigma!r} and noise is {noise!r}; expected one of them at most")
    if sigma is not None:
        return Gaussian(checked_positive("sigma", sigma))
    if noise is None:
        return None
    if not all(hasattr(noise, name) for name in ("level", "stabilise", "restore")):
        raise TypeError(f"noise is {noise!r}; expected a noise model such as nlridge.Gaussian(10)")
    if not noise.level > 0:
        raise ValueError(f"noise is {noise!r}; expected a positive standard deviation")
    found: Noise = noise
    return found


def checked_method(method: Any) -> str | Recipe:
    if isinstance(method, Recipe):
        return method
    if isinstance(method, str):
        recipe(method, 1.0)  # is there such a recipe?
        return method
    raise TypeError(f"method is {method!r}; expected the name of a recipe, or a Recipe")


def checked_image(
    image: npt.ArrayLike, mask: npt.ArrayLike | None
) -> tuple[npt.NDArray[Any], Mask | None]:
    pixels, masked = _checked_array(image, mask)
    if pixels.ndim != 2:
        hint = "; name stack_axis for a stack of images" if pixels.ndim == 3 else ""
        raise ValueError(
            f"image has shape {pixels.shape}; expected two dimensions, (height, width){hint}"
        )
    missing = missing_pixels(pixels, masked)
    if missing is not None and missing.all():
        raise ValueError("image has no pixel that is there; expected at least one")
    return pixels, missing


def checked_stack(
    image: npt.ArrayLike, mask: npt.ArrayLike | None, stack_axis: Any
) -> tuple[npt.NDArray[Any], Any, int]:
    """The frames, their masks, and the axis along which they are stacked."""
    pixels, masked = _checked_array(image, mask, stack_axis)
    if pixels.ndim != 3:
        raise ValueError(
            f"image has shape {pixels.shape}; expected three dimensions for a stack of images"
        )
    axis = _checked_axis(stack_axis)
    frames = np.moveaxis(pixels, axis, 0)
    if masked is None:
        return frames, [None] * len(frames), axis
    return frames, np.moveaxis(masked, axis, 0), axis


def _checked_axis(stack_axis: Any) -> int:
    try:
        axis = operator.index(stack_axis)
    except TypeError:
        raise TypeError(f"stack_axis is {stack_axis!r}; expected a whole number or None") from None
    if not -3 <= axis < 3:
        raise ValueError(f"stack_axis is {axis}; expected a number from -3 to 2")
    return axis


def _checked_array(
    image: npt.ArrayLike, mask: npt.ArrayLike | None, stack_axis: Any = None
) -> tuple[npt.NDArray[Any], Mask | None]:
    masked = None
    if isinstance(image, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(image)
        image = image.data
    try:
        pixels = np.asarray(image)
    except Exception as error:
        raise TypeError(
            f"image is of type {type(image).__name__}, which NumPy does not take: {error}"
        ) from None
    if pixels.dtype.kind not in "uif":
        raise TypeError(f"image has dtype {pixels.dtype}; expected integers or floats")
    if pixels.size == 0:
        raise ValueError(f"image has shape {pixels.shape}; expected at least one pixel")
    if mask is None:
        return pixels, masked
    given = np.asarray(mask)
    if given.dtype != bool:
        raise TypeError(f"mask has dtype {given.dtype}; expected bool, True for missing pixels")
    expected = [pixels.shape]
    if stack_axis is not None and pixels.ndim == 3:  # one mask for all images of a stack will do
        axis = _checked_axis(stack_axis)
        expected.append(np.moveaxis(pixels, axis, 0).shape[1:])
    if given.shape not in expected:
        raise ValueError(
            f"mask has shape {given.shape}; expected {' or '.join(map(str, expected))}"
        )
    if given.shape != pixels.shape:
        given = np.broadcast_to(np.expand_dims(given, axis), pixels.shape)
    return pixels, given if masked is None else given | masked


def missing_pixels(pixels: npt.NDArray[Any], masked: Mask | None) -> Mask | None:
    """Which pixels are missing: those that are masked or NaN, if there are any."""
    missing = np.zeros(pixels.shape, bool) if masked is None else masked.copy()
    if pixels.dtype.kind == "f":
        infinite = int(np.count_nonzero(np.isinf(pixels) & ~missing))
        if infinite:
            raise ValueError(
                f"image has {infinite} infinite pixels; expected finite ones, or NaN for missing ones"
            )
        missing |= np.isnan(pixels)
    return missing if missing.any() else None


def checked_positive(name: str, value: Any) -> float:
    if np.ndim(value) != 0:
        raise ValueError(f"{name} has shape {np.shape(value)}; expected a single positive number")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; expected a positive number") from None
    if not 1e-300 < number < 1e300:
        raise ValueError(f"{name} is {value!r}; expected a positive number")
    return number


def checked_workers(workers: int | None) -> int:
    if workers is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    try:
        number = operator.index(workers)
    except TypeError:
        raise TypeError(f"workers is {workers!r}; expected a whole number or None") from None
    if number < 1:
        raise ValueError(f"workers is {workers}; expected at least 1")
    return number


def checked_progress(progress: Any) -> Progress:
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress is {progress!r}; expected True, False or a function")
    found: Progress = progress
    return found
