"""Image files: reading them, and writing the same file with other pixels.

Each format is a module in the folder `formats`.  Nothing else needs to know about it.  The module has:

    NAME                        the name of the format, for messages
    SUFFIXES                    the suffixes of its files, the usual one first
    KEEPS                       which of "exif" and "profile" it can store
    recognises(head)            whether a file with these first bytes has this format
    read(path, axes)            read a `Picture`; `axes` names the axes of an array whose file does not name them
    write(path, picture, name)  write a `Picture` to the temporary `path`; `name` is the final path
    WRITES                      the suffix of the files it writes, if they have another format than those it reads

A file that cannot be read or written raises a ValueError or OSError with a message of one sentence, and nothing is
printed.  Optional libraries are imported only when they are used.
"""

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from . import formats
from .atomic import replacing
from .damage import convert_errors, expect_regular
from .develop import developed
from .orientation import upright
from .picture import Layer, Picture

__all__ = [
    "Layer",
    "Picture",
    "format_of",
    "read",
    "suffixes",
    "write",
    "written_suffix",
    "written_suffixes",
]


@cache
def _formats() -> dict[str, ModuleType]:
    """Return the module for each suffix."""
    modules = [
        import_module(f"{formats.__name__}.{module.name}")
        for module in pkgutil.iter_modules(formats.__path__)
    ]
    return {suffix: module for module in modules for suffix in module.SUFFIXES}


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of all supported formats."""
    return tuple(_formats())


def written_suffixes() -> tuple[str, ...]:
    """Return the suffixes of all formats that can be written: the many suffixes of raw files only as that of DNG."""
    return tuple(suffix for suffix in suffixes() if written_suffix(suffix) == suffix)


def format_of(suffix: str) -> ModuleType:
    """Return the module for a suffix."""
    module = _formats().get(suffix.lower())
    if module is None:
        supported = ", ".join(written_suffixes())
        raise ValueError(
            f"the suffix of the file is {suffix or 'empty'}; expected one of {supported}"
        )
    return module


def written_suffix(suffix: str) -> str:
    """Return the suffix of the result for an input with the given suffix."""
    module = _formats().get(suffix.lower())
    return suffix if module is None else getattr(module, "WRITES", suffix)


def read(path: Path, axes: str | None = None) -> Picture:
    """Read a file; its content must match its suffix."""
    expect_regular(path)
    with open(path, "rb") as file:
        head = file.read(32)
    if not head:
        raise ValueError("the file is empty; expected an image")
    module = format_of(path.suffix)
    if not module.recognises(head):
        names = [other.NAME for other in _formats().values() if other.recognises(head)]
        content = f"{names[0]} data" if names else "not an image in a supported format"
        raise ValueError(
            f"the content of the file is {content}; expected {module.NAME}, as its name ends in {path.suffix}"
        )
    with convert_errors("the file is damaged"):
        picture: Picture = module.read(path, axes)
    for layer in picture.layers:
        if layer.pixels.dtype.kind not in "uif":
            raise ValueError(f"its pixels are of type {layer.pixels.dtype}; expected numbers")
        if layer.pixels.size == 0:
            raise ValueError("it has no pixels; expected at least one")
        if axes is not None and layer.axes != axes:
            picture.notes.append("the given axes were ignored, as the file names its own")
    return picture


def write(path: Path, picture: Picture) -> list[str]:
    """Write a picture in the format of its suffix; returns notes on what could not be preserved."""
    module = format_of(path.suffix)
    notes = []
    if module.__name__.rpartition(".")[2] != picture.format:
        if any(layer.mosaic is not None for layer in picture.layers):
            if picture.format != "raw":
                raise ValueError(
                    f"it is a mosaic, whose colours are unknown; expected a file that ends in "
                    f"{format_of('.tif').SUFFIXES[0]} rather than {path.suffix}"
                )
            with convert_errors("the raw image could not be developed"):
                picture = developed(picture, getattr(module, "BITS", 16))
        picture = upright(picture)
        if picture.exif and picture.layers and "exif" not in module.KEEPS:
            notes.append(f"{module.NAME} files cannot store the EXIF data")
        if picture.profile and "profile" not in module.KEEPS:
            notes.append(f"{module.NAME} files cannot store the colour profile")
    with convert_errors("the file could not be written"), replacing(path) as partial:
        module.write(partial, picture, path)
    return notes
