"""TIFF files, read with tifffile: integers and floats, stacks of pages, ImageJ and OME.

Pages are written one by one, with their tags and compression.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

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
from ..picture import Layer, Picture, Pixels, checked_spacing
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
KEEPS = ("exif", "profile")

# Tags that tifffile writes itself, or that point to data that are not copied.
_MANAGED = {
    254, 255, 256, 257, 258, 259, 262, 270, 273, 277, 278, 279, 282, 283, 284, 296, 305, 306, 317, 320,
    322, 323, 324, 325, 330, 338, 339, 347, 530, 532, 34675,
}  # fmt: skip
_POINTERS = {EXIF: "ExifTag", GPS: "GPSTag"}  # what tifffile calls them
_CAMERA = (271, 272, 315, 33432)  # make, model, artist and copyright
_MOSAIC = 32803  # the photometric interpretation of a raw image
# The names of ImageJ for units, and what OME calls them.
_UNITS = {"um": "µm", "micron": "µm", "microns": "µm", "\\u00B5m": "µm", "inch": "in"}
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
            layers.append(Layer(pixels, _named_axes(names, axes), *_voxel(file, number), mosaic))
            alphas.append(alpha)
        origin = _Origin(
            file.is_bigtiff, file.byteorder, path.name, pages, alphas, [s.axes for s in file.series]
        )
        first = file.pages.first
        profile = first.iccprofile
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
        turn=turn if turn in range(1, 9) else 1,
        negative=negative,
        channels=channels,
        origin=origin,
        notes=list(notes),
    )


def channel_names(ome: str | None) -> list[str]:
    """Return the names of the channels of the first image of an OME file; none unless all have a name."""
    if ome is None:
        return []
    try:
        pixels = ElementTree.fromstring(ome).find("{*}Image/{*}Pixels")
    except ElementTree.ParseError:
        return []
    names = [] if pixels is None else [c.get("Name", "") for c in pixels.findall("{*}Channel")]
    return names if all(names) else []


def pixel_sizes(file: Any, number: int = 0) -> dict[str, tuple[float, str]]:
    """Return the size and the unit of a pixel along Z, Y and X, and of a step along T, as far as the metadata of an
    image of an OME or ImageJ file have them.
    """
    sizes: dict[str, tuple[Any, str]] = {}
    try:
        if file.ome_metadata is not None:
            images = ElementTree.fromstring(file.ome_metadata).findall("{*}Image/{*}Pixels")
            found = images[number].attrib if len(images) == len(file.series) else {}
            names = {"T": "TimeIncrement", **{axis: f"PhysicalSize{axis}" for axis in "ZYX"}}
            sizes = {
                axis: (found[name], found.get(f"{name}Unit", "s" if axis == "T" else "µm"))
                for axis, name in names.items()
                if name in found
            }
        elif file.imagej_metadata is not None:
            metadata, tags = file.imagej_metadata, file.pages.first.tags
            unit = metadata.get("unit", "pixel")
            sizes["T"] = metadata.get("finterval", 0), "s"
            # Without a unit, ImageJ counts in pixels, which says nothing.
            if unit not in ("pixel", "pixels", ""):
                sizes["Z"] = metadata.get("spacing", 0), unit
                for axis, code in (("Y", 283), ("X", 282)):
                    sizes[axis] = tags[code].value[1] / tags[code].value[0], unit
        known = {
            axis: (float(size), _UNITS.get(unit, unit)) for axis, (size, unit) in sizes.items()
        }
    except (ElementTree.ParseError, LookupError, TypeError, ValueError, ArithmeticError):
        return {}
    return {axis: pair for axis, pair in known.items() if 0 < pair[0] < math.inf}


def spacing_of(sizes: Mapping[str, tuple[float, str]]) -> tuple[float, float, float] | None:
    """Return the size of a voxel along Z, Y and X, if all are known in the same unit."""
    if not set("ZYX") <= set(sizes) or len({sizes[axis][1] for axis in "ZYX"}) > 1:
        return None
    z, y, x = (sizes[axis][0] for axis in "ZYX")
    return z, y, x


def _voxel(file: Any, number: int) -> tuple[tuple[float, float, float] | None, str]:
    """Return the size of a voxel along Z, Y and X, as far as it is known, and its unit."""
    sizes = {axis: pair for axis, pair in pixel_sizes(file, number).items() if axis in "ZYX"}
    units = {unit for _, unit in sizes.values()}
    if len(units) != 1:
        return None, ""
    return checked_spacing(*(sizes.get(axis, (math.nan,))[0] for axis in "ZYX")), units.pop()


def ome_metadata(
    axes: str, sizes: Mapping[str, tuple[float, str]], channels: Sequence[str]
) -> dict[str, Any]:
    """Return what `tifffile` writes into the OME metadata of a new file."""
    names = {"T": "TimeIncrement", **{axis: f"PhysicalSize{axis}" for axis in "ZYX"}}
    metadata: dict[str, Any] = {"axes": axes}
    for axis, (size, unit) in sizes.items():
        metadata[names[axis]] = size
        metadata[f"{names[axis]}Unit"] = unit
    return metadata | ({"Channel": {"Name": list(channels)}} if channels else {})


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
    if not isinstance(tag.value, dict):
        return tag.value
    page.parent.filehandle.seek(tag.valueoffset)
    return page.parent.filehandle.read(tag.valuebytecount)


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
