"""Rewriting a video file with other pixels."""

import io
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...atomic import replacing
from ...errors import ArgumentError
from ...types import Pixels
from .library import MUXERS, one_sentence, pyav
from .others import Sink, added
from .pixels import Images, Parts, as_shown, images_of, parts_of, planar, put_images, reformatted
from .reading import Clip, open_clip

Change = Callable[[Iterator[Images], Parts], Generator[Images, None, None]]


class Viewer(Protocol):
    """Receives some of the frames as a player shows them, before and after denoising."""

    def wants(self, number: int) -> bool: ...
    def add(self, number: int, before: Pixels, after: Pixels) -> None: ...


class Encoder(NamedTuple):
    """How videos are encoded."""

    name: str
    options: dict[str, str] = {}  # noqa: RUF012 (a tuple has no defaults of its own)
    quality: int | None = None
    """The default constant rate factor; None if the encoder has none."""
    worst: int = 0
    """The largest constant rate factor."""
    least: int = 0
    """The smallest width and height; unless it is 0, both must be multiples of the pixels that share a chroma value."""

    def takes(self, frame: Any) -> bool:
        """Return whether frames of such a size can be encoded."""
        rows, columns = parts_of(frame).shrink
        whole = frame.height % rows == 0 and frame.width % columns == 0
        return not self.least or (whole and min(frame.width, frame.height) >= self.least)


# libx265 crashes if frames of 10 bits are smaller than its blocks of 64 pixels, and libsvtav1 refuses them.
# The rate factors keep everything visible: a denoised video is easy to compress.
CODECS = {
    "h264": Encoder("libx264", {"preset": "medium"}, 17, 51, 2),
    "hevc": Encoder("libx265", {"preset": "medium", "x265-params": "log-level=error"}, 19, 51, 64),
    "vp9": Encoder("libvpx-vp9", {"row-mt": "1", "cpu-used": "2"}, 24, 63),
    "av1": Encoder("libsvtav1", {"preset": "6"}, 24, 63, 64),
    "prores": Encoder("prores_ks"),
    "mjpeg": Encoder("mjpeg", {"qmin": "2", "qmax": "2"}),
    "ffv1": Encoder("ffv1", {"level": "3", "slicecrc": "1"}),
}
_RAW = Encoder("rawvideo")
_LARGEST_BLOCK = 64  # pixels, of all encoders
_THREADS = 4  # encoder threads; a constant, since the file depends on it
_CONSTANT_RATE = (".avi", ".y4m")
_ARCHIVES = (".mkv", ".avi", ".mov")  # files in which lossless videos are expected
_FOR_ANY_CODEC = ("mov", "matroska", "webm", "avi")
_PLAYED = ("h264", "hevc", "vp9", "av1")  # the codecs that players expect in other files
_TURNABLE = (".mp4", ".m4v", ".mov", ".mkv", ".webm")
_BRANDS = {
    "major_brand",
    "minor_version",
    "compatible_brands",
    "encoder",
}  # tags of the old file that do not apply to the new one
_DYNAMIC_RANGE = {"MASTERING_DISPLAY_METADATA", "CONTENT_LIGHT_LEVEL", "DYNAMIC_HDR_PLUS", "DOVI_METADATA"}  # fmt: skip
_IDENTITY = [2**16, 0, 0, 0, 2**16, 0, 0, 0, 2**30]


@dataclass(eq=False)
class Rewritten:
    """What was written."""

    frames: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    """Sentences on what could not be preserved, in order, without duplicates."""


def rewrite(
    source: Path,
    target: Path,
    change: Change,
    *,
    codec: str | None = None,
    quality: int | None = None,
    seen: Callable[[int, int | None], object] = lambda done, total: None,
    viewer: Viewer | None = None,
) -> Rewritten:
    """Write a video file again, with the frames replaced by those that `change` yields, one for each, in order.

    `change` may read any number of frames ahead. `seen` is called with the number of frames that are done, and the total
    if it is known. The file gets its name once it is complete.
    """
    result = Rewritten()
    with open_clip(source) as clip, replacing(target) as partial:
        others: deque[Any] = deque()  # packets that are copied; only this thread writes
        decoded = clip.frames(others.append)
        first = next(decoded, None)
        if first is None:
            raise ValueError("it has no frames; expected at least one")
        first = planar(first)
        parts = parts_of(first)
        waiting: deque[Any] = deque()

        def frames() -> Iterator[Images]:
            for frame in chain([first], map(planar, decoded)):
                if (frame.format.name, frame.width, frame.height) != (
                    first.format.name,
                    first.width,
                    first.height,
                ):
                    raise ValueError("its frames have several sizes or formats; expected one")
                waiting.append(frame)
                yield images_of(frame, parts)

        with (
            _writer(partial, target, clip, first, codec, quality, result.notes) as writer,
            closing(change(frames(), parts)) as changed,
        ):
            for images in changed:
                frame = waiting.popleft()
                if viewer is None or not viewer.wants(result.frames):
                    put_images(frame, parts, images)
                else:
                    before = as_shown(frame)
                    put_images(frame, parts, images)
                    viewer.add(result.frames, before, as_shown(frame))
                writer.copy(others)
                writer.write(frame)
                result.frames += 1
                seen(result.frames, clip.count)
            if waiting:
                raise RuntimeError(f"{len(waiting)} frames were not returned; expected all")
            writer.copy(others)
            writer.finish()
    return result


class _Writer:
    """A video file that is being written."""

    def __init__(self, container: Any, stream: Any, others: dict[int, Sink], steady: bool) -> None:
        self.container = container
        self.stream = stream
        self.others = others
        self.steady = steady
        """Whether the file has a constant frame rate, so that times are counted in frames."""
        self.durations: dict[int, int] = {}
        self.number = 0
        self.start: Fraction | None = None
        self.shifted = False

    def write(self, frame: Any) -> None:
        """Encode a frame, and write what the encoder returns."""
        frame.pict_type = 0  # the encoder decides
        if self.steady or frame.pts is None:
            self._count(frame)
        self.durations[frame.pts] = frame.duration
        self._mux(self.stream.encode(reformatted(frame, self.stream.pix_fmt)))

    def finish(self) -> None:
        self._mux(self.stream.encode(None))
        for sink in self.others.values():
            self.container.mux(list(sink.packets(None)))
        self.container.close()  # explicitly, so that errors are reported

    def copy(self, packets: deque[Any]) -> None:
        """Write packets of other streams."""
        while packets:
            packet = packets.popleft()
            if packet.stream.index in self.others:
                self.container.mux(list(self.others[packet.stream.index].packets(packet)))

    def _mux(self, packets: Iterable[Any]) -> None:
        for packet in packets:
            duration = self.durations.pop(packet.pts, 0)
            if duration:
                packet.duration = duration
            self.container.mux(packet)

    def _count(self, frame: Any) -> None:
        """Give a frame the time of the nearest frame at the constant rate."""
        unit = self.stream.codec_context.time_base
        number = self.number
        if frame.pts is not None and frame.time_base:
            time = frame.pts * frame.time_base
            self.start = time if self.start is None else self.start
            exact = (time - self.start) / unit
            self.shifted |= abs(exact - number) > Fraction(1, 2)
        frame.pts, frame.time_base, frame.duration = number, unit, 1
        self.number = number + 1


@contextmanager
def _writer(
    path: Path,
    target: Path,
    clip: Clip,
    first: Any,
    codec: str | None,
    quality: int | None,
    notes: dict[str, None],
) -> Iterator[_Writer]:
    """Open a new file with the streams and metadata of a clip; adds notes on what cannot be preserved."""
    suffix = target.suffix.lower()
    name = suffix.removeprefix(".")
    if clip.suffix != clip.path.suffix.lower():
        kind, named = clip.suffix.removeprefix("."), clip.path.suffix
        notes[f"the content of the file is {kind} data, though its name ends in {named}"] = None
    metadata = {k: v for k, v in clip.container.metadata.items() if k.lower() not in _BRANDS}
    options = {}
    if MUXERS[suffix] in ("mp4", "mov"):
        # The index first, for browsers; and the metadata of phones, whose names are reversed domains.
        apple = any(key.startswith("com.") for key in metadata)
        options["movflags"] = "+faststart" + ("+use_metadata_tags" if apple else "")
    if suffix == ".y4m":
        options["strict"] = "-1"  # more than 8 bits
    steady = suffix in _CONSTANT_RATE
    container = pyav().open(str(path), "w", format=MUXERS[suffix], container_options=options)
    with one_sentence("the file could not be written"), container:
        container.metadata.update(metadata)
        others = {}
        for old in clip.container.streams:
            if old is clip.stream:
                stream = _encoded(container, clip, first, suffix, codec, quality, notes)
                continue
            sink = added(container, old, clip.suffix, suffix, notes)
            if sink is not None:
                others[old.index] = sink
        chapters = clip.container.chapters()
        if chapters:
            container.set_chapters(chapters)
        writer = _Writer(container, stream, others, steady)
        yield writer
    if writer.shifted:
        notes[f"{name} files have a constant frame rate; the times of some frames have changed"] = (
            None
        )


def _encoded(
    container: Any,
    clip: Clip,
    first: Any,
    suffix: str,
    codec: str | None,
    quality: int | None,
    notes: dict[str, None],
) -> Any:
    """Add the stream of the new frames."""
    av = pyav()
    old, name = clip.stream, suffix.removeprefix(".")
    os.environ.setdefault("SVT_LOG", "1")  # the encoder for AV1 would print its settings
    encoder = _encoder(container, clip, first, suffix, codec)
    options = dict(encoder.options)
    if quality is not None and encoder.quality is None:
        raise ArgumentError("quality", quality, f"none, as {encoder.name} has no such setting")
    if encoder.quality is not None:
        factor = encoder.quality if quality is None else quality
        if not 0 <= factor <= encoder.worst:
            raise ArgumentError("quality", factor, f"a number from 0 to {encoder.worst}")
        options["crf"] = str(factor)
    stream = container.add_stream(encoder.name, rate=clip.rate, options=options)
    context = stream.codec_context
    context.width, context.height = first.width, first.height
    context.pix_fmt = _format_for(encoder, first, notes)
    context.thread_count = _THREADS
    context.time_base = 1 / clip.rate if suffix in _CONSTANT_RATE else old.time_base
    stream.time_base = context.time_base
    if suffix == ".avi":
        context.max_b_frames = 0  # AVI files store frames in the order in which they are shown
    for tag in ("color_primaries", "color_trc", "colorspace", "color_range"):
        setattr(context, tag, getattr(first, tag))
    if old.sample_aspect_ratio:
        context.sample_aspect_ratio = old.sample_aspect_ratio
    if encoder.name == "libx265" and MUXERS[suffix] in ("mp4", "mov"):
        context.codec_tag = "hvc1"  # the tag that Apple's players expect
    if first.interlaced_frame:
        context.flags |= (
            av.codec.context.Flags.interlaced_dct | av.codec.context.Flags.interlaced_me
        )
        notes["the video is interlaced; both fields of a frame were denoised as one image"] = None
    matrix = _display_matrix(first)
    if matrix not in (None, _IDENTITY):
        if suffix in _TURNABLE:
            stream.set_display_matrix(matrix)
        else:
            notes[f"{name} files cannot store the rotation"] = None
    if _DYNAMIC_RANGE & {data.type.name for data in _side_data(first)}:
        notes["the metadata of the screen for high dynamic range were dropped"] = None
    stream.metadata.update(
        {k: v for k, v in old.metadata.items() if k.lower() not in _BRANDS and not _is_statistic(k)}
    )
    stream.disposition = old.disposition
    return stream


def _encoder(container: Any, clip: Clip, first: Any, suffix: str, codec: str | None) -> Encoder:
    """Return the encoder: the one asked for, that of the input, or one that suits the file."""
    name = suffix.removeprefix(".")
    if suffix == ".y4m":
        if codec is not None:
            raise ArgumentError(
                "codec", codec, "none for y4m files, which are not compressed", "is {value}"
            )
        return _RAW
    supported = container.supported_codecs
    if codec is not None:
        if codec not in CODECS:
            raise ArgumentError("codec", codec, f"one of {', '.join(CODECS)}", "is {value}")
        if CODECS[codec].name not in supported:
            raise ArgumentError("codec", codec, f"another one for {name} files", "is {value}")
        if not CODECS[codec].takes(first):
            raise ArgumentError(
                "codec",
                codec,
                f"vp9 or ffv1, which take frames of {first.width} x {first.height} pixels",
                "is {value}",
            )
        return CODECS[codec]
    old = clip.stream.codec_context.codec
    bits = first.format.components[0].bits
    # Players open few codecs in mp4 files, though such files can hold more.
    familiar = MUXERS[suffix] in (MUXERS[clip.suffix], *_FOR_ANY_CODEC)
    candidates = [old.canonical_name] if familiar or old.canonical_name in _PLAYED else []
    lossless = old.lossless and not old.lossy and suffix in _ARCHIVES
    if lossless or (suffix == ".avi" and bits > 8):
        candidates.append("ffv1")
    candidates += ["h264", "vp9"] if bits == 8 else ["hevc", "av1", "h264", "vp9"]
    encoders = [CODECS[candidate] for candidate in candidates if candidate in CODECS]
    return next(
        encoder
        for encoder in encoders
        if encoder.name in supported and encoder.takes(first) and _is_written(encoder, suffix)
    )


def _is_written(encoder: Encoder, suffix: str) -> bool:
    """Return whether a file can hold the output of an encoder, by trying: some formats claim more than they accept."""
    av = pyav()
    trial = av.open(io.BytesIO(), "w", format=MUXERS[suffix])
    try:
        stream = trial.add_stream(encoder.name, rate=25, options=encoder.options)
        context = stream.codec_context
        context.width = context.height = 2 * _LARGEST_BLOCK
        context.pix_fmt = av.Codec(encoder.name, "w").video_formats[0].name
        trial.start_encoding()
    except av.FFmpegError:
        return False
    finally:
        trial.close()
    return True


def _format_for(encoder: Encoder, first: Any, notes: dict[str, None]) -> str:
    """Return the pixel format closest to that of the frames that the encoder supports."""
    av = pyav()
    name: str = first.format.name
    formats = [format.name for format in av.Codec(encoder.name, "w").video_formats or ()]
    if not formats or name in formats:
        return name
    alpha = any(component.is_alpha for component in first.format.components)
    best, loss = av.codec.codec.find_best_pix_fmt_of_list(formats, name, alpha)
    if loss & 0x3F:
        notes[f"the pixel format {name} was replaced by {best.name}"] = None
    return str(best.name)


def _display_matrix(frame: Any) -> list[int] | None:
    """Return the matrix by which a frame is turned for display, if any."""
    for data in _side_data(frame):
        if data.type.name == "DISPLAYMATRIX":
            return [int(number) for number in np.frombuffer(data, np.int32)[:9]]
    return None


def _side_data(frame: Any) -> list[Any]:
    """Return the side data of a frame, over whose kinds PyAV iterates from version 19 on."""
    found = frame.side_data
    return [found[k] for k in range(len(found))]


def _is_statistic(key: str) -> bool:
    """Return whether a tag of a Matroska file is a statistic of the old stream."""
    return key.startswith(("BPS", "DURATION", "NUMBER_OF_", "_STATISTICS_"))
