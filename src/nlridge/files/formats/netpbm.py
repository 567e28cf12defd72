"""PGM, PPM and PNM files: 8 and 16 bits, gray or color, with the largest value that the file states; PBM files of one bit.

Pillow reads 16-bit colors as 8 bits.
"""

import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..damage import expect_size
from ..picture import Layer, Picture
from .png import single_image

NAME = "Netpbm"
SUFFIXES = (".ppm", ".pgm", ".pnm", ".pbm")
KEEPS = ()

_SPACE = rb"(?:\s|#[^\n\r]*[\n\r])"  # a comment ends with its line
_NUMBER = _SPACE + rb"+([0-9]{1,9})"
_HEADER = re.compile(rb"P([2356])" + 3 * _NUMBER + rb"\s")
_HEADER_OF_BITS = re.compile(rb"P([14])" + 2 * _NUMBER + rb"\s")
_LONGEST_HEADER = 2**16


class _Origin(NamedTuple):
    """What is needed to write the same file again."""

    most: int
    """The largest value of a pixel."""
    plain: bool
    """Whether the numbers are written as text."""
    comments: list[bytes]
    of_bits: bool = False
    """Whether pixels are black or white."""


def recognises(head: bytes) -> bool:
    return re.match(rb"P[1-6](?:\s|#)", head) is not None


def read(path: Path, axes: str | None) -> Picture:
    data = path.read_bytes()
    of_bits = data[1:2] in b"14"
    header = (_HEADER_OF_BITS if of_bits else _HEADER).match(data[:_LONGEST_HEADER])
    if header is None:
        raise ValueError("the file is damaged: its header cannot be read")
    comments = re.findall(rb"#[^\n\r]*", header[0])
    if of_bits:
        kind, width, height = map(int, header.groups())
        pixels = _from_bits(data[header.end() :], (height, width), plain=kind == 1)
        origin = _Origin(255, kind == 1, comments, of_bits=True)
        return Picture("netpbm", [Layer(pixels, "YX")], origin=origin)
    kind, width, height, most = map(int, header.groups())
    if not 0 < most < 2**16:
        raise ValueError(f"the file is damaged: its largest value is {most}")
    color, plain = kind in (3, 6), kind in (2, 3)
    shape = (height, width, 3) if color else (height, width)
    dtype = np.dtype(np.uint8 if most < 256 else np.uint16)
    body = data[header.end() :]
    if plain:
        pixels = _from_text(body, shape, most).astype(dtype)
    else:
        stored = dtype.newbyteorder(">")
        expect_size(shape, stored, len(body))
        count = math.prod(shape)
        pixels = np.frombuffer(body, stored, count).astype(dtype).reshape(shape)
        _expect_end(body[count * stored.itemsize :])
    if pixels.size and int(pixels.max()) > most:
        raise ValueError(f"the file is damaged: a pixel is {pixels.max()}, above {most}")
    layer = Layer(pixels, "YXC" if color else "YX")
    return Picture("netpbm", [layer], origin=_Origin(most, plain, comments))


def write(path: Path, picture: Picture, name: Path) -> None:
    suffix = name.suffix.lower()
    kind = suffix.removeprefix(".").upper()
    pixels = single_image(picture, kind)
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{kind} files cannot store {pixels.dtype}; expected uint8 or uint16, or a TIFF file")  # fmt: skip
    if picture.alpha is not None:
        raise ValueError(f"{kind} files cannot store transparency; expected a PNG or TIFF file")
    if suffix == ".pgm" and pixels.ndim == 3:
        raise ValueError("PGM files store gray images; expected a PPM or PNM file for colors")
    if suffix == ".ppm" and pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=-1)
    origin: _Origin
    if picture.format == "netpbm":
        origin = picture.origin
    else:
        origin = _Origin(np.iinfo(pixels.dtype).max, False, [])
    pixels = np.minimum(pixels, origin.most)
    if origin.of_bits and suffix in (".pbm", ".pnm"):
        _write_bits(path, pixels < 128, origin)
        return
    if suffix == ".pbm":
        raise ValueError("PBM files store black or white; expected a PGM, PPM or PNM file")
    number = (2 if origin.plain else 5) + (pixels.ndim == 3)
    lines = [b"P%d" % number, *origin.comments, b"%d %d" % pixels.shape[1::-1], b"%d" % origin.most]
    with open(path, "wb") as file:
        file.write(b"\n".join(lines) + b"\n")
        if origin.plain:
            np.savetxt(file, pixels.reshape(len(pixels), -1), "%d")
        else:
            file.write(pixels.astype(pixels.dtype.newbyteorder(">")).tobytes())


def _expect_end(rest: bytes) -> None:
    """Refuse what follows an image."""
    rest = rest.strip()
    if rest:
        what = "several images" if recognises(rest + b" ") else "data after its end"
        raise ValueError(f"it holds {what}; expected a single image")


def _from_bits(body: bytes, shape: tuple[int, int], *, plain: bool) -> np.ndarray:
    """Return shades of 0 and 255 from bits, of which 1 is black."""
    height, width = shape
    if plain:  # digits need no space between them
        digits = b"".join(re.sub(rb"#[^\n\r]*", b"", body).split())
        bits = _from_text(b" ".join(bytes([digit]) for digit in digits), shape, 1)
        if bits.max(initial=0) > 1:
            raise ValueError(f"the file is damaged: a pixel is {bits.max()}, above 1")
    else:
        row = -(-width // 8)
        expect_size((height, row), np.dtype(np.uint8), len(body))
        _expect_end(body[height * row :])
        packed = np.frombuffer(body, np.uint8, height * row).reshape(height, row)
        bits = np.unpackbits(packed, axis=1, count=width)
    return np.where(bits == 1, 0, 255).astype(np.uint8)


def _write_bits(path: Path, black: np.ndarray, origin: _Origin) -> None:
    """Write the nearest of black and white."""
    lines = [b"P1" if origin.plain else b"P4", *origin.comments, b"%d %d" % black.shape[::-1]]
    with open(path, "wb") as file:
        file.write(b"\n".join(lines) + b"\n")
        if origin.plain:
            np.savetxt(file, black.astype(np.uint8), "%d")
        else:
            file.write(np.packbits(black, axis=1).tobytes())


def _from_text(body: bytes, shape: tuple[int, ...], most: int) -> np.ndarray:
    """Return the numbers in a text, which may have comments."""
    words = re.sub(rb"#[^\n\r]*", b"", body).split()
    if len(words) != math.prod(shape):
        raise ValueError(
            f"the file is damaged: it has {len(words)} numbers; expected {math.prod(shape)}"
        )
    if not all(word.isdigit() and len(word) <= 5 for word in words):
        raise ValueError("the file is damaged: a pixel is not a number")
    return np.array(words, dtype="S5").astype(np.uint32).reshape(shape)
