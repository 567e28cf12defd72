"""New arrays on disk, to be written part by part."""

import errno
import math
import os
import re
import shutil
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..types import Pixels
from .disk import OpenedArray, open_array_as, zarr_library


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
    zarr = zarr_library()
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

    in_color = spec.axes.endswith("C") and spec.shape[-1] in (3, 4)
    axes = spec.axes.replace("C", "S") if in_color else spec.axes
    # OME metadata hold the sizes of pixels, but not every array.
    is_ome = bool(spec.like.sizes) and _fits_ome(axes, spec.dtype)
    metadata = ome_metadata(axes, spec.like.sizes, spec.like.channels) if is_ome else {"axes": axes}
    offset, _ = tifffile.imwrite(  # type: ignore[misc]
        path,
        shape=spec.shape,
        dtype=spec.dtype,
        bigtiff=True,
        ome=is_ome,
        photometric="rgb" if in_color else "minisblack",
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
    zarr = zarr_library()
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
    zarr = zarr_library()
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


def _block_means(part: Pixels, factors: list[int], shape: list[int]) -> Pixels:
    """Return the means of blocks; blocks that extend beyond the end repeat the last pixel."""
    lengths = [n * f for n, f in zip(shape, factors, strict=True)]
    part = part[tuple(slice(n) for n in lengths)]
    padding = [(0, n - have) for n, have in zip(lengths, part.shape, strict=True)]
    part = np.pad(part, padding, mode="edge")
    split = [k for pair in zip(shape, factors, strict=True) for k in pair]
    means = part.reshape(split).mean(axis=tuple(range(1, 2 * len(shape), 2)), dtype=np.float64)
    rounded: Pixels = np.rint(means) if part.dtype.kind in "ui" else means
    return rounded
