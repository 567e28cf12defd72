"""PNG files: 8 and 16 bits, gray and color, with transparency; palettes become colors.

Pillow reads 16-bit colors as 8 bits, so the pixels are decoded by libpng itself. Metadata are preserved chunk by chunk.
"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import imagecodecs
import numpy as np

from ...types import Pixels
from ..damage import refuse_too_large
from ..orientation import turn_of
from ..picture import Layer, Picture

NAME = "PNG"
SUFFIXES = (".png",)
KEEPS = ("exif", "profile")

_LARGEST_PROFILE = 2**24
_PIXELS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # samples per pixel, by color type
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
# An interlaced file holds seven images: the first row and column of each, and its steps.
_PASSES = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]  # fmt: skip
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_KEPT = (b"gAMA", b"cHRM", b"iCCP", b"sRGB", b"cICP", b"pHYs", b"tIME", b"tEXt", b"zTXt", b"iTXt", b"eXIf")  # fmt: skip


def recognises(head: bytes) -> bool:
    return head.startswith(_SIGNATURE)


def read(path: Path, axes: str | None) -> Picture:
    data = path.read_bytes()
    chunks = list(_chunks(data))
    kinds = [kind for kind, _ in chunks]
    if kinds[:1] != [b"IHDR"] or b"IDAT" not in kinds or kinds[-1] != b"IEND":
        raise ValueError("the file is damaged: it is truncated")
    if len(chunks[0][1]) != 13:
        raise ValueError("the file is damaged: its header has the wrong length")
    width, height, depth, color = struct.unpack(">IIBB", chunks[0][1][:10])
    decoded = height * width * _SAMPLES.get(color, 1) * -(-depth // 8)
    refuse_too_large(f"{width} x {height} pixels", decoded, len(data))
    if b"acTL" in kinds:
        raise ValueError("the file is an animation; expected a single image")
    if depth == 1 and color == 0:
        raise ValueError("its pixels are black or white; expected gray or color")
    _expect_structure(chunks)
    _expect_pixels(chunks)
    # Only the chunks of the pixels: libpng would print warnings about the others.
    pixels = imagecodecs.png_decode(
        _SIGNATURE + b"".join(_encode_chunk(c) for c in chunks if c[0] in _PIXELS)
    )
    kept = [(kind, chunk) for kind, chunk in chunks if kind in _KEPT]
    if color != 3:
        kept += [(kind, chunk) for kind, chunk in chunks if kind == b"bKGD"]
    named = dict(kept)
    notes = ["the palette was converted to colors"] if color == 3 else []
    if depth < 8 and color != 3:
        notes.append(f"{depth} bits were converted to 8")
    alpha = None
    if pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        pixels, alpha = pixels[..., :-1], pixels[..., -1]
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    return Picture(
        format="png",
        layers=[Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")],
        alpha=alpha,
        profile=_profile(named[b"iCCP"]) if b"iCCP" in named else None,
        exif=named.get(b"eXIf"),
        turn=turn_of(named.get(b"eXIf")),
        origin=kept,
        notes=notes,
    )


def write(path: Path, picture: Picture, name: Path) -> None:
    pixels = single_image(picture, "PNG")
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(
            f"PNG files cannot store {pixels.dtype}; expected uint8 or uint16, or a TIFF file"
        )
    if picture.alpha is not None:
        pixels = np.concatenate([np.atleast_3d(pixels), picture.alpha[..., None]], axis=-1)
    data = imagecodecs.png_encode(np.ascontiguousarray(pixels))
    kept = picture.origin if picture.format == "png" else list(_metadata_chunks(picture))
    start = len(_SIGNATURE) + 25  # after IHDR
    with open(path, "wb") as file:
        file.write(data[:start])
        for kind, chunk in kept:
            file.write(_encode_chunk((kind, chunk)))
        file.write(data[start:])


def single_image(picture: Picture, name: str) -> Pixels:
    """Return the only image of a picture, gray or RGB, with channels last."""
    layer = picture.layers[0]
    order = [layer.axes.index(axis) for axis in ("YXC" if "C" in layer.axes else "YX")]
    if len(picture.layers) > 1 or len(order) < len(layer.axes):
        raise ValueError(f"{name} files store a single image; expected a TIFF file for a stack")
    pixels: Pixels = layer.pixels.transpose(order)
    if pixels.ndim == 3 and pixels.shape[2] not in (1, 3):
        raise ValueError(
            f"{name} files cannot store {pixels.shape[2]} channels; expected a TIFF file"
        )
    pixels = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    return pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks of a file, after checking their checksums."""
    at = len(_SIGNATURE)
    while at < len(data):
        if at + 12 > len(data):
            raise ValueError("the file is damaged: it is truncated")
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        chunk = data[at + 8 : at + 8 + length]
        if at + 12 + length > len(data):
            raise ValueError("the file is damaged: it is truncated")
        (checksum,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        if zlib.crc32(kind + chunk) != checksum:
            raise ValueError("the file is damaged: a checksum is wrong")
        yield kind, chunk
        if kind == b"IEND":
            return
        at += 12 + length


def _expect_structure(chunks: list[tuple[bytes, bytes]]) -> None:
    """Check that chunks are in order, not repeated, and of a valid length; libpng would only print warnings."""
    parts = [(kind, len(body)) for kind, body in chunks if kind in _PIXELS]
    kinds = [kind for kind, _ in parts]
    lengths = dict(parts)
    _, _, depth, color, *methods = struct.unpack(">IIBBBBB", chunks[0][1])
    colors, odd = divmod(lengths.get(b"PLTE", 0), 3)
    transparency_lengths = {0: [2], 2: [6], 3: range(1, colors + 1)}.get(color, [])
    contiguous = b"".join(kind for kind, _ in chunks).count(b"IDAT" * kinds.count(b"IDAT"))
    if (
        depth not in _DEPTHS.get(color, ())
        or max(methods) > 1
        or methods[0] + methods[1]
        or kinds != sorted(kinds, key=_PIXELS.index)
        or any(kinds.count(kind) > 1 for kind in kinds if kind != b"IDAT")
        or not contiguous
        or odd
        or colors > (2**depth if color == 3 else 256)
        or (b"PLTE" in kinds and (not colors or color in (0, 4)))
        or (color == 3 and not colors)
        or (b"tRNS" in kinds and lengths[b"tRNS"] not in transparency_lengths)
    ):
        raise ValueError("the file is damaged: its chunks are inconsistent")


def _expect_pixels(chunks: list[tuple[bytes, bytes]]) -> None:
    """Check the number of bytes of pixels against the header; libpng would fill in missing pixels."""
    width, height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    expected = 0
    for y, x, dy, dx in _PASSES if interlaced else [(0, 0, 1, 1)]:
        rows, columns = -((y - height) // dy), -((x - width) // dx)
        if rows > 0 and columns > 0:
            expected += rows * (1 + -(-columns * depth * _SAMPLES[color] // 8))
    decoded, stream = 0, zlib.decompressobj()
    try:
        for kind, body in chunks:
            while kind == b"IDAT" and body and decoded <= expected:
                decoded += len(stream.decompress(body, 2**20))
                body = stream.unconsumed_tail
        decoded += len(stream.flush())
    except zlib.error:
        raise ValueError("the file is damaged: its pixels cannot be decompressed") from None
    if not expected or decoded != expected or not stream.eof or stream.unused_data:
        raise ValueError(f"the file is damaged: it holds {decoded} of {expected} bytes of pixels")


def _encode_chunk(chunk: tuple[bytes, bytes]) -> bytes:
    kind, body = chunk
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _profile(chunk: bytes) -> bytes | None:
    _, _, rest = chunk.partition(b"\0")
    try:
        return zlib.decompressobj().decompress(rest[1:], _LARGEST_PROFILE)
    except zlib.error:
        return None


def _metadata_chunks(picture: Picture) -> Iterator[tuple[bytes, bytes]]:
    """Yield the chunks with the metadata of a picture from a file of another format."""
    if picture.profile:
        yield b"iCCP", b"ICC profile\0\0" + zlib.compress(picture.profile)
    if picture.exif:
        yield b"eXIf", picture.exif.removeprefix(b"Exif\0\0")
