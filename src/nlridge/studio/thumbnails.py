"""Small images of the files of a folder."""

import shutil
from pathlib import Path

from .limits import Limits
from .opening import opened
from .results import SIDE
from .tiles import tile


def thumbnail(path: Path, folder: Path, limits: Limits) -> bytes:
    """Return a small image of a file, of at most 128 x 128 pixels, as WebP; empty if there is none.

    `folder` is a new one for temporary files. Files that are large are not read for it, and what cannot be read has a
    sentence for a person who opens it.
    """
    if path.stat().st_size > limits.largest_thumbnail:
        return b""
    try:
        image = opened(path, path.name, folder, limits)
        level = 1 + (-(-max(image.size) // SIDE) - 1).bit_length()
        ends = (image.low, image.high)
        found = tile(image, "before", 0, level, 0, 0, frame=0, channel=None, ends=ends)
        if image.clip:
            image.clip.close()
    except Exception:  # whatever is wrong with the file is said when it is opened
        return b""
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found[0] if found else b""
