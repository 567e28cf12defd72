"""Reading of video files."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..damage import expect_regular, refuse_too_large
from .library import DEMUXERS, one_sentence, pyav

_ATTACHED = 1024  # the disposition of a cover picture, which is a video of one frame
_TOLERANCE = 1.0  # seconds by which a file may be shorter than its header claims


@dataclass(frozen=True, eq=False)
class Clip:
    """An open video file."""

    path: Path
    container: Any
    stream: Any
    """The first video in the file."""

    @property
    def rate(self) -> Fraction:
        """The mean number of frames a second."""
        rate = self.stream.average_rate or self.stream.guessed_rate
        return rate if rate else Fraction(25)

    @property
    def count(self) -> int | None:
        """The number of frames according to the header; None if it does not say."""
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
        packets, end = 0, 0.0
        demuxed = self.container.demux()
        while True:
            with one_sentence("the file is damaged"):
                packet = next(demuxed, None)
                if packet is None:
                    break
                frames = packet.decode() if packet.stream is self.stream else []
            if (packet.size and packet.is_corrupt) or any(frame.is_corrupt for frame in frames):
                raise ValueError("the file is damaged: a part of it cannot be decoded")
            if packet.size and packet.pts is not None:
                end = max(end, float((packet.pts + (packet.duration or 0)) * packet.time_base))
            if packet.stream is self.stream:
                packets += packet.size > 0
                yield from frames
            elif packet.size:
                other(packet)
        if packets < self.stream.frames:
            raise ValueError(
                f"the file is damaged: it holds {packets} frames; expected {self.stream.frames}, as its header claims"
            )
        duration = (self.container.duration or 0) / 1_000_000
        if end < duration - _TOLERANCE - 2 / self.rate:
            raise ValueError(
                f"the file is damaged: it ends after {end:.1f} s; expected {duration:.1f} s, as its header claims"
            )


@contextmanager
def open_clip(path: Path) -> Iterator[Clip]:
    """Open a video file, whose content must match its suffix."""
    av = pyav()
    expect_regular(path)
    size = path.stat().st_size  # raises an error of the system if there is no such file
    if not size:
        raise ValueError("the file is empty; expected a video")
    suffix = path.suffix.lower()
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
        yield Clip(path, container, stream)
