"""TIFF files, read with tifffile: integers and floats, stacks of pages, ImageJ and OME.

Pages are written one by one, with their tags and compression.
"""

import json
import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tifffile

from ...planning.mosaic import PATTERNS, Mosaic
from ..camera_metadata import Metadata, blob, of_blob
from ..damage import convert_errors
from ..directories import (
    ASCII,
    EXIF,
    GPS,
    INTEROPERABILITY,
    MAKER_NOTE,
    Header,
    Tag,
    find,
    header_of,
    packed,
    read_directory,
    without,
)
from ..microscopy import channel_names, voxel_of
from ..picture import Layer, Picture, Pixels
from ..tiff_integrity import (
    EMBEDDED_IMAGES,
    expect_embedded_sizes,
    expect_images,
    expect_pages,
    expect_pixels,
    refuse_large_pages,
    text_of,
    tifffile_metadata,
)

NAME = "TIFF"
SUFFIXES = (".tif", ".tiff", ".ome.tif", ".ome.tiff")
KEEPS = ("exif", "profile", "iptc")

# Tags that tifffile writes itself, or that point to data that are not copied.
_MANAGED = {
    254, 255, 256, 257, 258, 259, 262, 270, 273, 277, 278, 279, 282, 283, 284, 296, 305, 306, 317, 320,
    322, 323, 324, 325, 330, 338, 339, 347, 530, 532, 34675,
}  # fmt: skip
_POINTERS = {EXIF: "ExifTag", GPS: "GPSTag"}  # what tifffile calls them
_CAMERA = (271, 272, 315, 33432)  # make, model, artist and copyright
_IPTC = 33723  # the tag of IPTC data
_MOSAIC = 32803  # the photometric interpretation of a raw image
# The names of ImageJ for units, and what OME calls them.
_OME_TYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float32", "float64")
_LOSSLESS = {1, 5, 8, 32773, 32946, 34925, 50000}


class _Page(NamedTuple):
    """The options to write a page again, and its shape."""

    options: dict[str, Any]
    shape: tuple[int, ...]
    tags: list[Tag]
    """EXIF and GPS data."""


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
        refuse_large_pages(file, size)
        layers, pages, alphas = [], [], []
        for number, series in enumerate(file.series):
            tiff_pages = [page.aspage() for page in series.pages]
            with _log_messages() as messages:
                pixels, names = series.asarray(), series.axes
            if messages:
                raise ValueError(f"the file is damaged: {messages[0]}")
            if len(tiff_pages) * np.prod(tiff_pages[0].shape) != pixels.size:
                raise ValueError("its pages have an unknown layout; expected one image per page")
            pages.append([_page(page, pixels.dtype, notes) for page in tiff_pages])
            pixels, names, alpha = _without_alpha(pixels, names, tiff_pages[0])
            mosaic = _mosaic(tiff_pages[0])
            layers.append(Layer(pixels, _named_axes(names, axes), *voxel_of(file, number), mosaic))
            alphas.append(alpha)
        origin = _Origin(
            file.is_bigtiff, file.byteorder, path.name, pages, alphas, [s.axes for s in file.series]
        )
        first = file.pages.first
        profile = first.iccprofile
        tables = first.colormap is not None or "LUTs" in (file.imagej_metadata or {})
        iptc = _bytes_of(first, first.tags[_IPTC]) if _IPTC in first.tags else None
        turn = int(first.tags[274].value) if 274 in first.tags else 1
        negative = first.photometric == tifffile.PHOTOMETRIC.MINISWHITE
        channels = channel_names(file.ome_metadata)
    single = len(layers) == 1 and alphas[0] is not None and alphas[0].ndim == 3
    return Picture(
        format="tiff",
        layers=layers,
        alpha=alphas[0][..., 0] if single and alphas[0] is not None else None,
        profile=profile,
        exif=blob(Metadata(origin.byteorder, pages[0][0].tags)) if pages[0][0].tags else None,
        iptc=iptc,
        tables=tables,
        turn=turn if turn in range(1, 9) else 1,
        negative=negative,
        channels=channels,
        origin=origin,
        notes=list(notes),
    )


@convert_errors("the file is damaged")
def axes_of_plain(path: Path, axes: str | None) -> str:
    """Return the axes of a file that holds nothing but an array of gray values or colours; refuse others."""
    with _opened(path) as file:
        if len(file.series) != 1:
            raise ValueError(
                f"it holds {len(file.series)} images of different shapes; expected one"
            )
        series, first = file.series[0], file.pages.first
        if first.photometric == _MOSAIC:
            raise ValueError(
                "it is the mosaic of a raw image; expected gray or colour for processing in tiles"
            )
        if first.photometric == tifffile.PHOTOMETRIC.MINISWHITE:
            raise ValueError("it is a negative; expected black to be the smallest value")
        if first.extrasamples:
            raise ValueError("it has extra samples, such as transparency; expected only colours")
        names = series.axes.replace("C", "Q") if "S" in series.axes else series.axes
        return _named_axes(names.replace("S", "C"), axes)


def write(path: Path, picture: Picture, name: Path) -> None:
    if picture.format != "tiff":
        (_write_ome if _is_ome(picture, name) else _write_new)(path, picture)
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
                options["extratags"] = options["extratags"] + _appended(file, page.tags)
                file.write(np.ascontiguousarray(data), metadata=None, contiguous=False, **options)


def _is_ome(picture: Picture, name: Path) -> bool:
    """Return whether to write OME metadata: if the name says so, or if axes and sizes would be lost without them."""
    if name.name.lower().endswith((".ome.tif", ".ome.tiff")):
        return True
    types = {layer.pixels.dtype.name for layer in picture.layers}
    telling = any(
        layer.spacing or picture.channels or set("TZ") & set(layer.axes) for layer in picture.layers
    )
    return telling and types <= set(_OME_TYPES) and picture.alpha is None


def _write_ome(path: Path, picture: Picture) -> None:
    """Write axes, pixel sizes and the names of channels as OME metadata.

    Axes that OME has no name for become images of their own.
    """
    if picture.alpha is not None:
        raise ValueError("OME files cannot store transparency; expected a name that ends in .tif")
    wide = any(layer.pixels.nbytes >= 2**31 for layer in picture.layers)
    with tifffile.TiffWriter(path, ome=True, bigtiff=wide) as file:
        for layer in picture.layers:
            if layer.pixels.dtype.name not in _OME_TYPES:
                raise ValueError(
                    f"OME files cannot store {layer.pixels.dtype}; expected one of {', '.join(_OME_TYPES)}"
                )
            colours = layer.axes.endswith("YXC") and layer.pixels.shape[-1] == 3
            kept = [axis for axis in layer.axes if axis in "TZC" and not (axis == "C" and colours)]
            kept += ["Y", "X", *("C" * colours)]
            others = [axis for axis in layer.axes if axis not in kept]
            images = layer.pixels.transpose([layer.axes.index(axis) for axis in [*others, *kept]])
            for number in np.ndindex(images.shape[: len(others)]):
                file.write(
                    np.ascontiguousarray(images[number]),
                    photometric="rgb" if colours else "minisblack",
                    compression="adobe_deflate",
                    iccprofile=picture.profile,
                    metadata=_ome_metadata(
                        layer,
                        "".join(kept[:-1]) + "S" if colours else "".join(kept),
                        [] if colours else picture.channels,
                        ", ".join(f"{a} {k}" for a, k in zip(others, number, strict=True)),
                    ),
                )


def _ome_metadata(layer: Layer, axes: str, channels: list[str], name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {"axes": axes}
    for axis, size in zip("ZYX", layer.spacing or (), strict=bool(layer.spacing)):
        if math.isfinite(size):
            metadata[f"PhysicalSize{axis}"] = size
            if layer.unit:
                metadata[f"PhysicalSize{axis}Unit"] = layer.unit
    count = layer.pixels.shape[layer.axes.index("C")] if "C" in layer.axes else 1
    if len(channels) == count:
        metadata["Channel"] = {"Name": channels}
    if name:
        metadata["Name"] = name
    return metadata


def _write_new(path: Path, picture: Picture) -> None:
    header, tags = _exif_of(picture)
    own = [
        (tag.code, tag.kind, len(tag.data), tag.data, False)
        for tag in tags
        if tag.kind == ASCII and tag.code not in _MANAGED
    ]
    if picture.iptc:
        own.append((_IPTC, 7, len(picture.iptc), picture.iptc, False))
    with tifffile.TiffWriter(path, byteorder=">" if header.order == ">" else "<") as file:
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
                    extratags=own + _appended(file, [tag for tag in tags if tag.children]),
                    compression="adobe_deflate",
                    metadata=None,
                    **options,
                )


def _exif_of(picture: Picture) -> tuple[Header, list[Tag]]:
    """Return the EXIF data of a picture of another format; none if they are damaged."""
    try:
        header, tags = of_blob(picture.exif or b"")
    except ValueError:
        return Header("<", 8), []
    kept = without(tags, MAKER_NOTE, INTEROPERABILITY)
    return header, [tag for tag in kept if tag.code in _POINTERS or tag.code in _CAMERA]


def _refuse(file: Any, series: Any) -> None:
    """Refuse files that could not be written again as they were."""
    first = series.keyframe
    if series.is_multifile:
        raise ValueError("it is one of several files of an image; expected a single file")
    if len(series.levels) > 1 or first.subifds:
        raise ValueError("it is a pyramid of images; expected one resolution")
    # In a damaged file, it may be anything.
    if first.compression not in _LOSSLESS | EMBEDDED_IMAGES:
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
    tags = _directories(page)
    if len(tags) < sum(code in page.tags for code in _POINTERS):
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
            if tag.code not in {*_MANAGED, *_POINTERS, INTEROPERABILITY}
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
    return _Page(kept, page.shape, tags)


def _directories(page: Any) -> list[Tag]:
    """Return the EXIF and GPS data of a page; none if they are damaged."""
    if not any(code in page.tags for code in _POINTERS):
        return []
    handle = page.parent.filehandle
    handle.seek(0)
    try:
        tags = read_directory(handle, header_of(handle.read(16)), page.offset)
    except ValueError:
        return []
    return [tag for tag in tags if tag.code in _POINTERS and tag.children]


def _appended(file: Any, tags: list[Tag]) -> list[tuple[Any, ...]]:
    """Append EXIF and GPS data to a file that is being written; returns the tags that point to them."""
    pointers: list[tuple[Any, ...]] = []
    handle, big = file.filehandle, file.tiff.is_bigtiff
    for tag in tags:
        for child in tag.children:
            handle.seek(0, 2)
            handle.write(b"\0" * (handle.tell() % 2))
            place = handle.tell()
            handle.write(packed(child, file.tiff.byteorder, place, big))
            pointers.append((_POINTERS[tag.code], "Q" if big else "I", 1, place, False))
    return pointers


def _mosaic(page: Any) -> Mosaic | None:
    """Return the pattern of a raw image; refuse patterns that are not Bayer's."""
    if page.photometric != _MOSAIC:
        return None
    colours = page.tags[33422].value if 33422 in page.tags else ()
    pattern = "".join("RGB"[colour] if colour < 3 else "?" for colour in colours)
    if pattern not in PATTERNS or page.samplesperpixel > 1:
        raise ValueError(
            f"it is a mosaic with the pattern {pattern or 'unknown'}; expected {', '.join(PATTERNS)}"
        )
    return Mosaic(pattern)


def _unnamed_samples(page: Any) -> tuple[int, ...] | None:
    """Return the types of extra samples that have none; tifffile would mark them as transparency."""
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
        expect_pages(file)
        if not file.series:
            raise ValueError("it holds no image; expected at least one")
        expect_images(file)
        for series in file.series:
            _refuse(file, series)
            expect_pixels(series, file.filehandle.size)
            expect_embedded_sizes(series)
        yield file


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
    return _bytes_of(page, tag) if isinstance(tag.value, dict) else tag.value


def _bytes_of(page: Any, tag: Any) -> bytes:
    """Return the bytes of a tag."""
    page.parent.filehandle.seek(tag.valueoffset)
    content: bytes = page.parent.filehandle.read(tag.valuebytecount)
    return content


def _without_alpha(pixels: Pixels, names: str, page: Any) -> tuple[Pixels, str, Pixels | None]:
    """Rename the axis of samples, S, to channels, C, and separate the extra samples from the colours."""
    if "S" not in names:
        return pixels, names, None
    # If there are channels of colour images, the channels are a stack.
    names = names.replace("C", "Q") if "C" in names else names
    axis = names.index("S")
    names = names.replace("S", "C")
    extra = len(page.extrasamples)
    transparent = {tifffile.EXTRASAMPLE.ASSOCALPHA, tifffile.EXTRASAMPLE.UNASSALPHA}
    if not extra or not transparent & set(page.extrasamples):
        return pixels, names, None
    samples = np.moveaxis(pixels, axis, -1)
    colours = np.moveaxis(samples[..., :-extra], -1, axis)
    return colours, names, samples[..., -extra:]
