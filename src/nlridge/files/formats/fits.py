"""FITS files, read with astropy: the first image in the file; all headers and other units are preserved."""

from pathlib import Path
from typing import Any

import numpy as np

from ...checks import not_installed
from ..damage import refuse_too_large
from ..picture import Layer, Picture
from .npy import named_axes

NAME = "FITS"
SUFFIXES = (".fits", ".fit", ".fts")
KEEPS = ()
_BLOCK = 2880  # bytes
_UNSIGNED = (0, 2**15, 2**31, 2**63)  # the offsets with which FITS stores unsigned integers


def recognises(head: bytes) -> bool:
    return head.startswith(b"SIMPLE  =")


def read(path: Path, axes: str | None) -> Picture:
    fits = _astropy()
    size = path.stat().st_size
    with open(path, "rb") as file, fits.open(file, memmap=False, mode="readonly") as units:
        _expect_complete(units, size)
        numbers = [k for k, unit in enumerate(units) if unit.is_image and unit.header["NAXIS"] >= 2]
        if not numbers:
            raise ValueError("it holds no image; expected at least one")
        number = numbers[0]
        header = units[number].header
        scaled = header.get("BSCALE", 1) != 1 or header.get("BZERO", 0) not in _UNSIGNED
        scaled |= "BLANK" in header and header["BITPIX"] > 0
        units.readall()
        kept = fits.HDUList([unit.copy() for unit in units])
        pixels = np.asarray(units[number].data)
    notes = [f"{len(numbers) - 1} other images were left unchanged"] if len(numbers) > 1 else []
    if scaled:
        notes.append("integers with a scale or with missing pixels were converted to floats")
    layer = Layer(pixels, named_axes(pixels.shape, axes))
    return Picture("fits", [layer], origin=(kept, number), notes=notes)


def write(path: Path, picture: Picture, name: Path) -> None:
    fits = _astropy()
    if len(picture.layers) > 1 or picture.alpha is not None:
        raise ValueError(
            "FITS files cannot store transparency or images of several shapes; expected a TIFF file"
        )
    pixels = picture.layers[0].pixels
    if pixels.dtype == np.float16:
        raise ValueError("FITS files cannot store float16; expected float32, or a TIFF file")
    if picture.format == "fits":
        units, number = picture.origin
        units[number].data = pixels
        if pixels.dtype.kind == "f":
            units[number].header.remove("BLANK", ignore_missing=True)
    else:
        units = fits.HDUList([fits.PrimaryHDU(pixels)])
    with open(path, "wb") as file:
        has_checksum = any("CHECKSUM" in unit.header for unit in units)
        units.writeto(file, output_verify="silentfix+ignore", checksum=has_checksum)


def _expect_complete(units: Any, size: int) -> None:
    """Refuse truncated files and unknown data, which astropy would accept or ignore."""
    for unit in units:
        header = unit.header
        sizes = [header[f"NAXIS{k}"] for k in range(1, header["NAXIS"] + 1)]
        if any(not isinstance(n, int) or n < 0 for n in sizes):
            raise ValueError(f"the file is damaged: its header has the sizes {sizes}")
        start, span = (unit.fileinfo()[key] for key in ("datLoc", "datSpan"))
        compressed = isinstance(unit, _astropy().CompImageHDU)
        # The last block need not be complete.
        if start + (span - _BLOCK + 1 if compressed else unit.size) > size:
            raise ValueError("the file is damaged: it is truncated")
        if compressed:
            refuse_too_large(f"{' x '.join(map(str, sizes))} pixels", unit.size, size)
    end = start + span
    with open(units.filename(), "rb") as file:
        file.seek(end)
        while rest := file.read(2**20):
            if rest.strip(b"\0 \n"):
                raise ValueError(f"the file is damaged: the data after byte {end} are not FITS")


def _astropy() -> Any:
    try:
        from astropy.io import fits
    except ImportError:
        raise not_installed("FITS files need", "astropy") from None
    return fits
