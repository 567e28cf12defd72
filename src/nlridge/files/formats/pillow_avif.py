"""AVIF files with EXIF data and the color profile: pixels of 8 bits by Pillow, those of 10 and 12 bits by imagecodecs."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ..boxes import exif_item, with_metadata, xmp_item
from ..damage import refuse_too_large
from ..orientation import turn_of
from ..picture import Layer, Picture
from .pillow import opened
from .png import single_image

NAME = "AVIF"
SUFFIXES = (".avif",)
KEEPS = ("exif", "profile")
BITS = 8

_QUALITY = 90
_HIGH_BIT_DEPTH, _TWELVE_BITS, _GRAY = 0x40, 0x20, 0x10  # flags of the configuration of AV1


def recognises(head: bytes) -> bool:
    return head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis", b"mif1")


def read(path: Path, axes: str | None) -> Picture:
    with opened(path, ["AVIF"]) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise ValueError("the file is an animation; expected a single image")
        info = dict(image.info)
        bits, gray = _configuration(path.read_bytes())
        if bits == 8:
            pixels = np.asarray(image)
        else:
            import imagecodecs

            refuse_too_large("its pixels", 8 * image.height * image.width, path.stat().st_size)
            pixels = imagecodecs.avif_decode(path.read_bytes())
    alpha = None
    if pixels.ndim == 3 and pixels.shape[-1] in (2, 4):
        pixels, alpha = pixels[..., :-1], pixels[..., -1]
    if gray and pixels.ndim == 3:
        pixels = pixels[..., 0]
    exif = info.get("exif")
    kept = {"xmp": info["xmp"]} if info.get("xmp") else {}
    return Picture(
        format="pillow_avif",
        layers=[Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")],
        alpha=alpha,
        profile=info.get("icc_profile"),
        exif=exif,
        turn=turn_of(exif),
        origin=(bits, kept),
    )


def write(path: Path, picture: Picture, name: Path) -> None:
    pixels = single_image(picture, "AVIF")
    bits, kept = picture.origin if picture.format == "pillow_avif" else (8, {})
    if pixels.dtype != (np.uint8 if bits == 8 else np.uint16):
        raise ValueError(f"AVIF files cannot store {pixels.dtype}; expected uint8, or a TIFF file")
    if picture.alpha is not None:
        pixels = np.concatenate([np.atleast_3d(pixels), picture.alpha[..., None]], axis=-1)
    pixels = np.ascontiguousarray(pixels)
    if bits > 8:
        import imagecodecs

        limited = np.minimum(pixels, 2**bits - 1)
        data = bytes(imagecodecs.avif_encode(limited, level=_QUALITY, bitspersample=bits))
        items = [exif_item(picture.exif)] if picture.exif else []
        items += [xmp_item(kept["xmp"])] if "xmp" in kept else []
        path.write_bytes(with_metadata(data, items, picture.profile, picture.turn))
        return
    gray = pixels.ndim == 2 or pixels.shape[-1] == 2
    options: dict[str, Any] = {"subsampling": "4:0:0" if gray else "4:4:4", **kept}
    if picture.exif:
        options["exif"] = picture.exif
    if picture.profile:
        options["icc_profile"] = picture.profile
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "AVIF", quality=_QUALITY, **options)
    path.write_bytes(file.getbuffer())


def _configuration(data: bytes) -> tuple[int, bool]:
    """Return the number of bits of a color, and whether the image is gray, from the configuration of the codec."""
    at = data.find(b"av1C")
    flags = data[at + 6] if 0 <= at < len(data) - 6 else 0
    many = 12 if flags & _TWELVE_BITS else 10
    return many if flags & _HIGH_BIT_DEPTH else 8, bool(flags & _GRAY)
