"""Intact image files of every format, with random contents."""

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import imagecodecs
import mrcfile
import nibabel
import numpy as np
import pydicom
import tifffile
from astropy.io import fits
from PIL import Image

from nlridge.files.boxes import box, exif_item, with_metadata

from .microscopes import czi_bytes, lif_bytes, nd2_bytes

Random = np.random.Generator

_UUID = "urn:uuid:00000000-0000-1000-8000-000000000000"  # a new one for each file would not repeat


def intact_file(rng: Random) -> tuple[str, bytes]:
    makers = [
        *(_png, _jpeg, _webp, _bmp, _tiff, _tiff, _tiff, _npy, _fits),
        *(_mrc, _nifti, _dicom, _hdf5, _czi, _lif, _nd2, _avif, _jpeg_xl),
        *(_gif, _jpeg_2000, _netpbm, _tga),
    ]
    return makers[rng.integers(len(makers))](rng)


def _pixels(rng: Random, dtype: Any, *shape: int) -> Any:
    top = np.iinfo(dtype).max if np.dtype(dtype).kind in "ui" else 1
    ramp = np.linspace(0.2, 0.7, int(np.prod(shape))).reshape(shape)
    return (np.clip(ramp + rng.normal(0, 0.05, shape), 0, 0.99) * top).astype(dtype)


def _sides(rng: Random) -> tuple[int, int]:
    return int(rng.integers(4, 33)), int(rng.integers(4, 33))


def _png(rng: Random) -> tuple[str, bytes]:
    if rng.random() < 0.3:  # palettes
        image = Image.fromarray(_pixels(rng, np.uint8, *_sides(rng), 3)).quantize(16)
        return ".png", _by_pillow(image, "PNG", bits=int(rng.choice([4, 8])))
    channels = rng.choice([0, 2, 3, 4])
    shape = _sides(rng) + ((int(channels),) if channels else ())
    return ".png", imagecodecs.png_encode(_pixels(rng, rng.choice(["u1", "u2"]), *shape))


def _jpeg(rng: Random) -> tuple[str, bytes]:
    mode = rng.choice(["L", "RGB", "CMYK"])
    image = Image.fromarray(_pixels(rng, np.uint8, *_sides(rng), 3)).convert(mode)
    return ".jpg", _by_pillow(image, "JPEG", progressive=bool(rng.random() < 0.5), exif=_exif())


def _webp(rng: Random) -> tuple[str, bytes]:
    image = Image.fromarray(_pixels(rng, np.uint8, *_sides(rng), int(rng.choice([3, 4]))))
    return ".webp", _by_pillow(image, "WEBP", lossless=bool(rng.random() < 0.5), exif=_exif())


def _avif(rng: Random) -> tuple[str, bytes]:
    bits = int(rng.choice([8, 10, 12]))
    pixels = _pixels(rng, np.uint8 if bits == 8 else np.uint16, *_sides(rng), 3)
    if bits == 8:
        return ".avif", _by_pillow(Image.fromarray(pixels), "AVIF", exif=_exif())
    data = imagecodecs.avif_encode(pixels >> (16 - bits), level=90, speed=10, bitspersample=bits)
    return ".avif", with_metadata(data, [exif_item(_exif())], b"profile", int(rng.integers(1, 9)))


def _jpeg_xl(rng: Random) -> tuple[str, bytes]:
    channels = rng.choice([0, 2, 3, 4])
    shape = _sides(rng) + ((int(channels),) if channels else ())
    container = bool(rng.random() < 0.7)
    data = imagecodecs.jpegxl_encode(
        _pixels(rng, rng.choice(["u1", "u2", "f4"]), *shape), lossless=True, usecontainer=container
    )
    exif = box(b"Exif", bytes(4), _exif().removeprefix(b"Exif\0\0"))
    return ".jxl", data + (exif if container else b"")


def _bmp(rng: Random) -> tuple[str, bytes]:
    image = Image.fromarray(_pixels(rng, np.uint8, *_sides(rng), 3))
    return ".bmp", _by_pillow(image.convert(rng.choice(["L", "RGB", "P"])), "BMP")


def _tga(rng: Random) -> tuple[str, bytes]:
    image = Image.fromarray(_pixels(rng, np.uint8, *_sides(rng), 4))
    compression = rng.choice([None, "tga_rle"])
    mode = rng.choice(["L", "LA", "RGB", "RGBA", "P"])
    return ".tga", _by_pillow(image.convert(mode), "TGA", compression=compression)


def _gif(rng: Random) -> tuple[str, bytes]:
    shape = (int(rng.integers(1, 4)), *_sides(rng))
    colors = int(rng.choice([0, 3, 4]))
    stack = _pixels(rng, np.uint8, *shape, *((colors,) if colors else ()))
    first, *others = map(Image.fromarray, stack)
    return ".gif", _by_pillow(first, "GIF", save_all=True, append_images=others, duration=50)


def _jpeg_2000(rng: Random) -> tuple[str, bytes]:
    channels = rng.choice([0, 2, 3, 4])
    shape = _sides(rng) + ((int(channels),) if channels else ())
    kind = str(rng.choice(["jp2", "j2k"]))
    pixels = _pixels(rng, rng.choice(["u1", "u2"]), *shape)
    return f".{kind}", imagecodecs.jpeg2k_encode(pixels, level=0, codecformat=kind)


def _netpbm(rng: Random) -> tuple[str, bytes]:
    kind = int(rng.choice([2, 3, 5, 6]))
    shape = _sides(rng) + ((3,) if kind in (3, 6) else ())
    dtype = rng.choice(["u1", ">u2"])
    pixels = _pixels(rng, dtype, *shape)
    header = b"P%d # a comment\n%d %d\n%d\n" % (kind, *shape[1::-1], np.iinfo(dtype).max)
    body = pixels.tobytes() if kind > 3 else " ".join(map(str, pixels.ravel())).encode()
    return str(rng.choice([".pgm", ".ppm", ".pnm"])), header + body


def _exif() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif.tobytes()


def _by_pillow(image: Image.Image, kind: str, **options: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, kind, **options)
    return data.getvalue()


def _tiff(rng: Random) -> tuple[str, bytes]:
    kind = rng.choice(
        ["plain", "pages", "ome", "imagej", "shaped", "color", "jpeg", "image", "pyramid"]
    )
    dtype = rng.choice(["u1", "u2", "f4"])
    frames = int(rng.integers(2, 5))
    compression = rng.choice([None, "lzw", "zlib", "zstd", "packbits", "lzma"])
    options: dict[str, Any] = {"compression": compression}
    if compression in ("lzw", "zlib") and rng.random() < 0.5:
        options["predictor"] = True
    if rng.random() < 0.3:
        options["tile"] = (16, 16)
    elif rng.random() < 0.5:
        options["rowsperstrip"] = 8
    data = io.BytesIO()
    form: dict[str, Any] = {"byteorder": rng.choice(["<", ">"]), "bigtiff": bool(rng.random() < 0.2)}  # fmt: skip
    height, width = _sides(rng)
    if kind == "imagej":
        pixels = _pixels(rng, dtype, frames, 2, height, width)
        tifffile.imwrite(data, pixels, imagej=True, metadata={"axes": "TCYX", "fps": 5.0})
    elif kind == "ome":
        pixels = _pixels(rng, dtype, frames, 2, height, width)
        tifffile.imwrite(data, pixels, ome=True, photometric="minisblack", metadata={"axes": "ZCYX", "UUID": _UUID}, **form, **options)  # fmt: skip
    elif kind in ("jpeg", "image"):
        options = {"compression": "jpeg" if kind == "jpeg" else rng.choice(["png", "webp", "jpeg2000"])}  # fmt: skip
        tifffile.imwrite(data, _pixels(rng, np.uint8, height, width, 3), photometric="rgb", **form, **options)  # fmt: skip
    elif kind == "pyramid":
        with tifffile.TiffWriter(data, **form) as file:
            file.write(_pixels(rng, dtype, height, width), subifds=2, **options)
            file.write(_pixels(rng, dtype, height // 2, width // 2), subfiletype=1)
            file.write(_pixels(rng, dtype, height // 4, width // 4), subfiletype=1)
    elif kind == "shaped":
        pixels = _pixels(rng, dtype, frames, height, width)
        tifffile.imwrite(data, pixels, photometric="minisblack", **form, **options)
    else:
        with tifffile.TiffWriter(data, **form) as file:
            for _ in range(frames if kind == "pages" else 1):
                pixels = _pixels(rng, dtype, height, width, *((4,) if kind == "color" else ()))
                colors = {"photometric": "rgb", "extrasamples": ["unassalpha"]} if kind == "color" else {}  # fmt: skip
                file.write(pixels, metadata=None, contiguous=False, **colors, **options)
    return ".tif", data.getvalue()


def _npy(rng: Random) -> tuple[str, bytes]:
    data = io.BytesIO()
    shape = _sides(rng) + ((3,) if rng.random() < 0.3 else ())
    np.save(data, _pixels(rng, rng.choice(["u1", ">u2", "i4", "f2", "f4", "f8"]), *shape))
    return ".npy", data.getvalue()


def _fits(rng: Random) -> tuple[str, bytes]:
    """Not compressed, although its name ends in .gz or .bz2 at times; see `_nifti`."""
    data = io.BytesIO()
    image = fits.PrimaryHDU(_pixels(rng, rng.choice(["u1", "i2", "u2", "f4", "f8"]), *_sides(rng)))
    image.header["OBJECT"] = "M 31"
    table = fits.BinTableHDU.from_columns([fits.Column("x", "J", array=np.arange(3))])
    units = [image, table] if rng.random() < 0.3 else [image]
    if rng.random() < 0.3:
        for unit in units:
            unit.add_checksum(when="without the time")
    fits.HDUList(units).writeto(data)
    return str(rng.choice([".fits", ".fits.gz", ".fits.bz2"])), data.getvalue()


def _by_file(suffix: str, save: Callable[[str], Any]) -> bytes:
    """What a library writes that wants the name of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file{suffix}"
        save(str(path))
        return path.read_bytes()


def _volume(rng: Random, kinds: list[str]) -> Any:
    frames = (int(rng.integers(2, 4)),) if rng.random() < 0.5 else ()
    return _pixels(rng, rng.choice(kinds), *frames, *_sides(rng))


def _mrc(rng: Random) -> tuple[str, bytes]:
    pixels = _volume(rng, ["i1", "i2", "u2", "f4"])

    def save(name: str) -> None:
        with mrcfile.new(name, pixels) as file:
            if pixels.ndim == 3 and rng.random() < 0.5:
                file.set_image_stack()
            file.voxel_size = 1.5
            file.header.label[0] = "without the time"

    return ".mrc", _by_file(".mrc", save)


def _nifti(rng: Random) -> tuple[str, bytes]:
    """Not compressed, although its name ends in .gz at times: `run` compresses what has been damaged."""
    pixels = _volume(rng, ["u1", "i2", "f4", "f8"])
    kind = nibabel.Nifti2Image if rng.random() < 0.3 else nibabel.Nifti1Image
    image = kind(pixels.T, np.diag([1.0, 2, 3, 1]), dtype=pixels.dtype)
    return str(rng.choice([".nii", ".nii.gz"])), image.to_bytes()


def _dicom(rng: Random) -> tuple[str, bytes]:
    pixels = _volume(rng, ["u1", "i2", "u2"])
    data = pydicom.Dataset()
    data.file_meta = pydicom.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = rng.choice(list(pydicom.uid.AllTransferSyntaxes)[:4])
    data.SOPClassUID, data.SOPInstanceUID = pydicom.uid.CTImageStorage, "1.2.3"
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID
    data.Rows, data.Columns = pixels.shape[-2:]
    if pixels.ndim == 3:
        data.NumberOfFrames, data.FrameTime = len(pixels), "40"
    data.SamplesPerPixel, data.PhotometricInterpretation = 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 8 * pixels.dtype.itemsize
    data.HighBit, data.PixelRepresentation = data.BitsStored - 1, int(pixels.dtype.kind == "i")
    data.RescaleSlope, data.PixelSpacing = "1.5", [0.5, 0.5]
    little = data.file_meta.TransferSyntaxUID.is_little_endian
    content = pixels.astype(pixels.dtype.newbyteorder("<" if little else ">")).tobytes()
    data.PixelData = content + b"\0" * (len(content) % 2)
    data["PixelData"].VR = "OW"
    packed = rng.choice(["", "rle", "jpegls", "jpeg2k"])
    if packed == "rle" and pixels.dtype.kind == "u":
        data.compress(
            pydicom.uid.RLELossless,
            pixels,
            encoding_plugin="pydicom",
            generate_instance_uid=False,
        )
    elif packed and pixels.dtype == np.uint16:
        encode = imagecodecs.jpegls_encode if packed == "jpegls" else imagecodecs.jpeg2k_encode
        planes = pixels.reshape(-1, *pixels.shape[-2:])
        data.PixelData = pydicom.encaps.encapsulate([encode(plane) for plane in planes])
        data["PixelData"].VR, data["PixelData"].is_undefined_length = "OB", True
        names = {"jpegls": "JPEGLSLossless", "jpeg2k": "JPEG2000"}
        data.file_meta.TransferSyntaxUID = getattr(pydicom.uid, names.get(packed, "JPEG2000"))
    return ".dcm", _by_file(".dcm", lambda name: data.save_as(name, enforce_file_format=True))


def _hdf5(rng: Random) -> tuple[str, bytes]:
    pixels = _volume(rng, ["u1", "i2", "f4"])

    def save(name: str) -> None:
        with h5py.File(name, "w", libver=rng.choice(["earliest", "latest"])) as file:
            options = {"chunks": True, "compression": "gzip"} if rng.random() < 0.5 else {}
            array = file.create_dataset("entry/data", data=pixels, **options)
            for dimension, axis in zip(array.dims, "zyx"[-pixels.ndim :], strict=True):
                dimension.label = axis

    return ".h5", _by_file(".h5", save)


def _microscope(rng: Random) -> tuple[Any, dict[str, Any]]:
    axes = str(rng.choice(["YX", "ZYX", "TCYX", "TZCYX"]))
    shape = [2] * (len(axes) - 2) + [int(n) for n in rng.integers(4, 25, 2)]
    pixels = _pixels(rng, rng.choice(["u1", "u2"]), *shape)
    return (pixels, axes), {"spacing": (0.5, 0.1, 0.1), "channels": ["a", "b"]}


def _czi(rng: Random) -> tuple[str, bytes]:
    arguments, options = _microscope(rng)
    packed = rng.random() < 0.3
    return ".czi", czi_bytes(*arguments, **options, pack=(5, imagecodecs.zstd_encode) if packed else None)  # fmt: skip


def _lif(rng: Random) -> tuple[str, bytes]:
    arguments, options = _microscope(rng)
    return ".lif", lif_bytes(*arguments, **options)


def _nd2(rng: Random) -> tuple[str, bytes]:
    arguments, options = _microscope(rng)
    return ".nd2", nd2_bytes(*arguments, **options)
