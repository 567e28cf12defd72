"""ND2 files of Nikon microscopes, read with the library nd2."""

import math
from pathlib import Path

import numpy as np

from ...checks import not_installed
from ...types import Pixels
from ..damage import refuse_too_large
from ..picture import Layer, Picture, checked_spacing

NAME = "ND2"
SUFFIXES = (".nd2",)
KEEPS = ()

_OLD, _NEW = b"\0\0\0\x0cjP  \r\n\x87\n", b"\xda\xce\xbe\n"


def recognises(head: bytes) -> bool:
    return head.startswith((_NEW, _OLD))


def read(path: Path, axes: str | None) -> Picture:
    try:
        import nd2
    except ImportError:
        raise not_installed("ND2 files need", "nd2") from None
    with nd2.ND2File(path, validate_frames=False) as file:
        sizes = dict(file.sizes)
        length = math.prod(sizes.values()) * file.dtype.itemsize
        what = f"{' x '.join(map(str, sizes.values()))} pixels"
        refuse_too_large(what, length, path.stat().st_size)
        pixels = np.asarray(file.asarray())
        notes = _notes(pixels, list(sizes))
        channels, spacing = [], None
        try:
            found = (file.metadata.channels if file.metadata else None) or []
            channels = [item.channel.name or "" for item in found]
            voxel = file.voxel_size()
            spacing = checked_spacing(voxel.z if "Z" in sizes else None, voxel.y, voxel.x)
        except (
            Exception
        ):  # the library raises errors of any kind for metadata that it does not know
            notes.append("the size of pixels and the names of channels could not be read")
    # S are the samples of colors; P (positions) and others are stacks.
    letters = "".join(axis if len(axis) == 1 else axis[0] for axis in sizes)
    if "S" in letters:
        letters = letters.replace("C", "Q").replace("S", "C")
    if len(letters) != pixels.ndim or not set("YX") <= set(letters):
        raise ValueError(f"its axes are {', '.join(sizes)}; expected an image with Y and X")
    layer = Layer(pixels, letters, spacing, "µm" if spacing else "")
    return Picture("nd2", [layer], channels=channels if all(channels) else [], notes=notes)


def _notes(pixels: Pixels, axes: list[str]) -> list[str]:
    """Return a note on empty frames: the library returns zeros for frames that are not in the file."""
    plane = tuple(k for k, axis in enumerate(axes) if axis in "YXCS")
    empty = np.count_nonzero(~pixels.any(axis=plane))
    return [f"frames that hold nothing but 0, or are not in the file: {empty}"] if empty else []
