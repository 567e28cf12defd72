"""BMP files, read with Pillow: 8 bits, gray or color, with transparency; palettes become colors."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ...types import Pixels
from ..picture import Layer, Picture
from .pillow import opened
from .png import single_image

NAME = "BMP"
SUFFIXES = (".bmp",)
KEEPS = ()
BITS = 8

_PIXELS_PER_METRE = 39.3701  # for one pixel per inch


def recognises(head: bytes) -> bool:
    return head.startswith(b"BM")


def read(path: Path, axes: str | None) -> Picture:
    return plain_picture(path, "BMP")


def plain_picture(path: Path, kind: str) -> Picture:
    """Read an image of 8 bits with Pillow, which calls the format `kind`; other metadata become the origin."""
    with opened(path, [kind]) as image:
        if image.mode == "1":
            raise ValueError("its pixels are black or white; expected gray or color")
        info = dict(image.info)
        notes = ["the palette was converted to colors"] if image.mode == "P" else []
        pixels = np.asarray(image.convert("RGB") if notes else image)
        if pixels.dtype != np.uint8:
            raise ValueError(f"its pixels have the mode {image.mode}; expected gray or color")
    alpha = None
    if pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        pixels, alpha = pixels[..., :-1], pixels[..., -1]
    pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    layer = Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")
    return Picture(kind.lower(), [layer], alpha=alpha, origin=info, notes=notes)


def plain_pixels(picture: Picture, kind: str) -> Pixels:
    """Return the pixels of a single image of 8 bits, gray or RGB."""
    pixels = single_image(picture, kind)
    if pixels.dtype != np.uint8:
        raise ValueError(
            f"{kind} files cannot store {pixels.dtype}; expected uint8, or a PNG or TIFF file"
        )
    return np.ascontiguousarray(pixels)


def write(path: Path, picture: Picture, name: Path) -> None:
    pixels = plain_pixels(picture, "BMP")
    dpi = picture.origin.get("dpi") if picture.format == "bmp" else None
    if picture.alpha is not None:
        path.write_bytes(_with_alpha(pixels, picture.alpha, dpi))
        return
    options: dict[str, Any] = {"dpi": dpi} if dpi else {}
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "BMP", **options)
    path.write_bytes(data.getbuffer())


def _with_alpha(pixels: Pixels, alpha: Pixels, dpi: tuple[float, float] | None) -> bytes:
    """Write a BMP file with transparency.

    Pillow omits the masks that identify the channels, without which readers ignore the transparency.
    """
    height, width = alpha.shape
    colors = np.broadcast_to(np.atleast_3d(pixels), (height, width, 3))
    body = np.concatenate([colors[..., ::-1], alpha[..., None]], axis=-1)[::-1].tobytes()
    density = [round(value * _PIXELS_PER_METRE) for value in dpi or (96, 96)]
    masks = 0xFF0000, 0xFF00, 0xFF, 0xFF000000
    header = struct.pack("<IiiHHIIiiII4I", 108, width, height, 1, 32, 3, len(body), *density, 0, 0, *masks)  # fmt: skip
    header = (header + b"BGRs").ljust(108, b"\0")
    start = 14 + len(header)
    return struct.pack("<2sIHHI", b"BM", start + len(body), 0, 0, start) + header + body
