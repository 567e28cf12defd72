"""Reading video files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..damage import expect_regular, refuse_too_large
from .library import DEMUXERS, one_sentence, pyav

_ATTACHED = 1024  # the disposition of a cover picture, which is a video of one frame


@dataclass(frozen=True, eq=False)
class Clip:
    """An open video file."""

    path: Path
    container: Any
    stream: Any
    """The first video in the file."""
    suffix: str
    """The suffix of the file, or the usual one of its content if that is of another kind."""

    @property
    def rate(self) -> Fraction:
        """The mean number of frames a second."""
        rate = self.stream.average_rate or self.stream.guessed_rate
        return rate if rate else Fraction(25)

    @property
    def count(self) -> int | None:
        """The number of frames according to the header; None if it is not stated."""
        if self.stream.frames:
            return int(self.stream.frames)
        if self.stream.duration and self.stream.time_base:
            seconds = self.stream.duration * self.stream.time_base
        elif self.container.duration:
            seconds = Fraction(self.container.duration, 1_000_000)
        else:
            return None
        return max(1, round(float(seconds * self.rate)))

    def frames(self, other: Callable[[Any], object] = lambda packet: None) -> Iterator[Any]:
        """Yield the frames in the order in which they are shown; `other` is called with packets of other streams."""
        packets, last_byte = 0, 0
        demuxed = self.container.demux()
        while True:
            with one_sentence("the file is damaged"):
                packet = next(demuxed, None)
                if packet is None:
                    break
                frames = packet.decode() if packet.stream is self.stream else []
            if (packet.size and packet.is_corrupt) or any(frame.is_corrupt for frame in frames):
                raise ValueError("the file is damaged: a part of it cannot be decoded")
            if packet.size and packet.pos is not None:
                last_byte = packet.pos + packet.size
            if packet.stream is self.stream:
                packets += packet.size > 0
                yield from frames
            elif packet.size:
                other(packet)
        if packets < self.stream.frames:
            raise ValueError(
                f"the file is damaged: it holds {packets} frames; expected {self.stream.frames}, as its header claims"
            )
        if self.suffix == ".y4m" and last_byte != self.path.stat().st_size:
            raise ValueError("the file is damaged: it is truncated")


@contextmanager
def open_clip(path: Path) -> Iterator[Clip]:
    """Open a video file; its content counts, whatever its name ends in."""
    av = pyav()
    expect_regular(path)
    size = path.stat().st_size  # raises an error of the system if there is no such file
    if not size:
        raise ValueError("the file is empty; expected a video")
    with open(path, "rb") as file:
        head = file.read(4096)
    suffix = _suffix_of(head, path.suffix.lower())
    _expect_all(head, DEMUXERS[suffix], size)
    with one_sentence(f"the file is damaged or no {suffix.removeprefix('.')} file"):
        container = av.open(str(path.resolve()), format=DEMUXERS[suffix])
    with container:
        videos = [s for s in container.streams.video if not s.disposition & _ATTACHED]
        if not videos:
            raise ValueError("it holds no video; expected at least one")
        stream = videos[0]
        refuse_too_large(
            f"frames of {stream.width} x {stream.height} pixels",
            3 * stream.width * stream.height,
            size,
        )
        stream.thread_type = "AUTO"
        yield Clip(path, container, stream, suffix)


def _suffix_of(head: bytes, named: str) -> str:
    """Return the suffix of a file by its first bytes: that of its name, unless they are of another kind."""
    contents = {
        ".mp4": head[4:8] == b"ftyp",
        ".mkv": head.startswith(b"\x1aE\xdf\xa3"),
        ".avi": head.startswith(b"RIFF") and head[8:12] == b"AVI ",
        ".y4m": head.startswith(b"YUV4MPEG2 "),
    }
    usual = next((suffix for suffix, found in contents.items() if found), named)
    return named if DEMUXERS[usual] == DEMUXERS[named] else usual


def _expect_all(head: bytes, format: str, size: int) -> None:
    """Refuse a file that is shorter than its header claims; FFmpeg would only see fewer frames."""
    claimed = 0
    if format == "avi" and head.startswith(b"RIFF"):
        claimed = 8 + int.from_bytes(head[4:8], "little")
    elif format == "matroska" and head.startswith(b"\x1aE\xdf\xa3"):
        header, first = _matroska_size(head, 4)
        segment = first + (header or 0)
        if head[segment : segment + 4] == b"\x18S\x80g":
            length, first = _matroska_size(head, segment + 4)
            claimed = 0 if length is None else first + length
    if claimed > size:
        raise ValueError(
            f"the file is damaged: it has {size} bytes; expected {claimed}, as its header claims"
        )


def _matroska_size(head: bytes, start: int) -> tuple[int | None, int]:
    """Return the size of an element, None if it is unknown, and where the element starts after it.

    The leading zeros of the first byte count the bytes that follow; a size of ones is unknown.
    """
    length = 9 - head[start].bit_length() if head[start : start + 1] else 1
    value = int.from_bytes(head[start : start + length], "big") & (2 ** (7 * length) - 1)
    return None if value == 2 ** (7 * length) - 1 else value, start + length
