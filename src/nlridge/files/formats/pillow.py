"""JPEG and WebP files, read with Pillow: 8 bits, with EXIF data and the color profile, and IPTC data of JPEG."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from ..damage import refuse_too_large
from ..iptc import as_segment, of_segments, segments, with_segments
from ..orientation import turn_of
from ..picture import Layer, Picture
from .png import single_image

NAME = "JPEG or WebP"
SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".webp")
KEEPS = ("exif", "profile", "iptc")
BITS = 8
"""The largest number of bits of a color; 16 in formats without this constant."""

_QUALITY = 95


def recognises(head: bytes) -> bool:
    return head.startswith(b"\xff\xd8\xff") or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


@contextmanager
def opened(path: Path, formats: list[str]) -> Iterator[Image.Image]:
    """Open an image with Pillow, unless its header claims too much."""
    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None  # refuse_too_large takes the size of the file into account
    try:
        with Image.open(path, formats=formats) as image:
            decoded = image.height * image.width * len(image.getbands())
            size = path.stat().st_size
            refuse_too_large(f"{image.width} x {image.height} pixels", decoded, size)
            yield image
    except UnidentifiedImageError:
        raise ValueError("the file is damaged: its header cannot be read") from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def read(path: Path, axes: str | None) -> Picture:
    with opened(path, ["JPEG", "WEBP"]) as image:
        is_jpeg = image.format != "WEBP"
        data = path.read_bytes()
        notes = []
        suffix = path.suffix.lower()
        if suffix in SUFFIXES and is_jpeg != (suffix != ".webp"):
            kind = "JPEG" if is_jpeg else "WebP"
            notes.append(
                f"the content of the file is {kind} data, though its name ends in {suffix}"
            )
        if getattr(image, "n_frames", 1) > 1:
            if not is_jpeg:
                raise ValueError("the file is an animation; expected a single image")
            notes.append("other images in the file (previews, gain maps) were dropped")
        pixels = np.asarray(image)  # decodes, and raises if the file is truncated
        alpha = None
        if image.mode in ("RGBA", "LA"):
            pixels, alpha = pixels[..., :-1], pixels[..., -1]
        elif image.mode not in ("L", "RGB", "CMYK"):
            raise ValueError(f"its pixels have the mode {image.mode}; expected gray or color")
        info = image.info
        kept: dict[str, Any] = {
            key: info[key] for key in ("dpi", "comment", "xmp") if info.get(key) is not None
        }
        if is_jpeg:
            kept["subsampling"] = _subsampling(image)
            kept["progressive"] = bool(info.get("progressive"))
        else:
            kept["lossless"] = b"VP8L" in data[:4096]
        photoshop = segments(data) if is_jpeg else b""
        return Picture(
            format="pillow",
            layers=[Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")],
            alpha=alpha,
            profile=info.get("icc_profile"),
            exif=info.get("exif"),
            iptc=of_segments(photoshop),
            turn=turn_of(info.get("exif")),
            origin=(is_jpeg, kept, photoshop),
            notes=notes,
        )


def write(path: Path, picture: Picture, name: Path) -> list[str]:
    is_jpeg = name.suffix.lower() != ".webp"
    kind = "JPEG" if is_jpeg else "WebP"
    cmyk = is_jpeg and picture.format == "pillow" and _is_cmyk(picture)
    pixels = picture.layers[0].pixels if cmyk else single_image(picture, kind)
    if pixels.dtype != np.uint8:
        raise ValueError(
            f"{kind} files cannot store {pixels.dtype}; expected uint8, or a PNG or TIFF file"
        )
    options: dict[str, Any] = {}
    photoshop = as_segment(picture.iptc) if picture.iptc else b""
    if picture.format == "pillow" and picture.origin[0] == is_jpeg:
        options |= picture.origin[1]
        photoshop = picture.origin[2]
    if picture.profile:
        options["icc_profile"] = picture.profile
    if picture.exif:
        options["exif"] = b"Exif\0\0" + picture.exif.removeprefix(b"Exif\0\0")
    if picture.alpha is not None:
        if is_jpeg:
            raise ValueError(
                "JPEG files cannot store transparency; expected a PNG, WebP or TIFF file"
            )
        colors = np.repeat(pixels[..., None], 3, axis=-1) if pixels.ndim == 2 else pixels
        pixels = np.concatenate([colors, picture.alpha[..., None]], axis=-1)
    mode = "CMYK" if cmyk else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # for `mode`, which CMYK needs
        image = Image.fromarray(np.ascontiguousarray(pixels), mode)
    options["quality"] = _QUALITY
    if not is_jpeg:
        options |= {"exact": True, "method": 4}
    # If the disk is full, Pillow silently writes a truncated JPEG file; Python raises an error.
    data = io.BytesIO()
    image.save(data, kind.upper(), **options)
    content = data.getvalue()
    path.write_bytes(with_segments(content, photoshop) if is_jpeg and photoshop else content)
    lost = picture.iptc and not (is_jpeg and photoshop)
    return [f"{kind} files cannot store the IPTC data"] if lost else []


def _is_cmyk(picture: Picture) -> bool:
    layer = picture.layers[0]
    return layer.axes == "YXC" and layer.pixels.shape[-1] == 4


def _subsampling(image: Image.Image) -> int:
    """Return the chroma subsampling of a JPEG image, so that it can be kept."""
    from PIL import JpegImagePlugin

    subsampling: int = JpegImagePlugin.get_sampling(image)
    return subsampling if subsampling in (0, 1, 2) else 0
