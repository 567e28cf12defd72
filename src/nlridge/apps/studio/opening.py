"""Opening files: any that the command line reads."""

import math
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ...files import Layer, Picture
from ...files.apart import read_apart
from ...files.damage import UnnamedAxes
from ...files.develop import developed
from ...files.orientation import turned
from ...files.video import is_video_name
from ...types import Pixels
from ..jobs.paths import known_suffixes
from ..jobs.words import printable
from .clips import ClipFrames
from .images import Opened, height_and_width
from .limits import Limits
from .words import SEVERAL_RAW_IMAGES

_LONGEST = 200  # bytes of a name
reading = threading.Lock()  # the readers change the filters for warnings, which all threads share


def opened(path: Path, name: str, folder: Path, limits: Limits, beside: bool = False) -> Opened:
    """Read a file; pixels of a large image are kept in the folder, rather than in memory."""
    folder.mkdir(exist_ok=True)
    if is_video_name(path):
        frames: Any = ClipFrames(path)
        return Opened(
            printable(name), Picture("video", [Layer(frames, "TYXC")]), path, folder, beside
        )
    raw, axes = None, None
    try:
        picture = read_apart(path)
    except UnnamedAxes as error:
        axes = likely_axes(error)
        picture = read_apart(path, axes)
    if any(layer.mosaic is not None for layer in picture.layers):
        with reading:
            raw, picture = picture, as_shown(picture)
    sizes = [math.prod(height_and_width(layer)) for layer in picture.layers]
    layers = [
        replace(layer, pixels=_on_disk(layer.pixels, folder / f"{k}.npy"))
        if size * sum(1 for _ in layer.frames()) > limits.in_memory
        else layer
        for k, (layer, size) in enumerate(zip(picture.layers, sizes, strict=True))
    ]
    picture = replace(picture, layers=layers)
    is_large = sizes[0] > limits.in_memory
    return Opened(printable(name), picture, path, folder, beside, is_large, raw, axes)


def likely_axes(error: UnnamedAxes) -> str:
    """Return the most likely axes of a file that does not name them: a stack, or colors along the last axis."""
    *others, last = error.shape
    if len(others) != 2:
        raise error
    return "YXC" if last == 3 < min(others) else "QYX"


def as_shown(raw: Picture) -> Picture:
    """Return a raw picture as it is shown, upright: developed, or in shades of gray if its camera is unknown."""
    layer, *others = raw.layers
    if others or layer.axes != "YX":
        raise ValueError(SEVERAL_RAW_IMAGES)
    if raw.format == "raw":
        return developed(raw, bits=8)
    return Picture(raw.format, [Layer(turned(layer.pixels, "YX", raw.turn), "YX")])


def _on_disk(pixels: Pixels, path: Path) -> Pixels:
    np.save(path, pixels)
    mapped: Pixels = np.load(path, mmap_mode="r")
    return mapped


def file_name(name: str) -> str:
    """Return the last part of a name, without characters that are special in a file system."""
    last = re.split(r"[/\\]", name)[-1].strip()
    if last.strip(".") == "":
        raise ArgumentError("name", printable(name), "that of a file")
    safe = "".join(c if c.isprintable() and c not in '<>:"|?*' else "_" for c in last).lstrip(".")
    suffix = next((end for end in known_suffixes() if safe.lower().endswith(end)), "")
    if not suffix:
        raise ArgumentError(
            "name", printable(last[:_LONGEST]), f"one that ends in {', '.join(known_suffixes())}"
        )
    stem, ending = safe[: -len(suffix)], safe[-len(suffix) :]
    while len(stem.encode()) > _LONGEST:
        stem = stem[:-1]
    return (stem or "image") + ending
