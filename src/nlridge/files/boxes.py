"""Boxes, of which AVIF and JPEG XL files consist: reading them, and adding metadata that the libraries cannot write.

The metadata of an AVIF file are items (EXIF and XMP data) and properties (the color profile, the orientation) of its
image, as in ISO/IEC 23008-12.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# The turns by 90 degrees anticlockwise, and the axis of a mirror if any, for each orientation of EXIF.
_TURNS = {1: (0, None), 2: (0, 1), 3: (2, None), 4: (0, 0), 5: (1, 0), 6: (3, None), 7: (3, 0), 8: (1, None)}  # fmt: skip


class Item(NamedTuple):
    """Data of an AVIF file besides the image."""

    kind: bytes
    """Exif or mime."""
    name: bytes
    """The name of the item, and its content type if it has one; each ends with a zero byte."""
    data: bytes


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the content of each box."""
    at = 0
    while at + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        head = 8
        if size == 1:
            size, head = struct.unpack_from(">Q", data, at + 8)[0], 16
        end = len(data) if size == 0 else at + size
        if end < at + head or end > len(data):
            raise ValueError("a box is longer than the file; expected whole boxes")
        yield name, data[at + head : end]
        at = end


def box(name: bytes, *content: bytes) -> bytes:
    """Return a box."""
    whole = b"".join(content)
    return struct.pack(">I4s", 8 + len(whole), name) + whole


def exif_item(exif: bytes) -> Item:
    """Return EXIF data as an item."""
    return Item(b"Exif", b"\0", bytes(4) + exif.removeprefix(b"Exif\0\0"))


def xmp_item(xmp: bytes) -> Item:
    """Return XMP data as an item."""
    return Item(b"mime", b"\0application/rdf+xml\0", xmp)


def with_metadata(avif: bytes, items: Sequence[Item], profile: bytes | None, turn: int) -> bytes:
    """Add metadata to an AVIF file that has a single image and no metadata."""
    parts = dict(boxes(avif))
    meta = dict(boxes(parts[b"meta"][4:]))
    (primary,) = struct.unpack_from(">H", meta[b"pitm"], 4)
    places = _places(meta[b"iloc"])
    first = max(places) + 1
    numbers = range(first, first + len(items))
    infos = [
        box(b"infe", struct.pack(">IHH4s", 2 << 24, number, 0, item.kind), item.name)
        for number, item in zip(numbers, items, strict=True)
    ]
    count, head = struct.unpack_from(">H", meta[b"iinf"], 4)[0], meta[b"iinf"][:4]
    meta[b"iinf"] = head + struct.pack(">H", count + len(items)) + meta[b"iinf"][6:] + b"".join(infos)  # fmt: skip
    if items:
        links = [box(b"cdsc", struct.pack(">HHH", number, 1, primary)) for number in numbers]
        meta[b"iref"] = meta.get(b"iref", bytes(4)) + b"".join(links)
    meta[b"iprp"] = _with_properties(meta[b"iprp"], primary, _properties(profile, turn))
    content = avif.index(parts[b"mdat"])  # places are counted from the start of the file
    places = {k: [(at - content, size) for at, size in extents] for k, extents in places.items()}
    pixels, data = parts[b"mdat"], b"".join(item.data for item in items)
    at = len(pixels)
    for number, item in zip(numbers, items, strict=True):
        places[number] = [(at, len(item.data))]
        at += len(item.data)

    def head_of(start: int) -> bytes:
        meta[b"iloc"] = _location(places, start)
        return box(b"ftyp", parts[b"ftyp"]) + box(
            b"meta", parts[b"meta"][:4], *(box(*each) for each in meta.items())
        )

    start = len(head_of(0)) + 8  # its length does not depend on the places
    return head_of(start) + box(b"mdat", pixels, data)


def _places(iloc: bytes) -> dict[int, list[tuple[int, int]]]:
    """The places and sizes of the parts of each item."""
    version, sizes, bases = iloc[0], iloc[4], iloc[5]
    offset_size, length_size, base_size = sizes >> 4, sizes & 15, bases >> 4
    index_size = bases & 15 if version else 0
    at = 6

    def number(size: int) -> int:
        nonlocal at
        at += size
        return int.from_bytes(iloc[at - size : at], "big")

    places = {}
    for _ in range(number(4 if version == 2 else 2)):
        item = number(4 if version == 2 else 2)
        if version and number(2) & 15:
            raise ValueError("an item is not stored in the file itself; expected that it is")
        number(2)  # the file, which is this one
        base = number(base_size)
        extents = []
        for _ in range(number(2)):
            number(index_size)
            offset = number(offset_size)
            extents.append((base + offset, number(length_size)))
        places[item] = extents
    return places


def _location(places: dict[int, list[tuple[int, int]]], start: int) -> bytes:
    """The content of the box that locates the items; their places are relative to `start`."""
    parts = [struct.pack(">IBBH", 0, 0x44, 0, len(places))]
    for item, extents in places.items():
        parts.append(struct.pack(">HHH", item, 0, len(extents)))
        parts += [struct.pack(">II", start + at, size) for at, size in extents]
    return b"".join(parts)


def _properties(profile: bytes | None, turn: int) -> list[tuple[bool, bytes]]:
    """The properties for a color profile and an orientation, each with a flag: whether a reader must understand it."""
    properties = [(False, box(b"colr", b"prof", profile))] if profile else []
    angle, axis = _TURNS[turn]
    if angle:
        properties.append((True, box(b"irot", bytes([angle]))))
    if axis is not None:
        properties.append((True, box(b"imir", bytes([axis]))))
    return properties


def _with_properties(iprp: bytes, primary: int, properties: Sequence[tuple[bool, bytes]]) -> bytes:
    """Add properties to those of the primary item."""
    parts = dict(boxes(iprp))
    count = len(list(boxes(parts[b"ipco"])))
    if count + len(properties) > 127:
        raise ValueError("it has too many properties; expected at most 127")
    added = [(important << 7) | (count + k) for k, (important, _) in enumerate(properties, 1)]
    ipma = parts[b"ipma"]
    if ipma[0] or ipma[3] & 1:
        raise ValueError("its properties are stored in an unknown way; expected short numbers")
    rows, at = [], 8
    for _ in range(int.from_bytes(ipma[4:8], "big")):
        item, length = struct.unpack_from(">HB", ipma, at)
        own = [*ipma[at + 3 : at + 3 + length], *(added if item == primary else ())]
        rows.append(struct.pack(">HB", item, len(own)) + bytes(own))
        at += 3 + length
    ipco = parts[b"ipco"] + b"".join(each for _, each in properties)
    return box(b"ipco", ipco) + box(b"ipma", ipma[:8], *rows)
