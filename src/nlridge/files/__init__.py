"""Image files: reading them, and writing the same file with other pixels.

Each format is a module in the folder `formats`, or a plug-in: a module that another package names in the entry-point
group "nlridge.files". Nothing else needs to know about it. The module has:

    NAME                        the name of the format, for messages
    SUFFIXES                    the suffixes of its files, in lower case, the usual one first
    KEEPS                       which of "exif", "profile" and "iptc" it can store
    recognises(head)            whether a file with these first 512 bytes has this format
    read(path, axes)            read a `Picture`; `axes` names the axes of an array whose file does not name them
    write(path, picture, name)  write a `Picture` to the temporary `path`; `name` is the final path; may return
                                sentences on what this particular file could not store
    WRITES                      the suffix of the files it writes, if their format differs from those it reads

A module without `write` can only read: its pictures are written as OME-TIFF, unless another format is asked for. If
files of a format hold several arrays, its module has DATASETS = True, and `read` takes the path of one of them, or
None, as a third argument. `Picture.format` is the last part of the name of the module.

Files are read according to their content, whatever their suffix, and written in the format of their suffix.

A file that cannot be read or written raises a ValueError or OSError with a message of one sentence, and nothing is
printed. Optional libraries are imported only when they are used.
"""

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from ..atomic import replacing
from ..errors import ArgumentError
from . import formats
from .damage import convert_errors, expect_regular, one_line
from .develop import developed
from .orientation import upright
from .picture import Layer, Picture

__all__ = [
    "Layer",
    "Picture",
    "broken_plugins",
    "format_of",
    "output_suffix",
    "output_suffixes",
    "read",
    "suffix_by_content",
    "suffix_of",
    "suffixes",
    "write",
]

GROUP = "nlridge.files"
"""The entry-point group of plug-ins."""
_HEAD = 512  # bytes at the start of a file, by which formats are recognised
_CONTRACT = {"NAME": str, "SUFFIXES": tuple, "KEEPS": tuple}


@cache
def _formats() -> dict[str, ModuleType]:
    """Return the module for each suffix."""
    return _found()[0]


def broken_plugins() -> list[str]:
    """Return a sentence about each plug-in that cannot be used."""
    return _found()[1]


@cache
def _found() -> tuple[dict[str, ModuleType], list[str]]:
    own = [
        import_module(f"{formats.__name__}.{module.name}")
        for module in pkgutil.iter_modules(formats.__path__)
    ]
    own.sort(key=_is_left_to_a_library)
    found = {suffix: module for module in own for suffix in module.SUFFIXES}
    sentences = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        try:
            module = entry.load()
            _expect_format(module, found)
        except Exception as error:  # whatever its code raises
            sentences.append(f"the plug-in {entry.name} ({entry.value}) is ignored: {_why(error)}")
        else:
            found |= dict.fromkeys(module.SUFFIXES, module)
    return found, sentences


def _expect_format(module: ModuleType, known: dict[str, ModuleType]) -> None:
    """Refuse a plug-in that does not meet the contract above, or that clashes with another format."""
    for name, kind in _CONTRACT.items():
        if not isinstance(getattr(module, name, None), kind):
            raise ValueError(
                f"{name} is {getattr(module, name, None)!r}; expected a {kind.__name__}"
            )
    for name in ("recognises", "read"):
        if not callable(getattr(module, name, None)):
            raise ValueError(f"it has no function {name}; expected one")
    for suffix in module.SUFFIXES:
        if not (isinstance(suffix, str) and suffix.startswith(".") and suffix == suffix.lower()):
            raise ValueError(f"a suffix is {suffix!r}; expected text such as '.abc'")
        if suffix in known:
            raise ValueError(
                f"the suffix {suffix} belongs to {known[suffix].NAME}; expected another"
            )
    if _name(module) in map(_name, known.values()):
        raise ValueError(f"its module is called {_name(module)}, as another; expected another name")


def _why(error: Exception) -> str:
    return (
        one_line(error)
        if type(error) is ValueError
        else f"{type(error).__name__}: {one_line(error)}"
    )


def _name(module: ModuleType) -> str:
    """Return the last part of the name of a module, by which pictures name their format."""
    return module.__name__.rpartition(".")[2]


def _is_left_to_a_library(module: ModuleType) -> bool:
    """Return whether a module recognises any file, even an empty one, and leaves the decision to a library."""
    return bool(module.recognises(b""))


def _package(module: ModuleType) -> str:
    return module.__name__.partition(".")[0]


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of all supported formats."""
    return tuple(_formats())


def suffix_of(path: Path) -> str:
    """Return the suffix of a name in lower case; a double one, such as .nii.gz, if there is such a format."""
    double = "".join(path.suffixes[-2:]).lower()
    return double if double in _formats() else path.suffix.lower()


def output_suffix(suffix: str) -> str:
    """Return the suffix of the result for a file with this suffix: the same, unless its format is only read."""
    module = _formats().get(suffix.lower())
    if module is None:
        return suffix
    written: str = getattr(module, "WRITES", suffix if hasattr(module, "write") else ".ome.tif")
    return written


def output_suffixes() -> tuple[str, ...]:
    """Return the suffixes of all formats that can be written; of the raw formats, only DNG can."""
    return tuple(suffix for suffix in suffixes() if output_suffix(suffix) == suffix)


def format_of(suffix: str) -> ModuleType:
    """Return the module for a suffix of a file to be written."""
    return _format_of(suffix, output_suffixes())


def _format_of(suffix: str, expected: tuple[str, ...]) -> ModuleType:
    module = _formats().get(suffix.lower())
    if module is None:
        raise ValueError(
            f"the suffix of the file is {suffix or 'empty'}; expected one of {', '.join(expected)}"
        )
    return module


def _by_content(head: bytes) -> ModuleType | None:
    """Return the module for a file whose suffix does not match its content; None if there is none.

    TIFF comes before raw files, many of which have the structure of TIFF.
    """
    found = [
        module
        for module in _formats().values()
        if module.recognises(head) and not _is_left_to_a_library(module)
    ]
    return min(found, key=lambda module: hasattr(module, "WRITES"), default=None)


def suffix_by_content(head: bytes) -> str:
    """Return the usual suffix of a file by its first bytes, for files without a name."""
    module = _by_content(head[:_HEAD])
    if module is None:
        raise ValueError(
            "it is not in a format that is known by its first bytes; expected an image"
        )
    suffix: str = ".webp" if head[8:12] == b"WEBP" else module.SUFFIXES[0]
    return suffix


def read(path: Path, axes: str | None = None, dataset: str | None = None) -> Picture:
    """Read a file, or one of the arrays in it; its content must match its suffix."""
    expect_regular(path)
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if not head:
        raise ValueError("the file is empty; expected an image")
    suffix = suffix_of(path)
    named = _format_of(suffix, suffixes())
    module = named if named.recognises(head) else _by_content(head)
    if module is None:
        raise ValueError(
            f"the content of the file is not an image in a supported format; "
            f"expected {named.NAME}, as its name ends in {suffix}"
        )
    several = getattr(module, "DATASETS", False)
    if dataset is not None and not several:
        raise ArgumentError("dataset", dataset, f"none for {module.NAME} files", "is {value}")
    with convert_errors("the file is damaged", _package(module)):
        picture: Picture = module.read(path, axes, *((dataset,) if several else ()))
    if module is not named:
        note = f"the content of the file is {module.NAME} data, though its name ends in {suffix}"
        picture.notes.append(note)
    if not picture.layers:
        raise ValueError("it holds no image; expected at least one")
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
    module = format_of(suffix_of(path))
    if not hasattr(module, "write"):
        raise ValueError(f"{module.NAME} files cannot be written; expected a TIFF file")
    notes = []
    if _name(module) != picture.format:
        if any(layer.mosaic is not None for layer in picture.layers):
            if picture.format != "raw":
                raise ValueError(
                    f"it is a mosaic, whose colors are unknown; expected a file that ends in "
                    f"{format_of('.tif').SUFFIXES[0]} rather than {path.suffix}"
                )
            with convert_errors("the raw image could not be developed"):
                picture = developed(picture, getattr(module, "BITS", 16))
        picture = upright(picture)
        if picture.exif and picture.layers and "exif" not in module.KEEPS:
            notes.append(f"{module.NAME} files cannot store the EXIF data")
        if picture.profile and "profile" not in module.KEEPS:
            notes.append(f"{module.NAME} files cannot store the color profile")
        if picture.iptc and "iptc" not in module.KEEPS:
            notes.append(f"{module.NAME} files cannot store the IPTC data")
        if picture.tables:
            notes.append("the lookup tables, by which gray values are shown in color, were dropped")
    with (
        convert_errors("the file could not be written", _package(module)),
        replacing(path) as partial,
    ):
        lost = module.write(partial, picture, path)
    return [*notes, *(lost or [])]
