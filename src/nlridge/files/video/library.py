"""PyAV, and its names for formats and errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...checks import not_installed
from ..damage import one_line

_MIN_VERSION = 18  # the first to write the rotation of a video

DEMUXERS = {
    ".mp4": "mov",
    ".mov": "mov",
    ".m4v": "mov",
    ".mkv": "matroska",
    ".webm": "matroska",
    ".avi": "avi",
    ".y4m": "yuv4mpegpipe",
}
"""The reader for each suffix. FFmpeg is told which one to use, since it would follow the links in a playlist of any name."""
MUXERS = {**DEMUXERS, ".mp4": "mp4", ".m4v": "mp4", ".webm": "webm"}
"""The writer for each suffix."""


def pyav() -> Any:
    """Return the module of PyAV."""
    try:
        import av
    except ImportError:
        raise not_installed("video files need", "av") from None
    if int(av.__version__.split(".")[0]) < _MIN_VERSION:
        raise ImportError(
            f"video files need av {_MIN_VERSION} or later, but {av.__version__} is installed: pip install --upgrade av"
        )
    return av


@contextmanager
def one_sentence(what: str) -> Iterator[None]:
    """Turn an error of FFmpeg into a ValueError that starts with `what`; keep those of the system."""
    try:
        yield
    except pyav().FFmpegError as error:
        if isinstance(error, OSError) and not isinstance(error, ValueError):
            raise
        raise ValueError(f"{what}: {one_line(Exception(error.strerror or error))}") from error
