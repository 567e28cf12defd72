"""IPTC data (captions, keywords, copyright): a Photoshop resource in JPEG files, a tag of its own in TIFF files."""

import struct
from collections.abc import Iterator

_SIGNATURE = b"Photoshop 3.0\0"
_IPTC = 0x0404
_MAX_SEGMENT = 0xFFFF - 2  # bytes of a segment
_STANDALONE = (0x01, *range(0xD0, 0xD9))  # markers without a length


def segments(jpeg: bytes) -> bytes:
    """Return the segments of a JPEG file that contain Photoshop resources, unchanged."""
    found, at = [], 2
    while at + 4 <= len(jpeg) and jpeg[at] == 0xFF:
        marker = jpeg[at + 1]
        if marker == 0xFF or marker in _STANDALONE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in (0xD9, 0xDA):  # the end, and the pixels
            break
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        if marker == 0xED and jpeg[at + 4 : end].startswith(_SIGNATURE):
            found.append(jpeg[at:end])
        at = end
    return b"".join(found)


def with_segments(jpeg: bytes, inserted: bytes) -> bytes:
    """Insert segments into a JPEG file, after the application segments at its beginning."""
    at = 2
    while jpeg[at] == 0xFF and 0xE0 <= jpeg[at + 1] <= 0xEF:
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    return jpeg[:at] + inserted + jpeg[at:]


def of_segments(found: bytes) -> bytes | None:
    """Return the IPTC data in segments; None if there are none, or if they are damaged."""
    resources, at = b"", 0
    while at + 4 <= len(found):
        end = at + 2 + int.from_bytes(found[at + 2 : at + 4], "big")
        resources += found[at + 4 + len(_SIGNATURE) : end]
        at = end
    return dict(_resources(resources)).get(_IPTC)


def as_segment(iptc: bytes) -> bytes | None:
    """Return IPTC data as a segment of a JPEG file; None if they are too long for one."""
    padded = iptc + b"\0" * (len(iptc) % 2)
    content = _SIGNATURE + b"8BIM" + struct.pack(">HHI", _IPTC, 0, len(iptc)) + padded
    if len(content) > _MAX_SEGMENT:
        return None
    return b"\xff\xed" + struct.pack(">H", 2 + len(content)) + content


def _resources(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the content of each resource; names and contents are padded to an even length."""
    at = 0
    while data[at : at + 4] == b"8BIM" and at + 12 <= len(data):
        (number,) = struct.unpack_from(">H", data, at + 4)
        name = 1 + data[at + 6]
        start = at + 6 + name + name % 2
        length = int.from_bytes(data[start : start + 4], "big")
        content = data[start + 4 : start + 4 + length]
        if len(content) < length:
            return
        yield number, content
        at = start + 4 + length + length % 2
