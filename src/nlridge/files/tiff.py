"""TIFF, by tifffile: integers and floats, stacks of pages, ImageJ and OME; pages are written one by one, with
their tags and compression."""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import tifffile

from . import Layer, Picture, Pixels, refuse_too_large

NAME = "TIFF"

# Tags that tifffile writes by itself, or that point to something that is not copied.
_MANAGED = {
    254, 255, 256, 257, 258, 259, 262, 270, 273, 277, 278, 279, 282, 283, 284, 296, 305, 306, 317, 320,
    322, 323, 324, 325, 330, 338, 339, 347, 530, 532, 34675,
}  # fmt: skip
_POINTERS = {34665: "EXIF", 34853: "GPS", 40965: "EXIF"}
_LOSSLESS = {1, 5, 8, 32773, 32946, 34925, 50000}


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
    with tifffile.TiffFile(path) as file:
        if not file.series:
            raise ValueError("it holds no image")
        _refuse_cut_off(file)
        layers, pages, alphas = [], [], []
        for series in file.series:
            first = series.keyframe
            refuse_too_large(first.imagelength, first.imagewidth, first.samplesperpixel, size)
            _refuse(file, series)
            with _complaints() as complaints:
                pixels, names = series.asarray(), series.axes
            if complaints:
                raise ValueError(f"the file is damaged: {complaints[0]}")
            found = [page.aspage() for page in series.pages]
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


def axes_of_plain(path: Path, axes: str | None) -> str:
    """The axes of a file that is nothing but an array of gray values or colours; others are refused."""
    with tifffile.TiffFile(path) as file:
        if len(file.series) != 1:
            raise ValueError(f"it holds {len(file.series)} images of several kinds; expected one")
        series, first = file.series[0], file.pages.first
        _refuse_cut_off(file)
        _refuse(file, series)
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
        notes[f"compression {compression.name} was replaced by one without loss"] = None
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
        "extrasamples": page.extrasamples or None,
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


def _text(page: Any, code: int) -> bytes | None:
    value = page.tags[code].value if code in page.tags else None
    return value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else None


def _description(page: Any) -> bytes | None:
    """The description; that of tifffile itself without the shape, since pages are written one by one."""
    text = _text(page, 270)
    if text is None or not text.startswith(b'{"shape":'):
        return text
    try:
        about = json.loads(text)
    except ValueError:
        return text
    del about["shape"]
    return json.dumps(about).encode() if about else None


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


def _refuse_cut_off(file: Any) -> None:
    """ImageJ says how many images there are: a file that was cut off has fewer."""
    said = (file.imagej_metadata or {}).get("images", 1) if file.is_imagej else 1
    there = sum(
        int(np.prod([n for a, n in zip(s.axes, s.shape, strict=True) if a not in "YXS"]))
        for s in file.series
    )
    if there < said:
        raise ValueError(f"the file is damaged: it holds {there} of {said} images")


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
