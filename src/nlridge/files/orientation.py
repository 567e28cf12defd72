"""A picture as it is to be seen: what its file says about turning it, and about what is black."""

from dataclasses import replace

import numpy as np
from PIL import Image

from .picture import Picture, Pixels

_ORIENTATION = 0x0112


def turn_of(exif: bytes | None) -> int:
    """How a picture is to be turned, 1 to 8, by its EXIF data; 1, not at all, if they say nothing or are damaged."""
    found = _parsed(exif)
    turn = 1 if found is None else found.get(_ORIENTATION, 1)
    return turn if turn in range(1, 9) else 1


def upright(picture: Picture) -> Picture:
    """The picture turned, and with black as black, for a format or a page that does neither by itself."""
    if picture.turn == 1 and not picture.negative:
        return picture

    def seen(pixels: Pixels, axes: str) -> Pixels:
        y, x = axes.index("Y"), axes.index("X")
        if picture.turn in (2, 3):
            pixels = np.flip(pixels, x)
        if picture.turn in (3, 4):
            pixels = np.flip(pixels, y)
        if picture.turn >= 5:
            pixels = pixels.swapaxes(y, x)
            if picture.turn in (6, 7):
                pixels = np.flip(pixels, x)
            if picture.turn in (7, 8):
                pixels = np.flip(pixels, y)
        return pixels

    def black(pixels: Pixels) -> Pixels:
        if not picture.negative:
            return pixels
        top = np.iinfo(pixels.dtype).max if pixels.dtype.kind in "ui" else np.nanmax(pixels)
        return np.asarray(top - pixels, pixels.dtype)

    exif = _parsed(picture.exif)
    if exif is not None:
        exif[_ORIENTATION] = 1
    return replace(
        picture,
        layers=[
            replace(layer, pixels=black(seen(layer.pixels, layer.axes))) for layer in picture.layers
        ],
        alpha=None if picture.alpha is None else seen(picture.alpha, "YX"),
        exif=picture.exif if exif is None else exif.tobytes(),
        turn=1,
        negative=False,
    )


def _parsed(exif: bytes | None) -> Image.Exif | None:
    if not exif:
        return None
    found = Image.Exif()
    try:
        found.load(exif)
    except Exception:  # whatever Pillow makes of damaged data
        return None
    return found
