"""MRC and CCP4 files of electron microscopy, whose header mrcfile reads: only the pixels and their statistics change."""

from pathlib import Path
from typing import Any

import numpy as np

from ...checks import not_installed
from ..damage import expect_size
from ..picture import Layer, Picture, checked_spacing

NAME = "MRC"
SUFFIXES = (".mrc", ".mrcs", ".map", ".rec", ".st")
KEEPS = ()

_HEADER = 1024  # bytes
_TYPES = {0: "i1", 1: "i2", 2: "f4", 6: "u2", 12: "f2"}
_STATISTICS = "dmin", "dmax", "dmean", "rms"


def recognises(head: bytes) -> bool:
    return head[208:211] == b"MAP"


def read(path: Path, axes: str | None) -> Picture:
    header = _header(path)
    mode = int(header.mode)
    if mode not in _TYPES:
        raise ValueError(f"its mode is {mode}; expected one of {', '.join(map(str, _TYPES))}")
    dtype = np.dtype(_TYPES[mode]).newbyteorder(header.mode.dtype.byteorder)
    shape = tuple(int(n) for n in (header.nz, header.ny, header.nx))
    start = _HEADER + int(header.nsymbt)
    if min(shape) < 1 or start < _HEADER:
        raise ValueError(f"the file is damaged: its header has the sizes {shape}")
    size = path.stat().st_size
    expect_size(shape, dtype, size - start)
    with open(path, "rb") as file:
        head = file.read(start)
        pixels = np.fromfile(file, dtype, int(np.prod(shape))).reshape(shape)
        tail = file.read()
    letters, sections = "ZYX", int(header.mz)
    if int(header.ispg) == 0:  # a stack of images, such as particles or a tilt series
        letters = "QYX"
    elif int(header.ispg) > 400 and 0 < sections < shape[0] and shape[0] % sections == 0:
        pixels, letters = pixels.reshape(-1, sections, *shape[1:]), "QZYX"
    if len(pixels) == 1:
        pixels, letters = pixels[0], letters[1:]
    layer = Layer(pixels, letters, _spacing(header), "Å")
    return Picture("mrc", [layer], origin=(head, tail))


def write(path: Path, picture: Picture, name: Path) -> None:
    mrcfile = _mrcfile()
    if len(picture.layers) > 1 or picture.alpha is not None or "C" in picture.layers[0].axes:
        raise ValueError(
            "MRC files store one image, stack or volume in gray; expected a TIFF file for others"
        )
    layer = picture.layers[0]
    if layer.pixels.dtype.newbyteorder("=") not in map(np.dtype, _TYPES.values()):
        expected = ", ".join(np.dtype(kind).name for kind in _TYPES.values())
        raise ValueError(f"MRC files cannot store {layer.pixels.dtype}; expected {expected}")
    if picture.format == "mrc":
        head, tail = picture.origin
        path.write_bytes(_with_statistics(head, layer.pixels) + layer.pixels.tobytes() + tail)
        return
    others = [k for k, axis in enumerate(layer.axes) if axis not in "ZYX"]
    order = others + [layer.axes.index(axis) for axis in "ZYX" if axis in layer.axes]
    pixels = layer.pixels.transpose(order).reshape(-1, *layer.pixels.shape[-2:]) if others else layer.pixels.transpose(order)  # fmt: skip
    with mrcfile.new(path, np.ascontiguousarray(pixels), overwrite=True) as file:
        if pixels.ndim == 3 and "Z" not in layer.axes:
            file.set_image_stack()
        elif pixels.ndim == 3:
            file.set_volume()
        if layer.spacing is not None and layer.unit == "Å":
            file.voxel_size = tuple(np.nan_to_num(layer.spacing[::-1]))


def _with_statistics(head: bytes, pixels: Any) -> bytes:
    """Return the header with the range, mean and deviation of the pixels, unless they are marked as unknown."""
    from mrcfile.dtypes import HEADER_DTYPE

    order = "<" if head[212] == 0x44 else ">"
    header = np.frombuffer(bytearray(head[:_HEADER]), HEADER_DTYPE.newbyteorder(order))[0]
    if header["dmin"] <= header["dmax"]:
        values = pixels.astype(np.float64)
        for field, value in zip(
            _STATISTICS, (values.min(), values.max(), values.mean(), values.std()), strict=True
        ):
            header[field] = value
    return bytes(header.tobytes()) + head[_HEADER:]


def _spacing(header: Any) -> tuple[float, float, float] | None:
    """Return the size of a voxel along sections, rows and columns, which need not be Z, Y and X of the cell."""
    cell = [float(header.cella[axis]) for axis in "xyz"]
    samples = [int(header[f"m{axis}"]) for axis in "xyz"]
    sizes = [a / n if n > 0 else 0.0 for a, n in zip(cell, samples, strict=True)]
    order = [int(header[f"map{axis}"]) - 1 for axis in "src"]
    if sorted(order) != [0, 1, 2]:
        order = [2, 1, 0]
    return checked_spacing(*(sizes[k] for k in order))


def _header(path: Path) -> Any:
    """Return the header, unless it claims an extended one beyond the file, for which mrcfile would take memory."""
    with open(path, "rb") as file:
        head = file.read(_HEADER)
    order: Any = "little" if head[212:213] == b"\x44" else "big"
    extended, size = int.from_bytes(head[92:96], order), path.stat().st_size
    if extended > size:
        raise ValueError(f"the file is damaged: it has {size} bytes; expected {extended} before its pixels")  # fmt: skip
    with _mrcfile().open(path, header_only=True) as file:
        return file.header.copy()


def _mrcfile() -> Any:
    try:
        import mrcfile
    except ImportError:
        raise not_installed("MRC files need", "mrcfile") from None
    return mrcfile
