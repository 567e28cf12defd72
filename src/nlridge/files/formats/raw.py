"""Raw files of cameras, read with rawpy (LibRaw) and written as DNG.

The picture is the mosaic of the sensor; its pattern, its levels and the noise that the file states are part of the layer.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...checks import not_installed
from ...noise import Noise
from ...noise.poisson import PoissonGaussianNoise
from ...planning.mosaic import PATTERNS, Mosaic
from ..camera_metadata import metadata_of
from ..damage import refuse_too_large
from ..develop import preview_of
from ..directories import (
    EXIF,
    MAKER_NOTE,
    SHORT,
    SUBIMAGES,
    Header,
    Tag,
    find,
    header_of,
    new_tag,
    read_directory,
    without,
)
from ..dng import NOISE_PROFILE, RawFile, camera_tags, dng_bytes, kept_tags, noise_profile, raw_tags
from ..picture import Layer, Picture

NAME = "raw"
SUFFIXES = (
    ".dng", ".cr2", ".cr3", ".crw", ".nef", ".nrw", ".arw", ".sr2", ".srf", ".raf", ".orf", ".rw2", ".raw", ".rwl",
    ".pef", ".srw", ".3fr", ".fff", ".iiq", ".mrw", ".mef", ".mos", ".erf", ".kdc", ".dcr", ".k25", ".x3f",
)  # fmt: skip
KEEPS = ("exif",)
WRITES = ".dng"
"""The suffix of the files that it writes, whatever the suffix of those that it reads."""
_MAGIC = (b"II", b"MM", b"FUJIFILM", b"\0MRM", b"FOVb")
# The inverse of the primaries of sRGB, which LibRaw assumes for cameras that it does not know.
_UNKNOWN_CAMERA = [
    [3.2404542, -1.5371385, -0.4985314],
    [-0.9692660, 1.8760108, 0.0415560],
    [0.0556434, -0.2040259, 1.0572252],
]
_FOVEON = b"FOVb"
_SAMPLE_FORMAT, _FLOATING_POINT = 339, 3
_PHOTOMETRIC, _MOSAIC, _LINEAR = 262, 32803, 34892
_TURNS = {0: 1, 3: 3, 5: 8, 6: 6}  # LibRaw's orientations as those of EXIF


def recognises(head: bytes) -> bool:
    return head.startswith(_MAGIC) or head[4:11] == b"ftypcrx"


def read(path: Path, axes: str | None) -> Picture:
    _refuse_unopened(path)
    rawpy = _rawpy()
    with rawpy.RawPy() as raw:
        try:
            raw.open_file(str(path))
        except rawpy.LibRawFileUnsupportedError:
            raise ValueError(
                "LibRaw does not know this kind of raw file, or its compression (as that of GPR files); "
                "expected another: convert it to DNG, or develop it, and denoise the result"
            ) from None
        sizes = raw.sizes
        pixels_in_words = f"{sizes.raw_width} x {sizes.raw_height} pixels"
        decoded = 2 * sizes.raw_width * sizes.raw_height
        refuse_too_large(pixels_in_words, decoded, path.stat().st_size)
        raw.unpack()
        _refuse(raw)
        colors = raw.raw_colors_visible[:2, :2].ravel().tolist()
        pattern = "".join(chr(raw.color_desc[color]) for color in colors)
        black = [float(raw.black_level_per_channel[color]) for color in colors]
        white = float(raw.white_level)
        area = (
            sizes.top_margin,
            sizes.left_margin,
            sizes.top_margin + sizes.height,
            sizes.left_margin + sizes.width,
        )
        file = _dng_file(path, raw, area) or _other_file(path, raw, area, pattern, black)
        turn = _TURNS.get(sizes.flip, 1)
    image = file.pixels[area[0] : area[2], area[1] : area[3]].copy()
    notes = []
    if _has_maker_note(file.tags):
        notes.append("the maker notes were dropped, since they cannot be moved")
        file = file._replace(tags=without(file.tags, MAKER_NOTE))
    mosaic = Mosaic(pattern, tuple(black), white if white > max(black) else None)
    noise = _stated_noise(file, white - float(np.mean(black)))
    layer = Layer(image, "YX", mosaic=mosaic, noise=noise)
    return Picture("raw", [layer], turn=turn, origin=file, notes=notes)


def write(path: Path, picture: Picture, name: Path) -> None:
    if name.suffix.lower() != WRITES:
        raise ValueError(
            f"the suffix of the file is {name.suffix}; expected {WRITES}, in which raw images are written"
        )
    if picture.format != "raw":
        raise ValueError("the picture is not raw; expected another format than DNG")
    file = raw_file(picture)
    path.write_bytes(dng_bytes(file, preview_of(file)))


def raw_file(picture: Picture) -> RawFile:
    """Return the content of the DNG file of a picture."""
    file: RawFile = picture.origin
    layer = picture.layers[0]
    stated = find(file.raw_tags, NOISE_PROFILE)
    noise, mosaic = layer.noise, layer.mosaic
    if isinstance(noise, PoissonGaussianNoise) and mosaic is not None:
        span = (mosaic.white_level or 1.0) - float(mosaic.black_levels.mean())
        profile = noise_profile(file.order, stated, noise.gain, noise.read_noise, span)
        if noise != _stated_noise(
            file, span
        ):  # the numbers of a file that is not changed stay as they are
            file = file._replace(raw_tags=[*without(file.raw_tags, NOISE_PROFILE), profile])
    return file.with_image(layer.pixels)


def _refuse_unopened(path: Path) -> None:
    """Refuse files that are known to hold no Bayer mosaic before LibRaw, some of whose decoders they are for, opens them."""
    with open(path, "rb") as file:
        if file.read(len(_FOVEON)) == _FOVEON:
            raise ValueError(
                "all of its pixels have three colors (Foveon); expected a Bayer mosaic: "
                "develop it and denoise the result"
            )
    dng = _dng_directories(path)
    if dng is None:
        return
    for tags in dng.images:
        is_raw = _number(tags, dng.header, _PHOTOMETRIC) in (_MOSAIC, _LINEAR)
        if is_raw and _number(tags, dng.header, _SAMPLE_FORMAT) == _FLOATING_POINT:
            raise ValueError("its pixels are floating-point; expected integers")


def _refuse(raw: Any) -> None:
    """Refuse files without a Bayer mosaic."""
    pixels = raw.raw_image
    if pixels is None:
        raise ValueError("its pixels are floating-point or missing; expected integers")
    if pixels.ndim == 3:
        raise ValueError(
            "it has been demosaicked already (a linear DNG); expected a mosaic: develop it and denoise the result"
        )
    pattern = raw.raw_pattern
    if pattern is None or pattern.shape != (2, 2) or raw.num_colors != 3:
        what = "X-Trans" if pattern is not None and pattern.shape == (6, 6) else "unknown"
        raise ValueError(
            f"its pattern of colors is {what}; expected a Bayer pattern, such as RGGB: "
            "develop it and denoise the result"
        )
    colors = raw.raw_colors_visible[:2, :2].ravel().tolist()
    if "".join(chr(raw.color_desc[color]) for color in colors) not in PATTERNS:
        raise ValueError("its pattern has other colors than red, green and blue; expected RGGB")


def _dng_file(path: Path, raw: Any, area: tuple[int, int, int, int]) -> RawFile | None:
    """The content of a DNG file with its own tags; None for other files."""
    dng = _dng_directories(path)
    if dng is None:
        return None
    images = [tags for tags in dng.images if _size(tags, dng.header) == raw.raw_image.shape]
    mosaics = [tags for tags in images if _number(tags, dng.header, _PHOTOMETRIC) == _MOSAIC]
    if not mosaics:
        raise ValueError("its tags do not describe its mosaic; expected a Bayer DNG")
    tags, of_raw = kept_tags(dng.images[0], mosaics[0])
    return RawFile(raw.raw_image.copy(), area, dng.header.order, tags, of_raw)


class _Directories(NamedTuple):
    """The directories of a DNG file."""

    header: Header
    images: list[list[Tag]]
    """Of its images, the first one first."""


def _dng_directories(path: Path) -> _Directories | None:
    """The directories of a DNG file; None for other files."""
    with open(path, "rb") as file:
        try:
            header = header_of(file.read(16))
            first = read_directory(file, header, header.first, images=True)
        except ValueError:
            return None
    if find(first, 50706) is None:
        return None
    pointed = find(first, SUBIMAGES)
    return _Directories(header, [first, *map(list, pointed.children if pointed else ())])


def _other_file(
    path: Path, raw: Any, area: tuple[int, int, int, int], pattern: str, black: list[float]
) -> RawFile:
    """The content of a DNG file made from another raw file."""
    metadata = metadata_of(path, raw)
    order = metadata.order
    matrix = np.array(raw.rgb_xyz_matrix[:3])
    balance = list(raw.camera_whitebalance[:3])
    if not np.any(matrix):
        matrix = np.array(_UNKNOWN_CAMERA)
    if not all(factor > 0 for factor in balance):
        balance = [1.0, 1.0, 1.0]
    name = b" ".join(filter(None, (metadata.text(271), metadata.text(272)))) or b"Unknown camera"
    orientation = new_tag(order, 274, SHORT, _TURNS.get(raw.sizes.flip, 1))
    tags = [*without(metadata.tags, 274), orientation, *camera_tags(order, matrix, balance, name)]
    of_raw = raw_tags(order, pattern, black, raw.white_level, area, _crop(raw.sizes))
    return RawFile(raw.raw_image.copy(), area, order, tags, of_raw)


def _crop(sizes: Any) -> tuple[int, int, int, int]:
    """Column, row, width and height of the part of the image to show."""
    x, y = sizes.crop_left_margin - sizes.left_margin, sizes.crop_top_margin - sizes.top_margin
    fits = x >= 0 and y >= 0 and x + sizes.crop_width <= sizes.width and y + sizes.crop_height <= sizes.height  # fmt: skip
    if min(sizes.crop_width, sizes.crop_height) > 0 and fits:
        return x, y, sizes.crop_width, sizes.crop_height
    return 0, 0, sizes.width, sizes.height


def _size(tags: list[Tag], header: Header) -> tuple[int, int]:
    return _number(tags, header, 257), _number(tags, header, 256)


def _number(tags: list[Tag], header: Header, code: int) -> int:
    tag = find(tags, code)
    return int(tag.values(header.order)[0]) if tag is not None and tag.data else 0


def _stated_noise(file: RawFile, span: float) -> Noise | None:
    """The noise that a file states for all colors together, in its units above the black level."""
    tag = find([*file.raw_tags, *file.tags], NOISE_PROFILE)
    if tag is None:
        return None
    values = np.array(tag.values(file.order), np.float64)
    if values.size < 2 or values.size % 2 or not np.all(np.isfinite(values)):
        return None
    scale, offset = values.reshape(-1, 2).mean(axis=0)
    if scale <= 0 or offset < 0 or span <= 0:
        return None
    return PoissonGaussianNoise(float(scale) * span, float(np.sqrt(offset)) * span)


def _has_maker_note(tags: list[Tag]) -> bool:
    exif = find(tags, EXIF)
    return exif is not None and any(find(child, MAKER_NOTE) for child in exif.children)


def _rawpy() -> Any:
    try:
        import rawpy
    except ImportError:
        raise not_installed("Raw files need", "rawpy") from None
    return rawpy
