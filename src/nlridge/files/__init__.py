"""Image files: what is in them, and how to write the same file with other pixels.

One module a format, each with

    NAME                     what it is called
    recognises(head)         whether a file that begins with these bytes is one
    read(path, axes)         its picture; `axes` names those of a plain array, which does not say
    write(path, picture, name)     a picture as such a file, under a temporary path; `name` is its own

Whatever goes wrong with a file is a ValueError (or an OSError) with one sentence, and nothing is said besides.
"""

import logging
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from .atomic import replacing

Pixels = npt.NDArray[Any]

_FORMATS = {
    ".png": "png",
    ".jpg": "pillow",
    ".jpeg": "pillow",
    ".webp": "pillow",
    ".bmp": "bmp",
    ".tif": "tiff",
    ".tiff": "tiff",
    ".npy": "npy",
    ".fits": "fits",
    ".fit": "fits",
    ".fts": "fits",
}
SUFFIXES = tuple(_FORMATS)
_SAFE = 2**28  # bytes of pixels that any file may have
_LONGEST = 200  # letters of what a library says


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
    expect_regular(path)
    with open(path, "rb") as file:
        head = file.read(32)
    if not head:
        raise ValueError("the file is empty")
    module = _module_for(path.suffix.lower())
    if not module.recognises(head):
        is_a = [other.NAME for other in _modules() if other.recognises(head)]
        what = f"is a {is_a[0]} file by its content" if is_a else "is no image that is known"
        raise ValueError(f"the file {what}, though it is named {path.suffix}")
    with in_one_sentence("the file is damaged"):
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
        from .orientation import upright

        picture = upright(picture)
        if (
            picture.exif
            and picture.layers
            and path.suffix.lower() not in (".png", ".jpg", ".jpeg", ".webp")
        ):
            notes.append(f"EXIF data are not kept in {module.NAME} files")
        if picture.profile and path.suffix.lower() in (".bmp", ".npy", ".fits", ".fit", ".fts"):
            notes.append(f"the colour profile is not kept in {module.NAME} files")
    with in_one_sentence("it could not be written"), replacing(path) as partial:
        module.write(partial, picture, path)
    return notes


@contextmanager
def in_one_sentence(what: str) -> Iterator[None]:
    """Whatever a library makes of a file becomes a ValueError, and what it has to say besides is not said."""
    # Not that of astropy, which cannot be imported once somebody else has asked for its logger; it warns instead.
    loggers = [logging.getLogger(name) for name in ("tifffile", "PIL")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        of_the_system = isinstance(error, OSError) and error.errno is not None
        if of_the_system or (type(error) is ValueError and _is_raised_here(error)):
            raise
        raise ValueError(f"{what}: {one_line(error)}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def refuse_too_large(what: str, decoded: int, size: int) -> None:
    """A header may promise more bytes of pixels than a file of this size can hold, or than a memory can.

    Noise does not compress: the more memory a file takes, the less it may have been compressed.
    """
    if decoded > 20_000 * max(size, 100) and decoded <= _SAFE:
        raise ValueError(f"its header says {what}, which its {size} bytes cannot hold")
    if decoded > min(max(_SAFE, 200 * size), max(4 * _SAFE, 20 * size)):
        raise ValueError(
            f"its header says {what} for {size} bytes; that is more than is safe to open"
        )


def _module_for(suffix: str) -> ModuleType:
    if suffix not in _FORMATS:
        raise ValueError(
            f"files that end in {suffix or 'nothing'} are not known; expected one of {', '.join(SUFFIXES)}"
        )
    return import_module(f".{_FORMATS[suffix]}", __name__)


def _modules() -> list[ModuleType]:
    return [import_module(f".{name}", __name__) for name in dict.fromkeys(_FORMATS.values())]


def _is_raised_here(error: Exception) -> bool:
    """Rather than in a library: it is in our words."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals["__name__"].startswith(__name__)


def one_line(error: Exception) -> str:
    """What a library says, unless it says no more than that it stumbled."""
    stumbles = TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, struct.error
    said = " ".join(str(error).split())
    if isinstance(error, stumbles) or not said:
        return f"what it says about itself makes no sense ({type(error).__name__})"
    said = "".join(letter if letter.isprintable() else "?" for letter in said)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]} ..."


def expect_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices, which a reader could wait for without end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file; expected one")
