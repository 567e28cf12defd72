"""Streams of uncompressed frames, as programs send them to each other through pipes: Y4M, or pixels alone.

A stream has no length and no index, and cannot be read twice. Frames are read and written one by one; whatever a stream
holds besides pixels is written as it was read. None of this needs PyAV.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...errors import ArgumentError
from ...types import Pixels
from .pixels import PLANAR, Images, Parts

MAGIC = b"YUV4MPEG2 "
"""The first bytes of a Y4M stream."""
_MARKER = b"FRAME"  # the first bytes of each of its frames
_LONGEST_LINE = 4096  # bytes
_MOST_BYTES = 2**31  # of a frame
_PACKED = {"rgb24": 8, "bgr24": 8, "rgb48le": 16, "bgr48le": 16}  # bits
_SHRINK = {"420": (2, 2), "422": (1, 2), "444": (1, 1), "440": (2, 1), "411": (1, 4), "410": (4, 4)}
"""The numbers of rows and columns that share a value of chroma."""
_NAME = re.compile(r"(gray|yuvj?|yuva|gbr|gbra)(4\d\d)?p?(\d+)?(?:le)?")


class StreamFrame(NamedTuple):
    """A frame as it was read."""

    marker: bytes
    """What precedes the pixels."""
    data: bytes
    """All planes."""


class StreamFormat(NamedTuple):
    """What the frames of a stream consist of."""

    name: str
    """The pixel format, as FFmpeg calls it."""
    width: int
    height: int
    header: bytes = b""
    """What precedes the first frame: the header of Y4M, which promises a marker before each frame."""

    @property
    def is_interlaced(self) -> bool:
        """Whether the two fields of a frame were taken one after the other."""
        return re.search(rb" I[tbm]", self.header) is not None

    @property
    def parts(self) -> Parts:
        """The images that a frame consists of."""
        if self.name in _PACKED:
            return Parts(((0, 1, 2),), _PACKED[self.name], (1, 1))
        kind, layout, bits = self._described()
        planes: tuple[tuple[int, ...], ...] = ((0,),)
        if kind.startswith("gb"):
            planes = ((2, 0, 1),)  # red, green and blue
        elif kind != "gray":
            planes = ((0,), (1, 2))
        return Parts(planes, bits, _SHRINK.get(layout, (1, 1)))

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype("u1" if self.parts.bits == 8 else "<u2")

    @property
    def shapes(self) -> Sequence[tuple[int, ...]]:
        """The shapes of the planes, in the order in which they are stored."""
        whole = self.height, self.width
        if self.name in _PACKED:
            return [(*whole, 3)]
        kind, _, _ = self._described()
        if kind == "gray":
            return [whole]
        rows, columns = self.parts.shrink
        chroma = -(-self.height // rows), -(-self.width // columns)
        return [whole, chroma, chroma] + ([whole] if kind in ("yuva", "gbra") else [])

    @property
    def size(self) -> int:
        """The bytes of the pixels of a frame."""
        return sum(map(math.prod, self.shapes)) * self.dtype.itemsize

    def frames(self, file: BinaryIO) -> Iterator[StreamFrame]:
        """Read the frames that follow the header."""
        number = 0
        while True:
            marker = file.readline(_LONGEST_LINE) if self.header else b""
            if self.header and not marker:
                return
            if not marker.startswith(_MARKER if self.header else b""):
                raise ValueError(f"frame {number} does not start with FRAME; expected a Y4M stream")
            data = file.read(self.size)
            if not data and not self.header:
                return
            if len(data) < self.size:
                raise ValueError(
                    f"the stream ends within frame {number}, after {len(data)} bytes; expected {self.size}"
                )
            yield StreamFrame(marker, data)
            number += 1

    def images(self, frame: StreamFrame) -> Images:
        """Return the images of a frame, as `pixels.images_of` does."""
        planes = self._planes(bytearray(frame.data))
        return tuple(
            np.stack([planes[number] for number in numbers])
            if len(numbers) > 1
            else planes[numbers[0]]
            for numbers in self.parts.planes
        )

    def with_images(self, frame: StreamFrame, images: Images) -> StreamFrame:
        """Return a frame with other pixels, rounded and clipped; its transparency stays."""
        data = bytearray(frame.data)
        planes = self._planes(data)
        peak = self.parts.peak
        for numbers, image in zip(self.parts.planes, images, strict=True):
            for number, values in zip(numbers, image if len(numbers) > 1 else [image], strict=True):
                np.clip(np.rint(values), 0, peak, out=planes[number], casting="unsafe")
        return frame._replace(data=bytes(data))

    def _planes(self, data: bytearray) -> list[Pixels]:
        """The planes of a frame, as arrays that share its memory."""
        pixels, planes, start = np.frombuffer(data, self.dtype), [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            planes.append(pixels[start:stop].reshape(shape))
            start = stop
        if self.name in _PACKED:
            channels = list(np.moveaxis(planes[0], 2, 0))
            return channels[::-1] if self.name.startswith("bgr") else channels
        return planes

    def _described(self) -> tuple[str, str, int]:
        """The kind of the pixels, the layout of their chroma, and their bits."""
        match = _NAME.fullmatch(self.name)
        assert match is not None  # names are checked when a format is made
        return match[1], match[2] or "", int(match[3] or 8)


def first_line(file: BinaryIO) -> bytes:
    """Read the first line of a file that may be a Y4M stream, at most 4096 bytes of it."""
    return file.readline(_LONGEST_LINE)


def y4m_format(header: bytes) -> StreamFormat:
    """Return the format of a Y4M stream by its first line."""
    if not header.startswith(MAGIC):
        raise ValueError("the stream does not start with YUV4MPEG2; expected a Y4M stream")
    if not header.endswith(b"\n"):
        raise ValueError("the stream ends within its header; expected a line that ends")
    fields = {field[:1]: field[1:] for field in reversed(header.decode("latin-1").split()[1:])}
    sides = fields.get("W", ""), fields.get("H", "")
    if not all(re.fullmatch(r"0*[1-9]\d{0,8}", side) for side in sides):
        raise ValueError(
            f"its header claims frames of {sides[0] or 'no'} x {sides[1] or 'no'} pixels; expected two positive integers"
        )
    space = fields.get("C", "420jpeg")
    name = _pixel_format(space)
    if name not in PLANAR:
        raise ValueError(
            f"its pixels are of format {space}; expected mono, 420, 422, 444, 411 or 410 of 8 to 16 bits"
        )
    return _checked(StreamFormat(name, int(sides[0]), int(sides[1]), header))


def raw_format(text: str) -> StreamFormat:
    """Return the format of a stream of pixels alone, such as 1920x1080:yuv420p10le."""
    match = re.fullmatch(r"0*([1-9]\d{0,8})x0*([1-9]\d{0,8}):(\w+)", text)
    if match is None:
        raise ArgumentError(
            "raw_video",
            text,
            "a size and a pixel format, such as 1920x1080:yuv420p",
            found=f"is {text}",
        )
    width, height, name = int(match[1]), int(match[2]), match[3]
    if name not in (*PLANAR, *_PACKED):
        raise ArgumentError(
            "raw_video",
            text,
            f"a pixel format such as gray, gray16le, yuv420p, yuv422p10le, gbrp, {', '.join(_PACKED)}",
            found=f"is {text}",
        )
    return _checked(StreamFormat(name, width, height))


def _pixel_format(space: str) -> str:
    """What FFmpeg calls the pixels of a Y4M stream; 420jpeg, 420mpeg2 and 420paldv differ only in where chroma is."""
    if space == "444alpha":
        return "yuva444p"
    match = re.fullmatch(r"(mono|4\d\d)(?:jpeg|mpeg2|paldv)?(?:p?(\d+))?", space)
    if match is None:
        return ""
    depth = "" if match[2] in (None, "8") else f"{match[2]}le"
    return f"gray{depth}" if match[1] == "mono" else f"yuv{match[1]}p{depth}"


def _checked(format: StreamFormat) -> StreamFormat:
    if format.size > _MOST_BYTES:
        raise ValueError(
            f"a frame of {format.width} x {format.height} pixels has {format.size} bytes; "
            f"expected at most {_MOST_BYTES}"
        )
    return format
