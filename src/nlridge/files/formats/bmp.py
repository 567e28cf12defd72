"""BMP and TGA files, read with Pillow: 8 bits, gray or colour, with transparency; palettes become colours."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..picture import Layer, Picture, Pixels
from .pillow import opened
from .png import single_image

NAME = "BMP or TGA"
SUFFIXES = (".bmp", ".tga")
KEEPS = ()
BITS = 8

_PIXELS_PER_METRE = 39.3701  # for one pixel per inch
_TGA_PALETTES, _TGA_DEPTHS = (1, 9), {1: (8,), 2: (16, 24, 32), 3: (8, 16)}


def recognises(head: bytes) -> bool:
    return head.startswith(b"BM") or _is_tga(head)


def _is_tga(head: bytes) -> bool:
    """Return whether the numbers of a header are those of a TGA file, which has no other mark."""
    if len(head) < 18:
        return False
    palette, kind = head[1], head[2]
    known = kind & ~8 in _TGA_DEPTHS and palette == (kind in _TGA_PALETTES)
    width, height = struct.unpack_from("<HH", head, 12)
    return known and width * height > 0 and head[16] in _TGA_DEPTHS[kind & ~8] and head[17] < 64


def read(path: Path, axes: str | None) -> Picture:
    with opened(path, ["BMP", "TGA"]) as image:
        if image.mode == "1":
            raise ValueError("its pixels are black or white; expected gray or colour")
        kept = {key: image.info[key] for key in ("dpi", "id_section", "compression") if image.info.get(key)}  # fmt: skip
        kind = str(image.format)
        notes = ["the palette was converted to colours"] if image.mode in ("P", "PA") else []
        pixels = np.asarray(image.convert("RGB") if notes else image)
        if pixels.dtype != np.uint8:
            raise ValueError(f"its pixels have the mode {image.mode}; expected gray or colour")
    alpha = None
    if pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        pixels, alpha = pixels[..., :-1], pixels[..., -1]
    pixels = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    layer = Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")
    return Picture("bmp", [layer], alpha=alpha, origin=(kind, kept), notes=notes)


def write(path: Path, picture: Picture, name: Path) -> None:
    kind = name.suffix.lower().removeprefix(".").upper()
    pixels = single_image(picture, kind)
    if pixels.dtype != np.uint8:
        raise ValueError(
            f"{kind} files cannot store {pixels.dtype}; expected uint8, or a PNG or TIFF file"
        )
    before, kept = picture.origin if picture.format == "bmp" else ("", {})
    if before != kind:
        kept = {}
    if picture.alpha is not None and kind == "BMP":
        path.write_bytes(_with_alpha(pixels, picture.alpha, kept.get("dpi")))
        return
    if picture.alpha is not None:
        pixels = np.concatenate([np.atleast_3d(pixels), picture.alpha[..., None]], axis=-1)
    options: dict[str, Any] = {key: value for key, value in kept.items() if kind == "TGA" or key == "dpi"}  # fmt: skip
    data = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(data, kind, **options)
    path.write_bytes(data.getbuffer())


def _with_alpha(pixels: Pixels, alpha: Pixels, dpi: tuple[float, float] | None) -> bytes:
    """Write a BMP file with transparency.

    Pillow omits the masks that identify the channels, without which readers ignore the transparency.
    """
    height, width = alpha.shape
    colours = np.broadcast_to(np.atleast_3d(pixels), (height, width, 3))
    body = np.concatenate([colours[..., ::-1], alpha[..., None]], axis=-1)[::-1].tobytes()
    density = [round(value * _PIXELS_PER_METRE) for value in dpi or (96, 96)]
    masks = 0xFF0000, 0xFF00, 0xFF, 0xFF000000
    header = struct.pack("<IiiHHIIiiII4I", 108, width, height, 1, 32, 3, len(body), *density, 0, 0, *masks)  # fmt: skip
    header = (header + b"BGRs").ljust(108, b"\0")
    start = 14 + len(header)
    return struct.pack("<2sIHHI", b"BM", start + len(body), 0, 0, start) + header + body
