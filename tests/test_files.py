"""Image files of every format: everything but the noise is kept, or its loss is reported."""

import io
import json
import os
import struct
import subprocess
import sys
import zlib

import imagecodecs
import numpy as np
import pytest
import tifffile
from astropy.io import fits
from memory import PEAK
from PIL import Image, ImageCms

from nlridge import to_dtype
from nlridge.cli import main
from nlridge.files import Layer, Picture, read, write
from nlridge.files.damage import convert_errors
from nlridge.files.orientation import turn_of

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


# PNG.


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


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("channels", [None, 2, 3, 4])
def test_png(tmp_path, dtype, channels):
    pixels = noisy(channels=channels, dtype=dtype)
    chunks = [
        (b"gAMA", struct.pack(">I", 45455)),
        (b"iCCP", b"sRGB\0\0" + zlib.compress(PROFILE)),
        (b"pHYs", struct.pack(">IIB", 3937, 3937, 1)),
        (b"tEXt", b"Author\0somebody"),
        (b"eXIf", exif().removeprefix(b"Exif\0\0")),
    ]
    file = tmp_path / "image.png"
    file.write_bytes(with_chunks(imagecodecs.png_encode(pixels), chunks))
    target = denoised(file)
    after = imagecodecs.png_decode(target.read_bytes())
    colours = slice(None) if channels not in (2, 4) else slice(None, -1)
    if channels in (2, 4):
        np.testing.assert_array_equal(after[..., -1], pixels[..., -1])  # transparency
        assert_cleaned(pixels[..., colours], after[..., colours])
    else:
        assert_cleaned(pixels, after)
    written = png_chunks(target.read_bytes())
    assert all(chunk in written for chunk in chunks)
    with Image.open(target) as image:
        image.load()
        assert image.info["icc_profile"] == PROFILE
        assert image.info["Author"] == "somebody"


@pytest.mark.parametrize("transparent", [False, True])
def test_png_with_a_palette(tmp_path, transparent):
    file = tmp_path / "image.png"
    picture = Image.fromarray(noisy(channels=3)).quantize(64)
    picture.save(file, **({"transparency": 3} if transparent else {}))
    target = denoised(file)
    with Image.open(file) as before, Image.open(target) as after:
        mode = "RGBA" if transparent else "RGB"
        assert after.mode == mode
        seen = np.asarray(before.convert(mode))
        if transparent:
            np.testing.assert_array_equal(np.asarray(after)[..., 3], seen[..., 3])
        assert_cleaned(seen[..., :3], np.asarray(after)[..., :3])


def test_sixteen_bit_colour_is_never_reduced_to_eight(tmp_path):
    pixels = noisy(channels=3, dtype=np.uint16)
    file = tmp_path / "image.png"
    file.write_bytes(imagecodecs.png_encode(pixels))
    after = imagecodecs.png_decode(denoised(file).read_bytes())
    assert after.dtype == np.uint16
    assert len(np.unique(after % 257)) > 100  # not 8 bits spread over 16
    assert main(["denoise", str(file), "-o", str(tmp_path / "image.jpg"), "--quiet"]) == 1
    assert not (tmp_path / "image.jpg").exists()


# JPEG and WebP.


@pytest.mark.parametrize("mode", ["L", "RGB", "CMYK"])
@pytest.mark.parametrize("orientation", [1, 6, 8])
def test_jpeg(tmp_path, mode, orientation):
    file = tmp_path / "photo.jpg"
    channels = {"L": None, "RGB": 3, "CMYK": 4}[mode]
    picture = Image.fromarray(
        noisy(channels=channels), **({"mode": mode} if mode == "CMYK" else {})
    )
    picture.save(
        file, quality=98, subsampling=0, exif=exif(orientation), icc_profile=PROFILE, dpi=(300, 300),
        comment=b"hello", progressive=True,
    )  # fmt: skip
    target = denoised(file)
    with Image.open(file) as before, Image.open(target) as after:
        assert after.mode == mode
        assert_cleaned(np.asarray(before), np.asarray(after))
        assert dict(after.getexif()) == dict(before.getexif())
        assert after.getexif()[0x0112] == orientation  # a viewer turns it as before
        assert after.info["icc_profile"] == PROFILE
        assert after.info["dpi"] == (300, 300)
        assert after.info["comment"] == b"hello"
        assert after.info["progressive"] == 1


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_jpeg_that_becomes_a_png_is_upright(tmp_path, orientation):
    from PIL import ImageOps

    file = tmp_path / "photo.jpg"
    Image.fromarray(noisy(channels=3)).save(file, quality=98, subsampling=0, exif=exif(orientation))
    target = denoised(file, "--sigma", "0.0001", output=tmp_path / "photo.png")  # next to nothing
    with Image.open(file) as before, Image.open(target) as after:
        upright = ImageOps.exif_transpose(before)
        np.testing.assert_array_equal(np.asarray(upright), np.asarray(after))
        assert after.getexif()[0x0112] == 1
        assert after.getexif()[0x010F] == "A camera"


def test_a_jpeg_with_damaged_exif_data(tmp_path):
    file = tmp_path / "photo.jpg"
    Image.fromarray(noisy(channels=3)).save(file, quality=95, exif=b"Exif\0\0garbagegarbage")
    report = ["--report", str(tmp_path / "report.html")]
    assert denoised(file, *report, output=tmp_path / "photo.png").exists()


def test_a_gray_jpeg_that_is_four_pixels_wide(tmp_path):
    file = tmp_path / "thin.jpg"
    Image.fromarray(noisy()[:, :4]).save(file, quality=95)
    with Image.open(denoised(file)) as after:
        assert after.size == (4, 40)


def test_exif_data_that_end_too_early_are_no_reason_for_a_warning(recwarn):
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a description"
    data = exif.tobytes()
    assert turn_of(data) == 6
    assert {turn_of(data[:length]) for length in range(len(data))} <= {1, 6}
    assert not recwarn.list


def test_a_tiff_whose_compression_is_no_number(tmp_path):
    path = tmp_path / "damaged.tif"
    tifffile.imwrite(path, np.zeros((8, 8), np.uint8))
    with tifffile.TiffFile(path) as file:
        offset = file.pages[0].tags["Compression"].offset
    data = bytearray(path.read_bytes())
    data[offset + 2 : offset + 4] = (7).to_bytes(2, "little")  # bytes instead of a number
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"its compression is .*; expected none, LZW"):
        read(path)


def test_exif_is_kept_from_png_to_jpeg_and_losses_are_reported(tmp_path, capsys):
    file = tmp_path / "photo.png"
    chunk = (b"eXIf", exif().removeprefix(b"Exif\0\0"))
    file.write_bytes(with_chunks(imagecodecs.png_encode(noisy()), [chunk]))
    with Image.open(denoised(file, output=tmp_path / "photo.jpg")) as after:
        assert after.getexif()[0x010F] == "A camera"
    with Image.open(denoised(file, output=tmp_path / "photo.tif")) as after:
        assert after.getexif()[0x010F] == "A camera"
    assert main(["denoise", str(file), "--method", "fast", "-o", str(tmp_path / "photo.bmp")]) == 0
    assert "BMP files cannot store the EXIF data" in capsys.readouterr().out


@pytest.mark.parametrize("lossless", [False, True])
def test_webp_stays_lossy_or_lossless(tmp_path, lossless):
    file = tmp_path / "photo.webp"
    Image.fromarray(noisy(channels=3)).save(file, lossless=lossless)
    assert (b"VP8L" in denoised(file).read_bytes()[:64]) == lossless


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_webp(tmp_path, mode):
    file = tmp_path / "photo.webp"
    pixels = noisy(channels=len(mode))
    Image.fromarray(pixels).save(file, lossless=True, exact=True, exif=exif(), icc_profile=PROFILE)
    target = denoised(file)
    with Image.open(target) as after:
        seen = np.asarray(after)
        assert after.mode == mode
        assert_cleaned(pixels[..., :3], seen[..., :3])
        if mode == "RGBA":
            np.testing.assert_array_equal(seen[..., 3], pixels[..., 3])
        assert after.info["icc_profile"] == PROFILE
        assert after.getexif()[0x010F] == "A camera"


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_bmp(tmp_path, mode):
    file = tmp_path / "scan.bmp"
    pixels = noisy(channels=None if mode == "L" else len(mode))
    if mode == "RGBA":  # Pillow reads the transparency only if masks say where it is
        alpha, colours = pixels[..., 3], pixels[..., :3]
        write(file, Picture("", [Layer(colours, "YXC")], alpha=alpha))
    else:
        Image.fromarray(pixels).save(file, dpi=(300, 300))
    with Image.open(denoised(file)) as after:
        seen = np.asarray(after)
        assert after.mode == mode
        if mode == "RGBA":
            np.testing.assert_array_equal(seen[..., 3], alpha)
            assert_cleaned(colours, seen[..., :3])
        else:
            assert_cleaned(pixels, seen)
            np.testing.assert_allclose(after.info["dpi"], 300, rtol=1e-3)


def test_bmp_with_a_palette_becomes_one_of_colours(tmp_path):
    file = tmp_path / "scan.bmp"
    Image.fromarray(noisy(channels=3)).quantize(64).save(file)
    picture = read(file)
    assert picture.notes == ["the palette was converted to colours"]
    with Image.open(file) as before:
        np.testing.assert_array_equal(picture.layers[0].pixels, np.asarray(before.convert("RGB")))


def test_bmp_reports_that_the_profile_is_lost(tmp_path):
    picture = Picture("png", [Layer(noisy(), "YX")], profile=PROFILE)
    assert write(tmp_path / "x.bmp", picture) == ["BMP files cannot store the colour profile"]


# TIFF.


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "i2", "i4", "f2", "f4", "f8"])
@pytest.mark.parametrize("channels", [None, 3])
def test_tiff_of_any_type(tmp_path, dtype, channels):
    pixels = noisy(channels=channels, dtype=dtype)
    file = tmp_path / "image.tif"
    tifffile.imwrite(file, pixels, photometric="rgb" if channels else "minisblack")
    assert_cleaned(pixels, tifffile.imread(denoised(file)))


@pytest.mark.parametrize("compression", ["none", "lzw", "zlib", "zstd", "packbits", "lzma"])
@pytest.mark.parametrize("tile", [None, (16, 16)])
def test_tiff_keeps_its_compression(tmp_path, compression, tile):
    pixels = noisy(dtype=np.uint16)
    file = tmp_path / "image.tif"
    predictor = compression in ("lzw", "zlib")
    tifffile.imwrite(file, pixels, compression=None if compression == "none" else compression, tile=tile, predictor=predictor or None)  # fmt: skip
    target = denoised(file)
    with tifffile.TiffFile(file) as before, tifffile.TiffFile(target) as after:
        for name in ("compression", "predictor", "is_tiled", "tile", "photometric", "planarconfig"):
            assert getattr(after.pages[0], name) == getattr(before.pages[0], name), name
        assert_cleaned(pixels, after.asarray())


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize("planarconfig", ["contig", "separate"])
def test_tiff_keeps_its_tags_and_layout(tmp_path, byteorder, bigtiff, planarconfig):
    pixels = noisy(channels=3, dtype=np.uint16)
    stored = pixels if planarconfig == "contig" else np.moveaxis(pixels, -1, 0)
    file = tmp_path / "image.tif"
    tifffile.imwrite(
        file, stored, photometric="rgb", planarconfig=planarconfig, byteorder=byteorder, bigtiff=bigtiff,
        resolution=(300, 150), resolutionunit="inch", description="what it is", software="a program",
        datetime="2024:01:02 03:04:05", iccprofile=PROFILE, metadata=None,
        extratags=[(65000, "s", None, "of my own", True), (65001, "H", 3, (1, 2, 3), True)],
    )  # fmt: skip
    target = denoised(file)
    with tifffile.TiffFile(file) as before, tifffile.TiffFile(target) as after:
        assert after.byteorder == byteorder
        assert after.is_bigtiff == bigtiff
        places = {"StripOffsets", "StripByteCounts"}
        tags = [
            {tag.name: tag.value for tag in tif.pages[0].tags if tag.name not in places}
            for tif in (before, after)
        ]
        assert tags[1] == tags[0]
        assert tags[1][65000 if 65000 in tags[1] else "65000"] == "of my own"
        assert_cleaned(pixels, np.moveaxis(after.asarray(), 0, -1) if planarconfig == "separate" else after.asarray())  # fmt: skip


def test_tiff_with_transparency(tmp_path):
    pixels = noisy(channels=4)
    file = tmp_path / "image.tif"
    tifffile.imwrite(file, pixels, photometric="rgb", extrasamples=["unassalpha"])
    after = tifffile.imread(denoised(file))
    np.testing.assert_array_equal(after[..., 3], pixels[..., 3])
    assert_cleaned(pixels[..., :3], after[..., :3])
    png = imagecodecs.png_decode(denoised(file, output=tmp_path / "image.png").read_bytes())
    np.testing.assert_array_equal(png[..., 3], pixels[..., 3])


def test_an_unspecified_fourth_sample_is_not_taken_for_transparency(tmp_path):
    file = tmp_path / "image.tif"
    pixels = noisy(channels=4)
    tifffile.imwrite(file, pixels, photometric="rgb", extrasamples=["unspecified"], metadata=None)
    data = bytearray(file.read_bytes())
    at = data.index(struct.pack("<HHI", 338, 3, 1))
    data[at : at + 2] = struct.pack("<H", 337)  # which is something else
    data[at + 2 : at + 4] = struct.pack("<H", 2)
    file.write_bytes(data)
    with tifffile.TiffFile(denoised(file)) as after:
        assert after.pages[0].shape == pixels.shape
        assert tifffile.EXTRASAMPLE.UNASSALPHA not in after.pages[0].extrasamples


def test_a_stack_of_pages(tmp_path):
    pixels = noisy(frames=(5,), dtype=np.uint16)
    file = tmp_path / "stack.tif"
    tifffile.imwrite(file, pixels, photometric="minisblack", metadata=None)
    target = denoised(file)
    with tifffile.TiffFile(target) as after:
        assert len(after.pages) == 5
        assert_cleaned(pixels, after.asarray())
    for frame in range(5):
        one = tmp_path / f"frame{frame}.tif"
        tifffile.imwrite(one, pixels[frame])
        np.testing.assert_array_equal(
            tifffile.imread(denoised(one)), tifffile.imread(target)[frame]
        )


def test_imagej_hyperstack(tmp_path):
    pixels = noisy(frames=(2, 3), dtype=np.uint16)[:, :, None]
    pixels = np.repeat(pixels, 2, axis=2)  # T, Z, C
    file = tmp_path / "cells.tif"
    tifffile.imwrite(
        file, pixels, imagej=True, resolution=(2.5, 2.5), compression="zlib",
        metadata={"axes": "TZCYX", "unit": "um", "spacing": 0.5, "fps": 5.0, "Labels": [f"label {k}" for k in range(12)]},
    )  # fmt: skip
    target = denoised(file)
    with tifffile.TiffFile(file) as before, tifffile.TiffFile(target) as after:
        assert after.is_imagej
        assert after.imagej_metadata == before.imagej_metadata
        assert after.series[0].axes == before.series[0].axes == "TZCYX"
        assert after.pages[0].tags["XResolution"].value == before.pages[0].tags["XResolution"].value
        assert_cleaned(pixels, after.asarray())


def test_ome(tmp_path):
    pixels = noisy(frames=(3, 2), dtype=np.uint16)  # Z, C
    file = tmp_path / "cells.ome.tif"
    tifffile.imwrite(
        file, pixels, ome=True, photometric="minisblack",
        metadata={"axes": "ZCYX", "PhysicalSizeX": 0.1, "PhysicalSizeXUnit": "µm", "Channel": {"Name": ["DAPI", "GFP"]}},
    )  # fmt: skip
    assert main(["denoise", str(file), "--method", "fast", "--quiet"]) == 0
    target = tmp_path / "cells_denoised.ome.tif"
    with tifffile.TiffFile(file) as before, tifffile.TiffFile(target) as after:
        assert after.is_ome
        assert after.series[0].axes == "ZCYX"
        assert "µm" in after.ome_metadata
        assert after.ome_metadata == before.ome_metadata.replace(file.name, target.name)
        assert_cleaned(pixels, after.asarray())


def test_channels_of_a_tiff_are_denoised_together(tmp_path):
    """The axis C of ImageJ and OME files is that of channels, and not a stack."""
    file = tmp_path / "cells.tif"
    pixels = np.repeat(noisy(dtype=np.uint16)[None], 3, axis=0)
    tifffile.imwrite(file, pixels, imagej=True, metadata={"axes": "CYX"})
    (layer,) = read(file).layers
    assert layer.axes == "CYX"
    assert layer.channel_axis == 0
    assert len(list(layer.frames())) == 1


def test_pages_of_several_shapes(tmp_path):
    file = tmp_path / "several.tif"
    first, second = noisy(), noisy(dtype=np.uint16)[:30, :24]
    with tifffile.TiffWriter(file) as tif:
        tif.write(first)
        tif.write(second)
    with tifffile.TiffFile(denoised(file)) as after:
        assert_cleaned(first, after.series[0].asarray())
        assert_cleaned(second, after.series[1].asarray())


def test_float_tiff_with_missing_pixels(tmp_path):
    pixels = noisy(dtype=np.float32)
    pixels[3:5, 7] = np.nan
    file = tmp_path / "image.tif"
    tifffile.imwrite(file, pixels)
    np.testing.assert_array_equal(np.isnan(tifffile.imread(denoised(file))), np.isnan(pixels))


def test_losses_of_jpeg_within_a_tiff_are_reported(tmp_path, capsys):
    file = tmp_path / "image.tif"
    tifffile.imwrite(file, noisy(channels=3), photometric="rgb", compression="jpeg")
    assert main(["denoise", str(file), "--method", "fast"]) == 0
    assert "compression JPEG was replaced by a lossless one" in capsys.readouterr().out


def test_tiff_of_other_colours_keeps_them(tmp_path):
    """Y, Cb and Cr that no JPEG has turned into red, green and blue."""
    pixels = noisy(channels=3)
    file = tmp_path / "image.tif"
    tifffile.imwrite(file, pixels, photometric="ycbcr", compression="deflate", subsampling=(1, 1))
    with tifffile.TiffFile(denoised(file)) as after:
        assert after.pages[0].photometric == tifffile.PHOTOMETRIC.YCBCR
        np.testing.assert_allclose(
            after.asarray().mean(axis=(0, 1)), pixels.mean(axis=(0, 1)), atol=2
        )


def test_tiff_with_text_in_other_scripts(tmp_path):
    file = tmp_path / "image.tif"
    tifffile.imwrite(
        file, noisy(), metadata=None, software="Größe".encode(), description="für µm".encode(),
        extratags=[(315, 2, None, "Müller".encode(), True), (306, 2, None, b"2024-01-01", True)],
    )  # fmt: skip
    with tifffile.TiffFile(denoised(file)) as after:
        tags = after.pages[0].tags
        assert tags[315].value == "Müller"
        assert tags[305].value == "Größe"
        assert tags[270].value == "für µm"


@pytest.mark.parametrize("size", [8, 16, 40])
def test_stacks_that_tifffile_wrote_itself(tmp_path, size):
    pixels = noisy(frames=(3,))[:, :size, :size]
    file = tmp_path / "stack.tif"
    tifffile.imwrite(file, pixels, photometric="minisblack", metadata={"axes": "ZYX", "voxel": 2})
    target = denoised(file, "--sigma", "12", "--frames", "independent")
    after = tifffile.imread(target)
    assert after.shape == pixels.shape
    for k in range(3):
        one = tmp_path / f"{k}.tif"
        tifffile.imwrite(one, pixels[k])
        np.testing.assert_array_equal(tifffile.imread(denoised(one, "--sigma", "12")), after[k])


def test_the_axes_of_a_tiff_are_its_own(tmp_path):
    file = tmp_path / "image.tif"
    pixels = noisy(channels=3)
    tifffile.imwrite(file, pixels, photometric="rgb")
    expected = tifffile.imread(denoised(file, "--sigma", "12"))
    again = denoised(file, "--sigma", "12", "--stack-axis", "0", output=tmp_path / "again.tif")
    np.testing.assert_array_equal(tifffile.imread(again), expected)


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_a_tiff_that_becomes_a_png_looks_the_same(tmp_path, orientation):
    from PIL import ImageOps

    pixels = noisy()
    file = tmp_path / "image.tif"
    extra = [(274, "H", 1, orientation, True)]
    tifffile.imwrite(file, pixels, photometric="miniswhite", metadata=None, extratags=extra)
    target = denoised(file, "--sigma", "0.0001", output=tmp_path / "image.png")
    turned = Image.fromarray(255 - pixels)
    turned.getexif()[0x0112] = orientation
    expected = np.asarray(ImageOps.exif_transpose(turned))
    np.testing.assert_array_equal(np.asarray(Image.open(target)), expected)
    same = denoised(file, "--sigma", "0.0001")
    np.testing.assert_array_equal(tifffile.imread(same), pixels)  # as it was stored


# NPY and FITS.


@pytest.mark.parametrize("dtype", ["u1", ">u2", "i4", "u8", "f2", "f4", ">f8"])
def test_npy(tmp_path, dtype):
    file = tmp_path / "image.npy"
    pixels = noisy(dtype=dtype)
    np.save(file, pixels)
    after = np.load(denoised(file))
    assert after.dtype == np.dtype(dtype)
    assert_cleaned(pixels, after)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ({"channels": 5}, ["--channel-axis", "-1"]),
        ({"frames": (2,)}, ["--stack-axis", "0"]),
        ({"channels": 3, "frames": (2,)}, ["--stack-axis", "0", "--channel-axis", "3"]),
    ],
)
def test_npy_with_axes(tmp_path, shape, options, capsys):
    pixels = noisy(**shape, dtype=np.float32)
    file = tmp_path / "image.npy"
    np.save(file, pixels)
    assert main(["denoise", str(file), "--quiet"]) == 1
    assert "expected 2, or --channel-axis or --stack-axis" in capsys.readouterr().err
    after = np.load(denoised(file, *options))
    assert after.dtype == pixels.dtype
    planes = [
        a if shape.get("channels") is None else np.moveaxis(a, -1, 0) for a in (pixels, after)
    ]
    assert_cleaned(*planes)


@pytest.mark.parametrize("dtype", ["i2", "u2", "f4", "f8"])
def test_fits(tmp_path, dtype):
    pixels = noisy(dtype=dtype)
    file = tmp_path / "sky.fits"
    image = fits.PrimaryHDU(pixels)
    image.header["OBJECT"] = ("M 31", "a galaxy")
    image.header["EXPTIME"] = 12.5
    table = fits.BinTableHDU.from_columns([fits.Column("x", "J", array=np.arange(3))])
    fits.HDUList([image, table]).writeto(file)
    with fits.open(file) as before, fits.open(denoised(file)) as after:
        assert after[0].header["OBJECT"] == "M 31"
        assert after[0].header.comments["OBJECT"] == "a galaxy"
        assert after[0].header["EXPTIME"] == 12.5
        np.testing.assert_array_equal(after[1].data["x"], [0, 1, 2])
        assert [after[0].header["BITPIX"], after[0].data.shape] == [
            before[0].header["BITPIX"],
            SHAPE,
        ]
        assert_cleaned(np.asarray(before[0].data), np.asarray(after[0].data))


def compressed_fits():
    data = io.BytesIO()
    units = [fits.PrimaryHDU(), fits.CompImageHDU(noisy(dtype=np.int16), compression_type="RICE_1")]
    fits.HDUList(units).writeto(data)
    return data.getvalue()


def test_fits_with_a_compressed_image(tmp_path):
    file = tmp_path / "sky.fits"
    file.write_bytes(compressed_fits())
    with fits.open(denoised(file)) as after:
        assert isinstance(after[1], fits.CompImageHDU)
        assert_cleaned(noisy(dtype=np.int16), after[1].data)


def test_fits_with_missing_integers(tmp_path, capsys):
    pixels = noisy(dtype=np.int16)
    pixels[3, 4] = -1
    file = tmp_path / "sky.fits"
    image = fits.PrimaryHDU(pixels)
    image.header["BLANK"] = -1
    image.writeto(file, checksum=True)
    assert main(["denoise", str(file), "--method", "fast"]) == 0
    assert "were converted to floats" in capsys.readouterr().out
    with fits.open(tmp_path / "sky_denoised.fits", checksum=True) as after:
        assert "BLANK" not in after[0].header
        assert np.isnan(after[0].data[3, 4])
        assert np.isnan(after[0].data).sum() == 1


@pytest.mark.parametrize(
    "card", ["DATE-OBS= 2020-01-01", "RA      = 12:30:01.5", "exptime = 3.0", "TEMP    = nan"]
)
def test_fits_with_a_card_that_is_not_standard(tmp_path, card):
    data = fits_bytes()
    at = data.index(b"END     ")
    file = tmp_path / "sky.fits"
    file.write_bytes(data[:at] + card.ljust(80).encode() + data[at : at + 80] + data[at + 160 :])
    with fits.open(denoised(file)) as after:
        assert after[0].data.shape == SHAPE


# Values.


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_values_are_rounded_and_clipped_never_wrapped(dtype):
    limits = np.iinfo(dtype)
    values = np.array([float(limits.min) - 1e3, -0.4, 1.5, 2.5001, float(limits.max) * 1.1])
    np.testing.assert_array_equal(
        to_dtype(values, np.dtype(dtype)), np.array([limits.min, 0, 2, 3, limits.max], dtype)
    )


# Files that cannot be taken.


def apng():
    data = io.BytesIO()
    frames = [Image.fromarray(noisy(seed=k)) for k in range(2)]
    frames[0].save(data, "PNG", save_all=True, append_images=frames[1:])
    return data.getvalue()


def animated_webp():
    data = io.BytesIO()
    frames = [Image.fromarray(noisy(channels=3, seed=k)) for k in range(2)]
    frames[0].save(data, "WEBP", save_all=True, append_images=frames[1:])
    return data.getvalue()


def encoded(kind, **options):
    data = io.BytesIO()
    Image.fromarray(noisy(channels=3)).save(data, kind, **options)
    return data.getvalue()


def tiff_bytes(pixels, **options):
    data = io.BytesIO()
    tifffile.imwrite(data, pixels, **options)
    return data.getvalue()


def npy_bytes(pixels):
    data = io.BytesIO()
    np.save(data, pixels)
    return data.getvalue()


def fits_bytes():
    data = io.BytesIO()
    fits.PrimaryHDU(noisy(dtype=np.float32)).writeto(data)
    return data.getvalue()


def png_of_size(width, height, body=b"\0" * 50):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    blank = b"\x89PNG\r\n\x1a\n"
    for kind, chunk in ((b"IHDR", header), (b"IDAT", zlib.compress(body)), (b"IEND", b"")):
        blank += (
            struct.pack(">I", len(chunk))
            + kind
            + chunk
            + struct.pack(">I", zlib.crc32(kind + chunk))
        )
    return blank


def huge_jpeg():
    data = encoded("JPEG")
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", 65000, 65000) + data[at + 4 :]


def pyramid():
    data = io.BytesIO()
    with tifffile.TiffWriter(data) as tif:
        tif.write(noisy(), subifds=1)
        tif.write(noisy()[::2, ::2], subfiletype=1)
    return data.getvalue()


def cut_imagej():
    data = tiff_bytes(noisy(frames=(4,), dtype=np.uint16), imagej=True)
    return data[: int(0.6 * len(data))]


def damaged_strips():
    data = bytearray(tiff_bytes(noisy(dtype=np.uint16), rowsperstrip=8, metadata=None))
    count = struct.unpack("<H", data[8:10])[0]
    for k in range(count):
        at = 10 + 12 * k
        if struct.unpack("<H", data[at : at + 2])[0] == 279:
            data[at + 2] = 0x7F
    return bytes(data)


def ome_bytes():
    pixels = noisy(frames=(3, 2), dtype=np.uint16)
    return tiff_bytes(pixels, ome=True, photometric="minisblack", metadata={"axes": "ZCYX"})


def pages_bytes(count=4, **options):
    """Pages one after the other, with nothing that says how many there are."""
    data = io.BytesIO()
    with tifffile.TiffWriter(data) as tif:
        for k in range(count):
            tif.write(noisy(seed=k), metadata=None, contiguous=False, **options)
    return data.getvalue()


def first_page_alone(data):
    """A file of several pages whose first says that no other follows, as one that was not written to its end."""
    (start,) = struct.unpack("<I", data[4:8])
    end = start + 2 + 12 * struct.unpack("<H", data[start : start + 2])[0]
    return data[:end] + bytes(4) + data[end + 4 :]


def with_tag(data, code, value):
    """A small TIFF file with another value of a tag of its first page, a number."""
    (start,) = struct.unpack("<I", data[4:8])
    for k in range(struct.unpack("<H", data[start : start + 2])[0]):
        at = start + 2 + 12 * k
        if struct.unpack("<H", data[at : at + 2])[0] == code:
            kind = {3: "<HH", 4: "<I"}[struct.unpack("<H", data[at + 2 : at + 4])[0]]
            numbers = (value, 0) if kind == "<HH" else (value,)
            return data[: at + 8] + struct.pack(kind, *numbers) + data[at + 12 :]
    raise AssertionError(f"tag {code} is missing")


def tag_of(data, code):
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        return tif.pages[0].tags[code].value


def second_page(data):
    """Where it begins."""
    (start,) = struct.unpack("<I", data[4:8])
    end = start + 2 + 12 * struct.unpack("<H", data[start : start + 2])[0]
    return struct.unpack("<I", data[end : end + 4])[0]


def pages_in_a_circle():
    data = pages_bytes(2)
    at = second_page(data)
    end = at + 2 + 12 * struct.unpack("<H", data[at : at + 2])[0]
    return data[:end] + data[4:8] + data[end + 4 :]


def page_without_an_end():
    """tifffile would take the last bytes of the file for the place of the next one, and never stop."""
    data = pages_bytes(2)
    at = second_page(data)
    return data[:at] + struct.pack("<H", 2000) + data[at + 2 :] + struct.pack("<I", at)


def pages_that_share_a_strip(pages=60, side=8192):
    """72 KB that would be 4 GB: one strip that compresses well, and many pages that it belongs to."""
    strip = zlib.compress(bytes(side * side), 9)
    data = b"II*\0" + struct.pack("<I", 8 + len(strip)) + strip
    tags = [(256, 4, side), (257, 4, side), (258, 3, 8), (259, 3, 8), (262, 3, 1), (273, 4, 8),
            (277, 3, 1), (278, 4, side), (279, 4, len(strip))]  # fmt: skip
    for k in range(pages):
        following = len(data) + 6 + 12 * len(tags)
        data += struct.pack("<H", len(tags))
        for code, kind, value in tags:
            data += struct.pack("<HHI", code, kind, 1)
            data += struct.pack("<HH", value, 0) if kind == 3 else struct.pack("<I", value)
        data += struct.pack("<I", following if k < pages - 1 else 0)
    return data


def pages_of_several_compressions():
    """OME, where the first page says that it is not compressed, and the others are."""
    pixels = noisy(frames=(3,))
    data = tiff_bytes(pixels, ome=True, photometric="minisblack", compression="packbits")
    return with_tag(data, 259, 1)


def jpeg_in_tiff(change=lambda image: image):
    """A TIFF file around a JPEG image."""
    data = tiff_bytes(noisy(channels=3), photometric="rgb", compression="jpeg", metadata=None)
    start, length = tag_of(data, 273)[0], tag_of(data, 279)[0]
    image = change(data[start : start + length])
    return with_tag(data[:start] + image.ljust(length, b"\0") + data[start + length :], 279, len(image))  # fmt: skip


def larger_jpeg(image):
    at = image.index(b"\xff\xc0") + 5
    return image[:at] + struct.pack(">HH", 60000, 60000) + image[at + 4 :]


def bmp_of_size(width, height):
    return encoded("BMP")[:18] + struct.pack("<II", width, height) + encoded("BMP")[26:]


def npy_of_shape(shape):
    return npy_bytes(noisy()).replace(str(SHAPE).encode(), str(shape).encode()).replace(b" " * len(str(shape)) + b"\n", b" " * len(str(SHAPE)) + b"\n")  # fmt: skip


def fits_with(card, value, data=None):
    data = data or fits_bytes()
    at = data.index(card.ljust(8).encode() + b"=")
    return data[:at] + f"{card:8}= {value:>20}".ljust(80).encode() + data[at + 80 :]


def png_with(chunks):
    """A PNG file of 4 x 4 gray pixels with these chunks after its header."""
    header = (b"IHDR", struct.pack(">IIBBBBB", 4, 4, 8, 0, 0, 0, 0))
    blank = b"\x89PNG\r\n\x1a\n"
    for kind, body in (header, *chunks, (b"IEND", b"")):
        blank += (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )
    return blank


BAD = {
    "cut.tif": (cut_imagej(), "the file is damaged: it holds 1 of 4 images"),
    "cut.ome.tif": (ome_bytes()[: int(0.6 * len(ome_bytes()))], "the file is damaged: it ends before its last tag"),
    "first.ome.tif": (first_page_alone(ome_bytes()), "the file is damaged: it holds 1 of 6 images"),
    "counts.ome.tif": (ome_bytes().replace(b'SizeT="1"', b'SizeT="9"'), "it holds 6 of 54 images"),
    "cut_pages.tif": (pages_bytes()[: int(0.6 * len(pages_bytes()))], "the file is damaged: it ends before its last p"),
    "cut_deflated.tif": (pages_bytes(compression="zlib")[:-2500], "the file is damaged: it ends before its last p"),
    "cut_shaped.tif": (tiff_bytes(noisy(frames=(4,)), photometric="minisblack")[:5000], "the file is damaged: it ends before its last p"),
    "first_shaped.tif": (first_page_alone(tiff_bytes(noisy(frames=(4,)), photometric="minisblack", compression="zlib")), "it holds 1 of 4 images"),
    "endless.tif": (page_without_an_end(), "the file is damaged: it ends before its last "),
    "circle.tif": (pages_in_a_circle(), "the file is damaged: its pages form a loop"),
    "bomb.tif": (pages_that_share_a_strip(), "its header claims 60 pages of 8192 x 8192 pixels in 7"),
    "several.ome.tif": (pages_of_several_compressions(), "its pages differ in how they are stored"),
    "cut_jpeg.tif": (jpeg_in_tiff(lambda image: image[:900]), "an embedded JPEG image is truncated"),
    "large_jpeg.tif": (jpeg_in_tiff(larger_jpeg), "an embedded image is larger than its header claims"),
    "no_strip.tif": (with_tag(tiff_bytes(noisy(), metadata=None), 279, 0), "some of its pixels are missing"),
    "lerc.tif": (tiff_bytes(noisy(), compression="lerc"), "its compression is LERC; expected none, LZW"),
    "half.bmp": (encoded("BMP")[:2000], "the file is damaged: "),
    "huge.bmp": (bmp_of_size(60_000, 60_000), "expected no more than is safe to open"),
    "stencil.bmp": (Image.fromarray(noisy() > 128), "its pixels are black or white; expected gray or colour"),
    "short.png": (png_with([(b"IDAT", zlib.compress(bytes(15)))]), "it holds 15 of 20 bytes of pixels"),
    "long.png": (png_with([(b"IDAT", zlib.compress(bytes(25)))]), "it holds 25 of 20 bytes of pixels"),
    "palette.png": (png_with([(b"PLTE", bytes(4)), (b"IDAT", zlib.compress(bytes(20)))]), "its chunks are inconsistent"),
    "garbage.png": (png_with([(b"IDAT", b"\x78\x9cgarbage")]), "its pixels cannot be decompressed"),
    "huge.npy": (npy_of_shape((900_000, 900_000)), "the file is damaged: "),
    "negative.fits": (fits_with("NAXIS1", -5), "the file is damaged: its header has the sizes [-5, 40]"),
    "huge.fits": (fits_with("ZNAXIS1", 10**9, compressed_fits()), "expected no more than is safe to open"),
    "cut_compressed.fits": (compressed_fits()[:-3000], "the file is damaged: it is truncated"),
    "cut.fits": (fits_bytes()[:-3000], "the file is damaged: it is truncated"),
    "tail.fits": (fits_bytes() + b"garbage" * 500, "the file is damaged: the data after byte"),
    "strips.tif": (damaged_strips(), "the file is damaged: "),
    "empty.png": (b"", "the file is empty; expected an image"),
    "noise.png": (bytes(range(256)) * 4, "is not an image in a supported format; expected PNG, as its name ends in .png"),
    "jpeg.png": (encoded("JPEG"), "the content of the file is JPEG or WebP data; expected PNG, as its name ends in .png"),
    "webp.jpg": (encoded("WEBP"), "the content of the file is WEBP data; expected JPEG, as its name ends in .jpg"),
    "png.tif": (encoded("PNG"), "the content of the file is PNG data; expected TIFF, as its name ends in .tif"),
    "text.npy": (b"1 2 3\n4 5 6\n", "is not an image in a supported format; expected NPY"),
    "half.png": (encoded("PNG")[:2000], "the file is damaged: it is truncated"),
    "flipped.png": (encoded("PNG")[:1000] + b"?" + encoded("PNG")[1001:], "a checksum is wrong"),
    "half.jpg": (encoded("JPEG", quality=95)[:2000], "the file is damaged: "),
    "half.webp": (encoded("WEBP", lossless=True)[:2000], "the file is damaged: "),
    "half.tif": (tiff_bytes(noisy(dtype=np.uint16), compression="zlib")[:1500], "the file is damaged: "),
    "half.npy": (npy_bytes(noisy())[:1000], "the file is damaged: "),
    "half.fits": (fits_bytes()[:6000], "the file is damaged: "),
    "headless.fits": (fits_bytes()[:1000], "the file is damaged: "),
    "huge.png": (png_of_size(100_000, 100_000), "100000 x 100000 pixels in 69 bytes; expected no more than is safe to open"),
    "large.png": (png_of_size(4000, 4000), "its header claims 4000 x 4000 pixels; expected no more than its"),
    "huge.jpg": (huge_jpeg(), "expected no more than is safe to open"),
    "animated.png": (apng(), "the file is an animation; expected a single image"),
    "animated.webp": (animated_webp(), "the file is an animation; expected a single image"),
    "stencil.tif": (tiff_bytes(noisy() > 128), "its pixels are black or white; expected gray or colour"),
    "palette.tif": (tiff_bytes(noisy(), colormap=np.zeros((3, 256), np.uint16)), "its colours are in a palette"),
    "pyramid.tif": (pyramid(), "it is a pyramid of images; expected one resolution"),
    "objects.npy": (npy_bytes(np.array([["a"]])), "its pixels are of type <U1; expected numbers"),
    "complex.npy": (npy_bytes(np.zeros((9, 9), complex)), "its pixels are of type complex128; expected numbers"),
    "nothing.npy": (npy_bytes(np.zeros((0, 9))), "it has no pixels; expected at least one"),
    "photo.gif": (encoded("GIF"), "the suffix of the file is .gif; expected one of .bmp"),
    "nothing": (b"abc", "the suffix of the file is empty; expected one of"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_unsupported_files_get_one_sentence_and_nothing_is_written(tmp_path, capsys, name):
    content, sentence = BAD[name]
    if isinstance(content, Image.Image):
        content.save(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content)
    assert main(["denoise", str(tmp_path / name), "--method", "fast"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if line != "compiling for this CPU, once ..."]
    assert len(lines) == 1
    assert lines[0].startswith(f"nlridge: {tmp_path / name}: ")
    assert sentence in lines[0]
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("cut", [10, 60, 200, 500])
@pytest.mark.parametrize("kind", ["png", "jpg", "webp", "bmp", "tif", "npy", "fits"])
def test_files_cut_off_anywhere(tmp_path, capsys, kind, cut):
    content = {
        "png": encoded("PNG"), "jpg": encoded("JPEG"), "webp": encoded("WEBP"), "bmp": encoded("BMP"),
        "tif": tiff_bytes(noisy(dtype=np.uint16)), "npy": npy_bytes(noisy()), "fits": fits_bytes(),
    }[kind]  # fmt: skip
    file = tmp_path / f"cut.{kind}"
    file.write_bytes(content[:cut])
    assert main(["denoise", str(file), "--quiet"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert [left.name for left in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("cut", [0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["ome", "imagej", "shaped", "pages", "deflated", "tiled", "jpeg"])
def test_stacks_cut_off_anywhere(tmp_path, kind, cut):
    content = {
        "ome": ome_bytes(),
        "imagej": tiff_bytes(noisy(frames=(4,)), imagej=True),
        "shaped": tiff_bytes(noisy(frames=(4,)), photometric="minisblack"),
        "pages": pages_bytes(),
        "deflated": pages_bytes(compression="zlib"),
        "tiled": pages_bytes(tile=(16, 16)),
        "jpeg": pages_bytes(compression="jpeg"),
    }[kind]
    file = tmp_path / "cut.tif"
    file.write_bytes(content)
    assert read(file).layers[0].pixels.shape[-2:] == SHAPE
    file.write_bytes(content[: int(cut * len(content))])
    with pytest.raises(ValueError, match="damaged"):
        read(file)


@pytest.mark.parametrize(
    "name", [name for name in BAD if name.endswith(".tif") and name != "bomb.tif"]
)
def test_unsupported_tiff_files_are_refused_in_tiles_too(tmp_path, capsys, name):
    (tmp_path / name).write_bytes(BAD[name][0])
    assert main(["denoise", str(tmp_path / name), "--method", "fast", "--tile", "64"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"nlridge: {tmp_path / name}: ")
    assert said.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_a_decompression_bomb_takes_no_memory(tmp_path):
    """A file of 72 KB that would be 4 GB in memory."""
    file = tmp_path / "bomb.tif"
    file.write_bytes(pages_that_share_a_strip())
    assert file.stat().st_size < 80_000
    program = (
        PEAK
        + """
from pathlib import Path
import nlridge.files.formats.tiff
before = peak()
try:
    nlridge.files.read(Path(sys.argv[1]))
except ValueError:
    print(peak() - before)
"""
    )
    done = subprocess.run([sys.executable, "-c", program, file], capture_output=True, check=True)
    assert float(done.stdout) < 20


def test_pages_may_share_small_data(tmp_path):
    file = tmp_path / "shared.tif"
    file.write_bytes(pages_that_share_a_strip(pages=3, side=64))
    assert read(file).layers[0].pixels.shape == (3, 64, 64)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_reading_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "image.png")
    with pytest.raises(ValueError, match="is not a regular file; expected one"):
        read(tmp_path / "image.png")


@pytest.mark.parametrize("kind", ["png", "jpg", "webp", "bmp", "tif", "npy", "fits"])
def test_each_format_in_a_fresh_process(tmp_path, kind):
    """The tests import libraries that a process may not have imported yet."""
    file = tmp_path / f"image.{kind}"
    write(file, Picture("", [Layer(noisy(channels=3 if kind == "webp" else None), "YXC" if kind == "webp" else "YX")]))  # fmt: skip
    command = [sys.executable, "-m", "nlridge", "denoise", file, "--method", "fast", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if "compiling" not in line]
    assert lines == []
    assert done.returncode == 0
    assert json.loads(done.stdout)["status"] == "done"
    (before,), (after,) = (read(tmp_path / name).layers for name in (file.name, f"image_denoised.{kind}"))  # fmt: skip
    assert after.pixels.dtype == before.pixels.dtype
    assert after.pixels.shape == before.pixels.shape
    assert_cleaned(before.pixels, after.pixels, LEFT.get(kind, 0.5))


def test_without_astropy_the_message_says_how_to_install_it(tmp_path):
    (tmp_path / "sky.fits").write_bytes(fits_bytes())
    program = """
import sys
sys.modules["astropy"] = None
from nlridge.cli import main
sys.exit(main(["denoise", sys.argv[1]]))
"""
    command = [sys.executable, "-c", program, tmp_path / "sky.fits"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "FITS files need astropy, which is not installed: pip install astropy\n" in done.stderr


def test_libraries_print_nothing_to_the_terminal(tmp_path):
    chunk = (b"iCCP", b"sRGB\0\0" + zlib.compress(PROFILE))  # of colours, in a gray image
    (tmp_path / "gray.png").write_bytes(with_chunks(imagecodecs.png_encode(noisy()), [chunk]))
    (tmp_path / "half.fits").write_bytes(fits_bytes()[:6000])
    (tmp_path / "half.tif").write_bytes(tiff_bytes(noisy(dtype=np.uint16))[:1500])
    Image.fromarray(noisy()).save(tmp_path / "exif.jpg", exif=b"Exif\0\0garbagegarbage")
    command = [
        sys.executable,
        "-m",
        "nlridge",
        "denoise",
        str(tmp_path),
        "--method",
        "fast",
        "--quiet",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == ""
    assert [line.split(": ")[0] for line in done.stderr.splitlines()] == ["nlridge"] * 2


# From one format to another.


@pytest.mark.parametrize("source", ["png", "tif", "npy", "fits", "webp", "bmp"])
@pytest.mark.parametrize("target", ["png", "jpg", "tif", "npy", "fits", "webp", "bmp"])
def test_any_format_into_any_other(tmp_path, source, target):
    pixels = noisy() if source != "webp" else noisy(channels=3)
    axes = "YX" if pixels.ndim == 2 else "YXC"
    file = tmp_path / f"image.{source}"
    write(file, Picture("", [Layer(pixels, axes)]))
    done = denoised(file, "--format", target, output=tmp_path / "out")
    written = done / f"image.{target}"
    (layer,) = read(written, "YXC" if target in ("npy", "fits") and axes == "YXC" else None).layers
    assert layer.pixels.shape[:2] == SHAPE
    brightness = [a.mean(axis=-1) if a.ndim == 3 else a for a in (pixels, layer.pixels)]
    assert_cleaned(*(a.astype(float) for a in brightness), LEFT.get(source, 0.5))


@pytest.mark.parametrize(
    ("pixels", "axes", "name", "sentence"),
    [
        (np.zeros((9, 9), np.float32), "YX", "x.png", "PNG files cannot store float32; expected uint8 or uint16"),
        (np.zeros((9, 9), np.uint16), "YX", "x.jpg", "JPEG files cannot store uint16; expected uint8"),
        (np.zeros((2, 9, 9), np.uint8), "TYX", "x.png", "PNG files store a single image; expected a TIFF file"),
        (np.zeros((9, 9), np.float16), "YX", "x.fits", "FITS files cannot store float16; expected float32"),
        (np.zeros((9, 9), np.uint16), "YX", "x.bmp", "BMP files cannot store uint16; expected uint8"),
        (np.zeros((9, 9, 5), np.uint8), "YXC", "x.webp", "WebP files cannot store 5 channels; expected a TIFF"),
    ],
)  # fmt: skip
def test_what_a_format_cannot_hold(tmp_path, pixels, axes, name, sentence):
    with pytest.raises(ValueError, match=sentence):
        write(tmp_path / name, Picture("", [Layer(pixels, axes)]))
    assert not list(tmp_path.iterdir())


# EXIF and GPS data of TIFF files, and the formats of telephones.


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
def test_exif_and_gps_data_of_tiff_files_are_kept(tmp_path, order, big):
    from nlridge.files.directories import ASCII, EXIF, GPS, RATIONAL, SHORT, new_tag, packed

    file = tmp_path / "a.tif"
    exposure = [new_tag(order, 34855, SHORT, 800), new_tag(order, 33434, RATIONAL, 0.25)]
    place = [new_tag(order, 1, ASCII, b"N"), new_tag(order, 2, RATIONAL, 52.0, 31.0, 12.5)]
    with tifffile.TiffWriter(file, byteorder=order, bigtiff=big) as writer:
        pointers = []
        for name, tags in (("ExifTag", exposure), ("GPSTag", place)):
            writer.filehandle.seek(0, 2)
            at = writer.filehandle.tell()
            writer.filehandle.write(packed(tags, order, at, big))
            pointers.append((name, "Q" if big else "I", 1, at, False))
        writer.write(noisy(), metadata=None, extratags=pointers)
    with tifffile.TiffFile(denoised(file)) as result:
        found = [result.pages[0].tags[name].value for name in ("ExifTag", "GPSTag")]
    with tifffile.TiffFile(file) as source:
        assert found == [source.pages[0].tags[name].value for name in ("ExifTag", "GPSTag")]
    assert found[0]["ISOSpeedRatings"] == 800
    with Image.open(denoised(file, output=tmp_path / "b.jpg")) as image:
        assert image.getexif().get_ifd(EXIF)[34855] == 800
        assert image.getexif().get_ifd(EXIF)[33434] == 0.25
        assert image.getexif().get_ifd(GPS)[1] == "N"
        assert image.getexif().get_ifd(GPS)[2] == (52.0, 31.0, 12.5)


@pytest.mark.parametrize(("mode", "bits"), [("L", 8), ("RGB", 8), ("RGBA", 8), ("RGB", 10), ("RGB", 12)])  # fmt: skip
def test_heif_files_keep_depth_profile_and_exif(tmp_path, mode, bits):
    heif = pytest.importorskip("pillow_heif")
    shape = (64, 80) if mode == "L" else (64, 80, len(mode))
    y, x = np.mgrid[:64, :80]
    clean = 120 + 50 * np.sin(x / 9) * np.cos(y / 8)
    pixels = np.clip(np.broadcast_to(clean if mode == "L" else clean[..., None], shape) + np.random.default_rng(0).normal(0, 12, shape), 0, 255)  # fmt: skip
    stored = pixels.astype(np.uint8) if bits == 8 else (pixels * 256).astype(np.uint16)
    source = heif.from_bytes(mode if bits == 8 else f"{mode};16", (80, 64), stored.tobytes())
    heif.options.SAVE_HDR_TO_12_BIT = bits == 12
    source.save(tmp_path / "a.heic", quality=-1, chroma=444, exif=exif(6), icc_profile=PROFILE)
    heif.options.SAVE_HDR_TO_12_BIT = False
    result = denoised(tmp_path / "a.heic")
    before, after = (heif.open_heif(path, convert_hdr_to_8bit=False) for path in (tmp_path / "a.heic", result))  # fmt: skip
    assert after.info["bit_depth"] == before.info["bit_depth"] == bits
    assert after.size == before.size == (64, 80)  # turned
    assert after.info["icc_profile"] == PROFILE
    with Image.open(denoised(tmp_path / "a.heic", output=tmp_path / "b.png")) as image:
        assert image.getexif()[0x010F] == "A camera"
        assert image.getexif()[0x0112] == 1
        assert image.size == (64, 80)
    colours = np.asarray(after) if mode == "L" else np.asarray(after)[..., :3]
    colours = colours / (1 if bits == 8 else 256)
    truth = np.rot90(clean, -1) if mode == "L" else np.rot90(clean, -1)[..., None]
    assert np.std(colours - truth) < 0.7 * 12


@pytest.mark.parametrize("orientation", [1, 6])
def test_avif_files_keep_orientation_profile_and_exif(tmp_path, orientation):
    file = tmp_path / "a.avif"
    Image.fromarray(noisy(channels=3)).save(
        file, quality=95, subsampling="4:4:4", exif=exif(orientation), icc_profile=PROFILE
    )
    with Image.open(file) as before, Image.open(denoised(file)) as after:
        assert after.size == before.size
        assert after.info["icc_profile"] == PROFILE
        assert after.getexif().get(0x0112, 1) == orientation
        assert after.getexif()[0x010F] == "A camera"
        assert np.std(np.asarray(before).astype(float) - np.asarray(after)) > 3


@pytest.mark.parametrize("transparent", [False, True])
def test_gray_avif_files_stay_gray(tmp_path, transparent):
    pixels = np.linspace(0, 255, 40 * 50).reshape(40, 50).astype(np.uint8)
    picture = Picture(
        "", [Layer(pixels, "YX")], alpha=pixels.T.reshape(40, 50) if transparent else None
    )
    write(tmp_path / "a.avif", picture)
    again = read(tmp_path / "a.avif")
    assert again.layers[0].axes == "YX"
    np.testing.assert_allclose(again.layers[0].pixels, pixels, atol=3)
    if transparent:
        np.testing.assert_allclose(again.alpha, picture.alpha, atol=3)


def test_avif_files_of_more_bits_keep_them(tmp_path):
    file = tmp_path / "a.avif"
    pixels = (noisy(channels=3).astype(np.uint16) * 4) + 1
    file.write_bytes(imagecodecs.avif_encode(pixels, level=95, bitspersample=10))
    picture = read(file)
    assert picture.layers[0].pixels.dtype == np.uint16
    result = imagecodecs.avif_decode(denoised(file).read_bytes())
    assert result.dtype == np.uint16
    assert 255 < result.max() < 1024


def test_a_library_out_of_memory_says_so():
    """Some allocate whatever a damaged file claims, and raise a MemoryError without a message."""
    with (
        pytest.raises(MemoryError, match="more than fits in memory"),
        convert_errors("the file is damaged"),
    ):
        raise MemoryError
