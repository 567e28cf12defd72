"""Noisy images and their files, for the tests of formats."""

import io
import struct
import zlib

import numpy as np
from astropy.io import fits
from PIL import Image, ImageCms

from nlridge import to_dtype
from nlridge.apps.cli import main

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


SHAPE = 40, 56


def noisy(*, channels=None, dtype=np.uint8, frames=(), seed=0):
    """A ramp with noise, filling half the range of its type."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    clean = 0.25 + 0.5 * (x + y) / (x + y).max()
    shape = (*frames, *SHAPE) + ((channels,) if channels else ())
    clean = np.broadcast_to(clean[..., None] if channels else clean, shape)
    values = clean + rng.normal(0, 0.05, shape)
    dtype = np.dtype(dtype)
    top = np.iinfo(dtype).max if dtype.kind in "ui" else 1.0
    return to_dtype(values * float(top), dtype)


def exif(orientation=1):
    tags = Image.Exif()
    tags[0x0112] = orientation
    tags[0x010F] = "A camera"
    tags[0x0131] = "its software"
    return tags.tobytes()


def denoised(path, *options, output=None):
    """The output of the command line for a file."""
    target = output or path.with_name(f"{path.stem}_denoised{path.suffix}")
    words = ["denoise", str(path), "--method", "fast", "--quiet", *options]
    assert main([*words, "-o", str(target)] if output else words) == 0
    return target


def assert_cleaned(before, after, most=0.5):
    """The dtype and the shape are the same, and at most this share of the noise is left."""
    assert after.dtype == before.dtype
    assert after.shape == before.shape
    assert not np.array_equal(before, after)

    def roughness(a):
        a = a.astype(np.float64)
        return np.std(a[..., 1:, 1:] - a[..., :-1, 1:] - a[..., 1:, :-1] + a[..., :-1, :-1])

    planes = [
        np.moveaxis(a, -1, 0) if a.ndim == 3 and a.shape[-1] <= 4 else a for a in (before, after)
    ]
    assert roughness(planes[1]) < most * roughness(planes[0])


LEFT = {"webp": 0.85}  # its compression turns some of the noise into blocks, which stay


def png_chunks(data):
    at, chunks = 8, []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    return chunks


def with_chunks(data, chunks):
    """A PNG file with more chunks after its header."""
    extra = b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return data[:33] + extra + data[33:]


def compressed_fits():
    data = io.BytesIO()
    units = [fits.PrimaryHDU(), fits.CompImageHDU(noisy(dtype=np.int16), compression_type="RICE_1")]
    fits.HDUList(units).writeto(data)
    return data.getvalue()


def fits_bytes():
    data = io.BytesIO()
    fits.PrimaryHDU(noisy(dtype=np.float32)).writeto(data)
    return data.getvalue()
