"""The other streams of a video file: sound, subtitles and data. They are copied, or encoded where players expect that."""

import io
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from .library import DEMUXERS, MUXERS, one_sentence, pyav


class Sound(NamedTuple):
    """The sound that players expect in a file."""

    copied: tuple[str, ...]
    """The codecs that they support; sound in others is encoded."""
    encoder: str
    name: str
    """The common name of the encoder's format."""


_AAC = Sound(("aac", "mp3", "ac3", "eac3", "alac", "flac", "opus"), "aac", "AAC")
_OPUS = Sound(("opus", "vorbis"), "libopus", "Opus")
_SOUNDS = {".mp4": _AAC, ".m4v": _AAC, ".webm": _OPUS}
_BITS_PER_SECOND = 128_000  # for each channel; the difference is inaudible
_RATE = 48_000  # for sound whose rate the encoder does not support
_TOLERANCE = 0.02  # seconds by which the times of sound may be wrong
_LAYOUTS = ("mono", "stereo", "3.0", "quad", "5.0", "5.1", "6.1", "7.1")
"""The layout for each number of channels, for old files that do not state it."""
_DISCARDED = 48  # the mark of streams that the library has converted into something else


class Sink(Protocol):
    """Turns packets of an old stream into those of a new one; None is the end."""

    def packets(self, packet: Any) -> Iterator[Any]: ...


def added(
    container: Any, old: Any, source: str, target: str, notes: dict[str, None]
) -> Sink | None:
    """Add a stream for an old one; returns None, and adds a note, if the file cannot hold it.

    `source` and `target` are the suffixes of the old and the new file.
    """
    name = target.removeprefix(".")
    if old.type == "data" and ("timecode" in old.metadata or old.discard >= _DISCARDED):
        return None  # time codes and chapters are metadata, from which such streams are made again
    expected = _SOUNDS.get(target)
    if old.type == "audio" and MUXERS[source] != MUXERS[target]:
        known = expected is None or _codec(old) in expected.copied
        if not known or not _is_held(old, source, target):
            return _encoded(container, old, expected or _AAC, notes)
    if not _is_held(old, source, target):
        if old.type == "data":
            what = old.metadata.get("handler_name") or "of unknown kind"
            notes[f"a stream of other data ({what}) cannot be copied, and was dropped"] = None
        else:
            notes[f"{name} files cannot hold the {old.type} ({_codec(old)}), which was dropped"] = (
                None
            )
        return None
    new = container.add_stream_from_template(old, opaque=True)
    _describe(new, old)
    return _Copy(new)


class _Copy:
    """Packets as they are."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def packets(self, packet: Any) -> Iterator[Any]:
        if packet is not None:
            packet.stream = self.stream
            yield packet


class _Encoded:
    """Sound that is decoded, and encoded again."""

    def __init__(self, stream: Any, resampler: Any) -> None:
        self.stream = stream
        self.resampler = resampler
        self.following: int | None = None
        """The time of the next sample, in samples, if there is no gap."""

    def packets(self, packet: Any) -> Iterator[Any]:
        if packet is None:
            frames = [None]
        else:
            with one_sentence("the file is damaged: its sound cannot be decoded"):
                frames = packet.decode()
        for frame in frames:
            for part in self.resampler.resample(frame):
                self._align(part)
                yield from self.stream.encode(part)
        if packet is None:
            yield from self.stream.encode(None)

    def _align(self, part: Any) -> None:
        """Give consecutive samples consecutive times, which some files round to milliseconds."""
        rate = part.sample_rate
        start = self.following
        if part.pts is not None and part.time_base:
            stated = round(part.pts * part.time_base * rate)
            gap = math.inf if start is None else abs(stated - start)
            start = start if gap < _TOLERANCE * rate else stated
        part.pts, part.time_base = start or 0, Fraction(1, rate)
        self.following = part.pts + part.samples


def _encoded(container: Any, old: Any, sound: Sound, notes: dict[str, None]) -> Sink:
    av = pyav()
    rates = av.Codec(sound.encoder, "w").audio_rates
    rate = old.rate if not rates or old.rate in rates else _RATE
    layout = dict(enumerate(_LAYOUTS, 1)).get(old.layout.nb_channels, "stereo")
    stream = container.add_stream(sound.encoder, rate=rate, layout=layout)
    stream.codec_context.bit_rate = _BITS_PER_SECOND * stream.layout.nb_channels
    stream.codec_context.open()
    _describe(stream, old)
    notes[f"the sound ({_codec(old)}) was encoded as {sound.name}, which players expect"] = None
    samples = stream.codec_context.frame_size or None
    return _Encoded(stream, av.AudioResampler(stream.format, layout, rate, samples))


def _describe(new: Any, old: Any) -> None:
    new.metadata.update(old.metadata)
    new.disposition = old.disposition


def _is_held(old: Any, source: str, target: str) -> bool:
    """Return whether a file can hold a stream, by trying: only the library knows, when it writes the header.

    Streams of data are useful only to readers of the same kind of file, and only with the name of their kind, which the
    library writes only if it knows it.
    """
    if old.type == "data" and (DEMUXERS[source] != DEMUXERS[target] or old.name is None):
        return False
    av = pyav()
    trial = av.open(io.BytesIO(), "w", format=MUXERS[target])
    try:
        trial.add_stream_from_template(old, opaque=True)
        trial.start_encoding()
    except (av.FFmpegError, ValueError):
        return False
    finally:
        trial.close()
    return True


def _codec(stream: Any) -> str:
    """Return the name of a stream's codec."""
    context = stream.codec_context
    return "unknown" if context is None else str(context.codec.canonical_name)
