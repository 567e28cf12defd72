"""Checks of the arguments of the public functions, made before any work starts."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import checked_whole
from ..core.arrays import is_sliceable, is_tensor
from ..errors import ArgumentError, ArgumentTypeError, shown
from ..planning.layout import Layout, SequenceAxis, layout_of
from ..planning.missing import missing_pixels as missing_in
from ..progress import Progress
from ..types import Mask, Pixels

_READERS = {
    ".npy": "numpy.load({})",
    ".tif": "tifffile.imread({})",
    ".tiff": "tifffile.imread({})",
    ".zarr": "zarr.open_array({})",
}


def checked_image(
    image: npt.ArrayLike,
    mask: npt.ArrayLike | None,
    stack_axis: Any = None,
    channel_axis: Any = None,
    sequence: SequenceAxis | None = None,
    *,
    may_be_stack: bool = True,
) -> tuple[Pixels, Mask | None, Layout]:
    """Return the image and its mask as (frames, channels, height, width), and the layout of the image.

    With frames that belong together, they are (stack, frames, channels, height, width).
    """
    expect_pixels(image)
    masked = None
    if isinstance(image, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(image)
        image = image.data
    try:
        pixels = np.asarray(image)
    except Exception as error:
        raise ArgumentTypeError(
            "image",
            type(image).__name__,
            "an array",
            f"is of type {type(image).__name__}, which NumPy cannot convert: {' '.join(str(error).split())}",
        ) from None
    layout = layout_of(
        pixels.shape, pixels.dtype, stack_axis, channel_axis, sequence, may_be_stack=may_be_stack
    )
    if masked is not None:
        masked = layout.frames(masked)
    if mask is not None:
        try:
            mask_array = np.asarray(mask)
        except ValueError:  # a ragged list
            mask_array = np.array(None)
        if mask_array.dtype != bool:
            raise ArgumentTypeError(
                "mask", mask_array.dtype, "bool, True for missing pixels", "has dtype {value}"
            )
        mask_array = layout.spread("mask", mask_array)
        masked = mask_array if masked is None else mask_array | masked
    frames = layout.frames(pixels)
    if masked is not None:
        masked = np.broadcast_to(masked, frames.shape)
    return frames, masked, layout


def expect_pixels(image: Any) -> None:
    """Raise an error for the path of a file instead of its pixels."""
    if isinstance(image, str | os.PathLike):
        path = shown(os.fspath(image))
        suffix = os.path.splitext(os.fspath(image))[1].lower()
        read = _READERS.get(suffix, "numpy.asarray(PIL.Image.open({}))").format(path)
        raise ArgumentTypeError(
            "image",
            path,
            f"an array, such as {read}, or the command: nlridge denoise {path}",
            "is {value}",
        )


def checked_tile(tile: Any) -> int:
    return 2048 if tile is None else checked_whole("tile", tile, 64, 2**30)


def expect_none(where: str, **arguments: Any) -> None:
    """Raise an error for arguments that would have no effect."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            unset = False if isinstance(value, bool) or callable(value) else None
            raise ArgumentError(name, value, f"{unset} {where}")


def frame_of(array: Pixels | None, k: int) -> Any:
    """Return the k-th frame of an array that holds one frame per image, or a single one for all."""
    return array if array is None else array[k if len(array) > 1 else 0]


def missing_pixels(pixels: Pixels, masked: Mask | None, *, may_be_all: bool = False) -> Mask | None:
    """Return the mask of missing pixels (masked or NaN), or None if there are none."""
    missing = missing_in(pixels, masked)
    if missing is not None and missing.all() and not may_be_all:
        raise ArgumentError("image", None, "at least one", "has no valid pixels")
    return missing


def checked_workers(workers: int | None) -> int:
    if workers is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    return checked_whole("workers", workers, 1, expected="a whole number or None")


def checked_progress(progress: Any) -> Progress:
    if not isinstance(progress, bool) and not callable(progress):
        raise ArgumentTypeError("progress", progress, "True, False or a function")
    checked: Progress = progress
    return checked


def is_on_disk(image: Any) -> bool:
    """Whether an image may be larger than memory: a memory map, a Zarr array, or anything else that can be sliced."""
    in_memory = isinstance(image, np.ndarray) and not isinstance(image, np.memmap)
    return is_sliceable(image) and not is_tensor(image) and not in_memory
