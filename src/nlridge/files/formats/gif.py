"""GIF files, read with Pillow: 8 bits, gray or color; the frames of an animation follow each other in time.

Palettes become colors, which are reduced to 256 in each frame that is written. Every frame is written as a whole:
Pillow would merge identical ones.
"""

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from ...types import Pixels
from ..damage import refuse_too_large
from ..picture import Layer, Picture
from .pillow import opened

NAME = "GIF"
SUFFIXES = (".gif",)
KEEPS = ()
BITS = 8

_IMAGE, _EXTENSION, _END = b",", b"!", b";"
_CONTROL, _COMMENT, _APPLICATION = 0xF9, 0xFE, 0xFF
_DISPOSE = 2 << 2  # clear a frame before the next one is shown


class _Origin(NamedTuple):
    """What is needed to write the same file again."""

    delays: list[int]
    """How long each frame is shown, in hundredths of a second."""
    extensions: list[bytes]
    """Comments, and how often the animation is repeated."""
    alphas: Pixels | None
    """The transparency of each frame."""


def recognises(head: bytes) -> bool:
    return head.startswith((b"GIF87a", b"GIF89a"))


def read(path: Path, axes: str | None) -> Picture:
    data = path.read_bytes()
    blocks = list(_blocks(data))
    places = [struct.unpack_from("<HHHH", block, 1) for kind, block in blocks if kind == _IMAGE]
    count = len(places)
    width, height = struct.unpack_from("<HH", data, 6)
    for (
        left,
        top,
        columns,
        rows,
    ) in places:  # Pillow enlarges the screen for a frame that exceeds it
        width, height = max(width, left + columns), max(height, top + rows)
    refuse_too_large(f"{count} x {width} x {height} pixels", 4 * count * width * height, len(data))
    frames, delays = [], []
    with opened(path, ["GIF"]) as image:
        if image.n_frames != count:  # type: ignore[attr-defined]
            raise ValueError(f"the file is damaged: it holds {image.n_frames} of {count} frames")  # type: ignore[attr-defined]
        for number in range(count):
            image.seek(number)
            frames.append(np.asarray(image.convert("RGBA")))
            delays.append(round(image.info.get("duration", 0) / 10))
    stack = np.stack(frames)
    pixels, alphas = stack[..., :3], stack[..., 3]
    gray = bool(np.all(pixels == pixels[..., :1]))
    pixels = pixels[..., 0] if gray else pixels
    extensions = [
        block for kind, block in blocks if kind == _EXTENSION and block[1] in (_COMMENT, _APPLICATION)
    ]  # fmt: skip
    transparent = bool(np.any(alphas < 255))
    single = count == 1
    return Picture(
        "gif",
        [Layer(pixels[0] if single else pixels, "T" * (not single) + "YX" + "C" * (not gray))],
        alpha=alphas[0] if single and transparent else None,
        origin=_Origin(delays, extensions, alphas if transparent else None),
        notes=[] if gray else ["the colors of each frame are reduced to 256 in GIF files"],
    )


def write(path: Path, picture: Picture, name: Path) -> None:
    layer = picture.layers[0]
    others = [axis for axis in layer.axes if axis not in "YXC"]
    if len(picture.layers) > 1 or len(others) > 1:
        raise ValueError("GIF files store one image, or frames; expected a TIFF file for a stack")
    if layer.pixels.dtype != np.uint8:
        raise ValueError(f"GIF files cannot store {layer.pixels.dtype}; expected uint8, or a PNG or TIFF file")  # fmt: skip
    order = [layer.axes.index(a) for a in (*others, "Y", "X", *("C" * ("C" in layer.axes)))]
    frames = layer.pixels.transpose(order)
    frames = frames if others else frames[None]
    if "C" in layer.axes and frames.shape[-1] not in (1, 3):
        raise ValueError(f"GIF files cannot store {frames.shape[-1]} channels; expected a TIFF file")  # fmt: skip
    if max(frames.shape[1:3]) > 0xFFFF:
        raise ValueError(f"GIF files cannot store {frames.shape[2]} x {frames.shape[1]} pixels; expected a TIFF file")  # fmt: skip
    frames = frames[..., 0] if frames.ndim == 4 and frames.shape[-1] == 1 else frames
    origin: _Origin = picture.origin if picture.format == "gif" else _Origin([], [], None)
    alphas = None if picture.alpha is None else picture.alpha[None]
    alphas = origin.alphas if alphas is None else alphas
    delays = origin.delays if len(origin.delays) == len(frames) else [10] * len(frames)
    extensions = origin.extensions
    if picture.format != "gif" and len(frames) > 1:
        extensions = [b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"]  # repeat forever
    height, width = frames.shape[1:3]
    with open(path, "wb") as file:
        file.write(b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0))
        file.write(b"".join(extensions))
        for number, (frame, delay) in enumerate(zip(frames, delays, strict=True)):
            file.write(_frame(frame, None if alphas is None else alphas[number], delay))
        file.write(_END)


def _frame(pixels: Pixels, alpha: Pixels | None, delay: int) -> bytes:
    """Return the blocks of a frame, with a palette of its own."""
    if alpha is not None:
        colors = np.repeat(pixels[..., None], 3, axis=-1) if pixels.ndim == 2 else pixels
        pixels = np.concatenate([colors, alpha[..., None]], axis=-1)
    data = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(data, "GIF", optimize=False)
    blocks = list(_blocks(data.getvalue()))
    screen = blocks[0][1]
    flags = screen[10]
    image = next(block for kind, block in blocks if kind == _IMAGE)
    control = next((b for kind, b in blocks if kind == _EXTENSION and b[1] == _CONTROL), b"!\xf9\x04" + bytes(5))  # fmt: skip
    transparent, index = control[3] & 1, control[6]
    settings = transparent | (_DISPOSE if alpha is not None else 0)
    start = struct.pack("<BHB", settings, min(delay, 0xFFFF), index if transparent else 0)
    if not image[9] & 0x80:  # the palette of the file becomes that of the frame
        image = image[:9] + bytes([image[9] | 0x80 | flags & 7]) + screen[13:] + image[10:]
    return b"!\xf9\x04" + start + b"\0" + image


def _blocks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the kind and the bytes of each block of a file, the first of which is the screen; refuse truncated files."""

    def part(start: int, length: int) -> int:
        if start + length > len(data):
            raise ValueError("the file is damaged: it is truncated")
        return start + length

    def palette(flags: int) -> int:
        return 3 << ((flags & 7) + 1) if flags & 0x80 else 0

    def chunks(start: int) -> int:
        while data[part(start, 1) - 1]:
            start = part(start, 1 + data[start])
        return start + 1

    at = part(part(0, 13), palette(data[10]) if len(data) > 10 else 0)
    yield b"", data[:at]
    while True:
        kind = data[at : part(at, 1)]
        if kind == _END:
            return
        if kind == _EXTENSION:
            end = chunks(part(at, 2))
        elif kind == _IMAGE:
            end = part(at, 10)
            end = chunks(part(end, palette(data[at + 9]) + 1))
        else:
            raise ValueError(f"the file is damaged: it has no block at byte {at}")
        yield kind, data[at:end]
        at = end
