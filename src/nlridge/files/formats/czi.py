"""CZI files of Zeiss microscopes, whose structure czifile reads: each scene is a layer, of its full resolution."""

import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ...checks import not_installed
from ...types import Pixels
from ..damage import expect_size, refuse_too_large
from ..picture import Layer, Picture, checked_spacing

NAME = "CZI"
SUFFIXES = (".czi",)
KEEPS = ()

_MAX_BLOCKS = 10**6
_JPEG, _LZW, _JPEG_XR, _ZSTD, _ZSTD_WITH_HEADER = 1, 2, 4, 5, 6


def recognises(head: bytes) -> bool:
    return head.startswith(b"ZISRAWFILE")


def read(path: Path, axes: str | None) -> Picture:
    try:
        import czifile
    except ImportError:
        raise not_installed("CZI files need", "czifile") from None
    # Opened here, since czifile does not close a damaged file.
    with path.open("rb") as opened, czifile.CziFile(opened, multifile=False) as file:
        if file.header.file_part:
            raise ValueError("it is one of several files of an image; expected a single file")
        if len(file.subblock_directory) > _MAX_BLOCKS:
            raise ValueError(f"it has more than {_MAX_BLOCKS} blocks; expected fewer")
        scenes: dict[int, list[Any]] = {}
        for entry in file.subblock_directory:
            if entry.stored_shape == entry.shape:  # otherwise it has a lower resolution
                starts = {dim.dimension: dim.start for dim in entry.dimension_entries}
                scenes.setdefault(starts.get("S", 0), []).append(entry)
        metadata = (
            ElementTree.fromstring(file.metadata()) if file.header.metadata_position else None
        )
        spacing, channels = _spacing(metadata), _channel_names(metadata)
        size = path.stat().st_size
        claimed = sum(_bytes(*_extent(entries)) for entries in scenes.values())
        refuse_too_large(f"{claimed} bytes of pixels", claimed, size)
        layers, absent = [], 0
        for _, entries in sorted(scenes.items()):
            pixels, letters = _assembled(entries, size)
            layers.append(Layer(pixels, letters, spacing, "µm" if spacing else ""))
            absent += _absent(entries)
    notes = [f"{absent} planes that the file does not contain are 0"] if absent else []
    return Picture("czi", layers, channels=channels, notes=notes)


def _absent(entries: list[Any]) -> int:
    """Return the number of planes of a scene without any block."""
    start, stop, _ = _extent(entries)
    planes = [k for k, axis in enumerate(entries[0].axes) if axis not in "YX0"]
    present = {tuple(entry.start[k] for k in planes) for entry in entries}
    return math.prod(stop[k] - start[k] for k in planes) - len(present)


def _bytes(start: list[int], stop: list[int], dtype: np.dtype[Any]) -> int:
    return math.prod(b - a for a, b in zip(start, stop, strict=True)) * dtype.itemsize


def _extent(entries: list[Any]) -> tuple[list[int], list[int], np.dtype[Any]]:
    """Return where the blocks of a scene start and stop along each axis, and their type."""
    if any(entry.axes != entries[0].axes for entry in entries):
        raise ValueError("its blocks have different axes; expected the same for all of a scene")
    spans = [list(zip(entry.start, entry.shape, strict=True)) for entry in entries]
    start = [min(a for a, _ in axis) for axis in zip(*spans, strict=True)]
    stop = [max(a + n for a, n in axis) for axis in zip(*spans, strict=True)]
    types = {np.dtype(entry.dtype).base for entry in entries}
    if len(types) > 1 or next(iter(types)).kind not in "uif":
        names = ", ".join(sorted(map(str, types)))
        raise ValueError(f"its pixels are of type {names}; expected a single type of numbers")
    if any(n < 1 for axis in spans for _, n in axis):
        raise ValueError("the file is damaged: a block has no pixels")
    return start, stop, types.pop()


def _assembled(entries: list[Any], size: int) -> tuple[Pixels, str]:
    """Return the pixels of a scene, put together from its blocks, and their axes."""
    start, stop, dtype = _extent(entries)
    pixels = np.zeros([b - a for a, b in zip(start, stop, strict=True)], dtype)
    # The tiles of a mosaic overlap: those of a larger index are on top.
    for entry in sorted(entries, key=lambda entry: entry.mosaic_index or 0):
        index = [
            slice(a - s, a - s + n) for a, s, n in zip(entry.start, start, entry.shape, strict=True)
        ]
        pixels[tuple(index)] = _decoded(entry, dtype, size)
    letters = entries[0].axes.replace("S", "")
    pixels = pixels.squeeze(entries[0].axes.index("S")) if "S" in entries[0].axes else pixels
    # The last axis, 0, holds the samples of colors. If there are also channels, these are a stack.
    if pixels.shape[-1] == 1:
        pixels, letters = pixels[..., 0], letters[:-1]
    elif "C" in letters and pixels.shape[letters.index("C")] == 1:
        pixels, letters = pixels.squeeze(letters.index("C")), letters.replace("C", "")[:-1] + "C"
    else:
        letters = letters.replace("C", "Q")[:-1] + "C"
    single = tuple(k for k, a in enumerate(letters) if pixels.shape[k] == 1 and a not in "YX")
    kept = "".join(a for k, a in enumerate(letters) if k not in single)
    return pixels.squeeze(single), kept


def _decoded(entry: Any, dtype: Any, size: int) -> Pixels:
    """Return the pixels of a block."""
    import imagecodecs

    segment = entry.data_segment()
    if not 0 <= segment.data_offset <= segment.data_offset + segment.data_size <= size:
        raise ValueError("the file is damaged: a block ends after the file")
    raw, shape = segment.data(raw=True), entry.shape
    length = math.prod(shape) * dtype.itemsize
    if entry.compression == 0:
        expect_size(shape, dtype, len(raw))
        values = np.frombuffer(raw, dtype, math.prod(shape))
    elif entry.compression == _LZW:
        values = np.frombuffer(imagecodecs.lzw_decode(raw, out=length), dtype)
    elif entry.compression in (_ZSTD, _ZSTD_WITH_HEADER):
        values = _unpacked(raw, dtype, length, entry.compression == _ZSTD_WITH_HEADER)
    elif entry.compression in (_JPEG, _JPEG_XR):
        decode = imagecodecs.jpegxr_decode if entry.compression == _JPEG_XR else imagecodecs.jpeg8_decode  # fmt: skip
        values = decode(raw)
    else:
        raise ValueError(
            f"its compression is {entry.compression}; expected none, JPEG, LZW, JPEG XR or Zstandard"
        )
    if values.size != math.prod(shape) or values.dtype != dtype:
        raise ValueError("the file is damaged: a block has other pixels than it claims")
    pixels: Pixels = values.reshape(shape)
    stored_as_bgr = shape[-1] == 3 and entry.compression not in (_JPEG, _JPEG_XR)
    return pixels[..., ::-1] if stored_as_bgr else pixels


def _unpacked(raw: bytes, dtype: Any, length: int, has_header: bool) -> Pixels:
    """Decompress Zstandard data; with a header, the low bytes of all pixels may precede the high bytes."""
    import imagecodecs

    apart = False
    if has_header:
        if not raw or raw[0] not in (1, 3) or raw[0] > len(raw):
            raise ValueError("the file is damaged: the header of a block is unknown")
        apart = raw[0] == 3 and bool(raw[2] & 1)
        raw = raw[raw[0] :]
    data = np.frombuffer(imagecodecs.zstd_decode(raw, out=length), np.uint8)
    if apart and dtype.itemsize == 2 and data.size == length:
        data = np.ascontiguousarray(data.reshape(2, -1).T)
    return data.reshape(-1).view(dtype)


def _spacing(metadata: Any) -> tuple[float, float, float] | None:
    if metadata is None:
        return None
    sizes = {
        item.get("Id"): item.findtext("Value")
        for item in metadata.iterfind(".//Scaling/Items/Distance")
    }
    metres = checked_spacing(*(sizes.get(axis) for axis in "ZYX"))
    return None if metres is None else checked_spacing(*(round(1e6 * size, 9) for size in metres))


def _channel_names(metadata: Any) -> list[str]:
    """Return the names of the channels, with numbers for those without one; none if no channel has a name."""
    found = [] if metadata is None else metadata.findall(".//Information/Image/Dimensions/Channels/Channel")  # fmt: skip
    names = [channel.get("Name") or channel.get("Id") or "" for channel in found]
    return names if any(channel.get("Name") for channel in found) and all(names) else []
