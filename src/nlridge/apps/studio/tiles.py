"""Tiles: pixels of a rectangle of an image as the screen shows them; small images of files."""

import io
import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from PIL.Image import Resampling

from ...types import Pixels
from ..display import shades
from .images import IMPRESSION, Opened, Preview, result_key
from .limits import Limits
from .messages import Rectangle, View
from .opening import opened
from .results import SIDE

LAYERS = ("before", "after", "other", "removed")
_OVERVIEW = 3  # the level of the copy that smaller levels are computed from
_ROWS = 512  # reduced at a time


def tile(
    image: Opened,
    layer: str,
    revision: int,
    level: int,
    column: int,
    row: int,
    frame: int,
    channel: int | None,
    ends: tuple[float, float],
) -> tuple[bytes, str] | None:
    """Return a tile as WebP, without loss, and its state: "exact", "fast", or "coarse" if it was enlarged.

    It is empty if the tile does not exist yet, and None if it never will. `ends` are the values that are shown as black
    and white.
    """
    height, width = image.shown_size
    side = SIDE << level
    x, y = column * side, row * side
    known = layer == "before" or revision in image.revisions
    if x >= width or y >= height or not known:
        return None
    rectangle = (x, y, min(side, width - x), min(side, height - y))
    before = reduced_part(image, image.layer.pixels, frame, rectangle, level, image.overviews)
    state, pixels = "exact", before
    if layer != "before":
        found = _after(image, layer, revision, frame, rectangle, level)
        if found is None:
            return b"", ""
        pixels, state = found
    negative = image.picture.negative
    if layer == "removed":
        settings = image.revisions[revision]
        noise = settings.noise
        measured = image.measured.get((frame, noise)) or image.glances.get((frame, 0, noise))
        white = 4 * (measured.level if measured and measured.level > 0 else 1.0)
        pixels = before.astype(np.float64) - pixels.astype(np.float64)
        ends, negative = (-white, white), False
    if not image.in_color or channel is not None:
        pixels = pixels[min(channel or 0, len(pixels) - 1)][None]
    plain = pixels.dtype == np.uint8 and ends == (0.0, 255.0)
    on_screen = np.moveaxis(pixels if plain else shades(pixels, *ends), 0, -1)
    if negative:
        on_screen = 255 - on_screen
    return encoded(on_screen[..., 0] if on_screen.shape[-1] == 1 else on_screen), state


def encoded(on_screen: npt.NDArray[np.uint8]) -> bytes:
    """Return an image as lossless WebP, fast rather than small, since it does not leave the computer."""
    data = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(on_screen))
    picture.save(data, "WEBP", lossless=True, quality=0, method=0)
    return data.getvalue()


def reduced(planes: Pixels, level: int) -> Pixels:
    """Return the means of blocks of 2^level x 2^level pixels; blocks at the edges have fewer."""
    if level == 0:
        return planes
    block = 1 << level
    height, width = planes.shape[1:]
    margins = ((0, 0), (0, -height % block), (0, -width % block))
    full = np.pad(planes, margins, mode="edge") if height % block or width % block else planes
    # Rows first, whole ones at a time: several times as fast as the means of blocks.
    rows = full[:, ::block].astype(np.float32, order="K")
    for k in range(1, block):
        rows += full[:, k::block]
    means: Pixels = rows[:, :, ::block].copy(order="K")
    for k in range(1, block):
        means += rows[:, :, k::block]
    means *= np.float32(0.25**level)
    return means


def reduced_part(
    image: Opened,
    pixels: Pixels,
    frame: int,
    rectangle: Rectangle,
    level: int,
    overviews: dict[int, Pixels] | None,
) -> Pixels:
    """Return a part of a frame as shown, reduced; `overviews` are reduced copies of the frames."""
    x, y, width, height = rectangle
    planes = image.shown(image.planes(frame, pixels))
    if level < _OVERVIEW or overviews is None:
        return reduced(planes[:, y : y + height, x : x + width], level)
    if frame not in overviews:
        parts = range(0, planes.shape[1], _ROWS)
        overviews[frame] = np.concatenate(
            [reduced(planes[:, top : top + _ROWS], _OVERVIEW) for top in parts], axis=1
        )
    block = 1 << _OVERVIEW
    part = overviews[frame][
        :, y // block : -(-(y + height) // block), x // block : -(-(x + width) // block)
    ]
    return reduced(part, level - _OVERVIEW)


def _after(
    image: Opened, layer: str, revision: int, frame: int, rectangle: Rectangle, level: int
) -> tuple[Pixels, str] | None:
    """Return the best available pixels of a rectangle of a result, reduced, and their state."""
    settings = image.revisions.get(revision)
    if settings is None:
        return None
    method = settings.other if layer == "other" else settings.method
    if method is None:
        return None
    stored = image.stored(rectangle)
    for name, rough in ((method, False), (method, True), (IMPRESSION, True)):
        result = image.results.get(result_key(settings, name, rough))
        if result is not None and result.covers(frame, stored):
            kept = result.overviews if result.done[frame].all() else None
            pixels = reduced_part(image, result.pixels, frame, rectangle, level, kept)
            return pixels, "fast" if rough else "exact"
    preview = image.preview
    view = View(frame, rectangle, level)
    if preview is None or not preview.covers(result_key(settings, IMPRESSION, True), view):
        return None
    if level < preview.level:
        return _enlarged(preview, rectangle, level), "coarse"
    x, y, width, height = (
        -(-length // (1 << preview.level))
        for length in (
            rectangle[0] - preview.rectangle[0],
            rectangle[1] - preview.rectangle[1],
            *rectangle[2:],
        )
    )
    part = preview.planes[:, y : y + height, x : x + width]
    return reduced(part, level - preview.level), "fast"


def _enlarged(preview: Preview, rectangle: Rectangle, level: int) -> Pixels:
    """Return a rectangle of a preview at a finer level than its own, interpolated."""
    x, y, width, height = rectangle
    block, step = 1 << preview.level, 1 << level
    left, top = x - preview.rectangle[0], y - preview.rectangle[1]
    box = (left / block, top / block, (left + width) / block, (top + height) / block)
    size = (-(-width // step), -(-height // step))
    planes = [Image.fromarray(plane) for plane in preview.planes.astype(np.float32, copy=False)]
    return np.stack([np.asarray(plane.resize(size, Resampling.BILINEAR, box)) for plane in planes])


def thumbnail(path: Path, folder: Path, limits: Limits) -> bytes:
    """Return a small image of a file, of at most 128 x 128 pixels, as WebP; empty if there is none.

    `folder` is a new folder for temporary files. Large files are not read for this. If a file cannot be read, the reason
    is shown when it is opened.
    """
    if path.stat().st_size > limits.largest_thumbnail:
        return b""
    try:
        image = opened(path, path.name, folder, limits)
        level = 1 + (-(-max(image.size) // SIDE) - 1).bit_length()
        ends = (image.low, image.high)
        found = tile(image, "before", 0, level, 0, 0, frame=0, channel=None, ends=ends)
        if image.clip:
            image.clip.close()
    except Exception:  # reported when the file is opened
        return b""
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found[0] if found else b""
