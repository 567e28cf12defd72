"""The pages of TIFF files: what is kept of each, to write it again with its tags and compression."""

import json
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import tifffile

from .directories import (
    EXIF,
    GPS,
    INTEROPERABILITY,
    MAKER_NOTE,
    Tag,
    find,
    header_of,
    packed,
    read_directory,
    without,
)
from .tiff_integrity import text_of, tifffile_metadata

# Tags that tifffile writes itself, or that point to data that are not copied.
MANAGED = {
    254, 255, 256, 257, 258, 259, 262, 270, 273, 277, 278, 279, 282, 283, 284, 296, 305, 306, 317, 320,
    322, 323, 324, 325, 330, 338, 339, 347, 530, 532, 34675,
}  # fmt: skip
POINTERS = {EXIF: "ExifTag", GPS: "GPSTag"}  # what tifffile calls them
LOSSLESS = {1, 5, 8, 32773, 32946, 34925, 50000}


class Page(NamedTuple):
    """The options to write a page again, and its shape."""

    options: dict[str, Any]
    shape: tuple[int, ...]
    tags: list[Tag]
    """EXIF and GPS data."""


def page_of(page: Any, dtype: np.dtype[Any], notes: dict[str, None]) -> Page:
    """Return the options to write a page again; adds notes on what cannot be preserved."""
    compression, predictor = page.compression, page.predictor
    photometric = page.photometric
    if int(compression) not in LOSSLESS:
        notes[f"compression {name_of(compression)} was replaced by a lossless one"] = None
        compression, predictor = tifffile.COMPRESSION.ADOBE_DEFLATE, 1
        # The JPEG decoder has converted it to RGB.
        if photometric == tifffile.PHOTOMETRIC.YCBCR:
            photometric = tifffile.PHOTOMETRIC.RGB
    if page.bitspersample not in (8, 16, 32, 64):
        notes[f"{page.bitspersample} bits were converted to {8 * dtype.itemsize}"] = None
    tags = _directories(page)
    if len(tags) < sum(code in page.tags for code in POINTERS):
        notes["the EXIF data were dropped, since they are damaged"] = None
    if any(find(child, MAKER_NOTE) for tag in tags for child in tag.children):
        notes["the maker notes were dropped, since they cannot be moved"] = None
        tags = without(tags, MAKER_NOTE)
    options: dict[str, Any] = {
        "photometric": photometric,
        "compression": compression,
        "predictor": None if int(predictor) == 1 else predictor,
        "planarconfig": page.planarconfig if page.samplesperpixel > 1 else None,
        "extrasamples": page.extrasamples or _unnamed_samples(page),
        "subfiletype": int(page.subfiletype) or None,
        "description": _description(page),
        "software": text_of(page, 305) or False,
        "datetime": _date(page, notes),
        "iccprofile": page.iccprofile,
        "colormap": page.colormap,
        "extratags": [
            (tag.code, tag.dtype, tag.count, _value(page, tag), False)
            for tag in page.tags
            if tag.code not in {*MANAGED, *POINTERS, INTEROPERABILITY}
        ],
    }
    if page.is_tiled:
        options["tile"] = page.tile
    elif 278 in page.tags and int(compression) != 1:
        options["rowsperstrip"] = min(page.rowsperstrip, page.imagelength)
    if 282 in page.tags and 283 in page.tags:
        options["resolution"] = (page.tags[282].value, page.tags[283].value)
        options["resolutionunit"] = page.tags[296].value if 296 in page.tags else 1
    kept = {key: value for key, value in options.items() if value is not None}
    return Page(kept, page.shape, tags)


def _directories(page: Any) -> list[Tag]:
    """Return the EXIF and GPS data of a page; none if they are damaged."""
    if not any(code in page.tags for code in POINTERS):
        return []
    handle = page.parent.filehandle
    handle.seek(0)
    try:
        tags = read_directory(handle, header_of(handle.read(16)), page.offset)
    except ValueError:
        return []
    return [tag for tag in tags if tag.code in POINTERS and tag.children]


def appended(file: Any, tags: list[Tag]) -> list[tuple[Any, ...]]:
    """Append EXIF and GPS data to a file that is being written; returns the tags that point to them."""
    pointers: list[tuple[Any, ...]] = []
    handle, big = file.filehandle, file.tiff.is_bigtiff
    for tag in tags:
        for child in tag.children:
            handle.seek(0, 2)
            handle.write(b"\0" * (handle.tell() % 2))
            place = handle.tell()
            handle.write(packed(child, file.tiff.byteorder, place, big))
            pointers.append((POINTERS[tag.code], "Q" if big else "I", 1, place, False))
    return pointers


def _unnamed_samples(page: Any) -> tuple[int, ...] | None:
    """Return the types of extra samples that are unspecified; tifffile would mark them as transparency."""
    count = page.samplesperpixel - 3 if page.photometric == tifffile.PHOTOMETRIC.RGB else 0
    return (0,) * count or None


def _description(page: Any) -> bytes | None:
    """Return the description; without the shape if tifffile wrote it, since pages are written one by one."""
    metadata = tifffile_metadata(page)
    if metadata is None:
        return text_of(page, 270)
    del metadata["shape"]
    return json.dumps(metadata).encode() if metadata else None


def _date(page: Any, notes: dict[str, None]) -> str | None:
    if 306 not in page.tags:
        return None
    value = str(page.tags[306].value)
    try:
        datetime.strptime(value, "%Y:%m:%d %H:%M:%S")
    except ValueError:
        notes["a date in an invalid format was dropped"] = None
        return None
    return value


def name_of(compression: Any) -> str:
    """Return the name of a compression, or its number if it is unknown."""
    return getattr(compression, "name", str(compression))


def _value(page: Any, tag: Any) -> Any:
    """Return the value of a tag; as raw bytes if tifffile has parsed it, as it does with ImageJ's labels."""
    if isinstance(tag.value, str):
        return tag.value.encode()
    return bytes_of(page, tag) if isinstance(tag.value, dict) else tag.value


def bytes_of(page: Any, tag: Any) -> bytes:
    """Return the bytes of a tag."""
    page.parent.filehandle.seek(tag.valueoffset)
    content: bytes = page.parent.filehandle.read(tag.valuebytecount)
    return content
