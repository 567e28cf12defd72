"""Writing DNG files: the mosaic of a camera with its tags, losslessly compressed, and a preview."""

import io
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from ..types import Pixels
from .directories import (
    ASCII,
    BYTE,
    DOUBLE,
    EXIF,
    GPS,
    LONG,
    RATIONAL,
    SHORT,
    SIGNED_RATIONAL,
    SUBIMAGES,
    Tag,
    find,
    new_tag,
    packed,
    pointer,
)

NOISE_PROFILE = 51041
_TILES = (512, 256, 128, 64, 32, 16)
_MOSAIC = 32803  # the photometric interpretation
_JPEG = 7
# Tags of a raw image rather than of the file.
_OF_RAW = {
    33421, 33422, 50710, 50711, 50713, 50714, 50715, 50716, 50717, 50718, 50719, 50720, 50733, 50737, 50738, 50780,
    50829, 50830, 51008, 51009, 51022, 51041, 51125, 51108, 51109, 51110,
}  # fmt: skip
# Tags that describe how pixels are stored, or that do not apply to other pixels: previews, digests, and the table by
# which stored values were converted.
_NOT_KEPT = {
    254, 255, 256, 257, 258, 259, 262, 273, 277, 278, 279, 284, 317, 322, 323, 324, 325, 330, 338, 339, 347, 513, 514,
    529, 530, 531, 532, 34665, 34853, 37398, 50706, 50707, 50712, 50781, 50828, 50966, 50967, 50968, 50969, 50970, 50971,
    50972, 50973, 51111, 52525,
}  # fmt: skip


class RawFile(NamedTuple):
    """What a DNG file holds besides the pixels of the image."""

    pixels: Pixels
    """The values of all pixels of the sensor, (height, width), including those that are not part of the image."""
    area: tuple[int, int, int, int]
    """The image: its first row and column, and those after its last ones."""
    order: str
    """The byte order of the tags."""
    tags: list[Tag]
    """The tags of the file: the camera, its colors, the orientation, EXIF and GPS data."""
    raw_tags: list[Tag]
    """The tags of the raw image: pattern, black and white level, crop, corrections."""

    def with_image(self, pixels: Pixels) -> "RawFile":
        """Return the file with other pixels in the image."""
        top, left, bottom, right = self.area
        whole = self.pixels.copy()
        whole[top:bottom, left:right] = pixels
        return self._replace(pixels=whole)


def kept_tags(first: Sequence[Tag], raw: Sequence[Tag]) -> tuple[list[Tag], list[Tag]]:
    """Return the tags to keep of a DNG file, and of its raw image, which may be the same directory."""
    tags = [tag for tag in first if tag.code not in _NOT_KEPT | _OF_RAW]
    tags += [tag for tag in first if tag.code in (EXIF, GPS) and tag.children]
    of_raw = {tag.code: tag for tag in [*first, *raw] if tag.code in _OF_RAW}
    if raw is not first:
        others = (tag for tag in raw if tag.code not in _NOT_KEPT | {tag.code for tag in tags})
        of_raw |= {tag.code: tag for tag in others}
    return tags, list(of_raw.values())


def camera_tags(
    order: str, matrix: Pixels, white_balance: Sequence[float], name: bytes
) -> list[Tag]:
    """Return the tags that define the colors of a camera.

    `matrix` converts XYZ to the colors of the camera under daylight, and `white_balance` has the factors of red, green
    and blue.
    """
    red, green, blue = white_balance
    neutral = (green / red, 1.0, green / blue)
    return [
        new_tag(order, 50708, ASCII, name),  # unique name of the camera
        new_tag(order, 50721, SIGNED_RATIONAL, *np.ravel(matrix).tolist()),
        new_tag(order, 50778, SHORT, 21),  # D65
        new_tag(order, 50728, RATIONAL, *neutral),
    ]


def raw_tags(
    order: str,
    pattern: str,
    black: Sequence[float],
    white: float,
    area: tuple[int, int, int, int],
    crop: tuple[int, int, int, int],
) -> list[Tag]:
    """Return the tags of a raw image; `crop` has column, row, width and height of the part to show."""
    return [
        new_tag(order, 33421, SHORT, 2, 2),
        new_tag(order, 33422, BYTE, *("RGB".index(color) for color in pattern)),
        new_tag(order, 50713, SHORT, 2, 2),
        new_tag(order, 50714, RATIONAL, *black),
        new_tag(order, 50717, LONG, round(white)),
        new_tag(order, 50719, LONG, *crop[:2]),
        new_tag(order, 50720, LONG, *crop[2:]),
        new_tag(order, 50829, LONG, *area),
    ]


def noise_profile(order: str, tag: Tag | None, gain: float, read_noise: float, span: float) -> Tag:
    """Return a noise profile for as many colors as in a given one; `span` is the range from black to white."""
    pair = gain / span, (read_noise / span) ** 2
    count = 1 if tag is None else max(len(tag.values(order)) // 2, 1)
    return new_tag(order, NOISE_PROFILE, DOUBLE, *(pair * count))


def dng_bytes(raw: RawFile, preview: Pixels | None = None, compressed: bool = True) -> bytes:
    """Return a DNG file.

    Without a preview, in 8-bit color, the raw image is the first image of the file.
    """
    order = raw.order
    data = bytearray(b"II*\0" if order == "<" else b"MM\0*") + bytearray(4)
    image = [
        *raw.raw_tags,
        new_tag(order, 254, LONG, 0),
        new_tag(order, 256, LONG, raw.pixels.shape[1]),
        new_tag(order, 257, LONG, raw.pixels.shape[0]),
        new_tag(order, 258, SHORT, 16),
        new_tag(order, 262, SHORT, _MOSAIC),
        new_tag(order, 277, SHORT, 1),
        new_tag(order, 284, SHORT, 1),
        *_stored(raw.pixels, order, data, compressed),
    ]
    tags = [
        *raw.tags,
        new_tag(order, 50706, BYTE, 1, 4, 0, 0),
        new_tag(order, 50707, BYTE, 1, 3 if find(raw.raw_tags, 51009) else 1, 0, 0),
    ]
    if preview is None:
        tags += [tag for tag in image if find(tags, tag.code) is None]
    else:
        tags += [*_preview_tags(preview, order, data), pointer(SUBIMAGES, image)]
    place = len(data)
    data[4:8] = place.to_bytes(4, "little" if order == "<" else "big")
    return bytes(data) + packed(tags, order, place)


def _stored(pixels: Pixels, order: str, data: bytearray, compressed: bool) -> list[Tag]:
    """Append pixels to the data of a file, and return the tags that describe where and how they are stored."""
    # LibRaw misreads tiles that are wider than the image, and those of an image that is two tiles wide.
    width = pixels.shape[1]
    sides = [side for side in _TILES if side <= width != 2 * side]
    if not compressed or not sides:
        place = len(data)
        data.extend(pixels.astype(f"{order}u2").tobytes())
        return [
            new_tag(order, 259, SHORT, 1),
            new_tag(order, 273, LONG, place),
            new_tag(order, 278, LONG, len(pixels)),
            new_tag(order, 279, LONG, len(data) - place),
        ]
    import imagecodecs

    side = sides[0]
    height, width = (math.ceil(length / side) * side for length in pixels.shape)
    whole = np.pad(pixels, ((0, height - len(pixels)), (0, width - pixels.shape[1])), "edge")
    places, lengths = [], []
    for y in range(0, height, side):
        for x in range(0, width, side):
            # Two neighbours count as two colors, so that pixels are predicted from those of the same color.
            tile = np.ascontiguousarray(whole[y : y + side, x : x + side])
            code = imagecodecs.jpeg_encode(
                tile.reshape(side, side // 2, 2), lossless=True, predictor=1, bitspersample=16
            )
            places.append(len(data))
            lengths.append(len(code))
            data.extend(code + b"\0" * (len(code) % 2))
    return [
        new_tag(order, 259, SHORT, _JPEG),
        new_tag(order, 322, LONG, side),
        new_tag(order, 323, LONG, side),
        new_tag(order, 324, LONG, *places),
        new_tag(order, 325, LONG, *lengths),
    ]


def _preview_tags(preview: Pixels, order: str, data: bytearray) -> list[Tag]:
    """Append a preview to the data of a file, and return its tags."""
    jpeg = io.BytesIO()
    Image.fromarray(preview).save(jpeg, "JPEG", quality=90, subsampling=0)
    place = len(data)
    data.extend(jpeg.getvalue() + b"\0" * (jpeg.tell() % 2))
    height, width = preview.shape[:2]
    return [
        new_tag(order, 254, LONG, 1),
        new_tag(order, 256, LONG, width),
        new_tag(order, 257, LONG, height),
        new_tag(order, 258, SHORT, 8, 8, 8),
        new_tag(order, 259, SHORT, _JPEG),
        new_tag(order, 262, SHORT, 6),
        new_tag(order, 273, LONG, place),
        new_tag(order, 277, SHORT, 3),
        new_tag(order, 278, LONG, height),
        new_tag(order, 279, LONG, jpeg.tell()),
        new_tag(order, 284, SHORT, 1),
        new_tag(order, 530, SHORT, 1, 1),
        new_tag(order, 50970, LONG, 2),  # the color space of the preview is sRGB
    ]
