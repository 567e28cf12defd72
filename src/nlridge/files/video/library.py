"""PyAV, and what it calls formats and errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...checks import not_installed
from ..damage import one_line

_OLDEST = 18  # which writes the rotation of a video

DEMUXERS = {
    ".mp4": "mov",
    ".mov": "mov",
    ".m4v": "mov",
    ".mkv": "matroska",
    ".webm": "matroska",
    ".avi": "avi",
    ".y4m": "yuv4mpegpipe",
}
"""The reader for each suffix.  It is named, since FFmpeg would follow the links in a playlist under any name."""
MUXERS = {
    **DEMUXERS,
    ".mp4": "mp4",
    ".m4v": "mp4",
    ".webm": "webm",
}
"""The writer for each suffix."""


def pyav() -> Any:
    """Return the module of PyAV."""
    try:
        import av
    except ImportError:
        raise not_installed("video files need", "av") from None
    if int(av.__version__.split(".")[0]) < _OLDEST:
        raise ImportError(
            f"video files need av {_OLDEST} or later, but {av.__version__} is installed: pip install --upgrade av"
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
