"""Limits of the server, so that no page and no file can exhaust the computer."""

import os
from dataclasses import dataclass, field


def share_of_memory() -> int:
    """Return a quarter of the memory of this computer, between 1 and 8 GB."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows does not report it
        total = 8 * 2**30
    return min(max(total // 4, 2**30), 8 * 2**30)


@dataclass(frozen=True)
class Limits:
    """Limits of the server; the tests set smaller ones."""

    largest_upload: int = 4 * 2**30
    """Bytes of a file that is uploaded."""
    largest_thumbnail: int = 2**28
    """Bytes of a file in a folder for which a small image is shown."""
    uploads: int = 4
    """Files that are uploaded at the same time."""
    seconds_idle: float = 30.0
    """Seconds that an upload may pause, and that the beginning of a request may take."""
    largest_message: int = 2**16
    """Bytes of any other request."""
    clients: int = 16
    """Pages that listen to events at the same time."""
    waiting_events: int = 256
    """Events that a page may be behind."""
    memory: int = field(default_factory=share_of_memory)
    """Bytes of the pixels of all opened images and of their results, apart from what is on the disk."""
    disk: int = 16 * 2**30
    """Bytes of the pixels of large images and of their results, which are on the disk."""
    in_memory: int = 32_000_000
    """Pixels of the largest image that is kept and denoised in memory."""
    images: int = 200
    """Opened images."""
