"""What is refused before any work starts: stores that claim more than they hold, and more than the disk can hold."""

import errno
import math
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..files.damage import expect_regular, one_line

_LARGEST_CHUNK = 2**30  # pixels, since a chunk is held in memory as a whole
_MAY_BE_EMPTY = 2**28  # pixels; from there on a store is expected to hold
_PIXELS_A_BYTE = 20_000  # a byte for so many of them


def bytes_in(folder: Path) -> int:
    """How much is stored in a folder, of which all files have to be regular: a pipe would be waited for."""
    found = 0
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with suppress(OSError):  # a link to nothing is a file that is missing
                about = os.stat(path)
                if not stat.S_ISREG(about.st_mode):
                    expect_regular(Path(path))
                found += about.st_size
    return found


def expect_plausible(array: Any) -> None:
    """Refuse an array of Zarr whose metadata promise what it cannot hold."""
    chunk = math.prod(getattr(array, "chunks", None) or (1,))
    if chunk > _LARGEST_CHUNK:
        raise ValueError(f"image has chunks of {chunk} pixels; expected at most {_LARGEST_CHUNK}")
    root = getattr(getattr(array, "store", None), "root", None)
    if not isinstance(root, Path):
        return  # no array of Zarr in a folder
    if not isinstance(array.metadata.attributes, dict):
        raise ValueError(
            f"image has attributes {one_line(array.metadata.attributes)}; expected names with values"
        )
    stored, pixels = bytes_in(root / array.path), math.prod(array.shape)
    if pixels > max(_MAY_BE_EMPTY, _PIXELS_A_BYTE * stored):
        raise ValueError(
            f"image has shape {array.shape}, of which {stored} bytes are stored; expected at least one byte for "
            f"{_PIXELS_A_BYTE} pixels"
        )


def expect_room(out: Path, kept: Path, pixels: int) -> None:
    """Refuse what the disk cannot hold: at least the noisy image and the pilot, in float32."""
    needed = 2 * 4 * pixels
    there = next(folder for folder in out.parents if folder.exists())
    free = shutil.disk_usage(there).free
    if needed > free and needed > free + bytes_in(kept):
        words = f"{_size(needed)} are needed to work on the image, and {_size(free)} are free"
        raise OSError(errno.ENOSPC, words, str(out))


def _size(count: int) -> str:
    return f"{count / 1e9:,.0f} GB" if count >= 1e10 else f"{count / 1e6:,.0f} MB"
