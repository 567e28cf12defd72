"""FITS files, read with astropy: the first image in the file; all headers and other units are preserved.

Files that are compressed as a whole (.fits.gz and .fits.bz2) stay so.
"""

import bz2
import gzip
import io
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ...checks import not_installed
from ...errors import shown
from ..damage import refuse_too_large, unpacked
from ..picture import Layer, Picture
from .npy import named_axes

NAME = "FITS"
SUFFIXES = (
    ".fits", ".fit", ".fts", ".fits.gz", ".fit.gz", ".fts.gz", ".fits.bz2", ".fit.bz2", ".fts.bz2", ".fits.fz",
)  # fmt: skip
KEEPS = ()
_START, _GZIP, _BZIP2 = b"SIMPLE  =", b"\x1f\x8b", b"BZh"
_BLOCK = 2880  # bytes
_TILES = ("COMPRESSED_DATA", "GZIP_COMPRESSED_DATA")  # columns of compressed images
_WIDEST = 8  # bytes of a pixel
_SEEDS = 10_000  # of dithers, as in section 10.2 of the standard
_UNSIGNED = (0, 2**15, 2**31, 2**63)  # the offsets with which FITS stores unsigned integers


def recognises(head: bytes) -> bool:
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(31).decompress(head, len(_START))
        except zlib.error:
            return False
    return head.startswith((_START, _BZIP2))


def read(path: Path, axes: str | None) -> Picture:
    fits = _astropy()
    with _opened(path) as file, fits.open(file, memmap=False, mode="readonly") as units:
        _expect_complete(units, file, path.stat().st_size)
        if any(isinstance(unit, fits.CompImageHDU) for unit in units):
            _expect_sound_tiles(path)
        numbers = [k for k, unit in enumerate(units) if unit.is_image and unit.header["NAXIS"] >= 2]
        if not numbers:
            raise ValueError("it holds no image; expected at least one")
        number = numbers[0]
        header = units[number].header
        scaled = header.get("BSCALE", 1) != 1 or header.get("BZERO", 0) not in _UNSIGNED
        scaled |= "BLANK" in header and header["BITPIX"] > 0
        units.readall()
        pixels = np.asarray(units[number].data)
        file.seek(0)
        content = file.read()
    notes = [f"{len(numbers) - 1} other images were left unchanged"] if len(numbers) > 1 else []
    if scaled:
        notes.append("integers with a scale or with missing pixels were converted to floats")
    layer = Layer(pixels, named_axes(pixels.shape, axes))
    return Picture("fits", [layer], origin=(content, number), notes=notes)


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
        content, number = picture.origin
        with fits.open(io.BytesIO(content), memmap=False) as before:
            before.readall()
            units = fits.HDUList([unit.copy() for unit in before])
        units[number].data = pixels
        if pixels.dtype.kind == "f":
            units[number].header.remove("BLANK", ignore_missing=True)
    else:
        units = fits.HDUList([fits.PrimaryHDU(pixels)])
    has_checksum = any("CHECKSUM" in unit.header for unit in units)
    with _created(path, name) as file:
        units.writeto(file, output_verify="silentfix+ignore", checksum=has_checksum)


def _opened(path: Path) -> BinaryIO:
    """Open a file; one that is compressed as a whole is decompressed in memory."""
    with open(path, "rb") as file:
        head = file.read(len(_BZIP2))
    if not head.startswith((_GZIP, _BZIP2)):
        return open(path, "rb")
    library: Any = gzip if head.startswith(_GZIP) else bz2
    with library.open(path, "rb") as packed:
        return unpacked(packed, path.stat().st_size)


@contextmanager
def _created(path: Path, name: Path) -> Iterator[Any]:
    """Create a file, compressed as its final name says."""
    with open(path, "wb") as file:
        if name.suffix.lower() == ".gz":
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                yield packed
        elif name.suffix.lower() == ".bz2":
            with bz2.open(file, "wb") as packed:
                yield packed
        else:
            yield file


def _expect_complete(units: Any, file: BinaryIO, compressed_size: int) -> None:
    """Refuse truncated files and unknown data, which astropy would accept or ignore."""
    size = file.seek(0, io.SEEK_END)
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
            refuse_too_large(f"{' x '.join(map(str, sizes))} pixels", unit.size, compressed_size)
    end = start + span
    file.seek(end)
    while rest := file.read(2**20):
        if rest.strip(b"\0 \n"):
            raise ValueError(f"the file is damaged: the data after byte {end} are not FITS")


def _expect_sound_tiles(path: Path) -> None:
    """Refuse tiles that astropy would decode without bounds: all that they unpack to, or numbers before its table of dither."""
    fits = _astropy()
    with (
        _opened(path) as file,
        fits.open(file, memmap=False, disable_image_compression=True) as units,
    ):
        for unit in units:
            header = unit.header
            if not header.get("ZIMAGE", False):
                continue
            seed = header.get("ZDITHER0", 1)
            if not (isinstance(seed, int) and 1 <= seed <= _SEEDS):
                raise ValueError(
                    f"the file is damaged: its ZDITHER0 is {shown(seed)}; expected 1 to {_SEEDS}"
                )
            sizes = [
                header.get(f"ZTILE{k}", header["ZNAXIS1"] if k == 1 else 1)
                for k in range(1, header["ZNAXIS"] + 1)
            ]
            most = _WIDEST * math.prod(sizes)
            for column in unit.columns.names:
                for tile in unit.data[column] if column in _TILES else ():
                    packed = np.asarray(tile).tobytes()
                    if packed.startswith(_GZIP) and _unpacks_to_more(packed, most):
                        raise ValueError(
                            f"the file is damaged: a tile of {' x '.join(map(str, sizes))} pixels unpacks to "
                            f"more than {most} bytes"
                        )


def _unpacks_to_more(packed: bytes, most: int) -> bool:
    """Return whether data of gzip unpack to more than a number of bytes."""
    return len(zlib.decompressobj(31).decompress(packed, most + 1)) > most


def _astropy() -> Any:
    try:
        from astropy.io import fits
    except ImportError:
        raise not_installed("FITS files need", "astropy") from None
    return fits
