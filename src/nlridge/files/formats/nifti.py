"""NIfTI files, whose header nibabel reads: only the voxels change; the header and its extensions stay as they are."""

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import not_installed
from ..damage import expect_size, refuse_too_large
from ..picture import Layer, Picture, checked_spacing

NAME = "NIfTI"
SUFFIXES = (".nii", ".nii.gz")
KEEPS = ()

_UNITS = {"meter": "m", "mm": "mm", "micron": "µm"}
_LARGEST_HEADER = 2**24  # bytes, with extensions


def recognises(head: bytes) -> bool:
    if head[:2] == b"\x1f\x8b":
        try:
            head = zlib.decompressobj(31).decompress(head, 348)
        except zlib.error:
            return False
    return head[344:348] in (b"n+1\0", b"ni1\0") or head[4:8] in (b"n+2\0", b"ni2\0")


def read(path: Path, axes: str | None) -> Picture:
    nibabel = _nibabel()
    packed = path.read_bytes()
    is_packed = packed[:2] == b"\x1f\x8b"
    head = _unpacked(packed, 544, whole=False) if is_packed else packed[:544]
    second = head[4:7] == b"n+2"
    if b"ni1" in head[344:348] or b"ni2" in head[4:8]:
        raise ValueError("its voxels are in another file; expected a single file")
    kind = nibabel.Nifti2Header if second else nibabel.Nifti1Header
    header = kind(head[: 540 if second else 348], check=False)
    dtype = header.get_data_dtype()
    shape = tuple(int(n) for n in header["dim"][1 : 1 + max(int(header["dim"][0]), 0)])
    offset = float(header["vox_offset"])
    if not 2 <= len(shape) <= 7 or min(shape) < 1:
        raise ValueError(f"the file is damaged: its header has the sizes {shape}")
    if not (348 < offset < _LARGEST_HEADER and offset == int(offset)):
        raise ValueError(f"the file is damaged: its voxels start at byte {offset:g}")
    if dtype.names is None and dtype.kind not in "uif":
        raise ValueError(f"its voxels are of type {dtype}; expected numbers, or RGB")
    start, length = int(offset), math.prod(shape) * dtype.itemsize
    what = f"{' x '.join(map(str, shape))} voxels"
    if is_packed:
        refuse_too_large(what, length, len(packed))
        data = _unpacked(packed, start + length + _LARGEST_HEADER)
    else:
        data = packed
    expect_size(shape, dtype, len(data) - start)
    colors = dtype.names is not None
    numbers = np.dtype("u1") if colors else dtype
    stored = np.frombuffer(data, numbers, length // numbers.itemsize, start)
    # The first axis varies fastest.
    pixels = stored.reshape(*shape[::-1], *((len(dtype.names),) if colors else ()))
    letters = _letters(header, len(shape)) + ("C" if colors else "")
    if letters.count("C") > 1:
        letters = letters.replace("C", "V", 1)
    # Axes of length 1 carry no information, except for those of the plane.
    index = tuple(0 if n == 1 and a not in "YX" else slice(None) for n, a in zip(pixels.shape, letters, strict=True))  # fmt: skip
    kept = "".join(a for a, k in zip(letters, index, strict=True) if k != 0)
    unit = _UNITS.get(header.get_xyzt_units()[0], "")
    sizes = [abs(float(size)) for size in header["pixdim"][3:0:-1]]
    layer = Layer(pixels[index], kept, checked_spacing(*sizes), unit)
    slope = float(header["scl_slope"])
    scaled = math.isfinite(slope) and slope not in (0, 1)
    notes = [f"pixels are stored values, of which one is {slope:g} (scl_slope)"] if scaled else []
    origin = (data[:start], data[start + length :], is_packed)
    return Picture("nifti", [layer], origin=origin, notes=notes)


def write(path: Path, picture: Picture, name: Path) -> None:
    nibabel = _nibabel()
    if len(picture.layers) > 1 or picture.alpha is not None:
        raise ValueError(
            "NIfTI files cannot store transparency or images of several shapes; expected a TIFF file"
        )
    layer = picture.layers[0]
    if picture.format == "nifti":
        head, tail, _ = picture.origin
        data = head + layer.pixels.tobytes() + tail
    else:
        order = [layer.axes.index(axis) for axis in "TZYX" if axis in layer.axes]
        if len(order) < len(layer.axes):
            raise ValueError(
                f"NIfTI files cannot store the axes {layer.axes}; expected a TIFF file"
            )
        pixels = layer.pixels.transpose(order)
        if "T" in layer.axes and "Z" not in layer.axes:
            pixels = pixels[:, None]
        sizes = np.nan_to_num(layer.spacing or (1, 1, 1), nan=1.0)
        if pixels.dtype == np.float16:
            raise ValueError("NIfTI files cannot store float16; expected float32, or a TIFF file")
        image = nibabel.Nifti1Image(pixels.T, np.diag([*sizes[::-1], 1.0]), dtype=pixels.dtype)
        units = {symbol: word for word, symbol in _UNITS.items()}
        image.header.set_xyzt_units(units.get(layer.unit, "unknown"))
        data = image.to_bytes()
    is_packed = name.name.lower().endswith(".gz")
    path.write_bytes(gzip.compress(data, mtime=0) if is_packed else data)


def _letters(header: Any, dimensions: int) -> str:
    """Return a letter for each axis: the fifth holds the components of a vector, or something unknown."""
    vectors = "vector", "rgb vector", "rgba vector", "displacement vector", "estimate"
    fifth = "C" if header.get_intent()[0] in vectors else "S"
    return f"QP{fifth}TZYX"[
        -dimensions:
    ]  # in the order of the array: the reverse of that of the header


def _unpacked(packed: bytes, most: int, whole: bool = True) -> bytes:
    """Return at most this number of bytes of gzip data; the whole is checked against its checksum."""
    stream = zlib.decompressobj(31)
    data = stream.decompress(packed, most)
    if whole and not stream.eof:
        raise ValueError("the file is damaged: its compressed data do not end where they should")
    return data


def _nibabel() -> Any:
    try:
        import nibabel
    except ImportError:
        raise not_installed("NIfTI files need", "nibabel") from None
    return nibabel
