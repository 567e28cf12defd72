"""The metadata of raw files of all makes, and of photographs: EXIF and GPS data, and the tags that name the camera."""

import io
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .directories import (
    ASCII,
    EXIF,
    GPS,
    RATIONAL,
    SHORT,
    Header,
    Tag,
    find,
    header_of,
    new_tag,
    pointer,
    read_directory,
)
from .picture import Picture

# Tags of the first directory of a raw file that apply to the whole file: description, maker, model, orientation,
# software, date, artist and copyright.
_KEPT = {270, 271, 272, 274, 305, 306, 315, 33432, EXIF, GPS}
# Tags of EXIF data, which old cameras write to the first directory.
_MISPLACED = {33434, 33437, 34850, 34855, 36867, *range(37377, 37387)}
_BOXES = (b"CMT1", b"CMT2", b"CMT4")  # boxes of CR3 files: the first directory, EXIF and GPS data
_ISO, _ISO_UNKNOWN = 34855, 65535  # a tag of EXIF data, and its value for speeds that are larger
_HEAD = 2**20  # bytes at the start of a file that contain the boxes


class Metadata(NamedTuple):
    """The tags of a raw file, in the byte order `order`."""

    order: str
    tags: list[Tag]

    def text(self, code: int) -> bytes:
        """Return the text of a tag; empty if there is none."""
        tag = find(self.tags, code)
        return tag.data.rstrip(b"\0 ").strip() if tag is not None and tag.kind == ASCII else b""


def metadata_of(path: Path, raw: Any) -> Metadata:
    """Return the metadata of a raw file; `raw` is the file as opened by rawpy, which provides a few of them."""
    for source in (_of_directories, _of_boxes, _of_preview):
        try:
            with open(path, "rb") as file:
                metadata = source(file, raw)
        except Exception:  # not a file of this kind, or a damaged one
            continue
        if metadata is not None and metadata.tags:
            tags = [tag for tag in metadata.tags if tag.code in _KEPT]
            if find(tags, EXIF) is None:
                tags.append(pointer(EXIF, [tag for tag in metadata.tags if tag.code in _MISPLACED]))
            return metadata._replace(tags=tags)
    return _of_library(raw)


def _of_directories(file: BinaryIO, raw: Any) -> Metadata:
    """The metadata of files with the structure of TIFF, whatever their magic number."""
    return _from(file)


def _from(file: BinaryIO) -> Metadata:
    header = header_of(file.read(16))
    return Metadata(header.order, read_directory(file, header, header.first))


def _of_boxes(file: BinaryIO, raw: Any) -> Metadata | None:
    """The metadata of CR3 files, which have three small TIFF files in boxes."""
    head = file.read(_HEAD)
    if head[4:11] != b"ftypcrx":
        return None
    parts = []
    for name in _BOXES:
        at = head.index(name)
        length = int.from_bytes(head[at - 4 : at], "big")
        parts.append(_from(io.BytesIO(head[at + 4 : at - 4 + length])))
    first, exif, gps = parts
    return first._replace(tags=[*first.tags, pointer(EXIF, exif.tags), pointer(GPS, gps.tags)])


def _of_preview(file: BinaryIO, raw: Any) -> Metadata | None:
    """The metadata of a preview in the file, which is a JPEG image with EXIF data, as in RAF files."""
    return _of_jpeg(bytes(raw.extract_thumb().data))


def _of_jpeg(data: bytes) -> Metadata | None:
    at = data.find(b"Exif\0\0", 0, 2**16)
    return None if at < 0 else _from(io.BytesIO(data[at + 6 :]))


def _of_library(raw: Any) -> Metadata:
    """The metadata that LibRaw provides for any file."""
    order, other = "<", raw.other
    exif = [
        new_tag(order, code, RATIONAL, value)
        for code, value in ((33434, other.shutter_speed), (33437, other.aperture), (37386, other.focal_length))
        if 0 < value < 4000
    ]  # fmt: skip
    if 0 < other.iso_speed < _ISO_UNKNOWN:
        exif.append(new_tag(order, _ISO, SHORT, round(other.iso_speed)))
    return Metadata(order, [pointer(EXIF, exif)] if exif else [])


def blob(metadata: Metadata) -> bytes:
    """Return metadata as the EXIF data of other formats, upright."""
    from .directories import packed

    order = metadata.order
    tags = [tag for tag in metadata.tags if tag.code in _KEPT - {274}]
    head = (
        b"II*\0" + (8).to_bytes(4, "little") if order == "<" else b"MM\0*" + (8).to_bytes(4, "big")
    )
    return head + packed(tags, order, 8)


def of_blob(exif: bytes) -> tuple[Header, list[Tag]]:
    """Return the tags of EXIF data of other formats."""
    file = io.BytesIO(exif.removeprefix(b"Exif\0\0"))
    header = header_of(file.read(16))
    return header, read_directory(file, header, header.first)


def iso_of(picture: Picture) -> int | None:
    """Return the ISO speed at which a picture was taken; None if the file does not say."""
    if picture.format == "raw":
        order, tags = picture.origin.order, picture.origin.tags
    else:
        try:
            (order, *_), tags = of_blob(picture.exif or b"")
        except (ValueError, OverflowError):  # there are none, or they are damaged
            return None
    found = [find(child, _ISO) for tag in tags if tag.code == EXIF for child in tag.children]
    speeds = [speed for tag in found if tag is not None for speed in tag.values(order)[:1]]
    return next((s for s in speeds if isinstance(s, int) and 0 < s < _ISO_UNKNOWN), None)
