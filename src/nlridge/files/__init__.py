"""Image files: what is in them, and how to write the same file with other pixels.

One module a format, each with

    NAME, SUFFIXES           what it is called, and what its files end in
    recognises(head)         whether a file that begins with these bytes is one
    read(path, axes)         its picture; `axes` names those of a plain array, which does not say
    write(path, picture)     a picture as such a file

All formats raise ValueError with one sentence about a file that they cannot take.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[Any]

_FORMATS = {
    ".png": "png",
    ".jpg": "pillow",
    ".jpeg": "pillow",
    ".webp": "pillow",
    ".tif": "tiff",
    ".tiff": "tiff",
    ".npy": "npy",
    ".fits": "fits",
    ".fit": "fits",
    ".fts": "fits",
}
SUFFIXES = tuple(_FORMATS)
_MOST = 2**30  # pixels


@dataclass(frozen=True, eq=False)
class Layer:
    """An array of images of one kind.

    `axes` has a letter for each axis: Y and X, C for channels, and any other for the frames of a stack.
    """

    pixels: Pixels
    axes: str

    @property
    def channel_axis(self) -> int | None:
        """The axis of channels in a frame."""
        frame = [axis for axis in self.axes if axis in "YXC"]
        return frame.index("C") if "C" in frame else None

    def frames(self) -> Iterator[tuple[int | slice, ...]]:
        """The index of each frame."""
        stacked = [
            n for axis, n in zip(self.axes, self.pixels.shape, strict=True) if axis not in "YXC"
        ]
        for found in np.ndindex(*stacked):
            numbers = iter(found)
            yield tuple(slice(None) if axis in "YXC" else next(numbers) for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Picture:
    """What is in an image file."""

    format: str
    """The module that read it."""
    layers: list[Layer]
    """Its pixels, without transparency: one array, unless a file holds images of several shapes."""
    alpha: Pixels | None = None
    """Its transparency, (height, width), if it has any: never denoised."""
    profile: bytes | None = None
    """The colour profile (ICC)."""
    exif: bytes | None = None
    origin: Any = None
    """What else the format needs to write it again."""
    notes: list[str] = field(default_factory=list)
    """What cannot be kept."""


def read(path: Path, axes: str | None = None) -> Picture:
    """The picture in a file, by its content; a name that says otherwise is an error."""
    with open(path, "rb") as file:
        head = file.read(32)
    if not head:
        raise ValueError("the file is empty")
    module = _module_for(path.suffix.lower())
    if not module.recognises(head):
        is_a = [other.NAME for other in _modules() if other.recognises(head)]
        what = f"is a {is_a[0]} file by its content" if is_a else "is no image that is known"
        raise ValueError(f"the file {what}, though it is named {path.suffix}")
    try:
        picture: Picture = module.read(path, axes)
    except (ValueError, ImportError, MemoryError):
        raise
    except Exception as error:  # whatever a decoder makes of a damaged file
        raise ValueError(f"the file is damaged: {_one_line(error)}") from error
    for layer in picture.layers:
        if layer.pixels.dtype.kind not in "uif":
            raise ValueError(f"its pixels are of type {layer.pixels.dtype}; expected numbers")
        if layer.pixels.size == 0:
            raise ValueError("it has no pixels")
    return picture


def write(path: Path, picture: Picture) -> None:
    """Write a picture; the format is that of the name."""
    module = _module_for(path.suffix.lower())
    if module.__name__.rpartition(".")[2] != picture.format:
        from .pillow import upright

        picture = upright(picture)
    with whole(path) as partial:
        module.write(partial, picture, path)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary name to write to, renamed at the end: a file is whole, or it is not there."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    _remove_leftovers(path)
    try:
        yield partial
        os.replace(partial, path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


def stored_as(values: npt.NDArray[np.floating[Any]], dtype: np.dtype[Any]) -> Pixels:
    """Values as a file holds them: integers are rounded, and clipped to the range of their type."""
    if dtype.kind == "f":
        return values.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    exact = np.rint(values.astype(np.float64))
    # Ends that float64 does not hold exactly (64 bits) are set apart.
    found = np.clip(exact, limits.min, np.nextafter(float(limits.max), 0)).astype(dtype)
    found[exact >= limits.max] = limits.max
    return found


def refuse_too_large(height: int, width: int, samples: int, size: int) -> None:
    """A header may promise more than the file can hold, or than a memory can."""
    numbers = height * width * samples
    if numbers > _MOST or (numbers > _MOST // 4 and numbers > 200 * size):
        raise ValueError(
            f"its header says {width} x {height} pixels for {size} bytes; that is more than is safe to open"
        )
    if numbers > 20_000 * max(size, 100):
        raise ValueError(
            f"its header says {width} x {height} pixels, which its {size} bytes cannot hold"
        )


def _module_for(suffix: str) -> ModuleType:
    if suffix not in _FORMATS:
        raise ValueError(
            f"files that end in {suffix or 'nothing'} are not known; expected one of {', '.join(SUFFIXES)}"
        )
    return import_module(f".{_FORMATS[suffix]}", __name__)


def _modules() -> list[ModuleType]:
    return [import_module(f".{name}", __name__) for name in dict.fromkeys(_FORMATS.values())]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _remove_leftovers(path: Path) -> None:
    """Temporary files for the same output, of processes that were killed."""
    for file in path.parent.glob(f".{_escaped(path.name)}.*.part"):
        process = file.name.rsplit(".", 2)[1]
        if process.isdecimal() and not _is_running(int(process)):
            with suppress(OSError):
                file.unlink()


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
