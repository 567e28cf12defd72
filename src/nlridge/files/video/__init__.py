"""Video files: streams of frames, of which only a few are in memory at a time, unlike a `Picture`.

`open_clip` reads a file, and `rewrite` writes it again with other pixels: timestamps, audio and whatever else it holds
are copied. PyAV, which wraps the libraries of FFmpeg, is imported only when it is used.
"""

from pathlib import Path

from .reading import Clip, open_clip
from .writing import CODECS, Rewritten, rewrite

__all__ = ["CODECS", "SUFFIXES", "Clip", "Rewritten", "is_video_name", "open_clip", "rewrite"]

SUFFIXES = (".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".y4m")


def is_video_name(path: Path) -> bool:
    """Return whether a path names a video file."""
    return path.suffix.lower() in SUFFIXES
