"""TIFF files, read with tifffile: integers and floats, stacks of pages, ImageJ and OME.

Pages are written one by one, with their tags and compression.
"""

import io
import json
import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import tifffile
from PIL import Image, UnidentifiedImageError

from ..damage import convert_errors, refuse_too_large
from ..picture import Layer, Picture, Pixels

NAME = "TIFF"
SUFFIXES = (".tif", ".tiff")
KEEPS = ("profile",)

# Tags that tifffile writes itself, or that point to data that are not copied.
_MANAGED = {
    254, 255, 256, 257, 258, 259, 262, 270, 273, 277, 278, 279, 282, 283, 284, 296, 305, 306, 317, 320,
    322, 323, 324, 325, 330, 338, 339, 347, 530, 532, 34675,
}  # fmt: skip
_POINTERS = {34665: "EXIF", 34853: "GPS", 40965: "EXIF"}
_LOSSLESS = {1, 5, 8, 32773, 32946, 34925, 50000}
# The size in bytes of each type of tag.
_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}  # fmt: skip
# Compressions that embed images with a size of their own: JPEG, then JPEG 2000 and WebP.
_JPEG = {6, 7}
_IMAGES = _JPEG | {33003, 33004, 33005, 34712, 34927, 50001}


class _Page(NamedTuple):
    """The options to write a page again, and its shape."""

    options: dict[str, Any]
    shape: tuple[int, ...]


class _Origin(NamedTuple):
    """What is needed to write the same file again."""

    bigtiff: bool
    byteorder: Any
    name: str
    pages: list[list[_Page]]
    """The pages of each layer."""
    alphas: list[Pixels | None]
    """The extra samples of each layer, along the last axis of an array."""
    axes: list[str]


def recognises(head: bytes) -> bool:
    return head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def read(path: Path, axes: str | None) -> Picture:
    size = path.stat().st_size
    notes: dict[str, None] = {}  # in order, without duplicates
    with _opened(path) as file:
        _refuse_too_large(file, size)
        layers, pages, alphas = [], [], []
        for series in file.series:
            tiff_pages = [page.aspage() for page in series.pages]
            with _log_messages() as messages:
                pixels, names = series.asarray(), series.axes
            if messages:
                raise ValueError(f"the file is damaged: {messages[0]}")
            if len(tiff_pages) * np.prod(tiff_pages[0].shape) != pixels.size:
                raise ValueError("its pages have an unknown layout; expected one image per page")
            pages.append([_page(page, pixels.dtype, notes) for page in tiff_pages])
            pixels, names, alpha = _without_alpha(pixels, names, tiff_pages[0])
            layers.append(Layer(pixels, _named_axes(names, axes)))
            alphas.append(alpha)
        origin = _Origin(
            file.is_bigtiff, file.byteorder, path.name, pages, alphas, [s.axes for s in file.series]
        )
        first = file.pages.first
        profile = first.iccprofile
        turn = int(first.tags[274].value) if 274 in first.tags else 1
        negative = first.photometric == tifffile.PHOTOMETRIC.MINISWHITE
        channels = _channel_names(file.ome_metadata)
    single = len(layers) == 1 and alphas[0] is not None and alphas[0].ndim == 3
    return Picture(
        format="tiff",
        layers=layers,
        alpha=alphas[0][..., 0] if single and alphas[0] is not None else None,
        profile=profile,
        turn=turn if turn in range(1, 9) else 1,
        negative=negative,
        channels=channels,
        origin=origin,
        notes=list(notes),
    )


def _channel_names(ome: str | None) -> list[str]:
    """Return the names of the channels of the first image of an OME file; none unless all have a name."""
    if ome is None:
        return []
    try:
        pixels = ElementTree.fromstring(ome).find("{*}Image/{*}Pixels")
    except ElementTree.ParseError:
        return []
    names = [] if pixels is None else [c.get("Name", "") for c in pixels.findall("{*}Channel")]
    return names if all(names) else []


@convert_errors("the file is damaged")
def axes_of_plain(path: Path, axes: str | None) -> str:
    """Return the axes of a file that holds nothing but an array of gray values or colours; refuse others."""
    with _opened(path) as file:
        if len(file.series) != 1:
            raise ValueError(
                f"it holds {len(file.series)} images of different shapes; expected one"
            )
        series, first = file.series[0], file.pages.first
        if first.photometric == tifffile.PHOTOMETRIC.MINISWHITE:
            raise ValueError("it is a negative; expected black to be the smallest value")
        if first.extrasamples:
            raise ValueError("it has extra samples, such as transparency; expected only colours")
        names = series.axes.replace("C", "Z") if "S" in series.axes else series.axes
        return _named_axes(names.replace("S", "C"), axes)


def write(path: Path, picture: Picture, name: Path) -> None:
    if picture.format != "tiff":
        _write_new(path, picture)
        return
    origin: _Origin = picture.origin
    with tifffile.TiffWriter(path, bigtiff=origin.bigtiff, byteorder=origin.byteorder) as file:
        for layer, pages, alpha, axes in zip(
            picture.layers, origin.pages, origin.alphas, origin.axes, strict=True
        ):
            pixels = layer.pixels
            if alpha is not None:
                pixels = np.concatenate(
                    [np.moveaxis(pixels, layer.axes.index("C"), -1), alpha], axis=-1
                )
                pixels = np.moveaxis(pixels, -1, axes.index("S"))
            for page, data in zip(pages, pixels.reshape(len(pages), *pages[0].shape), strict=True):
                options = dict(page.options)
                if "description" in options:
                    # OME metadata contain the name of the file.
                    old, new = (f'FileName="{n}"'.encode() for n in (origin.name, name.name))
                    options["description"] = options["description"].replace(old, new)
                file.write(np.ascontiguousarray(data), metadata=None, contiguous=False, **options)


def _write_new(path: Path, picture: Picture) -> None:
    with tifffile.TiffWriter(path) as file:
        for layer in picture.layers:
            order = [k for k, axis in enumerate(layer.axes) if axis not in "YXC"]
            order += [layer.axes.index(axis) for axis in "YXC" if axis in layer.axes]
            pixels = layer.pixels.transpose(order)
            frames = pixels.reshape(-1, *pixels.shape[-3 if "C" in layer.axes else -2 :])
            for frame in frames:
                options: dict[str, Any] = {"photometric": "minisblack"}
                if "C" in layer.axes and frame.shape[-1] == 3:
                    options = {"photometric": "rgb"}
                elif "C" in layer.axes and frame.shape[-1] == 4 and picture.format == "pillow":
                    options = {"photometric": "separated"}  # CMYK
                elif "C" in layer.axes:
                    options = {"photometric": "minisblack", "planarconfig": "contig"}
                if picture.alpha is not None:
                    frame = np.concatenate(
                        [np.atleast_3d(frame), picture.alpha[..., None]], axis=-1
                    )
                    options |= {"extrasamples": ["unassalpha"], "planarconfig": "contig"}
                file.write(
                    np.ascontiguousarray(frame),
                    iccprofile=picture.profile,
                    compression="adobe_deflate",
                    metadata=None,
                    **options,
                )


def _refuse(file: Any, series: Any) -> None:
    """Refuse files that could not be written again as they were."""
    first = series.keyframe
    if series.is_multifile:
        raise ValueError("it is one of several files of an image; expected a single file")
    if len(series.levels) > 1 or first.subifds:
        raise ValueError("it is a pyramid of images; expected one resolution")
    if int(first.compression) not in _LOSSLESS | _IMAGES:
        raise ValueError(
            f"its compression is {_name(first.compression)}; expected none, LZW, Deflate, PackBits, LZMA, Zstandard, "
            "JPEG, JPEG 2000 or WebP"
        )
    if first.bitspersample == 1:
        raise ValueError("its pixels are black or white; expected gray or colour")
    if first.photometric == tifffile.PHOTOMETRIC.PALETTE and not file.is_imagej:
        raise ValueError("its colours are in a palette; expected gray or colour")
    if set(series.axes) & set("YX") != set("YX"):
        raise ValueError(f"its axes are {series.axes}; expected an image")


def _page(page: Any, dtype: np.dtype[Any], notes: dict[str, None]) -> _Page:
    """Return the options to write a page again; adds notes on what cannot be preserved."""
    compression, predictor = page.compression, page.predictor
    photometric = page.photometric
    if int(compression) not in _LOSSLESS:
        notes[f"compression {_name(compression)} was replaced by a lossless one"] = None
        compression, predictor = tifffile.COMPRESSION.ADOBE_DEFLATE, 1
        # The JPEG decoder has converted it to RGB.
        if photometric == tifffile.PHOTOMETRIC.YCBCR:
            photometric = tifffile.PHOTOMETRIC.RGB
    if page.bitspersample not in (8, 16, 32, 64):
        notes[f"{page.bitspersample} bits were converted to {8 * dtype.itemsize}"] = None
    for code, what in _POINTERS.items():
        if code in page.tags:
            notes[f"the {what} data were dropped"] = None
    options: dict[str, Any] = {
        "photometric": photometric,
        "compression": compression,
        "predictor": None if int(predictor) == 1 else predictor,
        "planarconfig": page.planarconfig if page.samplesperpixel > 1 else None,
        "extrasamples": page.extrasamples or _unnamed_samples(page),
        "subfiletype": int(page.subfiletype) or None,
        "description": _description(page),
        "software": _text(page, 305) or False,
        "datetime": _date(page, notes),
        "iccprofile": page.iccprofile,
        "colormap": page.colormap,
        "extratags": [
            (tag.code, tag.dtype, tag.count, _value(page, tag), False)
            for tag in page.tags
            if tag.code not in _MANAGED and tag.code not in _POINTERS
        ],
    }
    if page.is_tiled:
        options["tile"] = page.tile
    elif 278 in page.tags and int(compression) != 1:
        options["rowsperstrip"] = min(page.rowsperstrip, page.imagelength)
    if 282 in page.tags and 283 in page.tags:
        options["resolution"] = (page.tags[282].value, page.tags[283].value)
        options["resolutionunit"] = page.tags[296].value if 296 in page.tags else 1
    return _Page({key: value for key, value in options.items() if value is not None}, page.shape)


def _unnamed_samples(page: Any) -> tuple[int, ...] | None:
    """Return the types of extra samples that have none; tifffile would mark them as transparency."""
    count = page.samplesperpixel - 3 if page.photometric == tifffile.PHOTOMETRIC.RGB else 0
    return (0,) * count or None


def _text(page: Any, code: int) -> bytes | None:
    value = page.tags[code].value if code in page.tags else None
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None


def _description(page: Any) -> bytes | None:
    """Return the description; without the shape if tifffile wrote it, since pages are written one by one."""
    metadata = _tifffile_metadata(page)
    if metadata is None:
        return _text(page, 270)
    del metadata["shape"]
    return json.dumps(metadata).encode() if metadata else None


def _tifffile_metadata(page: Any) -> dict[str, Any] | None:
    """Return the metadata that tifffile writes as the description of a page."""
    text = _text(page, 270)
    if text is None or not text.startswith(b'{"shape":'):
        return None
    try:
        metadata: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return metadata


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


def _named_axes(names: str, axes: str | None) -> str:
    """Return the axes of the file, or the given ones if the file does not name its own."""
    if axes is None or not set(names) <= set("YXQI") or len(axes) != len(names):
        return names
    same = all(axes.index(axis) == names.index(axis) for axis in "YX")
    return axes if same else names


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a file after checking that it holds all the pages and pixels that its metadata claim."""
    with tifffile.TiffFile(path) as file:
        _expect_pages(file)
        if not file.series:
            raise ValueError("it holds no image; expected at least one")
        _expect_images(file)
        for series in file.series:
            _refuse(file, series)
            _expect_pixels(series, file.filehandle.size)
            _expect_embedded_sizes(series)
        yield file


def _expect_pages(file: Any) -> None:
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


def _expect_images(file: Any) -> None:
    """Check the number of images against the metadata of ImageJ and tifffile."""
    claimed = (file.imagej_metadata or {}).get("images", 1) if file.is_imagej else 1
    held = sum(
        int(np.prod([n for a, n in zip(s.axes, s.shape, strict=True) if a not in "YXS"]))
        for s in file.series
    )
    _expect_count(claimed, held)
    for series in file.series:
        page = series.keyframe
        shape = (_tifffile_metadata(page) or {}).get("shape", ())
        _expect_count(int(np.prod(shape, dtype=object)) // page.size, series.size // page.size)


def _expect_count(claimed: int, held: int) -> None:
    if held < claimed:
        raise ValueError(f"the file is damaged: it holds {held} of {claimed} images")


def _expect_pixels(series: Any, size: int) -> None:
    """Refuse files with missing strips or tiles, which tifffile would fill in."""
    expected = int(np.prod(series.keyframe.chunked))
    for page in series.pages:
        if page is None:
            raise ValueError("the file is damaged: one of its images is missing")
        # All pages would be decoded like the first one.
        if page.aspage().hash != series.keyframe.hash:
            raise ValueError("the file is damaged: its pages differ in how they are stored")
        offsets, counts = page.dataoffsets, page.databytecounts
        if not len(offsets) == len(counts) == expected or not all(counts):
            raise ValueError("the file is damaged: some of its pixels are missing")
        if any(start + count > size for start, count in zip(offsets, counts, strict=True)):
            raise ValueError("the file is damaged: it ends before its last pixel")


def _refuse_too_large(file: Any, size: int) -> None:
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


def _expect_embedded_sizes(series: Any) -> None:
    """Check embedded images, which decoders decode at their own size, and even if they are truncated."""
    compression = int(series.keyframe.compression)
    if compression not in _IMAGES:
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


def _name(compression: Any) -> str:
    """Return the name of a compression, or its number if it is unknown."""
    return getattr(compression, "name", str(compression))


@contextmanager
def _log_messages() -> Iterator[list[str]]:
    """Collect what tifffile logs; it fills in missing data and only logs a warning."""
    messages: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(" ".join(record.getMessage().split()))

    logger, listener = logging.getLogger("tifffile"), Listener(logging.WARNING)
    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.addHandler(listener)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield messages
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagate
        logger.setLevel(level)


def _value(page: Any, tag: Any) -> Any:
    """Return the value of a tag; as raw bytes if tifffile has parsed it, as it does with ImageJ's labels."""
    if isinstance(tag.value, str):
        return tag.value.encode()
    if not isinstance(tag.value, dict):
        return tag.value
    page.parent.filehandle.seek(tag.valueoffset)
    return page.parent.filehandle.read(tag.valuebytecount)


def _without_alpha(pixels: Pixels, names: str, page: Any) -> tuple[Pixels, str, Pixels | None]:
    """Rename the axis of samples, S, to channels, C, and separate the extra samples from the colours."""
    if "S" not in names:
        return pixels, names, None
    # If there are channels of colour images, the channels are a stack.
    names = names.replace("C", "Z") if "C" in names else names
    axis = names.index("S")
    names = names.replace("S", "C")
    extra = len(page.extrasamples)
    transparent = {tifffile.EXTRASAMPLE.ASSOCALPHA, tifffile.EXTRASAMPLE.UNASSALPHA}
    if not extra or not transparent & set(page.extrasamples):
        return pixels, names, None
    samples = np.moveaxis(pixels, axis, -1)
    colours = np.moveaxis(samples[..., :-extra], -1, axis)
    return colours, names, samples[..., -extra:]
