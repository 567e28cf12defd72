"""Arrays on disk: opened without being read, and made to be written bit by bit."""

import errno
import math
import os
import re
import shutil
import warnings
from collections.abc import Iterator
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
class Opened:
    """An array on disk, and what is known about it."""

    array: Any
    axes: str | None = None
    """A letter for each axis, where the file says so."""
    group: Any = None
    """The group of a pyramid of images (OME-Zarr), of which the array is the largest."""
    levels: tuple[str, ...] = ()
    """The names of its images, the largest first."""


@dataclass(frozen=True)
class RawArray:
    """An array that stands in a file as it would in memory.

    It is mapped only while it is being read, so that it takes no memory, and it can be sent to another process.
    """

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        return np.array(self.readable()[index])

    def __setitem__(self, index: tuple[slice, ...], values: npt.NDArray[Any]) -> None:
        """By writing, not by a map: on a full disk that would end the process."""
        spans = [range(*s.indices(n)) for s, n in zip(index, self.shape, strict=True)]
        # Up to the last axis that is cut, each pixel of which is followed by whole further axes.
        parts = [len(span) < n for span, n in zip(spans, self.shape, strict=True)]
        last = max((axis for axis, part in enumerate(parts) if part), default=0)
        steps = [math.prod(self.shape[k + 1 :]) for k in range(last + 1)]
        values = np.ascontiguousarray(values, self.dtype)
        with open(self.path, "rb+") as file:
            for number in np.ndindex(*values.shape[:last]):
                first = [span[k] for span, k in zip(spans, (*number, 0), strict=False)]
                place = sum(k * step for k, step in zip(first, steps, strict=True))
                file.seek(self.offset + place * self.dtype.itemsize)
                file.write(values[number].data)
            file.flush()
            os.fsync(file.fileno())

    def readable(self) -> "np.memmap[Any, Any]":
        """As NumPy has it."""
        return np.memmap(self.path, self.dtype, "r", self.offset, self.shape)


@dataclass(frozen=True)
class TiffArray:
    """The first series of a TIFF file that is compressed or tiled, opened only while it is being read."""

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        import tifffile

        with tifffile.TiffFile(self.path) as file, file.series[0].aszarr() as store:
            return np.asarray(_zarr().open(store, mode="r")[index])


def opened(path: Path) -> Opened:
    """The array in a file or a folder, by its name."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"input is {path}; expected one of {', '.join(SUFFIXES)} to be worked on tile by tile"
        )
    return opened_as(path, suffix)


def readable(path: Path) -> Any:
    """Likewise, as others know it: a Zarr array, or a memory map that cannot be written to."""
    found = opened(path).array
    return found.readable() if isinstance(found, RawArray) else found


def is_zarr(path: Path) -> bool:
    """Whether a folder is an array or a group of Zarr."""
    return any((path / name).exists() for name in ("zarr.json", ".zarray", ".zgroup"))


def opened_as(path: Path, suffix: str) -> Opened:
    """Likewise, whatever its name."""
    return {".npy": _opened_npy, ".zarr": _opened_zarr}.get(suffix, _opened_tiff)(path)


def _opened_npy(path: Path) -> Opened:
    expect_regular(path)
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if not mapped.flags.c_contiguous:
        raise ValueError(f"{path} holds an array in Fortran's order; expected rows one by one")
    return Opened(RawArray(path, mapped.dtype, mapped.shape, mapped.offset))


def _opened_zarr(path: Path) -> Opened:
    zarr = _zarr()
    bytes_in(path)  # regular files, before one of them is opened
    with _in_one_sentence(path):
        found = zarr.open(path, mode="r")
        return Opened(found) if isinstance(found, zarr.Array) else _opened_pyramid(path, found)


def _opened_pyramid(path: Path, found: Any) -> Opened:
    """A group of OME-Zarr."""
    zarr = _zarr()
    attributes = found.attrs.asdict()
    about = attributes.get("ome", attributes)
    if not isinstance(about, dict) or "multiscales" not in about:
        arrays = ", ".join(sorted(p.name for p in path.iterdir() if is_zarr(p))) or "none"
        raise ValueError(
            f"{path} is a group without multiscales; expected an array (from Python, one of its: {arrays})"
        )
    scale, levels = _levels_of(path, about["multiscales"])
    shapes = []
    for name in levels:
        if not isinstance(found.get(name), zarr.Array):
            raise ValueError(f"{path} has no array {name}, which its multiscales name")
        shapes.append(found[name].shape)
    for name, fine, coarse in zip(levels[1:], shapes, shapes[1:], strict=False):
        _expect_whole_factors(path, name, fine, coarse)
    return Opened(found[levels[0]], _letters(path, scale.get("axes")), found, levels)


def _levels_of(path: Path, scales: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The first pyramid, and the names of its arrays."""
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
def _in_one_sentence(path: Path) -> Iterator[None]:
    """Whatever Zarr makes of a damaged store is a ValueError with its name, and nothing is printed besides."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MemoryError, ImportError):
        raise
    except Exception as error:
        words = one_line(error)
        if not words.startswith(str(path)):
            words = f"{path} is not a Zarr array or group that can be read: {words}"
        raise ValueError(words) from None


def _letters(path: Path, axes: Any) -> str:
    """A letter for each axis: its name, or any other where that is longer."""
    others = iter("QRSUVWABDEFGHIJ")
    letters: list[str] = []
    for axis in "tczyx" if axes is None else axes if isinstance(axes, list) else [None]:
        name = axis.get("name") if isinstance(axis, dict) else axis
        if not isinstance(name, str) or not name or len(letters) == 9:
            raise ValueError(f"{path} has axes {one_line(axes)}; expected a list of names")
        letters.append(name.upper() if len(name) == 1 and name.isascii() else next(others))
    return "".join(letters)


def _expect_whole_factors(
    path: Path, name: str, fine: tuple[int, ...], coarse: tuple[int, ...]
) -> None:
    """Of the sizes of two levels, so that pixels of the one are means of those of the other."""
    known = (
        len(fine) == len(coarse)
        and min(coarse, default=0) > 0
        and all(
            b in (a // max(round(a / b), 1), -(-a // max(round(a / b), 1)))
            for a, b in zip(fine, coarse, strict=True)
        )
    )
    if not known:
        raise ValueError(
            f"{path} has a level {name} of shape {coarse} below one of {fine}; expected whole factors"
        )


def _opened_tiff(path: Path) -> Opened:
    import tifffile

    expect_regular(path)
    with tifffile.TiffFile(path) as file:
        series = file.series[0]
        axes, page = series.axes.replace("S", "C"), series.keyframe
        if page.is_contiguous and series.dataoffset is not None:
            dtype = np.dtype(file.byteorder + series.dtype.char)
            end = series.dataoffset + dtype.itemsize * int(np.prod(series.shape))
            if path.stat().st_size < end:
                raise ValueError(f"{path}: the file is damaged: it ends too early")
            return Opened(RawArray(path, dtype, series.shape, series.dataoffset), axes)
        _zarr()  # is it there?
        rows = page.tile[0] if page.is_tiled else page.rowsperstrip
        chunks = [rows if axis == "Y" else 1 for axis in axes]
        return Opened(TiffArray(path, series.dtype, series.shape, tuple(chunks)), axes)


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise not_installed("Zarr arrays need", "zarr") from None
    return zarr


@dataclass(frozen=True)
class NewArray:
    """What a new array on disk is to be like."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    axes: str
    tile: int
    like: Opened = field(default_factory=lambda: Opened(None))
    """What it is made from; its metadata are kept."""


def made(path: Path, suffix: str, wanted: NewArray) -> Any:
    """An array to write to; one that is there already, from a run that was stopped, is kept."""
    if not path.exists():
        start = path.with_name("new")
        if start.is_dir():
            shutil.rmtree(start)
        {".npy": _make_npy, ".zarr": _make_zarr}.get(suffix, _make_tiff)(start, wanted)
        os.replace(start, path)
    if suffix != ".zarr":
        return opened_as(path, suffix).array
    zarr = _zarr()
    found = zarr.open(path, mode="r+")
    return found if isinstance(found, zarr.Array) else found[wanted.like.levels[0]]


def _make_npy(path: Path, wanted: NewArray) -> None:
    with open(path, "wb") as file:
        about = {
            "descr": np.lib.format.dtype_to_descr(wanted.dtype),
            "fortran_order": False,
            "shape": wanted.shape,
        }
        np.lib.format.write_array_header_1_0(file, about)
        offset = file.tell()
    allocate(path, offset, wanted)


def _make_tiff(path: Path, wanted: NewArray) -> None:
    import tifffile

    in_colour = wanted.axes.endswith("C") and wanted.shape[-1] in (3, 4)
    offset, _ = tifffile.imwrite(  # type: ignore[misc]
        path,
        shape=wanted.shape,
        dtype=wanted.dtype,
        bigtiff=True,
        photometric="rgb" if in_colour else "minisblack",
        metadata={"axes": wanted.axes.replace("C", "S") if in_colour else wanted.axes},
        returnoffset=True,
    )
    allocate(path, offset, wanted)


def allocate(path: Path, offset: int, wanted: NewArray) -> None:
    """Have the disk hold a file's pixels from the start: a full one is noticed before the work, not after hours."""
    size = math.prod(wanted.shape) * wanted.dtype.itemsize
    with open(path, "rb+") as file:
        try:
            os.posix_fallocate(file.fileno(), offset, size)
            return
        except AttributeError:  # not on macOS, nor on Windows
            pass
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        file.seek(offset)
        for start in range(0, size, 2**20):
            file.write(bytes(min(2**20, size - start)))


def _make_zarr(path: Path, wanted: NewArray) -> None:
    zarr = _zarr()
    like, group = wanted.like.array, wanted.like.group
    known = isinstance(like, zarr.Array)
    options: dict[str, Any] = {"zarr_format": like.metadata.zarr_format if known else 3}
    where: dict[str, Any] = {"store": str(path)}
    if group is not None:
        root = zarr.create_group(str(path), attributes=dict(group.attrs), **options)
        where = {"store": root.store, "name": wanted.like.levels[0]}
    if known:
        options |= _like(like)
    sides = dict.fromkeys("YX", wanted.tile) | {"C": max(wanted.shape)}
    chunks = [min(sides.get(a, 1), n) for a, n in zip(wanted.axes, wanted.shape, strict=True)]
    zarr.create_array(
        shape=wanted.shape, chunks=tuple(chunks), dtype=wanted.dtype, **where, **options
    )


def _like(array: Any) -> dict[str, Any]:
    """What a new array has in common with another, apart from its size."""
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
    """Remove chunks that Zarr was writing when a run was killed."""
    for file in path.rglob("*.partial"):
        if re.search(r"\.[0-9a-f]{32}\.partial$", file.name):
            file.unlink()


def with_levels(path: Path, wanted: NewArray) -> None:
    """Write the smaller images of a pyramid, each the mean of pixels of the one before, in the same proportions."""
    if len(wanted.like.levels) < 2:
        return
    zarr = _zarr()
    root = zarr.open_group(path, mode="r+")
    for above, name in pairwise(wanted.like.levels):
        fine, like = root[above], wanted.like.group[name]
        smaller = zarr.create_array(
            root.store,
            name=name,
            shape=like.shape,
            chunks=tuple(min(n, c) for n, c in zip(like.shape, fine.chunks, strict=True)),
            dtype=wanted.dtype,
            zarr_format=fine.metadata.zarr_format,
            overwrite=True,
            **_like(like),
        )
        _shrink(fine, smaller, wanted.axes)


def _shrink(fine: Any, coarse: Any, axes: str) -> None:
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
            wanted = [len(range(*s.indices(n))) for s, n in zip(index, coarse.shape, strict=True)]
            coarse[tuple(index)] = _means(part, factors, wanted).astype(coarse.dtype)


def _means(part: npt.NDArray[Any], factors: list[int], shape: list[int]) -> npt.NDArray[Any]:
    """Means of blocks; blocks that reach beyond the end go on with the last pixel."""
    lengths = [n * f for n, f in zip(shape, factors, strict=True)]
    part = part[tuple(slice(n) for n in lengths)]
    beyond = [(0, n - have) for n, have in zip(lengths, part.shape, strict=True)]
    part = np.pad(part, beyond, mode="edge")
    split = [k for pair in zip(shape, factors, strict=True) for k in pair]
    means = part.reshape(split).mean(axis=tuple(range(1, 2 * len(shape), 2)), dtype=np.float64)
    found: npt.NDArray[Any] = np.rint(means) if part.dtype.kind in "ui" else means
    return found
