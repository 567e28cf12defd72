"""TGA files, read with Pillow: 8 bits, gray or color, with transparency; palettes become colors."""

import io
import struct
from pathlib import Path

import numpy as np
from PIL import Image

from ..picture import Picture
from .bmp import plain_picture, plain_pixels

NAME = "TGA"
SUFFIXES = (".tga",)
KEEPS = ()
BITS = 8

_PALETTES = (1, 9)  # types of images; 8 more are compressed
_DEPTHS = {1: (8,), 2: (16, 24, 32), 3: (8, 16)}


def recognises(head: bytes) -> bool:
    """Return whether the numbers of a header are plausible for a TGA file, which has no signature."""
    if len(head) < 18:
        return False
    palette, kind = head[1], head[2]
    depths = _DEPTHS.get(kind & ~8, ())
    width, height = struct.unpack_from("<HH", head, 12)
    plausible = width * height > 0 and head[16] in depths and head[17] < 64
    return plausible and palette == (kind in _PALETTES)


def read(path: Path, axes: str | None) -> Picture:
    return plain_picture(path, "TGA")


def write(path: Path, picture: Picture, name: Path) -> None:
    pixels = plain_pixels(picture, "TGA")
    if picture.alpha is not None:
        pixels = np.concatenate([np.atleast_3d(pixels), picture.alpha[..., None]], axis=-1)
    info = picture.origin if picture.format == "tga" else {}
    options = {key: info[key] for key in ("id_section", "compression") if info.get(key)}
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "TGA", **options)
    path.write_bytes(data.getbuffer())
