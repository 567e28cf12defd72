"""HDF5 files, read with h5py: one array in the file; everything else is kept.

Axes are those that the file names: by the labels of its dimensions, or by the axistags of ilastik and vigra.
"""

import json
import mmap
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import not_installed
from ...errors import ArgumentError
from ..damage import refuse_too_large
from ..picture import Layer, Picture, checked_spacing
from .npy import named_axes

NAME = "HDF5"
SUFFIXES = (".h5", ".hdf5")
KEEPS = ()
DATASETS = True

_HEAP = b"GCOL\x01\0\0\0"
_SHOWN = 5  # arrays named in a message
_NEW = "/image"  # the array in a new file
_REPLACE = """
import sys, h5py, numpy
with h5py.File(sys.argv[1], "r+", locking=False) as file:
    file[sys.argv[2]][...] = numpy.load(sys.stdin.buffer)
"""
_SIZES = "element_size_um"  # pixel sizes along Z, Y and X, as ilastik and Fiji write them
_LETTERS = {"t": "T", "time": "T", "z": "Z", "c": "C", "channel": "C", "y": "Y", "x": "X"}


def recognises(head: bytes) -> bool:
    return head.startswith(b"\x89HDF\r\n\x1a\n")


def read(path: Path, axes: str | None, dataset: str | None = None) -> Picture:
    _expect_heaps_with_an_end(path)
    with _opened(path, "r") as file:
        name = dataset or _only_image(file)
        array = _array(file, name)
        size = path.stat().st_size
        what = f"{' x '.join(map(str, array.shape))} numbers"
        refuse_too_large(what, array.size * array.dtype.itemsize, size)
        letters = _named(array) or named_axes(array.shape, axes)
        sizes = array.attrs.get(_SIZES)
        known = sizes is not None and np.shape(sizes) == (3,)
        spacing = checked_spacing(*sizes) if known else None
        pixels = array[()]
    layer = Layer(pixels, letters, spacing, "µm" if spacing else "")
    return Picture("hdf5", [layer], origin=(path, name))


def write(path: Path, picture: Picture, name: Path) -> None:
    if len(picture.layers) > 1 or picture.alpha is not None:
        raise ValueError(
            "HDF5 files are written with one array; expected a TIFF file for transparency or several shapes"
        )
    layer = picture.layers[0]
    if picture.format == "hdf5":
        source, place = picture.origin
        shutil.copyfile(source, path)
        _replace(path, place, layer.pixels)
        return
    with _opened(path, "w") as file:
        array = file.create_dataset(_NEW, data=layer.pixels, compression="gzip", shuffle=True)
        for dimension, axis in zip(array.dims, layer.axes, strict=True):
            dimension.label = axis.lower()
        if layer.spacing is not None and layer.unit == "µm":
            array.attrs[_SIZES] = np.nan_to_num(layer.spacing)


def _replace(path: Path, place: str, pixels: np.ndarray) -> None:
    """Replace the pixels of an array of a file.

    This runs in a process of its own: the HDF5 library may crash when it changes a file that is damaged elsewhere.
    """
    with tempfile.TemporaryFile() as data:
        np.save(data, pixels)
        data.seek(0)
        command = [sys.executable, "-c", _REPLACE, str(path.absolute()), place]
        done = subprocess.run(command, stdin=data, capture_output=True, text=True, errors="replace")
    if done.returncode:
        said = done.stderr.strip().splitlines()
        why = said[-1] if said else f"the HDF5 library stopped with status {done.returncode}"
        raise ValueError(f"its array {place} cannot be replaced, it may be damaged ({why})")


def _expect_heaps_with_an_end(path: Path) -> None:
    """Refuse a file with a global heap that the HDF5 library would never come to the end of.

    Texts are stored there, one after the other; what is left over is the last one, of number 0, whose size must not be 0.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(_HEAP)
        while start >= 0:
            end = start + int.from_bytes(data[start + 8 : start + 16], "little")
            at = start + 16
            while at + 16 <= min(end, len(data)):
                number, size = struct.unpack_from("<H6xQ", data, at)
                if number == 0:
                    if size == 0:
                        raise ValueError("the file is damaged: one of its heaps has no end")
                    break
                at += 16 + -(-size // 8) * 8
            start = data.find(_HEAP, start + 1)


def _only_image(file: Any) -> str:
    """Return the path of the only array of numbers with at least two dimensions."""
    found: list[str] = []

    def collect(name: str, thing: Any) -> None:
        shape, dtype = getattr(thing, "shape", None), getattr(thing, "dtype", None)
        if shape and dtype is not None and dtype.kind in "uif" and sum(n > 1 for n in shape) > 1:
            found.append(f"/{name}")

    file.visititems(collect)
    if not found:
        raise ValueError("it holds no image; expected at least one")
    if len(found) > 1:
        names = ", ".join(found[:_SHOWN]) + (", ..." if len(found) > _SHOWN else "")
        raise ValueError(f"it holds {len(found)} arrays; expected --dataset with one of {names}")
    return found[0]


def _array(file: Any, name: str) -> Any:
    """Return an array that is stored in the file itself."""
    array = file.get(name)
    if array is None or not hasattr(array, "shape"):
        raise ArgumentError("dataset", name, "the path of an array in the file", "is {value}")
    if array.file.filename != file.filename or array.is_virtual or array.external:
        raise ArgumentError(
            "dataset", name, "that file", "is {value}, which is stored in another file"
        )
    if array.dtype.kind not in "uif":
        raise ValueError(f"its pixels are of type {array.dtype}; expected numbers")
    if array.shape is None or not array.size:
        raise ValueError("it has no pixels; expected at least one")
    return array


def _named(array: Any) -> str | None:
    """Return a letter for each axis that the file names; None if it does not name them all."""
    # With array.dims, the HDF5 library would crash if the file is damaged.
    found = array.attrs.get("DIMENSION_LABELS", ())
    labels = [label.decode() if isinstance(label, bytes) else str(label) for label in found]
    if "axistags" in array.attrs:
        tags = json.loads(array.attrs["axistags"])
        labels = [tag["key"] for tag in tags["axes"]]
    letters = "".join(_LETTERS.get(label.lower(), "") for label in labels)
    complete = len(letters) == len(array.shape) == len(set(letters)) and set("YX") <= set(letters)
    return letters if complete else None


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[Any]:
    try:
        import h5py
    except ImportError:
        raise not_installed("HDF5 files need", "h5py") from None
    # The library is asked not to lock: the input may be on a read-only file system.
    with h5py.File(path, mode, locking=False) as file:
        yield file
