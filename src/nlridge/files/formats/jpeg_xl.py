"""JPEG XL files, read with imagecodecs and written without loss: 8 to 16 bits or floats, with EXIF data.

The library turns pixels upright, and does not return the color profile.
"""

from pathlib import Path
from typing import Any

import numpy as np

from ..boxes import box, boxes
from ..damage import refuse_too_large
from ..orientation import upright_exif
from ..picture import Layer, Picture
from .png import single_image

NAME = "JPEG XL"
SUFFIXES = (".jxl",)
KEEPS = ("exif",)

_CODESTREAM = b"\xff\x0a"
_CONTAINER = b"\0\0\0\x0cJXL \r\n\x87\n"
_KEPT = (b"Exif", b"xml ")
# The common ratios of width to height, which a file stores by number.
_RATIOS = (None, (1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_DTYPES = ("uint8", "uint16", "float16", "float32")


def recognises(head: bytes) -> bool:
    return head.startswith((_CODESTREAM, _CONTAINER))


def read(path: Path, axes: str | None) -> Picture:
    library = _imagecodecs()
    data = path.read_bytes()
    kept: dict[bytes, bytes] = {}
    notes = ["its color profile, if it has another than sRGB, was dropped"]
    if data.startswith(_CONTAINER):
        found = list(boxes(data))
        kept = {name: content for name, content in found if name in _KEPT}
        if any(name == b"brob" for name, _ in found):
            notes.append("its compressed metadata were dropped")
    width, height = _size(data)
    refuse_too_large(f"{width} x {height} pixels", 16 * width * height, len(data))
    pixels = library.jpegxl_decode(data)
    if pixels.ndim > 3:
        raise ValueError("the file is an animation; expected a single image")
    alpha = None
    if pixels.ndim == 3 and pixels.shape[-1] in (2, 4):
        pixels, alpha = pixels[..., :-1], pixels[..., -1]
        pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    exif = kept.pop(b"Exif", None)
    if exif is not None:
        exif = exif[4 + int.from_bytes(exif[:4], "big") :]
    return Picture(
        format="jpeg_xl",
        layers=[Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")],
        alpha=alpha,
        exif=upright_exif(exif),
        origin=kept,
        notes=notes,
    )


def write(path: Path, picture: Picture, name: Path) -> None:
    library = _imagecodecs()
    pixels = single_image(picture, "JPEG XL")
    if pixels.dtype.name not in _DTYPES:
        raise ValueError(
            f"JPEG XL files cannot store {pixels.dtype}; expected one of {', '.join(_DTYPES)}, or a TIFF file"
        )
    if picture.alpha is not None:
        pixels = np.concatenate([np.atleast_3d(pixels), picture.alpha[..., None]], axis=-1)
    data = library.jpegxl_encode(np.ascontiguousarray(pixels), lossless=True, usecontainer=True)
    kept: dict[bytes, bytes] = picture.origin if picture.format == "jpeg_xl" else {}
    if picture.exif:
        kept = {**kept, b"Exif": bytes(4) + picture.exif.removeprefix(b"Exif\0\0")}
    path.write_bytes(data + b"".join(box(*each) for each in kept.items()))


def _size(data: bytes) -> tuple[int, int]:
    """Return the width and height, which are in the first bits of the codestream."""
    code = data
    if data.startswith(_CONTAINER):
        parts = ((4 if name == b"jxlp" else 0, content) for name, content in boxes(data) if name in (b"jxlc", b"jxlp"))  # fmt: skip
        code = next((content[skipped:] for skipped, content in parts), b"")
    bits = int.from_bytes(code[2:18], "little")

    def number(count: int) -> int:
        nonlocal bits
        low = bits & ((1 << count) - 1)
        bits >>= count
        return low

    small = number(1)

    def length() -> int:
        return 8 * (number(5) + 1) if small else 1 + number((9, 13, 18, 30)[number(2)])

    height = length()
    ratio = _RATIOS[number(3)]
    return (length() if ratio is None else height * ratio[0] // ratio[1]), height


def _imagecodecs() -> Any:
    import imagecodecs

    if not imagecodecs.JPEGXL.available:
        raise ValueError("imagecodecs was built without JPEG XL; expected a build with it")
    return imagecodecs
