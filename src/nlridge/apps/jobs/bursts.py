"""Bursts: several files of one scene become one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ... import to_dtype
from ...atomic import expect_new
from ...errors import ArgumentError
from ...files import Layer, write
from ...files.apart import read_apart
from .paths import INSTEAD_OF_EXISTING
from .pictures import DenoisedFile, noise_left, prepared_pixels
from .words import recorded_warnings


def reference_of(sources: Sequence[Path]) -> Path:
    """Return the file that is denoised with the help of the others: the one in the middle."""
    return sources[len(sources) // 2]


def clean_burst(
    sources: Sequence[Path],
    target: Path,
    *,
    overwrite: bool,
    progress: Callable[[float], None],
    **options: Any,
) -> DenoisedFile:
    """Denoise the reference of several files of one scene with the help of the others, and write it."""
    expect_new("output", target, overwrite=overwrite, alternatives=INSTEAD_OF_EXISTING)
    if len(sources) < 2:
        raise ArgumentError("burst", len(sources), "at least two", "has {value} file")
    start = time.perf_counter()
    before = read_apart(reference_of(sources))
    layer = _only_layer(before.layers)
    frames = np.stack([_frame(path, layer) for path in sources])
    channel_axis = None if layer.channel_axis is None else layer.channel_axis + 1
    with recorded_warnings() as warnings:
        prepared = prepared_pixels(layer, frames, channel_axis=channel_axis, time_axis=0, **options)
        details = prepared.details(
            frame=len(sources) // 2, progress=lambda done, total: progress(done / total)
        )
    result = replace(
        layer, pixels=to_dtype(details.image, layer.pixels.dtype), noise=noise_left(layer, details)
    )
    after = replace(before, layers=[result])
    target.parent.mkdir(parents=True, exist_ok=True)
    notes = [*after.notes, *write(target, after)]
    seconds = time.perf_counter() - start
    return DenoisedFile(before, after, [details], warnings, notes, seconds, "time")


def _only_layer(layers: list[Layer]) -> Layer:
    if len(layers) != 1 or set(layers[0].axes) - set("YXC"):
        raise ValueError("it holds several images; expected one, as it is a frame of a burst")
    return layers[0]


def _frame(path: Path, like: Layer) -> Any:
    """Return the pixels of a file, which must be like those of the reference."""
    layer = _only_layer(read_apart(path).layers)
    pixels = layer.pixels
    same = pixels.shape == like.pixels.shape and pixels.dtype == like.pixels.dtype
    if not same or layer.mosaic != like.mosaic:
        raise ValueError(
            f"{path} has {pixels.dtype} pixels of shape {pixels.shape}; expected those of the other frames, "
            f"{like.pixels.dtype} of shape {like.pixels.shape}, with the same pattern and levels"
        )
    return pixels
