"""TIFF files, read with tifffile: integers and floats, stacks of pages, ImageJ and OME.

Pages are written one by one, with their tags and compression.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tifffile

from ...planning.mosaic import PATTERNS, Mosaic
from ...types import Pixels
from ..camera_metadata import Metadata, blob, of_blob
from ..damage import convert_errors
from ..directories import (
    ASCII,
    INTEROPERABILITY,
    MAKER_NOTE,
    Header,
    Tag,
    without,
)
from ..microscopy import channel_names, voxel_of
from ..picture import Layer, Picture
from ..tiff_integrity import (
    EMBEDDED_IMAGES,
    expect_embedded_sizes,
    expect_images,
    expect_pages,
    expect_pixels,
    refuse_large_pages,
)
from ..tiff_pages import LOSSLESS, MANAGED, POINTERS, Page, appended, bytes_of, name_of, page_of

NAME = "TIFF"
SUFFIXES = (".tif", ".tiff", ".ome.tif", ".ome.tiff")
KEEPS = ("exif", "profile", "iptc")

_CAMERA = (271, 272, 315, 33432)  # make, model, artist and copyright
_IPTC = 33723  # the tag of IPTC data
_MOSAIC = 32803  # the photometric interpretation of a raw image
_OME_TYPES = ("int8", "int16", "int32", "uint8", "uint16", "uint32", "float32", "float64")


class _Origin(NamedTuple):
    """What is needed to write the same file again."""

    bigtiff: bool
    byteorder: Any
    name: str
    pages: list[list[Page]]
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
            pages.append([page_of(page, pixels.dtype, notes) for page in tiff_pages])
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
        iptc = bytes_of(first, first.tags[_IPTC]) if _IPTC in first.tags else None
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
    """Return the axes of a file that holds nothing but an array of gray values or colors; refuse others."""
    with _opened(path) as file:
        if len(file.series) != 1:
            raise ValueError(
                f"it holds {len(file.series)} images of different shapes; expected one"
            )
        series, first = file.series[0], file.pages.first
        if first.photometric == _MOSAIC:
            raise ValueError(
                "it is the mosaic of a raw image; expected gray or color for processing in tiles"
            )
        if first.photometric == tifffile.PHOTOMETRIC.MINISWHITE:
            raise ValueError("it is a negative; expected black to be the smallest value")
        if first.extrasamples:
            raise ValueError("it has extra samples, such as transparency; expected only colors")
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
            blocks = pixels.reshape(len(pages), *pages[0].shape)
            if _is_imagej_stack(pages):
                pages, blocks = pages[:1], blocks[None]
            for page, data in zip(pages, blocks, strict=True):
                options = dict(page.options)
                if "description" in options:
                    # OME metadata contain the name of the file.
                    old, new = (f'FileName="{n}"'.encode() for n in (origin.name, name.name))
                    options["description"] = options["description"].replace(old, new)
                options["extratags"] = options["extratags"] + appended(file, page.tags)
                file.write(np.ascontiguousarray(data), metadata=None, contiguous=False, **options)


def _is_imagej_stack(pages: list[Page]) -> bool:
    """Return whether ImageJ takes all pages for one block of pixels after the first, whatever their tags say."""
    options = pages[0].options
    described = options.get("description") or b""
    stacked = described.startswith(b"ImageJ=") and b"images=" in described
    return len(pages) > 1 and stacked and int(options["compression"]) == 1


def _is_ome(picture: Picture, name: Path) -> bool:
    """Return whether to write OME metadata: if the suffix asks for it, or if axes and sizes would be lost otherwise."""
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
            colors = layer.axes.endswith("YXC") and layer.pixels.shape[-1] == 3
            kept = [axis for axis in layer.axes if axis in "TZC" and not (axis == "C" and colors)]
            kept += ["Y", "X", *("C" * colors)]
            others = [axis for axis in layer.axes if axis not in kept]
            images = layer.pixels.transpose([layer.axes.index(axis) for axis in [*others, *kept]])
            for number in np.ndindex(images.shape[: len(others)]):
                file.write(
                    np.ascontiguousarray(images[number]),
                    photometric="rgb" if colors else "minisblack",
                    compression="adobe_deflate",
                    iccprofile=picture.profile,
                    metadata=_ome_metadata(
                        layer,
                        "".join(kept[:-1]) + "S" if colors else "".join(kept),
                        [] if colors else picture.channels,
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
        if tag.kind == ASCII and tag.code not in MANAGED
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
                    extratags=own + appended(file, [tag for tag in tags if tag.children]),
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
    return header, [tag for tag in kept if tag.code in POINTERS or tag.code in _CAMERA]


def _refuse(file: Any, series: Any) -> None:
    """Refuse files that could not be written again as they were."""
    first = series.keyframe
    if series.is_multifile:
        raise ValueError("it is one of several files of an image; expected a single file")
    if len(series.levels) > 1 or first.subifds:
        raise ValueError("it is a pyramid of images; expected one resolution")
    # In a damaged file, the compression may be any value.
    if first.compression not in LOSSLESS | EMBEDDED_IMAGES:
        raise ValueError(
            f"its compression is {name_of(first.compression)}; expected none, LZW, Deflate, PackBits, LZMA, Zstandard, "
            "JPEG, JPEG 2000 or WebP"
        )
    if first.bitspersample == 1:
        raise ValueError("its pixels are black or white; expected gray or color")
    if first.photometric == tifffile.PHOTOMETRIC.PALETTE and not file.is_imagej:
        raise ValueError("its colors are in a palette; expected gray or color")
    if set(series.axes) & set("YX") != set("YX"):
        raise ValueError(f"its axes are {series.axes}; expected an image")


def _mosaic(page: Any) -> Mosaic | None:
    """Return the pattern of a raw image; refuse patterns that are not Bayer's."""
    if page.photometric != _MOSAIC:
        return None
    colors = page.tags[33422].value if 33422 in page.tags else ()
    pattern = "".join("RGB"[color] if color < 3 else "?" for color in colors)
    if pattern not in PATTERNS or page.samplesperpixel > 1:
        raise ValueError(
            f"it is a mosaic with the pattern {pattern or 'unknown'}; expected {', '.join(PATTERNS)}"
        )
    return Mosaic(pattern)


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


def _without_alpha(pixels: Pixels, names: str, page: Any) -> tuple[Pixels, str, Pixels | None]:
    """Rename the axis of samples, S, to channels, C, and separate the extra samples from the colors."""
    if "S" not in names:
        return pixels, names, None
    # If there are channels of color images, the channels are a stack.
    names = names.replace("C", "Q") if "C" in names else names
    axis = names.index("S")
    names = names.replace("S", "C")
    extra = len(page.extrasamples)
    transparent = {tifffile.EXTRASAMPLE.ASSOCALPHA, tifffile.EXTRASAMPLE.UNASSALPHA}
    if not extra or not transparent & set(page.extrasamples):
        return pixels, names, None
    samples = np.moveaxis(pixels, axis, -1)
    colors = np.moveaxis(samples[..., :-extra], -1, axis)
    return colors, names, samples[..., -extra:]
