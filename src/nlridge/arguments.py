"""The arguments of the public functions: each is checked before any work starts, in one clear sentence."""

import math
import operator
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .arrays import library
from .levels import LARGEST
from .noise import Noise
from .noise.gaussian import Gaussian
from .recipes import Recipe, recipe
from .wording import shown

Progress: TypeAlias = bool | Callable[[int, int], object]
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
    if isinstance(noise, type) or not all(
        hasattr(noise, name)
        for name in ("level", "black_level", "stabilise", "variance", "restore")
    ):
        raise TypeError(
            f"noise is {shown(noise)}; expected a noise model such as nlridge.Gaussian(10)"
        )
    try:
        with np.errstate(over="ignore"):  # of larger floats
            levels = np.asarray(noise.level, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"noise has the level {shown(noise.level)}; expected numbers") from None
    if not np.any(levels > 0):
        raise ValueError(f"noise is {shown(noise)}; expected a positive standard deviation")
    wrong = ~(levels >= 0) if levels.ndim < 2 else levels < 0
    if np.any(wrong) or (levels.ndim < 2 and levels.max() > LARGEST):
        raise ValueError(f"noise is {shown(noise)}; expected finite standard deviations")
    found: Noise = noise
    return found


def _checked_sigma(sigma: Any) -> Gaussian:
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
        return Gaussian(checked_positive("sigma", sigma))
    if levels.dtype.kind not in "uif":
        raise TypeError(f"sigma has dtype {levels.dtype}; expected numbers")
    if levels.size == 0 or not np.any(levels > 0):
        raise ValueError(f"sigma has shape {levels.shape} and is nowhere positive; expected noise")
    return Gaussian(levels if levels.size > 1 else float(levels.reshape(())))


def checked_method(method: Any) -> str | Recipe:
    if isinstance(method, Recipe):
        return method
    if isinstance(method, str):
        recipe(method, 1.0)  # is there such a recipe?
        return method
    raise TypeError(f"method is {shown(method)}; expected the name of a recipe, or a Recipe")


class Layout(NamedTuple):
    """The shape of an image, and which of its axes hold frames of a stack and channels."""

    shape: tuple[int, ...]
    stack: int | None
    channel: int | None

    @property
    def _named(self) -> list[int]:
        return [axis for axis in (self.stack, self.channel) if axis is not None]

    @property
    def axes(self) -> str:
        """A letter for each axis: T for a stack, C for channels, Y and X."""
        letters = {self.stack: "T", self.channel: "C"}
        rest = iter("YX")
        return "".join(letters.get(k) or next(rest) for k in range(len(self.shape)))

    def frames(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A view of (frames, channels, height, width)."""
        array = library(array).moveaxis(array, self._named, list(range(len(self._named))))
        if self.channel is None:
            array = array[..., None, :, :]
        return array[None] if self.stack is None else array

    def like_image(self, frames: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A view of the image's own shape."""
        array = frames[0] if self.stack is None else frames
        if self.channel is None:
            array = array[..., 0, :, :]
        found: npt.NDArray[Any] = library(array).moveaxis(
            array, list(range(len(self._named))), self._named
        )
        return found

    def spread(self, name: str, array: npt.NDArray[Any], instead: str = "") -> npt.NDArray[Any]:
        """`frames` of what has the image's shape, or is the same for all frames or channels and lacks their axis."""
        lacking = [[], [self.channel], [self.stack], [self.stack, self.channel]]
        expected = []
        for axes in lacking:
            if None in axes:
                continue
            shape = tuple(n for axis, n in enumerate(self.shape) if axis not in axes)
            if array.shape == shape:
                return self.frames(np.expand_dims(array, tuple(axes)))  # type: ignore[arg-type]
            expected.append(str(shape))
        raise ValueError(
            f"{name} has shape {array.shape}; expected {instead}{' or '.join(expected)}"
        )


def checked_layout(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    stack_axis: Any = None,
    channel_axis: Any = None,
    *,
    may_be_stack: bool = True,
) -> Layout:
    """How an image is laid out, from no more than its shape and type."""
    if dtype.kind not in "uif":
        raise TypeError(f"image has dtype {dtype}; expected integers or floats")
    names = {"stack_axis": stack_axis, "channel_axis": channel_axis}
    named = [name for name, axis in names.items() if axis is not None]
    dimensions = 2 + len(named)
    if len(shape) != dimensions:
        because = f" for an image with {' and '.join(named)}" if named else ""
        hint = ""
        if len(shape) == dimensions + 1 and len(named) < 2:
            hint = "; name channel_axis if it is in colour"
            hint += ", stack_axis if it is a stack of images" if may_be_stack else ""
        raise ValueError(
            f"image has shape {shape}; expected {('two', 'three', 'four')[len(named)]} "
            f"dimensions{because}{hint}"
        )
    layout = Layout(
        shape,
        *(_checked_axis(name, axis, dimensions) for name, axis in names.items()),
    )
    if layout.stack is not None and layout.stack == layout.channel:
        raise ValueError(
            f"stack_axis is {stack_axis} and channel_axis is {channel_axis}; expected two different axes"
        )
    if 0 in shape:
        raise ValueError(f"image has shape {shape}; expected at least one pixel")
    return layout


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
    layout = checked_layout(
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


def _checked_axis(name: str, value: Any, dimensions: int) -> int | None:
    if value is None:
        return None
    try:
        axis = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; expected a whole number or None") from None
    if not -dimensions <= axis < dimensions:
        raise ValueError(
            f"{name} is {shown(axis)}; expected a number from {-dimensions} to {dimensions - 1}"
        )
    return axis % dimensions


def checked_levels(noise: Noise, layout: Layout) -> npt.NDArray[np.float64]:
    """The level of the noise as an array that broadcasts against (frames, channels, height, width)."""
    levels = np.asarray(noise.level, np.float64)
    if levels.ndim == 0:
        return levels.reshape(1, 1, 1, 1)
    channels = 1 if layout.channel is None else layout.shape[layout.channel]
    if levels.ndim == 1:
        if levels.shape != (channels,) or layout.channel is None:
            raise ValueError(
                f"sigma has {len(levels)} numbers; expected one, or one for each channel, "
                + (
                    "and channel_axis"
                    if layout.channel is None
                    else f"of which there are {channels}"
                )
            )
        return levels.reshape(1, -1, 1, 1)
    return layout.spread("sigma", levels, "a number, one for each channel, or ")


def is_dask(image: Any) -> bool:
    """Whether an image is a Dask array, which is found out without Dask."""
    return type(image).__module__.partition(".")[0] == "dask"


def checked_tile(tile: Any) -> int:
    return checked_whole("tile", tile, 64)


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


def expect_in_bounds(pixels: npt.NDArray[Any], there: Mask | bool = True) -> None:
    """No pixel is so large that sums of them overflow."""
    largest = max(abs(end(pixels, where=there, initial=0)) for end in (np.min, np.max))
    if float(largest) > LARGEST:
        raise ValueError(
            f"image has values up to {largest:.4g}; expected none larger than {LARGEST:g}"
        )


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
