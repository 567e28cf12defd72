"""Directories of TIFF: lists of tags, as in TIFF files, EXIF data and the raw files of most cameras."""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO, NamedTuple

EXIF, GPS, INTEROPERABILITY, SUBIMAGES = 34665, 34853, 40965, 330
MAKER_NOTE = 37500
_POINTERS = {EXIF, GPS, INTEROPERABILITY}
# The format of the values of each type, as in the module `struct`.
_FORMATS = {
    1: "B", 2: "s", 3: "H", 4: "I", 5: "II", 6: "b", 7: "s", 8: "h", 9: "i", 10: "ii", 11: "f", 12: "d", 13: "I",
    16: "Q", 17: "q", 18: "Q",
}  # fmt: skip
_MAX_TAGS, _MAX_DEPTH = 4096, 4
BYTE, ASCII, SHORT, LONG, RATIONAL, SIGNED_RATIONAL, DOUBLE = 1, 2, 3, 4, 5, 10, 12


class Tag(NamedTuple):
    """A tag of a directory, or a pointer to other directories."""

    code: int
    kind: int
    """The number of its type."""
    data: bytes
    """The values, in the byte order of the file."""
    children: "tuple[tuple[Tag, ...], ...]" = ()
    """The directories that the tag points to."""

    def values(self, order: str) -> tuple[Any, ...]:
        """The values: bytes for text, floats for rational numbers."""
        form = _FORMATS[self.kind]
        if form == "s":
            return (self.data.rstrip(b"\0"),)
        count = len(self.data) // struct.calcsize(order + form)
        numbers = struct.unpack(order + count * form, self.data)
        if len(form) == 1:
            return numbers
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return tuple(above / below if below else 0.0 for above, below in pairs)


def new_tag(order: str, code: int, kind: int, *values: Any) -> Tag:
    """Return a tag with the given values: bytes for text, and floats for rational numbers."""
    if kind == ASCII:
        return Tag(code, kind, values[0] + b"\0")
    if kind in (RATIONAL, SIGNED_RATIONAL):
        values = tuple(part for value in values for part in (round(value * 10**6), 10**6))
    form = _FORMATS[kind][-1]
    return Tag(code, kind, struct.pack(f"{order}{len(values)}{form}", *values))


def pointer(code: int, *children: Sequence[Tag]) -> Tag:
    """Return a tag that points to directories."""
    return Tag(code, LONG, b"", tuple(map(tuple, children)))


def find(tags: Iterable[Tag], code: int) -> Tag | None:
    """Return the tag with the given code, or None."""
    return next((tag for tag in tags if tag.code == code), None)


class Header(NamedTuple):
    """The beginning of a file that consists of directories."""

    order: str
    """ "<" or ">", as in the module `struct`."""
    first: int
    """The place of the first directory."""
    big: bool = False
    """Whether it is a BigTIFF file."""


def header_of(head: bytes) -> Header:
    """Parse the first 16 bytes of a TIFF file, or of the raw files that differ from it by their magic number."""
    if head[:2] not in (b"II", b"MM") or len(head) < 8:
        raise ValueError("it does not begin like a TIFF file; expected II or MM")
    order = "<" if head[:2] == b"II" else ">"
    (magic,) = struct.unpack(order + "H", head[2:4])
    if magic == 43:
        return Header(order, struct.unpack(order + "Q", head[8:16])[0], big=True)
    return Header(order, struct.unpack(order + "I", head[4:8])[0])


def read_directory(
    file: BinaryIO, header: Header, place: int, images: bool = False, depth: int = 0
) -> list[Tag]:
    """Read a directory and those that it points to: EXIF and GPS data, and with `images` also those of images."""
    tags: list[Tag] = []
    number, entry = ("Q", "HHQ8s") if header.big else ("H", "HHI4s")
    (count,) = _unpacked(file, header.order + number, place)
    if count > _MAX_TAGS or depth > _MAX_DEPTH:
        raise ValueError("the file is damaged: one of its directories has too many tags")
    start, length = place + struct.calcsize(number), struct.calcsize(header.order + entry)
    offset = "Q" if header.big else "I"
    for k in range(count):
        code, kind, many, value = _unpacked(file, header.order + entry, start + k * length)
        if kind not in _FORMATS:
            continue
        size = many * struct.calcsize(header.order + _FORMATS[kind])
        if size > len(value):
            file.seek(struct.unpack(header.order + offset, value)[0])
            data = file.read(size)
            if len(data) < size:
                raise ValueError("the file is damaged: it ends before its last tag")
        else:
            data = value[:size]
        tag = Tag(code, kind, data)
        if code in _POINTERS or (images and code == SUBIMAGES):
            places = tag.values(header.order)
            if not all(isinstance(place, int) for place in places) or len(places) > 32:
                continue
            children = (
                tuple(read_directory(file, header, place, images, depth + 1)) for place in places
            )
            tag = Tag(code, LONG, b"", tuple(children))
        tags.append(tag)
    return tags


def _unpacked(file: BinaryIO, form: str, place: int) -> tuple[Any, ...]:
    file.seek(place)
    data = file.read(struct.calcsize(form))
    if len(data) < struct.calcsize(form):
        raise ValueError("the file is damaged: it ends before its last tag")
    return struct.unpack(form, data)


def packed(tags: Iterable[Tag], order: str, place: int, big: bool = False) -> bytes:
    """Return a directory, and those that it points to, as the bytes to write at a place of a file."""
    ordered = sorted(tags, key=lambda tag: tag.code)
    number, entry, offset = ("Q", "HHQ8s", "Q") if big else ("H", "HHI4s", "I")
    room = struct.calcsize(offset)
    length = struct.calcsize(number) + len(ordered) * struct.calcsize(order + entry) + room
    entries, rest = [struct.pack(order + number, len(ordered))], bytearray()

    def append(data: bytes) -> int:
        """Add bytes after the directory, and return their place."""
        at = place + length + len(rest)
        rest.extend(data + b"\0" * (len(data) % 2))
        return at

    for tag in ordered:
        data, kind = tag.data, tag.kind
        if tag.children:
            places = [
                append(packed(child, order, place + length + len(rest), big))
                for child in tag.children
            ]
            data, kind = struct.pack(f"{order}{len(places)}{offset}", *places), 16 if big else LONG
        count = len(data) // struct.calcsize(order + _FORMATS[kind])
        if len(data) > room:
            data = struct.pack(order + offset, append(data))
        entries.append(struct.pack(order + entry, tag.code, kind, count, data))
    entries.append(b"\0" * room)
    return b"".join(entries) + bytes(rest)


def without(tags: Iterable[Tag], *codes: int) -> list[Tag]:
    """Return the tags without those of the given codes, also in the directories that they point to."""
    return [
        tag._replace(children=tuple(tuple(without(child, *codes)) for child in tag.children))
        for tag in tags
        if tag.code not in codes
    ]
