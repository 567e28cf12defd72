"""Damaged image files of every format: each is read, or refused in one sentence."""

import gzip
import io
import re
import struct
import tempfile
import zlib
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

from nlridge.files import Layer, Picture, format_of, read, suffixes, write
from nlridge.files.boxes import box, exif_item, with_metadata
from nlridge.jobs.pictures import clean_picture

from .microscopes import czi_bytes, lif_bytes, nd2_bytes

Random = np.random.Generator

_COLOUR_ONLY = (".webp", ".bmp")  # gray is read back as colour
_COLOUR_IF_TRANSPARENT = (".heic", ".heif", ".hif")
_LARGEST = 20_000  # larger images are read and written, but not denoised
_EXTREMES = (0, 1, 2, 3, 5, 255, 256, 4096, 65535, 2**20, 2**31 - 1, 2**31, 2**32 - 1)


def warm_up() -> None:
    """Compile the kernels for gray images and colours, in both types."""
    image = np.random.default_rng(0).normal(100, 10, (16, 16, 3))
    for dtype in (np.float32, np.float64):
        for pixels, axes in ((image[..., 0], "YX"), (image, "YXC")):
            picture = Picture("npy", [Layer(pixels.astype(dtype), axes)])
            clean_picture(picture, lambda share: None, method="fast", workers=1)


def run(seed: int, folder: Path) -> None:
    """Make a file, damage it and read it; if it can be read, clean it and write it in some format."""
    rng = np.random.default_rng(seed)
    suffix, data = _valid(rng)
    for _ in range(rng.integers(1, 4)):
        data = _DAMAGES[rng.integers(len(_DAMAGES))](rng, data)
    if suffix == ".png" and rng.random() < 0.7:
        data = _with_checksums(data)  # or it would be refused before anything else is read
    if suffix == ".nii.gz":
        data = gzip.compress(data, mtime=0)
        if rng.random() < 0.3:
            data = _flip(rng, data)
    source = folder / f"damaged{suffix}"
    source.write_bytes(data)
    writable = [name for name in suffixes() if hasattr(format_of(name), "write")]
    same = suffix in writable and rng.random() < 0.5
    target = folder / f"cleaned{suffix if same else rng.choice(writable)}"
    axes = rng.choice([None, "YX", "YXC", "CYX", "ZYX"])
    try:
        _clean(source, target, axes)
    finally:
        assert source.read_bytes() == data, "the input was written to"
        others = {file.name for file in folder.iterdir()} - {source.name, target.name}
        assert not others, f"files are left over: {sorted(others)}"


def _clean(source: Path, target: Path, axes: str | None) -> None:
    before = read(source, axes)
    after = before
    if sum(layer.pixels.size for layer in before.layers) <= _LARGEST:
        after, _ = clean_picture(before, lambda share: None, method="fast", workers=1)
    for old, new in zip(before.layers, after.layers, strict=True):
        assert new.pixels.shape == old.pixels.shape, f"the shape became {new.pixels.shape}"
        assert new.pixels.dtype == old.pixels.dtype, f"the type became {new.pixels.dtype}"
        if np.isfinite(old.pixels).all():
            assert np.isfinite(new.pixels).all(), "the result of finite pixels is not finite"
    try:
        write(target, after)
    except BaseException:
        assert not target.exists(), "there is an output though writing failed"
        raise
    _expect_readable(target, after)


def _expect_readable(target: Path, written: Picture) -> None:
    """The output can be read, and holds as many pixels as were written."""
    axes = "YXC" if written.alpha is not None else written.layers[0].axes
    plain = target.suffix in (".npy", ".fits", ".fit", ".fts", ".h5", ".hdf5")
    try:
        again = read(target, axes if plain and len(axes) > 2 else None)
    except ValueError as error:
        raise AssertionError(f"the output cannot be read: {error}") from error
    sizes = [sum(layer.pixels.size for layer in picture.layers) for picture in (written, again)]
    if written.alpha is not None and plain:
        sizes[0] += written.alpha.size
    colour_only = _COLOUR_ONLY + (_COLOUR_IF_TRANSPARENT if written.alpha is not None else ())
    coloured = target.suffix in colour_only and sizes[1] == 3 * sizes[0]  # what was gray
    assert sizes[0] == sizes[1] or coloured, f"{sizes[0]} numbers were written, {sizes[1]} read"


# Intact files.


def _valid(rng: Random) -> tuple[str, bytes]:
    makers = [
        *(_png, _jpeg, _webp, _bmp, _tiff, _tiff, _tiff, _npy, _fits),
        *(_mrc, _nifti, _dicom, _hdf5, _czi, _lif, _nd2, _avif, _jpeg_xl),
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
        ["plain", "pages", "ome", "imagej", "shaped", "colour", "jpeg", "image", "pyramid"]
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
        tifffile.imwrite(data, pixels, ome=True, photometric="minisblack", metadata={"axes": "ZCYX"}, **form, **options)  # fmt: skip
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
                pixels = _pixels(rng, dtype, height, width, *((4,) if kind == "colour" else ()))
                colours = {"photometric": "rgb", "extrasamples": ["unassalpha"]} if kind == "colour" else {}  # fmt: skip
                file.write(pixels, metadata=None, contiguous=False, **colours, **options)
    return ".tif", data.getvalue()


def _npy(rng: Random) -> tuple[str, bytes]:
    data = io.BytesIO()
    shape = _sides(rng) + ((3,) if rng.random() < 0.3 else ())
    np.save(data, _pixels(rng, rng.choice(["u1", ">u2", "i4", "f2", "f4", "f8"]), *shape))
    return ".npy", data.getvalue()


def _fits(rng: Random) -> tuple[str, bytes]:
    data = io.BytesIO()
    image = fits.PrimaryHDU(_pixels(rng, rng.choice(["u1", "i2", "u2", "f4", "f8"]), *_sides(rng)))
    image.header["OBJECT"] = "M 31"
    table = fits.BinTableHDU.from_columns([fits.Column("x", "J", array=np.arange(3))])
    units = [image, table] if rng.random() < 0.3 else [image]
    fits.HDUList(units).writeto(data, checksum=bool(rng.random() < 0.3))
    return ".fits", data.getvalue()


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
        data.compress(pydicom.uid.RLELossless, pixels, encoding_plugin="pydicom")
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


# Damage.


def _place(rng: Random, data: bytes) -> int:
    """A position, more often in the header, on which more depends."""
    most = len(data) if rng.random() < 0.5 else min(len(data), 300)
    return int(rng.integers(most)) if most else 0


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: _place(rng, data)]


def _cut_end(rng: Random, data: bytes) -> bytes:
    return data[: -int(rng.integers(1, 50))]


def _flip(rng: Random, data: bytes) -> bytes:
    flipped = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        if flipped:
            flipped[_place(rng, data)] ^= 1 << int(rng.integers(8))
    return bytes(flipped)


def _overwrite(rng: Random, data: bytes) -> bytes:
    at, length = _place(rng, data), int(rng.integers(1, 40))
    filler = rng.bytes(length) if rng.random() < 0.5 else bytes([rng.choice([0, 255])]) * length
    return data[:at] + filler + data[at + length :]


def _repeat(rng: Random, data: bytes) -> bytes:
    at, length = _place(rng, data), int(rng.integers(1, 200))
    return data[: at + length] + data[at:]


def _remove(rng: Random, data: bytes) -> bytes:
    at, length = _place(rng, data), int(rng.integers(1, 200))
    return data[:at] + data[at + length :]


def _swap(rng: Random, data: bytes) -> bytes:
    a, b, c = sorted(_place(rng, data) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def _splice(rng: Random, data: bytes) -> bytes:
    _, other = _valid(rng)
    at = _place(rng, data)
    return data[:at] + other[_place(rng, other) :]


def _append(rng: Random, data: bytes) -> bytes:
    return data + (rng.bytes(100) if rng.random() < 0.5 else _valid(rng)[1])


def _set_number(rng: Random, data: bytes) -> bytes:
    at, form = _place(rng, data), rng.choice(["<H", "<I", ">H", ">I"])
    length = struct.calcsize(form)
    value = int(rng.choice(_EXTREMES)) % 256**length
    return data[:at] + struct.pack(form, value) + data[at + length :]


def _set_text(rng: Random, data: bytes) -> bytes:
    """Another number in a text: a size in FITS or NPY, a count in OME-XML or ImageJ."""
    numbers = list(re.finditer(rb"-?\d+", data[:100_000]))
    if not numbers:
        return data
    number = numbers[rng.integers(len(numbers))]
    value = str(int(rng.choice([-5, 0, 1, 2, 99, 10**6, 10**10, 10**19]))).encode() if rng.random() < 0.9 else b"x"  # fmt: skip
    if rng.random() < 0.7 and len(value) <= len(number[0]):
        value = value.rjust(len(number[0]))
    return data[: number.start()] + value + data[number.end() :]


def _set_tag(rng: Random, data: bytes) -> bytes:
    """Another code, type, count or value of a tag of a TIFF file."""
    if data[:4] not in (b"II*\0", b"MM\0*"):
        return _set_number(rng, data)
    order = "<" if data[:2] == b"II" else ">"
    (start,) = struct.unpack(order + "I", data[4:8])
    if start + 2 > len(data):
        return data
    (count,) = struct.unpack(order + "H", data[start : start + 2])
    at = start + 2 + 12 * int(rng.integers(max(count, 1)))
    at += int(rng.choice([0, 2, 4, 8]))
    form = order + ("H" if (at - start - 2) % 12 in (0, 2) else "I")
    value = int(rng.choice(_EXTREMES)) % 256 ** struct.calcsize(form)
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form) :]


def _empty(rng: Random, data: bytes) -> bytes:
    return b""


_DAMAGES: list[Callable[[Random, bytes], bytes]] = [
    _cut, _cut_end, _flip, _flip, _overwrite, _repeat, _remove, _swap, _splice, _append, _set_number, _set_text,
    _set_text, _set_tag, _set_tag,
] * 4 + [_empty]  # fmt: skip


def _with_checksums(data: bytes) -> bytes:
    """A PNG file with the right checksums, as far as its chunks can be followed."""
    at, repaired = 8, data[:8]
    while at + 12 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        body = data[at + 4 : at + 8 + length]
        if len(body) < 4 + length:
            break
        repaired += data[at : at + 4] + body + struct.pack(">I", zlib.crc32(body))
        at += 12 + length
    return repaired + data[at:]
