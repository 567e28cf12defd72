"""The arguments of the public functions: each is checked before any work starts, in one clear sentence."""

import math
import operator
import os
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..algorithm.recipes import recipe
from ..algorithm.settings import Recipe
from ..messages import shown
from ..noise import Noise
from ..noise.gaussian import GaussianNoise
from ..planning.layout import Layout, layout_of
from ..planning.levels import LARGEST, expect_in_bounds
from ..planning.options import Options
from ..progress import Progress

Mask: TypeAlias = npt.NDArray[np.bool_]


def checked_noise(sigma: Any, noise: Any) -> Noise | None:
    """The noise model, if there is any; `sigma` stands for Gaussian noise."""
    if sigma is not None and noise is not None:
        raise ValueError(
            f"sigma is given and noise is {shown(noise)}; expected one of them at most"
        )
    if sigma is not None:
        return _checked_sigma(sigma)
    if noise is None:
        return None
    if isinstance(noise, type) or not isinstance(noise, Noise):
        raise TypeError(
            f"noise is {shown(noise)}; expected a noise model such as nlridge.GaussianNoise(10)"
        )
    try:
        levels = np.asarray(noise.level, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"noise has the level {shown(noise.level)}; expected numbers") from None
    if not np.any(levels > 0):
        raise ValueError(f"noise is {shown(noise)}; expected a positive standard deviation")
    wrong = ~(levels >= 0) if levels.ndim < 2 else levels < 0
    if np.any(wrong) or (levels.ndim < 2 and levels.max() > LARGEST):
        raise ValueError(f"noise is {shown(noise)}; expected finite standard deviations")
    return noise


def _checked_sigma(sigma: Any) -> GaussianNoise:
    """Gaussian noise of a number, of one for each channel, or of a map."""
    if np.ma.isMaskedArray(sigma):
        sigma = np.ma.filled(sigma.astype(np.float64), np.nan)
    try:
        levels = np.asarray(sigma)
    except Exception:
        raise TypeError(
            f"sigma is {shown(sigma)}; expected a number or an array of numbers"
        ) from None
    if levels.ndim == 0:
        return GaussianNoise(checked_positive("sigma", sigma))
    if levels.dtype.kind not in "uif":
        raise TypeError(f"sigma has dtype {levels.dtype}; expected numbers")
    if levels.size == 0 or not np.any(levels > 0):
        raise ValueError(f"sigma has shape {levels.shape} and is nowhere positive; expected noise")
    return GaussianNoise(levels if levels.size > 1 else float(levels.reshape(())))


def checked_options(
    sigma: Any, noise: Any, strength: Any, method: Any, data_range: Any, kind: str = "auto"
) -> Options:
    """What the caller asked for."""
    return Options(
        checked_noise(sigma, noise),
        kind,
        checked_strength(strength),
        checked_method(method),
        None if data_range is None else checked_positive("data_range", data_range),
    )


def checked_method(method: Any) -> str | Recipe:
    if isinstance(method, Recipe):
        return method
    if isinstance(method, str):
        recipe(method, 1.0)  # is there such a recipe?
        return method
    raise TypeError(f"method is {shown(method)}; expected the name of a recipe, or a Recipe")


def checked_image(
    image: npt.ArrayLike,
    mask: npt.ArrayLike | None,
    stack_axis: Any = None,
    channel_axis: Any = None,
    *,
    may_be_stack: bool = True,
) -> tuple[npt.NDArray[Any], Mask | None, Layout]:
    """The image and its mask, both as (frames, channels, height, width), and how it was laid out."""
    masked = None
    if isinstance(image, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(image)
        image = image.data
    try:
        pixels = np.asarray(image)
    except Exception as error:
        raise TypeError(
            f"image is of type {type(image).__name__}, which NumPy does not take: "
            f"{' '.join(str(error).split())}; expected an array"
        ) from None
    layout = layout_of(
        pixels.shape, pixels.dtype, stack_axis, channel_axis, may_be_stack=may_be_stack
    )
    if masked is not None:
        masked = layout.frames(masked)
    if mask is not None:
        try:
            given = np.asarray(mask)
        except ValueError:
            given = np.array(None)
        if given.dtype != bool:
            raise TypeError(f"mask has dtype {given.dtype}; expected bool, True for missing pixels")
        given = layout.spread("mask", given)
        masked = given if masked is None else given | masked
    frames = layout.frames(pixels)
    if masked is not None:
        masked = np.broadcast_to(masked, frames.shape)
    return frames, masked, layout


def checked_tile(tile: Any) -> int:
    return 2048 if tile is None else checked_whole("tile", tile, 64)


def expect_none(where: str, **arguments: Any) -> None:
    """Refuse arguments that would have no effect."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise ValueError(f"{name} is {shown(value)}; expected None {where}")


def checked_whole(
    name: str, value: Any, least: int, most: float = math.inf, expected: str = "a whole number"
) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; expected {expected}") from None
    if number < least:
        raise ValueError(f"{name} is {shown(number)}; expected at least {least}")
    if number > most:
        raise ValueError(f"{name} is {shown(number)}; expected at most {most}")
    return number


def frame_of(array: npt.NDArray[Any] | None, k: int) -> Any:
    """The k-th frame of an array that has one for each frame, or one for all."""
    return array if array is None else array[k if len(array) > 1 else 0]


def missing_pixels(
    pixels: npt.NDArray[Any], masked: Mask | None, *, may_be_all: bool = False
) -> Mask | None:
    """Which pixels are missing: those that are masked or NaN, if there are any."""
    missing = np.zeros(pixels.shape, bool) if masked is None else masked.copy()
    if pixels.dtype.kind == "f":
        infinite = int(np.count_nonzero(np.isinf(pixels) & ~missing))
        if infinite:
            raise ValueError(
                f"image has {infinite} infinite pixels; expected finite ones, or NaN for missing ones"
            )
        missing |= np.isnan(pixels)
        expect_in_bounds(pixels, ~missing)
    if missing.all() and not may_be_all:
        raise ValueError("image has no pixel that is there; expected at least one")
    return missing if missing.any() else None


def checked_positive(name: str, value: Any) -> float:
    try:
        shape = np.shape(value)
    except ValueError:  # a sequence of unlike things
        raise TypeError(f"{name} is {shown(value)}; expected a single positive number") from None
    if shape:
        raise ValueError(f"{name} has shape {shape}; expected a single positive number")
    try:
        if isinstance(value, str | bytes | bool) or value is np.ma.masked:
            raise TypeError
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(value)}; expected a positive number") from None
    if 0 < number <= 1e-300 or number >= LARGEST:
        raise ValueError(
            f"{name} is {shown(value)}; expected a positive number between 1e-300 and {LARGEST:g}"
        )
    if not number > 0:
        raise ValueError(f"{name} is {shown(value)}; expected a positive number")
    return number


def checked_strength(strength: Any) -> float:
    number = checked_positive("strength", strength)
    if not 0.01 <= number <= 100:
        raise ValueError(f"strength is {shown(strength)}; expected a number from 0.01 to 100")
    return number


def checked_workers(workers: int | None) -> int:
    if workers is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    return checked_whole("workers", workers, 1, expected="a whole number or None")


def checked_progress(progress: Any) -> Progress:
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress is {shown(progress)}; expected True, False or a function")
    found: Progress = progress
    return found
