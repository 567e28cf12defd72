"""HEIC and HEIF files, read with pillow-heif: 8, 10 or 12 bits, with EXIF data and the color profile."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import not_installed
from ..damage import refuse_too_large
from ..orientation import upright_exif
from ..picture import Layer, Picture
from .png import single_image

NAME = "HEIF"
SUFFIXES = (".heic", ".heif", ".hif")
KEEPS = ("exif", "profile")

_QUALITY = 95
_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")


def recognises(head: bytes) -> bool:
    return head[4:8] == b"ftyp" and head[8:12] in _BRANDS


def read(path: Path, axes: str | None) -> Picture:
    heif = _pillow_heif()
    file = heif.open_heif(path, convert_hdr_to_8bit=False, bgr_mode=False)
    image = file[file.primary_index]
    width, height = image.size
    bits = int(image.info["bit_depth"])
    samples = len(image.mode.partition(";")[0].replace("I", "L"))
    decoded = height * width * samples * (1 if bits == 8 else 2)
    refuse_too_large(f"{width} x {height} pixels", decoded, path.stat().st_size)
    notes = []
    if len(file) > 1:
        notes.append("other images in the file were dropped")
    if image.info.get("depth_images") or image.info.get("aux"):
        notes.append("depth and gain maps in the file were dropped")
    pixels = np.array(image)  # a copy: with some versions, the memory is freed with the file
    alpha = None
    if pixels.ndim == 3 and pixels.shape[-1] in (2, 4):
        pixels, alpha = pixels[..., :-1], pixels[..., -1]
        pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    kept = {key: image.info[key] for key in ("xmp",) if image.info.get(key)}
    return Picture(
        format="heif",
        layers=[Layer(pixels, "YXC" if pixels.ndim == 3 else "YX")],
        alpha=alpha,
        profile=image.info.get("icc_profile"),
        exif=upright_exif(image.info.get("exif")),  # the library has turned the pixels
        origin=(bits, kept),
        notes=notes,
    )


def write(path: Path, picture: Picture, name: Path) -> None:
    heif = _pillow_heif()
    pixels = single_image(picture, "HEIF")
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(
            f"HEIF files cannot store {pixels.dtype}; expected uint8 or uint16, or a TIFF file"
        )
    bits, kept = picture.origin if picture.format == "heif" else (12, {})
    if picture.alpha is not None:
        pixels = np.concatenate([np.atleast_3d(pixels), picture.alpha[..., None]], axis=-1)
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[1 if pixels.ndim == 2 else pixels.shape[-1]]
    if pixels.dtype == np.uint16:
        mode = "I;16" if mode == "L" else f"{mode};16"
    options: dict[str, Any] = {"quality": _QUALITY, "chroma": 444, **kept}
    if picture.exif:
        options["exif"] = picture.exif
    if picture.profile:
        options["icc_profile"] = picture.profile
    file = heif.from_bytes(mode, pixels.shape[1::-1], np.ascontiguousarray(pixels).tobytes())
    data = io.BytesIO()
    before = heif.options.SAVE_HDR_TO_12_BIT
    heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    try:
        file.save(data, **options)
    finally:
        heif.options.SAVE_HDR_TO_12_BIT = before
    path.write_bytes(data.getbuffer())


def _pillow_heif() -> Any:
    try:
        import pillow_heif
    except ImportError:
        raise not_installed("HEIF files need", "pillow-heif") from None
    return pillow_heif
