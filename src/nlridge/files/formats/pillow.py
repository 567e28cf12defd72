"""JPEG and WebP files, read with Pillow: 8 bits, with EXIF data and the colour profile."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from ..damage import refuse_too_large
from ..orientation import turn_of
from ..picture import Layer, Picture
from .png import single_image

NAME = "JPEG or WebP"
SUFFIXES = (".jpg", ".jpeg", ".webp")
KEEPS = ("exif", "profile")
BITS = 8
"""The largest number of bits of a colour; 16 if a format does not say."""

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
        is_jpeg = path.suffix.lower() != ".webp"
        if is_jpeg != (image.format != "WEBP"):
            raise ValueError(
                f"the content of the file is {image.format} data; expected {'JPEG' if is_jpeg else 'WebP'}, "
                f"as its name ends in {path.suffix}"
            )
        notes = []
        if getattr(image, "n_frames", 1) > 1:
            if not is_jpeg:
                raise ValueError("the file is an animation; expected a single image")
            notes.append("other images in the file (previews, gain maps) were dropped")
        if "photoshop" in image.info:
            notes.append("IPTC data were dropped")
        pixels = np.asarray(image)  # decodes, and raises if the file is truncated
        alpha = None
        if image.mode in ("RGBA", "LA"):
            pixels, alpha = pixels[..., :-1], pixels[..., -1]
        elif image.mode not in ("L", "RGB", "CMYK"):
            raise ValueError(f"its pixels have the mode {image.mode}; expected gray or colour")
        info = image.info
        kept: dict[str, Any] = {
            key: info[key] for key in ("dpi", "comment", "xmp") if info.get(key) is not None
        }
        if is_jpeg:
            kept["subsampling"] = _subsampling(image)
            kept["progressive"] = bool(info.get("progressive"))
        else:
            kept["lossless"] = b"VP8L" in path.read_bytes()[:4096]
        return Picture(
            format="pillow",
            layers=[Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")],
            alpha=alpha,
            profile=info.get("icc_profile"),
            exif=info.get("exif"),
            turn=turn_of(info.get("exif")),
            origin=(is_jpeg, kept),
            notes=notes,
        )


def write(path: Path, picture: Picture, name: Path) -> None:
    is_jpeg = name.suffix.lower() != ".webp"
    kind = "JPEG" if is_jpeg else "WebP"
    cmyk = is_jpeg and picture.format == "pillow" and _is_cmyk(picture)
    pixels = picture.layers[0].pixels if cmyk else single_image(picture, kind)
    if pixels.dtype != np.uint8:
        raise ValueError(
            f"{kind} files cannot store {pixels.dtype}; expected uint8, or a PNG or TIFF file"
        )
    options: dict[str, Any] = {}
    if picture.format == "pillow" and picture.origin[0] == is_jpeg:
        options |= picture.origin[1]
    if picture.profile:
        options["icc_profile"] = picture.profile
    if picture.exif:
        options["exif"] = b"Exif\0\0" + picture.exif.removeprefix(b"Exif\0\0")
    if picture.alpha is not None:
        if is_jpeg:
            raise ValueError(
                "JPEG files cannot store transparency; expected a PNG, WebP or TIFF file"
            )
        colours = np.repeat(pixels[..., None], 3, axis=-1) if pixels.ndim == 2 else pixels
        pixels = np.concatenate([colours, picture.alpha[..., None]], axis=-1)
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
    path.write_bytes(data.getbuffer())


def _is_cmyk(picture: Picture) -> bool:
    layer = picture.layers[0]
    return layer.axes == "YXC" and layer.pixels.shape[-1] == 4


def _subsampling(image: Image.Image) -> int:
    """Return the chroma subsampling of a JPEG image, to be used again."""
    from PIL import JpegImagePlugin

    subsampling: int = JpegImagePlugin.get_sampling(image)
    return subsampling if subsampling in (0, 1, 2) else 0
