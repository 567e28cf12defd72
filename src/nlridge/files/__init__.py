"""Image files: what is in them, and how to write the same file with other pixels.

A format is one module in the folder `formats`, which nothing else needs to know about:

    NAME                        what it is called
    SUFFIXES                    how the names of such files end, the usual one first
    KEEPS                       which of "exif" and "profile" it can hold
    recognises(head)            whether a file that begins with these bytes is one
    read(path, axes)            its picture; `axes` names those of a plain array, which does not know them
    write(path, picture, name)  a picture as such a file, under a temporary path; `name` is its own

Whatever goes wrong with a file is a ValueError (or an OSError) of one sentence, and nothing is printed.  Libraries that are
not among the dependencies of the package are imported when they are used.
"""

import pkgutil
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from . import formats
from .atomic import replacing
from .damage import expect_regular, in_one_sentence
from .orientation import upright
from .picture import Layer, Picture

__all__ = ["Layer", "Picture", "format_of", "read", "suffixes", "write"]


@cache
def _formats() -> dict[str, ModuleType]:
    """The module of each suffix."""
    modules = [
        import_module(f"{formats.__name__}.{found.name}")
        for found in pkgutil.iter_modules(formats.__path__)
    ]
    return {suffix: module for module in modules for suffix in module.SUFFIXES}


def suffixes() -> tuple[str, ...]:
    """How the names of image files may end."""
    return tuple(_formats())


def format_of(suffix: str) -> ModuleType:
    """The module of a format, by the ending of a name."""
    module = _formats().get(suffix.lower())
    if module is None:
        known = ", ".join(suffixes())
        raise ValueError(
            f"files that end in {suffix or 'nothing'} are not known; expected one of {known}"
        )
    return module


def read(path: Path, axes: str | None = None) -> Picture:
    """The picture in a file, by its content; a name that says otherwise is an error."""
    expect_regular(path)
    with open(path, "rb") as file:
        head = file.read(32)
    if not head:
        raise ValueError("the file is empty")
    module = format_of(path.suffix)
    if not module.recognises(head):
        is_a = [other.NAME for other in _formats().values() if other.recognises(head)]
        what = f"is a {is_a[0]} file by its content" if is_a else "is no image that is known"
        raise ValueError(f"the file {what}, though it is named {path.suffix}")
    with in_one_sentence("the file is damaged"):
        picture: Picture = module.read(path, axes)
    for layer in picture.layers:
        if layer.pixels.dtype.kind not in "uif":
            raise ValueError(f"its pixels are of type {layer.pixels.dtype}; expected numbers")
        if layer.pixels.size == 0:
            raise ValueError("it has no pixels")
        if axes is not None and layer.axes != axes:
            picture.notes.append("the axes that were named are not used: the file has its own")
    return picture


def write(path: Path, picture: Picture) -> list[str]:
    """Write a picture in the format of its name; returns what could not be kept."""
    module = format_of(path.suffix)
    notes = []
    if module.__name__.rpartition(".")[2] != picture.format:
        picture = upright(picture)
        if picture.exif and picture.layers and "exif" not in module.KEEPS:
            notes.append(f"EXIF data are not kept in {module.NAME} files")
        if picture.profile and "profile" not in module.KEEPS:
            notes.append(f"the colour profile is not kept in {module.NAME} files")
    with in_one_sentence("it could not be written"), replacing(path) as partial:
        module.write(partial, picture, path)
    return notes
