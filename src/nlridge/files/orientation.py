"""The orientation of a picture, and whether it is a negative."""

import warnings
from dataclasses import replace

import numpy as np
from PIL import Image

from ..types import Pixels
from .picture import Picture

_ORIENTATION = 0x0112  # the tag of EXIF


def turn_of(exif: bytes | None) -> int:
    """Return the orientation in EXIF data, from 1 to 8; 1 (upright) if it is missing or damaged."""
    tags = _parsed(exif)
    orientation = 1 if tags is None else tags.get(_ORIENTATION, 1)
    return orientation if orientation in range(1, 9) else 1


def upright(picture: Picture) -> Picture:
    """Return the picture upright and as a positive, for formats and pages that cannot store these properties."""
    if picture.turn == 1 and not picture.negative:
        return picture

    def positive(pixels: Pixels) -> Pixels:
        if not picture.negative:
            return pixels
        top = np.iinfo(pixels.dtype).max if pixels.dtype.kind in "ui" else np.nanmax(pixels)
        return np.asarray(top - pixels, pixels.dtype)

    return replace(
        picture,
        layers=[
            replace(layer, pixels=positive(turned(layer.pixels, layer.axes, picture.turn)))
            for layer in picture.layers
        ],
        alpha=None if picture.alpha is None else turned(picture.alpha, "YX", picture.turn),
        exif=upright_exif(picture.exif),
        turn=1,
        negative=False,
    )


def upright_exif(exif: bytes | None) -> bytes | None:
    """Return EXIF data with the orientation set to upright; unchanged if they are damaged."""
    tags = _parsed(exif)
    if tags is None:
        return exif
    tags[_ORIENTATION] = 1
    return tags.tobytes()


def turned(pixels: Pixels, axes: str, turn: int) -> Pixels:
    """Return an upright view of pixels; `turn` is their orientation, from 1 to 8."""
    y, x = axes.index("Y"), axes.index("X")
    if turn >= 5:
        pixels = pixels.swapaxes(y, x)
    if turn in (2, 3, 6, 7):
        pixels = np.flip(pixels, x)
    if turn in (3, 4, 7, 8):
        pixels = np.flip(pixels, y)
    return pixels


def _parsed(exif: bytes | None) -> Image.Exif | None:
    if not exif:
        return None
    tags = Image.Exif()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tags.load(exif)
    except Exception:  # Pillow raises errors of any kind for damaged data
        return None
    return tags
