"""All opened images, within limits of memory."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from .images import Opened, methods_of, result_key
from .limits import Limits


class Gallery:
    """The opened images. The least recently used ones are dropped."""

    def __init__(self, limits: Limits, say_dropped: Callable[[Opened], None]) -> None:
        self._limits = limits
        self._say_dropped = say_dropped
        self._images: dict[str, Opened] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Opened]:
        return iter(list(self._images.values()))

    def get(self, identity: str) -> Opened | None:
        return self._images.get(identity)

    def add(self, image: Opened) -> None:
        with self._lock:
            self._images[image.id] = image
        self.keep_within_bounds(image)

    def remove(self, image: Opened) -> None:
        with self._lock:
            self._images.pop(image.id, None)
        if image.clip:
            image.clip.close()
        shutil.rmtree(image.folder, ignore_errors=True)

    def by_use(self) -> list[Opened]:
        """Return all images, the most recently used first."""
        return sorted(self, key=lambda image: -image.touched)

    def keep_within_bounds(self, current: Opened | None = None) -> None:
        """Drop results that are not on display, then images, until the limits are met."""
        limit = self._limits
        images = self.by_use()
        for image in reversed(images):
            if self._is_within_bounds(images):
                break
            forget_old_results(image)
        while len(images) > 1 and (
            len(images) > limit.images or not self._is_within_bounds(images)
        ):
            oldest = images.pop()
            if oldest is current:
                images.insert(0, oldest)
                oldest = images.pop()
            self.remove(oldest)
            self._say_dropped(oldest)

    def _is_within_bounds(self, images: list[Opened]) -> bool:
        """Return whether some images are within the limits of memory and disk."""
        limit = self._limits
        return (
            sum(image.nbytes for image in images) <= limit.memory
            and sum(image.bytes_on_disk for image in images) <= limit.disk
        )


def forget_old_results(image: Opened) -> None:
    """Drop the results of settings other than the current ones, and what they have in common."""
    image.forget()
    settings = image.wanted.settings
    kept = {
        result_key(settings, name, alone)
        for name in methods_of(settings)
        for alone in (False, True)
    }
    for key in set(image.results.copy()) - kept:  # other threads may add results meanwhile
        result = image.results.pop(key, None)
        if result is not None and isinstance(result.pixels, np.memmap):
            with suppress(OSError):  # Windows keeps a file that is still shown until it is closed
                Path(str(result.pixels.filename)).unlink(missing_ok=True)
