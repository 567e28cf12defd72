"""Images and frames that come through the standard input, or leave through the standard output."""

import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, TextIO, TypeVar

from ...atomic import expect_new, writing
from ...errors import ArgumentError
from ...files import suffix_by_content
from ...files.video import is_video_name
from ...files.video.pixels import Images
from ...files.video.streams import MAGIC, StreamFormat, first_line, raw_format, y4m_format
from ..options import PIPE
from .filmstrip import FrameSample
from .frames import DenoisedClip, FrameDenoiser
from .paths import INSTEAD_OF_EXISTING, Source, targets
from .words import recorded_warnings

Result = TypeVar("Result")

_INTERLACED = "the video is interlaced; both fields of a frame were denoised as one image"


def clean_piped(
    source: Path,
    target: Path,
    clean_image: Callable[[Path, Path], Result],
    clean_frames: Callable[[BinaryIO, BinaryIO, StreamFormat], Result],
    *,
    raw_video: str | None,
    format: str | None,
    overwrite: bool,
) -> Result:
    """Denoise an image or a stream of frames from one pipe or file to another; the first bytes tell which it is.

    `clean_image` denoises the file of an image, and `clean_frames` a stream, as `clean_stream` does. `raw_video`
    describes frames without a header.
    """
    stream = None if raw_video is None else raw_format(raw_video)
    with _input(source) as file, TemporaryDirectory(prefix="nlridge-") as folder:
        head = b"" if stream else first_line(file)
        if head.startswith(MAGIC):
            stream = y4m_format(head)
        if stream is not None:
            with _output(target, stream, overwrite) as output:
                return clean_frames(file, output, stream)
        if str(source) == PIPE:
            data = head + file.read()
            if not data:
                raise ValueError("the standard input is empty; expected an image or a Y4M stream")
            source = Path(folder, f"input{suffix_by_content(data)}")
            source.write_bytes(data)
        elif is_video_name(source):
            instead = f"ffmpeg -i {source} -f yuv4mpegpipe - | nlridge denoise - -o -"
            raise ValueError(f"only Y4M files are written to a pipe; expected {instead}")
        name = f"{folder}/output" if str(target) == PIPE else str(target)
        (path,) = targets([Source(source)], name, format)
        result = clean_image(source, path)
        if str(target) == PIPE:
            with open(path, "rb") as image:
                shutil.copyfileobj(image, _binary(sys.stdout))
        return result


def clean_stream(
    source: BinaryIO,
    target: BinaryIO,
    stream: StreamFormat,
    *,
    progress: Callable[[None, str], None],
    **options: Any,
) -> DenoisedClip:
    """Denoise frames as they arrive; `progress` is called with words on how many are done, and how fast.

    If the stream ends within a frame, the frames before it are written all the same, and the error is raised at the end.
    The other options are those of `FrameDenoiser`.
    """
    denoiser = FrameDenoiser(**options)
    waiting, problems, done = deque[Any](), list[ValueError](), 0

    def frames() -> Iterator[Images]:
        try:
            for frame in stream.frames(source):
                waiting.append(frame)
                yield stream.images(frame)
        except ValueError as error:
            problems.append(error)

    target.write(stream.header)
    with (
        recorded_warnings() as warnings,
        closing(denoiser.change(frames(), stream.parts)) as changed,
    ):
        for images in changed:
            target.write(b"".join(stream.with_images(waiting.popleft(), images)))
            target.flush()  # the reader need not wait for more
            done += 1
            progress(None, f"{done} frames, {denoiser.speed(done)}")
    if problems:
        raise problems[0]
    if not done:
        raise ValueError("it has no frames; expected at least one")
    return denoiser.result(done, warnings, [_INTERLACED] * stream.is_interlaced, FrameSample())


def _input(path: Path) -> AbstractContextManager[BinaryIO]:
    if str(path) != PIPE:
        return open(path, "rb")
    if sys.stdin.isatty():
        raise ArgumentError("input", PIPE, "a pipe or a file", found="is a terminal")
    return nullcontext(_binary(sys.stdin))


def _output(path: Path, stream: StreamFormat, overwrite: bool) -> AbstractContextManager[BinaryIO]:
    """Open the output of a stream."""
    if str(path) == PIPE:
        if sys.stdout.isatty():
            raise ArgumentError("output", PIPE, "a pipe or a file", found="is a terminal")
        return nullcontext(_binary(sys.stdout))
    if stream.header and path.suffix.lower() != ".y4m":
        raise ArgumentError(
            "output",
            path,
            f"- or a name that ends in .y4m: pipe it into ffmpeg -i - {path}",
            found=f"is {path}",
        )
    expect_new("output", path, overwrite=overwrite, alternatives=INSTEAD_OF_EXISTING)
    return writing(path)


def _binary(stream: TextIO) -> BinaryIO:
    binary: BinaryIO = stream.buffer
    return binary
