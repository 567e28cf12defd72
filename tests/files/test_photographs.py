"""What is kept of the files of cameras and telephones: the table in docs/photographs.md, made cell by cell."""

from pathlib import Path
from typing import Any, NamedTuple

import imagecodecs
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms
from raw_images import mosaic_of, scene, with_noise, write_raw

from nlridge.apps.cli import main
from nlridge.files import read
from nlridge.files.boxes import box, boxes, exif_item, with_metadata
from nlridge.files.directories import ASCII, GPS, new_tag, packed

PAGE = Path(__file__).parents[2] / "docs" / "photographs.md"
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
SHAPE = 40, 56


def exif(orientation=6):
    tags = Image.Exif()
    tags[271], tags[274] = "A maker", orientation
    tags.get_ifd(GPS)[1] = "N"
    return tags


def pixels(bits, channels=3):
    y, x = np.mgrid[: SHAPE[0], : SHAPE[1]]
    values = (0.3 + 0.004 * y + 0.005 * x) * (2**bits - 1)
    dtype = np.uint8 if bits == 8 else np.uint16
    return (values if channels == 1 else values[..., None] * [1, 0.9, 0.8]).astype(dtype)


def by_pillow(path, bits):
    image = Image.fromarray(pixels(bits, 3 if bits == 8 else 1))
    image.save(path, exif=exif(), icc_profile=PROFILE)


def by_tifffile(path, bits):
    with tifffile.TiffWriter(path) as writer:
        at = writer.filehandle.tell()
        writer.filehandle.write(packed([new_tag("<", 1, ASCII, b"N")], "<", at))
        tags = [(271, 2, 8, "A maker", True), (274, 3, 1, 6, True), ("GPSTag", "I", 1, at, False)]
        writer.write(pixels(bits, 1), metadata=None, iccprofile=PROFILE, extratags=tags)


def by_pillow_heif(path, bits):
    heif = pytest.importorskip("pillow_heif")
    mode, values = ("RGB", pixels(8)) if bits == 8 else ("RGB;16", pixels(16))
    heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    try:
        image = heif.from_bytes(mode, SHAPE[::-1], values.tobytes())
        image.save(path, exif=exif().tobytes(), icc_profile=PROFILE)
    finally:
        heif.options.SAVE_HDR_TO_12_BIT = False


def avif_of_many_bits(path, bits):
    data = imagecodecs.avif_encode(pixels(bits), level=95, bitspersample=bits)
    # The orientation is a property of the image, which Pillow adds to the EXIF data that it returns.
    path.write_bytes(with_metadata(data, [exif_item(exif(1).tobytes())], PROFILE, 6))


def jpeg_xl(path, bits):
    data = imagecodecs.jpegxl_encode(pixels(bits), lossless=True, usecontainer=True)
    path.write_bytes(data + box(b"Exif", bytes(4), exif(1).tobytes().removeprefix(b"Exif\0\0")))


def raw(path, bits):
    pytest.importorskip("rawpy")
    write_raw(path, with_noise(mosaic_of(scene(*SHAPE))))


class Seen(NamedTuple):
    """What another library finds in a file."""

    pixels: Any
    bits: int
    profile: bytes | None
    maker: str | None
    north: str | None
    orientation: int


def seen(path, bits):
    suffix = path.suffix
    data = path.read_bytes()
    if suffix == ".heic":
        import pillow_heif

        file = pillow_heif.open_heif(path, convert_hdr_to_8bit=False)
        tags = Image.Exif()
        tags.load(file.info["exif"])
        # The library has turned the pixels, and says how they were.
        turn = tags.get(274, 1) if file.size == SHAPE[::-1] else 1
        return Seen(np.array(file), file.info["bit_depth"], file.info.get("icc_profile"), tags.get(271), tags.get_ifd(GPS).get(1), turn)  # fmt: skip
    if suffix == ".jxl":
        values = imagecodecs.jpegxl_decode(data)
        tags = Image.Exif()
        tags.load(dict(boxes(data))[b"Exif"][4:])
        return Seen(values, 8 * values.itemsize, None, tags.get(271), tags.get_ifd(GPS).get(1), tags.get(274, 1))  # fmt: skip
    with Image.open(path) as image:
        tags, profile = image.getexif(), image.info.get("icc_profile")
        values = np.asarray(image)
        if suffix == ".avif" and bits > 8:
            values = imagecodecs.avif_decode(data)
            at = data.index(b"pixi")
            bits = data[at + 9]
        elif suffix == ".dng":
            import rawpy

            with rawpy.imread(str(path)) as file:
                values, bits = file.raw_image.copy(), 16
        elif values.dtype.itemsize == 1:
            bits = 8
        return Seen(values, bits, profile, tags.get(271), tags.get_ifd(GPS).get(1), tags.get(274, 1))  # fmt: skip


FORMATS = [
    # row, suffix, maker, bits, suffix of the result
    ("raw (Bayer)", ".dng", raw, 16, ".dng"),
    ("raw, `--develop`", ".dng", raw, 16, ".tif"),
    ("JPEG", ".jpg", by_pillow, 8, ".jpg"),
    ("WebP", ".webp", by_pillow, 8, ".webp"),
    ("TIFF", ".tif", by_tifffile, 16, ".tif"),
    ("PNG", ".png", by_pillow, 16, ".png"),
    ("HEIC, HEIF", ".heic", by_pillow_heif, 8, ".heic"),
    ("HEIC, HEIF", ".heic", by_pillow_heif, 10, ".heic"),
    ("HEIC, HEIF", ".heic", by_pillow_heif, 12, ".heic"),
    ("AVIF", ".avif", by_pillow, 8, ".avif"),
    ("AVIF", ".avif", avif_of_many_bits, 10, ".avif"),
    ("AVIF", ".avif", avif_of_many_bits, 12, ".avif"),
    ("JPEG XL", ".jxl", jpeg_xl, 8, ".jxl"),
    ("JPEG XL", ".jxl", jpeg_xl, 16, ".jxl"),
]


@pytest.mark.parametrize(("row", "suffix", "make", "bits", "written"), FORMATS)
def test_a_row_of_the_table(tmp_path, row, suffix, make, bits, written):
    source, result = tmp_path / f"a{suffix}", tmp_path / f"b{written}"
    make(source, bits)
    develop = ["--develop"] if written != suffix else []
    assert main(["denoise", str(source), "--strength", "0", "-o", str(result), "--quiet", *develop]) == 0  # fmt: skip
    before, after = seen(source, bits), seen(result, bits)

    def kept(name):
        if getattr(before, name) is None and getattr(after, name) is None:
            return "none"
        return "kept" if getattr(after, name) == getattr(before, name) else "dropped"

    if develop:
        is_upright = read(result).layers[0].pixels.shape == (*SHAPE[::-1], 3)
        colors, depth = "developed", f"{8 * read(result).layers[0].pixels.itemsize} bits"
        profile = "sRGB" if after.profile else "none"
    else:
        is_upright = after.orientation == 1 and before.orientation != 1
        values = before.pixels
        if is_upright and after.pixels.shape != values.shape:
            values = np.rot90(values, -1)  # as the orientation 6 says
        assert after.pixels.shape == values.shape
        difference = np.abs(after.pixels.astype(int) - values).max()
        colors = "the same" if difference == 0 else "compressed again"
        assert difference <= 0.03 * 2 ** (8 * values.itemsize)
        depth, profile = kept("bits"), kept("profile")
    if suffix == ".jxl":
        profile = "dropped"  # as the library does not tell it
    orientation = "turned" if is_upright or suffix in (".heic", ".jxl") else kept("orientation")
    cells = [colors, depth, profile, kept("maker"), kept("north"), orientation]
    line = next(line for line in PAGE.read_text("utf-8").splitlines() if line.startswith(f"| {row} |"))  # fmt: skip
    assert [cell.strip().partition(",")[0] for cell in line.split("|")[4:-1]] == cells
