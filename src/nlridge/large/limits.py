"""Checks made before any work starts: implausible arrays, and too little disk space."""

import errno
import math
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import ArgumentError
from ..files.damage import expect_regular, one_line

_LARGEST_CHUNK = 2**30  # pixels; a chunk is held in memory as a whole
# An array of more pixels than this must store at least one byte for every _PIXELS_PER_BYTE pixels.
_MAY_BE_EMPTY = 2**28
_PIXELS_PER_BYTE = 20_000


def bytes_in(folder: Path) -> int:
    """Return the size of all files in a folder.

    Raises ValueError if one of them is not a regular file, since opening a pipe would block.
    """
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with suppress(OSError):  # a dangling link counts as a missing file
                about = os.stat(path)
                if not stat.S_ISREG(about.st_mode):
                    expect_regular(Path(path))
                total += about.st_size
    return total


def expect_plausible(array: Any, name: str = "image") -> None:
    """Refuse a Zarr array whose metadata claim far more than its files can hold."""
    chunk = math.prod(getattr(array, "chunks", None) or (1,))
    if chunk > _LARGEST_CHUNK:
        raise ArgumentError(
            name, chunk, f"at most {_LARGEST_CHUNK}", "has chunks of {value} pixels"
        )
    root = getattr(getattr(array, "store", None), "root", None)
    if not isinstance(root, Path):
        return  # not a Zarr array in a folder
    if not isinstance(array.metadata.attributes, dict):
        raise ArgumentError(
            name, one_line(array.metadata.attributes), "names with values", "has attributes {value}"
        )
    stored, pixels = bytes_in(root / array.path), math.prod(array.shape)
    if pixels > max(_MAY_BE_EMPTY, _PIXELS_PER_BYTE * stored):
        raise ArgumentError(
            name,
            array.shape,
            f"at least one byte per {_PIXELS_PER_BYTE} pixels",
            f"has shape {array.shape}, of which {stored} bytes are stored",
        )


def expect_disk_space(out: Path, work_folder: Path, pixels: int) -> None:
    """Refuse an image that the disk cannot hold: the noisy image and the pilot take float32 each."""
    needed = 2 * 4 * pixels
    existing = next(folder for folder in out.parents if folder.exists())
    free = shutil.disk_usage(existing).free
    if needed > free and needed > free + bytes_in(work_folder):
        message = f"{_size(needed)} are needed to process the image, but {_size(free)} are free"
        raise OSError(errno.ENOSPC, message, str(out))


def _size(count: int) -> str:
    return f"{count / 1e9:,.0f} GB" if count >= 1e10 else f"{count / 1e6:,.0f} MB"
