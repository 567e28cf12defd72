"""What the server takes at most, so that no page and no file can exhaust the computer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of the server; the tests set smaller ones."""

    largest_upload: int = 4 * 2**30
    """Bytes of a file that is uploaded."""
    uploads: int = 4
    """Files that are uploaded at the same time."""
    seconds_idle: float = 30.0
    """How long an upload may pause."""
    largest_message: int = 2**16
    """Bytes of any other request."""
    clients: int = 16
    """Pages that listen to events at the same time."""
    waiting_events: int = 256
    """Events that a page may be behind."""
    memory: int = 3 * 2**30
    """Bytes of the pixels of all opened images and of their results, apart from what is on the disk."""
    in_memory: int = 32_000_000
    """Pixels of the largest image that is kept and denoised in memory."""
    images: int = 200
    """Opened images."""
