"""Image files: what is in them, and how to write the same file with other pixels.

One module a format, each with

    NAME                     what it is called
    recognises(head)         whether a file that begins with these bytes is one
    read(path, axes)         its picture; `axes` names those of a plain array, which does not say
    write(path, picture, name)     a picture as such a file, under a temporary path; `name` is its own

Whatever goes wrong with a file is a ValueError (or an OSError) with one sentence, and nothing is said besides.
"""

import logging
import os
import shutil
import warnings
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
    turn: int = 1
    """How it is to be turned when it is looked at: an orientation of EXIF, 1 to 8."""
    negative: bool = False
    """Whether 0 is white."""
    channels: list[str] = field(default_factory=list)
    """Names of the channels, if the file has any."""
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
    with _in_one_sentence("the file is damaged"):
        picture: Picture = module.read(path, axes)
    for layer in picture.layers:
        if layer.pixels.dtype.kind not in "uif":
            raise ValueError(f"its pixels are of type {layer.pixels.dtype}; expected numbers")
        if layer.pixels.size == 0:
            raise ValueError("it has no pixels")
    return picture


def write(path: Path, picture: Picture) -> list[str]:
    """Write a picture in the format of its name; gives what could not be kept."""
    module = _module_for(path.suffix.lower())
    notes = []
    if module.__name__.rpartition(".")[2] != picture.format:
        from .seen import upright

        picture = upright(picture)
        if (
            picture.exif
            and picture.layers
            and path.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp")
        ):
            notes.append(f"EXIF data are not kept in {module.NAME} files")
    with _in_one_sentence("it could not be written"), whole(path) as partial:
        module.write(partial, picture, path)
    return notes


@contextmanager
def _in_one_sentence(what: str) -> Iterator[None]:
    """Whatever a library makes of a file becomes a ValueError, and what it has to say besides is not said."""
    loggers = [logging.getLogger(name) for name in ("tifffile", "astropy", "PIL")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (ValueError, ImportError, MemoryError):
        raise
    except OSError as error:
        if error.errno is not None:  # of the system, not of a decoder
            raise
        raise ValueError(f"{what}: {_one_line(error)}") from error
    except Exception as error:
        raise ValueError(f"{what}: {_one_line(error)}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary name to write to, renamed at the end: a file is whole, or it is not there."""
    path = path.resolve()  # a link stays one
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    _remove_leftovers(path)
    try:
        yield partial
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())  # on the disk before it has its name
        if path.exists():
            shutil.copymode(path, partial)
        os.replace(partial, path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


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
