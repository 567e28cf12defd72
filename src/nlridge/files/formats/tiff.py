"""TIFF, by tifffile: integers and floats, stacks of pages, ImageJ and OME; pages are written one by one, with
their tags and compression."""

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

from ..damage import in_one_sentence, refuse_too_large
from ..picture import Layer, Picture, Pixels

NAME = "TIFF"
SUFFIXES = (".tif", ".tiff")
KEEPS = ("profile",)

# Tags that tifffile writes by itself, or that point to something that is not copied.
_MANAGED = {
    254, 255, 256, 257, 258, 259, 262, 270, 273, 277, 278, 279, 282, 283, 284, 296, 305, 306, 317, 320,
    322, 323, 324, 325, 330, 338, 339, 347, 530, 532, 34675,
}  # fmt: skip
_POINTERS = {34665: "EXIF", 34853: "GPS", 40965: "EXIF"}
_LOSSLESS = {1, 5, 8, 32773, 32946, 34925, 50000}
_BYTES = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 1,
    8: 2,
    9: 4,
    10: 8,
    11: 4,
    12: 8,
    13: 4,
    16: 8,
    17: 8,
    18: 8,
}  # of a type of tag
# Compressed images within the file, which say their size once more: JPEG, then JPEG 2000 and WebP.
_JPEG = {6, 7}
_IMAGES = _JPEG | {33003, 33004, 33005, 34712, 34927, 50001}


class _Page(NamedTuple):
    """How a page is written again."""

    options: dict[str, Any]
    shape: tuple[int, ...]


class _Origin(NamedTuple):
    bigtiff: bool
    byteorder: Any
    name: str
    pages: list[list[_Page]]
    """Of each layer."""
    alphas: list[Pixels | None]
    """Further samples of each layer, as an array whose last axis they are."""
    axes: list[str]


def recognises(head: bytes) -> bool:
    return head[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def read(path: Path, axes: str | None) -> Picture:
    size = path.stat().st_size
    notes: dict[str, None] = {}  # in order, each once
    with _opened(path) as file:
        _refuse_too_large(file, size)
        layers, pages, alphas = [], [], []
        for series in file.series:
            found = [page.aspage() for page in series.pages]
            with _complaints() as complaints:
                pixels, names = series.asarray(), series.axes
            if complaints:
                raise ValueError(f"the file is damaged: {complaints[0]}")
            if len(found) * np.prod(found[0].shape) != pixels.size:
                raise ValueError("its pages are laid out in a way that is not known")
            pages.append([_page(page, pixels.dtype, notes) for page in found])
            pixels, names, alpha = _without_alpha(pixels, names, found[0])
            layers.append(Layer(pixels, _named(names, axes)))
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
    """Of the first image of an OME file; none if they are not all named."""
    if ome is None:
        return []
    try:
        pixels = ElementTree.fromstring(ome).find("{*}Image/{*}Pixels")
    except ElementTree.ParseError:
        return []
    names = [] if pixels is None else [c.get("Name", "") for c in pixels.findall("{*}Channel")]
    return names if all(names) else []


@in_one_sentence("the file is damaged")
def axes_of_plain(path: Path, axes: str | None) -> str:
    """The axes of a file that is nothing but an array of gray values or colours; others are refused."""
    with _opened(path) as file:
        if len(file.series) != 1:
            raise ValueError(f"it holds {len(file.series)} images of several kinds; expected one")
        series, first = file.series[0], file.pages.first
        if first.photometric == tifffile.PHOTOMETRIC.MINISWHITE:
            raise ValueError("it is a negative; expected black to be the least value")
        if first.extrasamples:
            raise ValueError("it has further samples, such as transparency; expected colours alone")
        names = series.axes.replace("C", "Z") if "S" in series.axes else series.axes
        return _named(names.replace("S", "C"), axes)


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
                    # An OME file says which file its pixels are in: this one.
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
    """What would not come out as it went in."""
    first = series.keyframe
    if series.is_multifile:
        raise ValueError(
            "it is one file of a set that makes up an image; expected a file by itself"
        )
    if len(series.levels) > 1 or first.subifds:
        raise ValueError("it is a pyramid of images; expected one resolution")
    if int(first.compression) not in _LOSSLESS | _IMAGES:
        raise ValueError(
            f"its compression is {_name(first.compression)}; expected none, LZW, Deflate, PackBits, LZMA, Zstandard, "
            "JPEG, JPEG 2000 or WebP"
        )
    if first.bitspersample == 1:
        raise ValueError("its pixels are black or white; expected shades")
    if first.photometric == tifffile.PHOTOMETRIC.PALETTE and not file.is_imagej:
        raise ValueError("its colours are in a palette; expected gray or colours")
    if set(series.axes) & set("YX") != set("YX"):
        raise ValueError(f"its axes are {series.axes}; expected an image")


def _page(page: Any, dtype: np.dtype[Any], notes: dict[str, None]) -> _Page:
    """What a page is written with, apart from its pixels."""
    compression, predictor = page.compression, page.predictor
    photometric = page.photometric
    if int(compression) not in _LOSSLESS:
        notes[f"compression {_name(compression)} was replaced by one without loss"] = None
        compression, predictor = tifffile.COMPRESSION.ADOBE_DEFLATE, 1
        if photometric == tifffile.PHOTOMETRIC.YCBCR:  # the decoder of JPEG has turned it into that
            photometric = tifffile.PHOTOMETRIC.RGB
    if page.bitspersample not in (8, 16, 32, 64):
        notes[f"{page.bitspersample} bits became {8 * dtype.itemsize}"] = None
    for code, what in _POINTERS.items():
        if code in page.tags:
            notes[f"{what} data of TIFF files are not kept"] = None
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
    """Samples beyond the colours of which nothing is said: tifffile would call them transparency."""
    beyond = page.samplesperpixel - 3 if page.photometric == tifffile.PHOTOMETRIC.RGB else 0
    return (0,) * beyond or None


def _text(page: Any, code: int) -> bytes | None:
    value = page.tags[code].value if code in page.tags else None
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None


def _description(page: Any) -> bytes | None:
    """The description; that of tifffile itself without the shape, since pages are written one by one."""
    about = _words_of_tifffile(page)
    if about is None:
        return _text(page, 270)
    del about["shape"]
    return json.dumps(about).encode() if about else None


def _words_of_tifffile(page: Any) -> dict[str, Any] | None:
    """What tifffile itself has said about a page."""
    text = _text(page, 270)
    if text is None or not text.startswith(b'{"shape":'):
        return None
    try:
        about: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return about


def _date(page: Any, notes: dict[str, None]) -> str | None:
    if 306 not in page.tags:
        return None
    value = str(page.tags[306].value)
    try:
        datetime.strptime(value, "%Y:%m:%d %H:%M:%S")
    except ValueError:
        notes["a date that is not written as TIFF wants it was left out"] = None
        return None
    return value


def _named(names: str, axes: str | None) -> str:
    """The axes of the file, or those that were named where the file does not know."""
    if axes is None or not set(names) <= set("YXQI") or len(axes) != len(names):
        return names
    same = all(axes.index(axis) == names.index(axis) for axis in "YX")
    return axes if same else names


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file that holds all the pages and all the pixels that it promises."""
    with tifffile.TiffFile(path) as file:
        _expect_pages(file)
        if not file.series:
            raise ValueError("it holds no image")
        _expect_images(file)
        for series in file.series:
            _refuse(file, series)
            _expect_pixels(series, file.filehandle.size)
            _expect_images_of_the_size_they_have(series)
        yield file


def _expect_pages(file: Any) -> None:
    """tifffile leaves out pages that are not in the file or follows others, and fills in those that OME-XML counts."""
    pages, cut_off = _pages(file)
    if file.is_ome:
        tree = ElementTree.fromstring(file.ome_metadata)
        sizes = [
            [int(pixels.get(f"Size{axis}", 1)) for axis in "CZT"]
            for pixels in tree.findall("{*}Image/{*}Pixels")
        ]
        promised = sum(int(np.prod(planes, dtype=object)) for planes in sizes)
        _expect(promised, pages * file.pages.first.samplesperpixel)
    if cut_off and file.is_imagej:
        _expect((file.imagej_metadata or {}).get("images", 1), pages)
    if cut_off:
        raise ValueError(f"the file is damaged: it ends before its last {cut_off}")


def _pages(file: Any) -> tuple[int, str]:
    """How many pages are in the file as a whole, and what is not: each says where its tags and the next page are."""
    form = file.tiff
    seen: set[int] = set()
    try:
        (offset,) = _numbers(file, 8 if file.is_bigtiff else 4, form.offsetformat)
        while offset:
            if offset in seen:
                raise ValueError("the file is damaged: its pages go round in a circle")
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
    """ImageJ says how many there are, and tifffile itself, which says a shape."""
    said = (file.imagej_metadata or {}).get("images", 1) if file.is_imagej else 1
    there = sum(
        int(np.prod([n for a, n in zip(s.axes, s.shape, strict=True) if a not in "YXS"]))
        for s in file.series
    )
    _expect(said, there)
    for series in file.series:
        page = series.keyframe
        shape = (_words_of_tifffile(page) or {}).get("shape", ())
        _expect(int(np.prod(shape, dtype=object)) // page.size, series.size // page.size)


def _expect(promised: int, held: int) -> None:
    if held < promised:
        raise ValueError(f"the file is damaged: it holds {held} of {promised} images")


def _expect_pixels(series: Any, size: int) -> None:
    """tifffile would fill in strips and tiles that are not there."""
    expected = int(np.prod(series.keyframe.chunked))
    for page in series.pages:
        if page is None:
            raise ValueError("the file is damaged: one of its images is not there")
        if page.aspage().hash != series.keyframe.hash:  # it would be decoded like the first
            raise ValueError("the file is damaged: its pages differ in how they are stored")
        offsets, counts = page.dataoffsets, page.databytecounts
        if not len(offsets) == len(counts) == expected or not all(counts):
            raise ValueError("the file is damaged: it lacks some of its pixels")
        if any(start + count > size for start, count in zip(offsets, counts, strict=True)):
            raise ValueError("the file is damaged: it ends before its last pixel")


def _refuse_too_large(file: Any, size: int) -> None:
    """What all pages take together: strips may be shared, and tiles reach beyond the image."""
    first = file.series[0].keyframe
    decoded = 0
    for series in file.series:
        page = series.keyframe
        grid = page.chunked + page.chunks if page.is_tiled else page.shaped
        decoded += len(series.pages) * int(np.prod(grid, dtype=object)) * page.dtype.itemsize
    pages = sum(len(series.pages) for series in file.series)
    counted = f"{pages} pages of " if pages > 1 else ""
    refuse_too_large(f"{counted}{first.imagewidth} x {first.imagelength} pixels", decoded, size)


def _expect_images_of_the_size_they_have(series: Any) -> None:
    """A compressed image within the file is decoded at the size that it says itself, and to its end or not."""
    compression = int(series.keyframe.compression)
    if compression not in _IMAGES:
        return
    page = series.keyframe
    most = (
        (page.tilelength, page.tilewidth) if page.is_tiled else (page.rowsperstrip, page.imagewidth)
    )
    handle = page.parent.filehandle
    for page in series.pages:
        for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True):
            handle.seek(offset)
            data = handle.read(count)
            found = _size_of_jpeg(data) if compression in _JPEG else _size_by_pillow(data)
            if found[0] > most[0] or found[1] > most[1]:
                raise ValueError(
                    "the file is damaged: images in it are larger than its header says"
                )


def _size_of_jpeg(data: bytes) -> tuple[int, int]:
    """The height and width in its header; it has to have an end, too."""
    at = 2
    while data[at : at + 1] == b"\xff":
        kind, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            if b"\xff\xd9" not in data[at + length :]:
                raise ValueError("the file is damaged: a JPEG image in it ends too soon")
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return height, width
        at += 2 + length
    raise ValueError("the file is damaged: a JPEG image in it has no header")


def _size_by_pillow(data: bytes) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(data), formats=["JPEG2000", "WEBP"]) as image:
            return image.height, image.width
    except UnidentifiedImageError:
        raise ValueError("the file is damaged: an image in it has no header") from None


def _name(compression: Any) -> str:
    """An unknown one is a number."""
    return getattr(compression, "name", str(compression))


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What tifffile has to say while it decodes: it fills in what is not there."""
    found: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(" ".join(record.getMessage().split()))

    logger, listener = logging.getLogger("tifffile"), Listener(logging.WARNING)
    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.addHandler(listener)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield found
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagate
        logger.setLevel(level)


def _value(page: Any, tag: Any) -> Any:
    """The value of a tag; as it is in the file where tifffile has made something of it (ImageJ's labels)."""
    if isinstance(tag.value, str):
        return tag.value.encode()
    if not isinstance(tag.value, dict):
        return tag.value
    page.parent.filehandle.seek(tag.valueoffset)
    return page.parent.filehandle.read(tag.valuebytecount)


def _without_alpha(pixels: Pixels, names: str, page: Any) -> tuple[Pixels, str, Pixels | None]:
    """Pixels and axes with S, the samples of a page, as channels C, and apart from them what is no colour."""
    if "S" not in names:
        return pixels, names, None
    names = names.replace("C", "Z") if "C" in names else names  # channels of colour images: a stack
    axis = names.index("S")
    names = names.replace("S", "C")
    extra = len(page.extrasamples)
    transparent = {tifffile.EXTRASAMPLE.ASSOCALPHA, tifffile.EXTRASAMPLE.UNASSALPHA}
    if not extra or not transparent & set(page.extrasamples):
        return pixels, names, None
    samples = np.moveaxis(pixels, axis, -1)
    colours = np.moveaxis(samples[..., :-extra], -1, axis)
    return colours, names, samples[..., -extra:]
