"""PGM, PPM and PNM files: 8 and 16 bits, gray or colour, with the largest value that the file states.

Pillow reads 16-bit colours as 8 bits.
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
_HEADER = re.compile(
    rb"P([2356])" + rb"".join(_SPACE + rb"+([0-9]{1,9})" for _ in range(3)) + rb"\s"
)
_LONGEST_HEADER = 2**16


class _Origin(NamedTuple):
    """What is needed to write the same file again."""

    most: int
    """The largest value of a pixel."""
    plain: bool
    """Whether the numbers are written as text."""
    comments: list[bytes]


def recognises(head: bytes) -> bool:
    return re.match(rb"P[1-6](?:\s|#)", head) is not None


def read(path: Path, axes: str | None) -> Picture:
    data = path.read_bytes()
    if data[1:2] in b"14":
        raise ValueError("its pixels are black or white; expected gray or colour")
    header = _HEADER.match(data[:_LONGEST_HEADER])
    if header is None:
        raise ValueError("the file is damaged: its header cannot be read")
    kind, width, height, most = map(int, header.groups())
    if not 0 < most < 2**16:
        raise ValueError(f"the file is damaged: its largest value is {most}")
    colour, plain = kind in (3, 6), kind in (2, 3)
    shape = (height, width, 3) if colour else (height, width)
    dtype = np.dtype(np.uint8 if most < 256 else np.uint16)
    body = data[header.end() :]
    if plain:
        pixels = _from_text(body, shape, most).astype(dtype)
    else:
        stored = dtype.newbyteorder(">")
        expect_size(shape, stored, len(body))
        count = math.prod(shape)
        pixels = np.frombuffer(body, stored, count).astype(dtype).reshape(shape)
        rest = body[count * stored.itemsize :].strip()
        if rest:
            what = "several images" if recognises(rest + b" ") else "data after its end"
            raise ValueError(f"it holds {what}; expected a single image")
    if pixels.size and int(pixels.max()) > most:
        raise ValueError(f"the file is damaged: a pixel is {pixels.max()}, above {most}")
    comments = re.findall(rb"#[^\n\r]*", header[0])
    layer = Layer(pixels, "YXC" if colour else "YX")
    return Picture("netpbm", [layer], origin=_Origin(most, plain, comments))


def write(path: Path, picture: Picture, name: Path) -> None:
    suffix = name.suffix.lower()
    kind = suffix.removeprefix(".").upper()
    if suffix == ".pbm":
        raise ValueError("PBM files store black or white; expected a PGM, PPM or PNM file")
    pixels = single_image(picture, kind)
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(f"{kind} files cannot store {pixels.dtype}; expected uint8 or uint16, or a TIFF file")  # fmt: skip
    if picture.alpha is not None:
        raise ValueError(f"{kind} files cannot store transparency; expected a PNG or TIFF file")
    if suffix == ".pgm" and pixels.ndim == 3:
        raise ValueError("PGM files store gray images; expected a PPM or PNM file for colours")
    if suffix == ".ppm" and pixels.ndim == 2:
        pixels = np.repeat(pixels[..., None], 3, axis=-1)
    origin: _Origin
    if picture.format == "netpbm":
        origin = picture.origin
    else:
        origin = _Origin(np.iinfo(pixels.dtype).max, False, [])
    pixels = np.minimum(pixels, origin.most)
    number = (2 if origin.plain else 5) + (pixels.ndim == 3)
    lines = [b"P%d" % number, *origin.comments, b"%d %d" % pixels.shape[1::-1], b"%d" % origin.most]
    with open(path, "wb") as file:
        file.write(b"\n".join(lines) + b"\n")
        if origin.plain:
            np.savetxt(file, pixels.reshape(len(pixels), -1), "%d")
        else:
            file.write(pixels.astype(pixels.dtype.newbyteorder(">")).tobytes())


def _from_text(body: bytes, shape: tuple[int, ...], most: int) -> np.ndarray:
    """Return the numbers of a text, which may have comments."""
    words = re.sub(rb"#[^\n\r]*", b"", body).split()
    if len(words) != math.prod(shape):
        raise ValueError(
            f"the file is damaged: it has {len(words)} numbers; expected {math.prod(shape)}"
        )
    if not all(word.isdigit() and len(word) <= 5 for word in words):
        raise ValueError("the file is damaged: a pixel is not a number")
    return np.array(words, dtype="S5").astype(np.uint32).reshape(shape)
