"""Arrays on disk: opened without being read, and created to be written part by part."""

import errno
import math
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import not_installed
from ..files.damage import expect_regular, one_line
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

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        return np.array(self.mapped()[index])

    def __setitem__(self, index: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
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

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        import tifffile

        with tifffile.TiffFile(self.path) as file, file.series[0].aszarr() as store:
            return np.asarray(_zarr().open(store, mode="r")[index])


def open_array(path: Path) -> OpenedArray:
    """Open the array in a file or a folder, in the format of its name."""
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: no such file"
        )  # as the command line reports missing files
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"input is {path}; expected one of {', '.join(SUFFIXES)} for processing in tiles"
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
    zarr = _zarr()
    bytes_in(path)  # refuses pipes before any file is opened
    with _convert_errors(path):
        node = zarr.open(path, mode="r")
        return OpenedArray(node) if isinstance(node, zarr.Array) else _open_pyramid(path, node)


def _open_pyramid(path: Path, group: Any) -> OpenedArray:
    """Open an OME-Zarr group."""
    zarr = _zarr()
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
        _zarr()  # raises ImportError now rather than when the array is read
        rows = page.tile[0] if page.tile else page.rowsperstrip
        chunks = [rows if axis == "Y" else 1 for axis in axes]
        array = TiffArray(path, series.dtype, series.shape, tuple(chunks))
        return OpenedArray(array, axes, None, (), *known)


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise not_installed("Zarr arrays need", "zarr") from None
    return zarr


@dataclass(frozen=True)
class NewArray:
    """The specification of a new array on disk."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    axes: str
    tile: int
    like: OpenedArray = field(default_factory=lambda: OpenedArray(None))
    """The array that it is made from, whose metadata are copied."""


def create_or_open(path: Path, suffix: str, spec: NewArray) -> Any:
    """Create an array to write to, or open the one that an interrupted run has left."""
    if not path.exists():
        start = path.with_name("new")
        if start.is_dir():
            shutil.rmtree(start)
        {".npy": _make_npy, ".zarr": _make_zarr}.get(suffix, _make_tiff)(start, spec)
        os.replace(start, path)
    if suffix != ".zarr":
        return open_array_as(path, suffix).array
    zarr = _zarr()
    node = zarr.open(path, mode="r+")
    return node if isinstance(node, zarr.Array) else node[spec.like.levels[0]]


def _make_npy(path: Path, spec: NewArray) -> None:
    with open(path, "wb") as file:
        header = {
            "descr": np.lib.format.dtype_to_descr(spec.dtype),
            "fortran_order": False,
            "shape": spec.shape,
        }
        np.lib.format.write_array_header_1_0(file, header)
        offset = file.tell()
    allocate(path, offset, spec)


def _make_tiff(path: Path, spec: NewArray) -> None:
    import tifffile

    from ..files.microscopy import ome_metadata

    in_colour = spec.axes.endswith("C") and spec.shape[-1] in (3, 4)
    axes = spec.axes.replace("C", "S") if in_colour else spec.axes
    # OME metadata hold the sizes of pixels, but not every array.
    is_ome = bool(spec.like.sizes) and _fits_ome(axes, spec.dtype)
    metadata = ome_metadata(axes, spec.like.sizes, spec.like.channels) if is_ome else {"axes": axes}
    offset, _ = tifffile.imwrite(  # type: ignore[misc]
        path,
        shape=spec.shape,
        dtype=spec.dtype,
        bigtiff=True,
        ome=is_ome,
        photometric="rgb" if in_colour else "minisblack",
        metadata=metadata,
        returnoffset=True,
    )
    allocate(path, offset, spec)


def _fits_ome(axes: str, dtype: np.dtype[Any]) -> bool:
    """Return whether OME metadata can describe an array."""
    stacked = axes.removesuffix("S").removesuffix("YX")
    types = ("i1", "i2", "i4", "u1", "u2", "u4", "f4", "f8")
    return set(stacked) <= set("TZC") and f"{dtype.kind}{dtype.itemsize}" in types


def allocate(path: Path, offset: int, spec: NewArray) -> None:
    """Reserve the disk space of a file, so that a full disk is noticed at the start rather than after hours."""
    size = math.prod(spec.shape) * spec.dtype.itemsize
    with open(path, "rb+") as file:
        try:
            os.posix_fallocate(file.fileno(), offset, size)
            return
        except AttributeError:  # macOS and Windows
            pass
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        file.seek(offset)
        for start in range(0, size, 2**20):
            file.write(bytes(min(2**20, size - start)))


def _make_zarr(path: Path, spec: NewArray) -> None:
    zarr = _zarr()
    like, group = spec.like.array, spec.like.group
    from_zarr = isinstance(like, zarr.Array)
    options: dict[str, Any] = {"zarr_format": like.metadata.zarr_format if from_zarr else 3}
    where: dict[str, Any] = {"store": str(path)}
    if group is not None:
        root = zarr.create_group(str(path), attributes=dict(group.attrs), **options)
        where = {"store": root.store, "name": spec.like.levels[0]}
    if from_zarr:
        options |= _copied_metadata(like)
    sides = dict.fromkeys("YX", spec.tile) | {"C": max(spec.shape)}
    chunks = [min(sides.get(a, 1), n) for a, n in zip(spec.axes, spec.shape, strict=True)]
    zarr.create_array(shape=spec.shape, chunks=tuple(chunks), dtype=spec.dtype, **where, **options)


def _copied_metadata(array: Any) -> dict[str, Any]:
    """Return the options that give a new array the metadata of another one."""
    options: dict[str, Any] = {"attributes": dict(array.attrs)}
    if array.metadata.zarr_format == 3:
        options["dimension_names"] = array.metadata.dimension_names
        options["chunk_key_encoding"] = array.metadata.chunk_key_encoding
    else:
        options["chunk_key_encoding"] = {
            "name": "v2",
            "separator": array.metadata.dimension_separator,
        }
    return options


def remove_partial_chunks(path: Path) -> None:
    """Remove temporary files of chunks that were being written when a run was killed."""
    for file in path.rglob("*.partial"):
        if re.search(r"\.[0-9a-f]{32}\.partial$", file.name):
            file.unlink()


def write_pyramid(path: Path, spec: NewArray) -> None:
    """Write the smaller images of a pyramid, in the same sizes as in the input, each from the one above it."""
    if len(spec.like.levels) < 2:
        return
    zarr = _zarr()
    root = zarr.open_group(path, mode="r+")
    for above, name in pairwise(spec.like.levels):
        fine, like = root[above], spec.like.group[name]
        smaller = zarr.create_array(
            root.store,
            name=name,
            shape=like.shape,
            chunks=tuple(min(n, c) for n, c in zip(like.shape, fine.chunks, strict=True)),
            dtype=spec.dtype,
            zarr_format=fine.metadata.zarr_format,
            overwrite=True,
            **_copied_metadata(like),
        )
        _shrink(fine, smaller, spec.axes)


def _shrink(fine: Any, coarse: Any, axes: str) -> None:
    """Fill the coarse array with block means of the fine one, some rows at a time."""
    factors = [max(round(a / b), 1) for a, b in zip(fine.shape, coarse.shape, strict=True)]
    y = axes.index("Y")
    for number in np.ndindex(
        *(n for axis, n in zip(axes, coarse.shape, strict=True) if axis not in "YX")
    ):
        rest = iter(number)
        index = [
            slice(None) if axis in "YX" else (k := next(rest), slice(k, k + 1))[1] for axis in axes
        ]
        for top in range(0, coarse.shape[y], coarse.chunks[y]):
            rows = slice(top, min(top + coarse.chunks[y], coarse.shape[y]))
            index[y] = rows
            source = [
                slice(s.start * f, s.stop * f) if s.start is not None else s
                for s, f in zip(index, factors, strict=True)
            ]
            part = fine[tuple(source)]
            shape = [len(range(*s.indices(n))) for s, n in zip(index, coarse.shape, strict=True)]
            coarse[tuple(index)] = _block_means(part, factors, shape).astype(coarse.dtype)


def _block_means(part: npt.NDArray[Any], factors: list[int], shape: list[int]) -> npt.NDArray[Any]:
    """Return the means of blocks; blocks that extend beyond the end repeat the last pixel."""
    lengths = [n * f for n, f in zip(shape, factors, strict=True)]
    part = part[tuple(slice(n) for n in lengths)]
    padding = [(0, n - have) for n, have in zip(lengths, part.shape, strict=True)]
    part = np.pad(part, padding, mode="edge")
    split = [k for pair in zip(shape, factors, strict=True) for k in pair]
    means = part.reshape(split).mean(axis=tuple(range(1, 2 * len(shape), 2)), dtype=np.float64)
    rounded: npt.NDArray[Any] = np.rint(means) if part.dtype.kind in "ui" else means
    return rounded
