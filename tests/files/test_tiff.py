"""TIFF files: stacks, tags and layout are kept."""

import struct

import imagecodecs
import numpy as np
import pytest
import tifffile
from image_files import PROFILE, assert_cleaned, denoised, noisy
from PIL import Image

from nlridge.apps.cli import main
from nlridge.files import read, write


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


def test_tiff_of_other_colors_keeps_them(tmp_path):
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


@pytest.mark.parametrize("order", "<>")
def test_imagej_finds_the_pages_of_its_stacks(tmp_path, order):
    """It reads all of them from one block after the first, and ignores the offsets of the others."""
    pixels = np.arange(3 * 2 * 20 * 24, dtype=np.uint16).reshape(3, 2, 20, 24)
    tables = [np.full((3, 256), k, np.uint8) for k in (10, 20)]
    metadata = {"axes": "TCYX", "unit": "um", "finterval": 2.5, "LUTs": tables}
    tifffile.imwrite(tmp_path / "a.tif", pixels, imagej=True, byteorder=order, metadata=metadata)
    write(tmp_path / "b.tif", read(tmp_path / "a.tif"))
    with tifffile.TiffFile(tmp_path / "a.tif") as old, tifffile.TiffFile(tmp_path / "b.tif") as new:
        first = new.pages[0].dataoffsets[0]
        size = 20 * 24 * 2
        assert [page.dataoffsets[0] for page in new.pages] == [first + k * size for k in range(6)]
        assert new.imagej_metadata.keys() == old.imagej_metadata.keys()
        for one, other in zip(new.imagej_metadata["LUTs"], tables, strict=True):
            np.testing.assert_array_equal(one, other)
        assert new.series[0].axes == old.series[0].axes == "TCYX"
        np.testing.assert_array_equal(new.asarray(), pixels)
