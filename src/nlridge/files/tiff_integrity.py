"""Checks that a TIFF file holds the pages and pixels that it claims to; tifffile would fill in missing ones."""

import io
import json
import struct
from typing import Any
from xml.etree import ElementTree

import numpy as np
from PIL import Image, UnidentifiedImageError

from .damage import refuse_too_large

# The size in bytes of each type of tag.
_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}  # fmt: skip
# Compressions that embed images with a size of their own: JPEG, then JPEG 2000 and WebP.
_JPEG = {6, 7}
EMBEDDED_IMAGES = _JPEG | {33003, 33004, 33005, 34712, 34927, 50001}


def expect_pages(file: Any) -> None:
    """Refuse files with missing pages; tifffile would drop them, or fill in those that OME-XML counts."""
    pages, truncated = _count_pages(file)
    if file.is_ome:
        tree = ElementTree.fromstring(file.ome_metadata)
        sizes = [
            [int(pixels.get(f"Size{axis}", 1)) for axis in "CZT"]
            for pixels in tree.findall("{*}Image/{*}Pixels")
        ]
        claimed = sum(int(np.prod(planes, dtype=object)) for planes in sizes)
        _expect_count(claimed, pages * file.pages.first.samplesperpixel)
    if truncated and file.is_imagej:
        _expect_count((file.imagej_metadata or {}).get("images", 1), pages)
    if truncated:
        raise ValueError(f"the file is damaged: it ends before its last {truncated}")


def _count_pages(file: Any) -> tuple[int, str]:
    """Follow the chain of pages; returns the number of complete ones, and what is truncated ("tag", "page" or "")."""
    form = file.tiff
    seen: set[int] = set()
    try:
        (offset,) = _numbers(file, 8 if file.is_bigtiff else 4, form.offsetformat)
        while offset:
            if offset in seen:
                raise ValueError("the file is damaged: its pages form a loop")
            (tags,) = _numbers(file, offset, form.tagnoformat)
            at = offset + form.tagnosize
            for _ in range(tags):
                _, kind, count, place = _numbers(file, at, "HHQQ" if file.is_bigtiff else "HHII")
                length = count * _BYTES.get(kind, 0)
                if length > form.offsetsize and place + length > file.filehandle.size:
                    return len(seen), "tag"
                at += form.tagsize
            seen.add(offset)
            (offset,) = _numbers(file, at, form.offsetformat)
    except EOFError:
        return len(seen), "page"
    return len(seen), ""


def _numbers(file: Any, offset: int, form: str) -> tuple[int, ...]:
    form = file.byteorder + form.lstrip("<>")
    file.filehandle.seek(offset)
    data = file.filehandle.read(struct.calcsize(form))
    if len(data) < struct.calcsize(form):
        raise EOFError
    return struct.unpack(form, data)


def expect_images(file: Any) -> None:
    """Check the number of images against the metadata of ImageJ and tifffile."""
    claimed = (file.imagej_metadata or {}).get("images", 1) if file.is_imagej else 1
    held = sum(
        int(np.prod([n for a, n in zip(s.axes, s.shape, strict=True) if a not in "YXS"]))
        for s in file.series
    )
    _expect_count(claimed, held)
    for series in file.series:
        page = series.keyframe
        shape = (tifffile_metadata(page) or {}).get("shape", ())
        _expect_count(int(np.prod(shape, dtype=object)) // page.size, series.size // page.size)


def _expect_count(claimed: int, held: int) -> None:
    if held < claimed:
        raise ValueError(f"the file is damaged: it holds {held} of {claimed} images")


def expect_pixels(series: Any, size: int) -> None:
    """Refuse files with missing strips or tiles, which tifffile would fill in."""
    expected = int(np.prod(series.keyframe.chunked))
    for page in series.pages:
        if page is None:
            raise ValueError("the file is damaged: one of its images is missing")
        # tifffile would decode all pages like the first one.
        if page.aspage().hash != series.keyframe.hash:
            raise ValueError("the file is damaged: its pages differ in how they are stored")
        offsets, counts = page.dataoffsets, page.databytecounts
        if not len(offsets) == len(counts) == expected or not all(counts):
            raise ValueError("the file is damaged: some of its pixels are missing")
        if any(start + count > size for start, count in zip(offsets, counts, strict=True)):
            raise ValueError("the file is damaged: it ends before its last pixel")


def refuse_large_pages(file: Any, size: int) -> None:
    """Check the decoded size of all pages; pages may share strips, and tiles may extend beyond the image."""
    first = file.series[0].keyframe
    decoded = 0
    for series in file.series:
        page = series.keyframe
        grid = page.chunked + page.chunks if page.is_tiled else page.shaped
        decoded += len(series.pages) * int(np.prod(grid, dtype=object)) * page.dtype.itemsize
    pages = sum(len(series.pages) for series in file.series)
    counted = f"{pages} pages of " if pages > 1 else ""
    refuse_too_large(f"{counted}{first.imagewidth} x {first.imagelength} pixels", decoded, size)


def expect_embedded_sizes(series: Any) -> None:
    """Check embedded images, which decoders decode at their own size, and even if they are truncated."""
    compression = int(series.keyframe.compression)
    if compression not in EMBEDDED_IMAGES:
        return
    page = series.keyframe
    largest = (
        (page.tilelength, page.tilewidth) if page.is_tiled else (page.rowsperstrip, page.imagewidth)
    )
    handle = page.parent.filehandle
    for page in series.pages:
        for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True):
            handle.seek(offset)
            data = handle.read(count)
            size = _size_of_jpeg(data) if compression in _JPEG else _size_by_pillow(data)
            if size[0] > largest[0] or size[1] > largest[1]:
                raise ValueError(
                    "the file is damaged: an embedded image is larger than its header claims"
                )


def _size_of_jpeg(data: bytes) -> tuple[int, int]:
    """Return the height and width of a JPEG image; raises ValueError if its end is missing."""
    at = 2
    while data[at : at + 1] == b"\xff":
        kind, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            if b"\xff\xd9" not in data[at + length :]:
                raise ValueError("the file is damaged: an embedded JPEG image is truncated")
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return height, width
        at += 2 + length
    raise ValueError("the file is damaged: an embedded JPEG image has no header")


def _size_by_pillow(data: bytes) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(data), formats=["JPEG2000", "WEBP"]) as image:
            return image.height, image.width
    except UnidentifiedImageError:
        raise ValueError("the file is damaged: an embedded image has no header") from None


def text_of(page: Any, code: int) -> bytes | None:
    value = page.tags[code].value if code in page.tags else None
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None


def tifffile_metadata(page: Any) -> dict[str, Any] | None:
    """Return the metadata that tifffile writes as the description of a page."""
    text = text_of(page, 270)
    if text is None or not text.startswith(b'{"shape":'):
        return None
    try:
        metadata: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return metadata
