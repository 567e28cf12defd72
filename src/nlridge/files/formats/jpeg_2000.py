"""JPEG 2000 files, read with imagecodecs and written without loss: 8 to 16 bits, with EXIF data and the color profile."""

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..boxes import box, boxes
from ..damage import refuse_too_large
from ..orientation import turn_of
from ..picture import Layer, Picture
from .png import single_image

NAME = "JPEG 2000"
SUFFIXES = (".jp2", ".jpx", ".j2k", ".j2c")
KEEPS = ("exif", "profile")

_CODESTREAM = b"\xff\x4f\xff\x51"
_CONTAINER = b"\0\0\0\x0cjP  \r\n\x87\n"
_END = b"\xff\xd9"
_EXIF = b"JpgTiffExif->JP2"  # the identifier of a box
_KEPT = (b"uuid", b"xml ")
_PROFILE = b"\x02\0\0"  # the start of the description of colors by a profile


class _Origin(NamedTuple):
    bits: int
    kept: list[tuple[bytes, bytes]]
    """Boxes with metadata, except for EXIF data."""
    header: list[tuple[bytes, bytes]]
    """Boxes of the header: the resolution."""


def recognises(head: bytes) -> bool:
    return head.startswith((_CODESTREAM, _CONTAINER))


def read(path: Path, axes: str | None) -> Picture:
    library = _imagecodecs()
    data = path.read_bytes()
    found = list(boxes(data)) if data.startswith(_CONTAINER) else [(b"jp2c", data)]
    code = next((content for name, content in found if name == b"jp2c"), b"")
    header = next((list(boxes(content)) for name, content in found if name == b"jp2h"), [])
    if not code.startswith(_CODESTREAM) or not code.rstrip(b"\0").endswith(_END):
        raise ValueError("the file is damaged: it is truncated")
    if any(name == b"pclr" for name, _ in header):
        raise ValueError("its colors are in a palette; expected gray or color")
    bits = _expect_plausible(code, len(data))
    profiles = [c[3:] for name, c in header if name == b"colr" and c.startswith(_PROFILE[:1])]
    # The library would convert colors with a profile to sRGB.
    pixels = library.jpeg2k_decode(code if profiles else data)
    if pixels.dtype.kind != "u" or pixels.ndim > 3:
        raise ValueError(f"its pixels are of type {pixels.dtype} and shape {pixels.shape}; expected an image")  # fmt: skip
    alpha = None
    if pixels.ndim == 3 and pixels.shape[-1] in (2, 4):
        pixels, alpha = pixels[..., :-1], pixels[..., -1]
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    exif = [c[len(_EXIF) :] for name, c in found if name == b"uuid" and c.startswith(_EXIF)]
    kept = [(name, c) for name, c in found if name in _KEPT and not c.startswith(_EXIF)]
    return Picture(
        format="jpeg_2000",
        layers=[Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")],
        alpha=alpha,
        profile=profiles[0] if profiles else None,
        exif=exif[0] if exif else None,
        turn=turn_of(exif[0] if exif else None),
        origin=_Origin(bits, kept, [(name, c) for name, c in header if name == b"res "]),
    )


def write(path: Path, picture: Picture, name: Path) -> list[str]:
    library = _imagecodecs()
    pixels = single_image(picture, NAME)
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{NAME} files cannot store {pixels.dtype}; expected uint8 or uint16, or a TIFF file")  # fmt: skip
    origin = _Origin(8 * pixels.dtype.itemsize, [], [])
    if picture.format == "jpeg_2000":
        origin = picture.origin
        pixels = np.minimum(pixels, 2**origin.bits - 1).astype(pixels.dtype)
    if picture.alpha is not None:
        pixels = np.concatenate([np.atleast_3d(pixels), picture.alpha[..., None]], axis=-1)
    bare = name.suffix.lower() in (".j2k", ".j2c")
    data = library.jpeg2k_encode(
        np.ascontiguousarray(pixels),
        level=0,
        reversible=True,
        bitspersample=origin.bits,
        codecformat="j2k" if bare else "jp2",
    )
    exif = [(b"uuid", _EXIF + picture.exif.removeprefix(b"Exif\0\0"))] if picture.exif else []
    if bare:
        path.write_bytes(data)
        lost = bool(exif or origin.kept or origin.header or picture.profile)
        return ["JPEG 2000 code without a container (.j2k) cannot store metadata"] if lost else []
    parts = []
    for kind, content in boxes(data):
        if kind == b"jp2h":
            content = _described(content, picture.profile, origin.header)
        parts.append(box(kind, content))
    path.write_bytes(b"".join([*parts, *(box(*each) for each in [*exif, *origin.kept])]))
    return []


def _described(header: bytes, profile: bytes | None, more: list[tuple[bytes, bytes]]) -> bytes:
    """Return a header with a color profile, and more boxes."""
    described = []
    for name, content in boxes(header):
        if name == b"colr" and profile:
            content = _PROFILE + profile
        described.append(box(name, content))
    return b"".join([*described, *(box(*each) for each in more)])


def _expect_plausible(code: bytes, size: int) -> int:
    """Refuse an image that is too large, or whose channels differ; returns the bits of its values."""
    if len(code) < 42:
        raise ValueError("the file is damaged: it is truncated")
    right, bottom, left, top = struct.unpack_from(">4I", code, 8)
    (channels,) = struct.unpack_from(">H", code, 40)
    described = code[42 : 42 + 3 * channels]
    if len(described) < 3 * channels or not 1 <= channels <= 4 or right <= left or bottom <= top:
        raise ValueError("the file is damaged: its header is inconsistent")
    width, height = right - left, bottom - top
    depths = set(described[::3])
    bits = (described[0] & 0x7F) + 1
    if len(depths) > 1 or described[0] & 0x80 or bits > 16:
        raise ValueError("its channels have several depths, signs or more than 16 bits; expected 8 to 16 bits")  # fmt: skip
    itemsize = 1 if bits <= 8 else 2
    refuse_too_large(f"{width} x {height} pixels", width * height * channels * itemsize, size)
    return bits


def _imagecodecs() -> Any:
    import imagecodecs

    if not imagecodecs.JPEG2K.available:
        raise ValueError("imagecodecs was built without JPEG 2000; expected a build with it")
    return imagecodecs
