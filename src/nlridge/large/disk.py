"""Arrays on disk, opened without being read."""

import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import not_installed
from ..errors import ArgumentError
from ..files.damage import expect_regular, one_line
from ..types import Pixels
from .limits import bytes_in

SUFFIXES = (".zarr", ".npy", ".tif", ".tiff")


@dataclass(frozen=True)
class OpenedArray:
    """An array on disk, with its metadata."""

    array: Any
    axes: str | None = None
    """One letter for each axis, if the file names them."""
    group: Any = None
    """The group of an OME-Zarr pyramid, whose largest image is the array."""
    levels: tuple[str, ...] = ()
    """The names of the images in the pyramid, from the largest to the smallest."""
    sizes: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    """The size and the unit of a pixel along Z, Y and X, and of a step along T, by the letter of the axis, if known."""
    channels: tuple[str, ...] = ()
    """The names of the channels, if known."""


def metadata_of(opened: OpenedArray) -> str:
    """Return the metadata that a copy of an array keeps, as a string that can be compared."""
    metadata = getattr(opened.array, "metadata", None)
    kept = [
        getattr(metadata, name, None) for name in ("zarr_format", "dimension_names", "attributes")
    ]
    attributes = None if opened.group is None else dict(opened.group.attrs)
    about = [opened.levels, dict(opened.sizes), opened.channels]
    return repr([kept, opened.axes, attributes, *about])


@dataclass(frozen=True)
class RawArray:
    """An uncompressed array in a file, in the layout that it would have in memory.

    The file is mapped only while it is read, so that the object takes no memory and can be sent to other processes.
    """

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    def __getitem__(self, index: Any) -> Pixels:
        return np.array(self.mapped()[index])

    def __setitem__(self, index: tuple[slice, ...], values: Pixels) -> None:
        """Write to the file; writing to a memory map would kill the process if the disk is full."""
        spans = [range(*s.indices(n)) for s, n in zip(index, self.shape, strict=True)]
        # All axes after the last one that is sliced are complete, so that the values along them are contiguous.
        sliced = [len(span) < n for span, n in zip(spans, self.shape, strict=True)]
        last = max((axis for axis, is_sliced in enumerate(sliced) if is_sliced), default=0)
        steps = [math.prod(self.shape[k + 1 :]) for k in range(last + 1)]
        values = np.ascontiguousarray(values, self.dtype)
        with open(self.path, "rb+") as file:
            for number in np.ndindex(*values.shape[:last]):
                first = [span[k] for span, k in zip(spans, (*number, 0), strict=False)]
                position = sum(k * step for k, step in zip(first, steps, strict=True))
                file.seek(self.offset + position * self.dtype.itemsize)
                file.write(values[number].data)
            file.flush()
            os.fsync(file.fileno())

    def mapped(self) -> "np.memmap[Any, Any]":
        """Return a read-only memory map."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


@dataclass(frozen=True)
class TiffArray:
    """The first series of a compressed or tiled TIFF file, which is opened only while it is read."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]

    def __getitem__(self, index: Any) -> Pixels:
        import tifffile

        with tifffile.TiffFile(self.path) as file, file.series[0].aszarr() as store:
            return np.asarray(zarr_library().open(store, mode="r")[index])


def open_array(path: Path) -> OpenedArray:
    """Open the array in a file or a folder, in the format of its name."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ArgumentError(
            "input", path, f"one of {', '.join(SUFFIXES)} for processing in tiles", "is {value}"
        )
    return open_array_as(path, suffix)


def open_read_only(path: Path) -> Any:
    """Open an array as a type that callers know: a Zarr array or a read-only memory map."""
    array = open_array(path).array
    return array.mapped() if isinstance(array, RawArray) else array


def is_zarr(path: Path) -> bool:
    """Return whether a folder is a Zarr array or group."""
    return any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup"))


def open_array_as(path: Path, suffix: str) -> OpenedArray:
    """Open an array in the format of a suffix, whatever its name."""
    return {".npy": _open_npy, ".zarr": _open_zarr}.get(suffix, _open_tiff)(path)


def _open_npy(path: Path) -> OpenedArray:
    expect_regular(path)
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if not mapped.flags.c_contiguous:
        raise ValueError(f"{path} holds an array in Fortran order; expected C order")
    return OpenedArray(RawArray(path, mapped.dtype, mapped.shape, mapped.offset))


def _open_zarr(path: Path) -> OpenedArray:
    zarr = zarr_library()
    bytes_in(path)  # refuses pipes before any file is opened
    with _convert_errors(path):
        node = zarr.open(path, mode="r")
        return OpenedArray(node) if isinstance(node, zarr.Array) else _open_pyramid(path, node)


def _open_pyramid(path: Path, group: Any) -> OpenedArray:
    """Open an OME-Zarr group."""
    zarr = zarr_library()
    attributes = group.attrs.asdict()
    metadata = attributes.get("ome", attributes)
    if not isinstance(metadata, dict) or "multiscales" not in metadata:
        arrays = ", ".join(sorted(p.name for p in path.iterdir() if is_zarr(p))) or "none"
        raise ValueError(
            f"{path} is a group without multiscales; expected an array (in Python, open one of its arrays: {arrays})"
        )
    scale, levels = _first_pyramid(path, metadata["multiscales"])
    shapes = []
    for name in levels:
        if not isinstance(group.get(name), zarr.Array):
            raise ValueError(
                f"{path} has no array {name}; expected one, since its multiscales name it"
            )
        shapes.append(group[name].shape)
    for name, fine, coarse in zip(levels[1:], shapes, shapes[1:], strict=False):
        _expect_integer_factors(path, name, fine, coarse)
    letters = _axis_letters(path, scale.get("axes"))
    return OpenedArray(group[levels[0]], letters, group, levels, _sizes_in(scale, letters))


def _sizes_in(scale: dict[str, Any], letters: str) -> dict[str, tuple[float, str]]:
    """Return the size and the unit of a pixel of the largest image along each axis that has a unit."""
    try:
        (factors,) = (
            change["scale"]
            for change in scale["datasets"][0]["coordinateTransformations"]
            if change["type"] == "scale"
        )
        return {
            letter: (float(factor), str(axis["unit"]))
            for letter, factor, axis in zip(letters, factors, scale["axes"], strict=True)
            if "unit" in axis and 0 < factor < math.inf
        }
    except (LookupError, TypeError, ValueError):
        return {}


def _first_pyramid(path: Path, scales: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the metadata of the first pyramid, and the names of its arrays."""
    try:
        names = tuple(level["path"] for level in scales[0]["datasets"])
        if names and all(isinstance(name, str) and name for name in names):
            return scales[0], names
    except (LookupError, TypeError):
        pass
    raise ValueError(
        f"{path} has multiscales that name no arrays; expected a list of datasets, each with a path"
    )


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Turn any error that Zarr raises for a damaged store into a ValueError with its path; suppress warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MemoryError, ImportError):
        raise
    except Exception as error:
        message = one_line(error)
        if not message.startswith(str(path)):
            message = f"{path} is not a readable Zarr array or group: {message}"
        raise ValueError(message) from None


def _axis_letters(path: Path, axes: Any) -> str:
    """Return one letter for each axis: its name, or an arbitrary letter if the name is longer."""
    others = iter("QRSUVWABDEFGHIJ")
    letters: list[str] = []
    for axis in "tczyx" if axes is None else axes if isinstance(axes, list) else [None]:
        name = axis.get("name") if isinstance(axis, dict) else axis
        if not isinstance(name, str) or not name or len(letters) == 9:
            raise ValueError(f"{path} has axes {one_line(axes)}; expected a list of names")
        letters.append(name.upper() if len(name) == 1 and name.isascii() else next(others))
    return "".join(letters)


def _expect_integer_factors(
    path: Path, name: str, fine: tuple[int, ...], coarse: tuple[int, ...]
) -> None:
    """Check that the sizes of two levels differ by integer factors, so that coarse pixels are means of fine ones."""
    valid = (
        len(fine) == len(coarse)
        and min(coarse, default=0) > 0
        and all(
            b in (a // max(round(a / b), 1), -(-a // max(round(a / b), 1)))
            for a, b in zip(fine, coarse, strict=True)
        )
    )
    if not valid:
        raise ValueError(
            f"{path} has a level {name} of shape {coarse} below one of {fine}; expected integer factors"
        )


def _open_tiff(path: Path) -> OpenedArray:
    import tifffile

    from ..files.microscopy import channel_names, pixel_sizes

    expect_regular(path)
    with tifffile.TiffFile(path) as file:
        series = file.series[0]
        axes, page = series.axes.replace("S", "C"), series.keyframe
        known = pixel_sizes(file), tuple(channel_names(file.ome_metadata))
        if page.is_contiguous and series.dataoffset is not None:
            dtype = np.dtype(file.byteorder + series.dtype.char)
            end = series.dataoffset + dtype.itemsize * int(np.prod(series.shape))
            if path.stat().st_size < end:
                raise ValueError(f"{path}: the file is damaged: it is truncated")
            raw = RawArray(path, dtype, series.shape, series.dataoffset)
            return OpenedArray(raw, axes, None, (), *known)
        zarr_library()  # raises ImportError now rather than when the array is read
        rows = page.tile[0] if page.tile else page.rowsperstrip
        chunks = [rows if axis == "Y" else 1 for axis in axes]
        array = TiffArray(path, series.dtype, series.shape, tuple(chunks))
        return OpenedArray(array, axes, None, (), *known)


def zarr_library() -> Any:
    """Import Zarr, or say how to install it."""
    try:
        import zarr
    except ImportError:
        raise not_installed("Zarr arrays need", "zarr") from None
    return zarr
