"""Denoising the pixels of a layer, in whatever thread: in memory at once, or as a Dask array that is computed when shown."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import denoise, prepare, to_dtype
from ...files.picture import Layer, Picture
from ..jobs.pictures import clean_picture, exact_floats, with_exact_floats
from ..jobs.sampling import deviation_in
from ..jobs.words import recorded_warnings
from .layers import is_dask

_OTHERS = "QRSUVWABDEFGHIJKLMNOP"  # letters of axes along which images are stacked


class Stopped(Exception):
    """Raised in `progress` to end the work."""


@dataclass(frozen=True)
class Task:
    """The pixels to denoise, and how."""

    pixels: Any
    """An array in memory, or a Dask array."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments of `denoise`: the method and its adjustments."""
    sigma: float | None = None
    """The standard deviation of the noise, if it is given."""
    sample: tuple[int | slice, ...] | None = None
    """The index of a flat part of a plane, with all of its channels, in which the noise is measured."""
    channel_axis: int | None = None
    rgb: bool = False
    """Whether the last axis has colors, and transparency if there are four."""
    time_axis: int | None = None
    depth_axis: int | None = None
    """The axis along which images belong together; others are stacks of independent images."""
    voxel: tuple[float, float, float] | None = None
    """The depth, height and width of a voxel."""


@dataclass(frozen=True)
class Result:
    """The denoised pixels, and a description."""

    pixels: Any
    """Floats; colors have the type they had, since napari shows colors that are floats from 0 to 1."""
    words: str
    """What was found and removed, in a few sentences."""


def denoised(task: Task, progress: Callable[[float], None]) -> Result:
    """Denoise pixels; `progress` is called with the share that is done, and may raise an exception to stop."""
    with recorded_warnings() as warnings:
        result = denoise_pixels(task, progress)
    return Result(
        result.pixels, " ".join([result.words, *(f"{_sentence(one)}." for one in warnings)])
    )


def denoise_pixels(task: Task, progress: Callable[[float], None]) -> Result:
    """Denoise pixels like `denoised`, but issue warnings instead of adding them to the words."""
    pixels, transparency = task.pixels, None
    if task.rgb and pixels.shape[-1] == 4:
        pixels, transparency = pixels[..., :3], pixels[..., 3:]
    progress(0.0)
    axes, frames = _axes(task), _frames(task)
    sigma = task.sigma if task.sample is None else _measured(task, pixels, axes)
    options = {**task.options, "sigma": sigma}
    if is_dask(pixels):
        result, words = _lazily(pixels, axes, task, options), "It is computed when it is shown."
    else:
        picture = Picture("napari", [Layer(pixels, axes, task.voxel)])
        picture, details = clean_picture(picture, progress, frames, rounded=task.rgb, **options)
        result = picture.layers[0].pixels
        first = next(one for one in details if one is not None)
        words = ". ".join(map(_sentence, [first.describe(_label), *picture.notes])) + "."
        if len(details) > 1 and frames == "independent":
            words = f"The first image: {words}"
    if transparency is not None:
        result = _joined(result, transparency)
    return Result(result, words)


def _axes(task: Task) -> str:
    """Return a letter for each axis: Y, X and C, T or Z for that along which images belong together, and others."""
    letters = [""] * task.pixels.ndim
    channel = task.pixels.ndim - 1 if task.rgb else task.channel_axis
    for axis, letter in ((channel, "C"), (task.time_axis, "T"), (task.depth_axis, "Z")):
        if axis is not None:
            letters[axis] = letter
    free = [axis for axis, letter in enumerate(letters) if not letter]
    for axis, letter in zip(free, [*_OTHERS[: len(free) - 2], "Y", "X"], strict=True):
        letters[axis] = letter
    return "".join(letters)


def _frames(task: Task) -> str:
    """Return how images belong together: in "time" or in "depth"; "independent" if there is only one."""
    for kind, axis in (("time", task.time_axis), ("depth", task.depth_axis)):
        if axis is not None and task.pixels.shape[axis] > 1:
            return kind
    return "independent"


def _measured(task: Task, pixels: Any, axes: str) -> float | list[float]:
    """Return the level of the noise in the sample."""
    part = np.asarray(pixels[task.sample])
    channel = "".join(letter for letter in axes if letter in "YXC").find("C")
    return deviation_in(part[None] if channel < 0 else np.moveaxis(part, channel, 0))


def _lazily(pixels: Any, axes: str, task: Task, options: dict[str, Any]) -> Any:
    """Return the result as a Dask array.

    Nothing of a stack is read before it is shown: each image is denoised on its own. Of a single image, and of images that
    belong together, a sample is read at once, for the noise.
    """
    kind = _frames(task)
    together = {"time": "T", "depth": "Z"}.get(kind, "")
    kept = "YXC" + together
    stacked = [axis for axis, letter in enumerate(axes) if letter not in kept]
    inner = "".join(letter for letter in axes if letter in kept)
    if "C" in inner:
        options["channel_axis"] = inner.index("C")
    if not together and stacked:
        whole = pixels.rechunk({axis: 1 if axis in stacked else -1 for axis in range(pixels.ndim)})
        dtype = pixels.dtype if task.rgb else exact_floats(pixels.dtype)
        meta = np.empty((0,) * pixels.ndim, dtype)
        return whole.map_blocks(
            _denoised_block, tuple(stacked), options, dtype, dtype=dtype, meta=meta
        )
    if together:
        options[f"{kind}_axis"] = inner.index(together)
    if task.voxel is not None and kind == "depth":
        options["spacing"] = task.voxel
    result = _over_stacks(pixels, stacked, options)
    return result.map_blocks(to_dtype, pixels.dtype, dtype=pixels.dtype) if task.rgb else result


def _denoised_block(
    block: npt.NDArray[Any], stacked: tuple[int, ...], options: dict[str, Any], dtype: Any
) -> npt.NDArray[Any]:
    """Denoise one image of a stack, in an array in which the axes of the stack have the length 1."""
    pixels = with_exact_floats(block.squeeze(stacked))
    if pixels.dtype.kind == "f" and np.isnan(pixels).all():
        return block
    return to_dtype(denoise(pixels, **options).reshape(block.shape), dtype)


def _over_stacks(pixels: Any, stacked: list[int], options: dict[str, Any]) -> Any:
    """Denoise a Dask array that has any number of axes along which images are independent."""
    import dask.array as da

    if not stacked:
        return prepare(pixels, **options).denoise()
    front = da.moveaxis(pixels, stacked, range(len(stacked)))
    inner = front.shape[len(stacked) :]
    names = ("channel_axis", "time_axis", "depth_axis")
    shifted = {name: axis + 1 for name, axis in options.items() if name in names}
    prepared = prepare(front.reshape(-1, *inner), **{**options, **shifted}, stack_axis=0)
    result = prepared.denoise()
    return da.moveaxis(result.reshape(front.shape), range(len(stacked)), stacked)


def _joined(colors: Any, transparency: Any) -> Any:
    if is_dask(colors):
        import dask.array as da

        return da.concatenate([colors, transparency], axis=-1)
    return np.concatenate([colors, transparency], axis=-1)


def _label(argument: str) -> str:
    """Return what the widget calls an argument of `denoise`."""
    return {"sigma": "level", "noise": "rectangle"}.get(argument, argument)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".")
