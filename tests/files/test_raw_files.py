"""Raw files in and DNG out: pixels and tags are kept, alone and in bursts."""

import io
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from raw_images import BLACK, WHITE, error, mosaic_of, raw_file, scene, with_noise, write_raw

from nlridge import Mosaic, denoise, denoise_mosaic
from nlridge.apps.cli import main
from nlridge.files import read, write
from nlridge.files.directories import (
    ASCII,
    EXIF,
    SHORT,
    find,
    header_of,
    new_tag,
    packed,
    pointer,
    read_directory,
)
from nlridge.files.dng import dng_bytes

# A folder of raw files of any kind.
FILES = Path(os.environ.get("NLRIDGE_RAW_FILES", "none"))


def developed(path):
    rawpy = pytest.importorskip("rawpy")
    with rawpy.imread(str(path)) as raw:
        return raw.postprocess(use_camera_wb=True, no_auto_bright=True).astype(np.float64)


# Directories of tags.


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("big", [False, True])
def test_directories_are_read_as_they_were_written(order, big):
    tags = [
        new_tag(order, 271, ASCII, b"A maker"),
        new_tag(order, 274, SHORT, 6),
        new_tag(order, 282, 5, 72.5),
        pointer(EXIF, [new_tag(order, 34855, SHORT, 100)]),
    ]
    head = {"<": b"II", ">": b"MM"}[order]
    number = {"<": "little", ">": "big"}[order]
    start = (
        head
        + (43).to_bytes(2, number)
        + (8).to_bytes(2, number)
        + bytes(2)
        + (16).to_bytes(8, number)
        if big
        else head + (42).to_bytes(2, number) + (8).to_bytes(4, number)
    )
    file = io.BytesIO(start + packed(tags, order, len(start), big))
    header = header_of(file.read(16))
    assert header == (order, len(start), big)
    found = read_directory(file, header, header.first)
    assert [tag.code for tag in found] == [271, 274, 282, EXIF]
    assert find(found, 271).values(order) == (b"A maker",)
    assert find(found, 282).values(order) == (72.5,)
    assert find(found, EXIF).children[0][0].values(order) == (100,)


# Raw files.


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_raw_file_is_copied_bit_for_bit_with_its_tags(tmp_path, order):
    rawpy = pytest.importorskip("rawpy")
    values = with_noise(mosaic_of(scene(160, 230)))
    path = write_raw(tmp_path / "a.dng", values, order=order, area=(10, 20, 150, 220), profile=(30.0, 90.0))  # fmt: skip
    picture = read(path)
    assert picture.layers[0].pixels.shape == (140, 200)
    assert picture.layers[0].mosaic == Mosaic("RGGB", (BLACK,) * 4, WHITE)
    assert picture.layers[0].noise.gain == pytest.approx(30)
    assert picture.layers[0].noise.read_noise == pytest.approx(90)
    assert picture.turn == 6
    assert write(tmp_path / "b.dng", picture) == []
    with rawpy.imread(str(path)) as a, rawpy.imread(str(tmp_path / "b.dng")) as b:
        np.testing.assert_array_equal(b.raw_image, values)
        assert a.sizes == b.sizes
        assert a.black_level_per_channel == b.black_level_per_channel
        assert a.camera_whitebalance == b.camera_whitebalance
        np.testing.assert_array_equal(a.color_matrix, b.color_matrix)
        assert b.other.iso_speed == 1600
    with tifffile.TiffFile(tmp_path / "b.dng") as file:
        first = file.pages[0]
        assert first.tags["Make"].value == "A maker"
        assert first.tags["ExifTag"].value["LensModel"] == "A lens"
        assert first.tags["GPSTag"].value["GPSLatitudeRef"] == "N"
        assert first.tags["Orientation"].value == 6
        assert first.pages[0].compression == 7
        preview = first.asarray()
    assert preview.std() > 10  # it shows the image


@pytest.mark.slow
def test_denoising_before_developing_is_better_than_after(tmp_path):
    image = scene()
    truth, noisy = mosaic_of(image), with_noise(mosaic_of(image), 200)
    clean = write_raw(
        tmp_path / "clean.dng", np.rint(BLACK + (WHITE - BLACK) * truth).astype(np.uint16)
    )
    source = write_raw(tmp_path / "photo.dng", noisy)
    before = source.read_bytes()
    assert main(["denoise", str(source), "--quiet"]) == 0
    assert source.read_bytes() == before
    expected = developed(clean)

    def psnr(image):
        return 10 * np.log10(255**2 / np.mean((image - expected) ** 2))

    def after(kind):
        return psnr(denoise(developed(source).astype(np.uint8), noise=kind, channel_axis=-1))

    result = psnr(developed(tmp_path / "photo_denoised.dng"))
    assert result > after("gaussian") + 3
    assert after("gaussian") >= psnr(developed(source)) - 0.1
    # The correlation of the noise is found, so that most of it is removed afterwards as well.
    assert result - 1.5 > after(None) > psnr(developed(source)) + 8


def test_the_noise_profile_is_used_and_updated(tmp_path, capsys):
    pytest.importorskip("rawpy")
    gain = (WHITE - BLACK) / 400
    path = write_raw(tmp_path / "a.dng", with_noise(mosaic_of(scene())), profile=(gain, 3 * gain))
    assert main(["denoise", str(path), "--method", "fast"]) == 0
    assert f"Poisson noise with a gain of {gain:.4g}" in capsys.readouterr().out
    left = read(tmp_path / "a_denoised.dng").layers[0].noise
    assert 0.005 * gain < left.gain < 0.3 * gain
    assert left.read_noise / left.gain > 3  # the deviation falls less than the variance
    assert main(["noise", str(path)]) == 0
    assert f"Poisson noise with a gain of {gain:.4g}" in capsys.readouterr().out


def test_a_noise_profile_says_what_noise_is_left_if_there_was_none(tmp_path):
    """Programs that know the camera would otherwise remove noise that is no longer there."""
    pytest.importorskip("rawpy")
    path = write_raw(tmp_path / "a.dng", with_noise(mosaic_of(scene())))
    assert read(path).layers[0].noise is None
    assert main(["denoise", str(path), "--method", "fast"]) == 0
    left = read(tmp_path / "a_denoised.dng").layers[0].noise
    gain = (WHITE - BLACK) / 400
    assert 0.005 * gain < left.gain < 0.3 * gain
    # Nothing is stated about a copy.
    assert main(["denoise", str(path), "--strength", "0", "-o", str(tmp_path / "copy.dng")]) == 0
    assert read(tmp_path / "copy.dng").layers[0].noise is None


def test_developed_brightness_does_not_depend_on_the_brightest_pixel(tmp_path):
    """Which is darker without noise."""
    rawpy = pytest.importorskip("rawpy")
    assert rawpy
    bright = np.clip(mosaic_of(scene()), 0, 0.8 * (WHITE - BLACK) + BLACK).astype(np.uint16)
    one = bright.copy()
    one[0, 0] = WHITE
    views = []
    for name, pixels in (("one", one), ("bright", bright)):
        path = write_raw(tmp_path / f"{name}.dng", pixels)
        assert main(["denoise", str(path), "--strength", "0", "--develop"]) == 0
        views.append(read(tmp_path / f"{name}_denoised.tif").layers[0].pixels[8:, 8:])
    np.testing.assert_array_equal(*views)


@pytest.mark.parametrize(("format", "dtype"), [(None, np.uint16), ("jpg", np.uint8)])
def test_develop_writes_a_picture_in_color(tmp_path, format, dtype):
    pytest.importorskip("rawpy")
    path = write_raw(tmp_path / "a.dng", with_noise(mosaic_of(scene())))
    chosen = ["--format", format] if format else []
    assert main(["denoise", str(path), "--develop", "--method", "fast", "--quiet", *chosen]) == 0
    result = tmp_path / f"a_denoised.{format or 'tif'}"
    picture = read(result)
    assert picture.layers[0].pixels.shape == (256, 192, 3)  # upright
    assert picture.layers[0].pixels.dtype == dtype
    assert picture.profile
    with Image.open(result) as image:
        assert image.getexif()[271] == "A maker"
        assert image.getexif().get_ifd(EXIF)[34855] == 1600
        assert image.getexif().get(274, 1) == 1


def test_a_burst_of_raw_files_becomes_one(tmp_path, capsys):
    pytest.importorskip("rawpy")
    truth = mosaic_of(scene(96, 128))
    for k in range(3):
        write_raw(tmp_path / f"{k}.dng", with_noise(truth, 100, seed=k))
    assert main(["denoise", str(tmp_path), "--burst", "--method", "fast"]) == 0
    assert sorted(path.name for path in tmp_path.glob("*_denoised*")) == ["1_denoised.dng"]
    together = read(tmp_path / "1_denoised.dng").layers[0].pixels
    alone = denoise_mosaic(read(tmp_path / "1.dng").layers[0].pixels, Mosaic("RGGB", BLACK, WHITE), method="fast")  # fmt: skip
    assert error(together, truth) < 0.9 * error(alone, truth)
    write_raw(tmp_path / "3.dng", with_noise(truth[:90], 100))
    assert main(["denoise", str(tmp_path), "--burst", "-o", str(tmp_path / "x.dng")]) == 1
    assert (
        "3.dng has uint16 pixels of shape (90, 128); expected those of" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["a.png", "-o", "b.dng"], "expected a developed format, such as .tif"),
        (["a.dng", "-o", "b.cr2"], "expected .dng"),
        (["a.dng", "--develop", "--format", "dng"], "expected a developed format, such as .tif"),
        (["a.png", "--develop"], "--develop is given, but no raw file; expected at least one"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_at_once(
    tmp_path, capsys, monkeypatch, options, sentence
):
    monkeypatch.chdir(tmp_path)
    assert main(["denoise", *options]) == 1
    assert sentence in capsys.readouterr().err


def test_other_files_that_are_called_raw_get_one_sentence(tmp_path, capsys):
    pytest.importorskip("rawpy")
    (tmp_path / "a.cr2").write_bytes(b"II*\0" + bytes(100))
    (tmp_path / "b.nef").write_bytes(b"nothing of the kind")
    tifffile.imwrite(tmp_path / "c.dng", np.zeros((8, 8), np.uint8))
    assert main(["denoise", *(str(tmp_path / name) for name in ("a.cr2", "b.nef", "c.dng"))]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3
    assert not list(tmp_path.glob("*_denoised*"))


def test_x_trans_and_linear_files_are_refused_in_one_sentence(tmp_path, capsys):
    pytest.importorskip("rawpy")
    values = with_noise(mosaic_of(scene(96, 120)))
    pattern = [1, 1, 0, 1, 1, 2, 1, 1, 2, 1, 1, 0, 2, 0, 1, 0, 2, 1] * 2  # of X-Trans
    file = raw_file(values)
    others = [tag for tag in file.raw_tags if tag.code not in (33421, 33422)]
    tags = [new_tag("<", 33421, SHORT, 6, 6), new_tag("<", 33422, 1, *pattern)]
    x_trans, linear = tmp_path / "x.dng", tmp_path / "linear.dng"
    x_trans.write_bytes(dng_bytes(file._replace(raw_tags=[*others, *tags]), compressed=False))
    version = [(50706, 1, 4, bytes([1, 4, 0, 0]), False)]
    tifffile.imwrite(linear, np.stack([values] * 3, -1), photometric=34892, planarconfig="contig", extratags=version, metadata=None)  # fmt: skip
    assert main(["denoise", str(x_trans), str(linear)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert "its pattern of colors is X-Trans; expected a Bayer pattern" in errors[0]
    assert "demosaicked already (a linear DNG); expected a mosaic: develop it" in errors[1]
    assert not list(tmp_path.glob("*_denoised*"))


def test_a_mosaic_in_a_tiff_file_is_denoised_as_one(tmp_path):
    truth = mosaic_of(scene())
    noisy = with_noise(truth)
    tags = [(33421, 3, 2, (2, 2), False), (33422, 1, 4, bytes([0, 1, 1, 2]), False)]
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, noisy, photometric="cfa", extratags=tags, metadata=None)
    assert main(["denoise", str(path), "--method", "fast", "--quiet"]) == 0
    with tifffile.TiffFile(tmp_path / "a_denoised.tif") as file:
        assert file.pages[0].photometric == 32803
        assert file.pages[0].tags[33422].value == bytes([0, 1, 1, 2])
        result = file.asarray()
    assert error(result, truth) < 0.4 * error(noisy, truth)
    tags[1] = (33422, 1, 4, bytes([0, 0, 1, 2]), False)
    tifffile.imwrite(path, noisy, photometric="cfa", extratags=tags, metadata=None)
    with pytest.raises(ValueError, match="a mosaic with the pattern RRGB; expected RGGB"):
        read(path)


def test_the_report_shows_raw_files_developed(tmp_path):
    pytest.importorskip("rawpy")
    path = write_raw(tmp_path / "a.dng", with_noise(mosaic_of(scene())))
    report = tmp_path / "report.html"
    assert main(["denoise", str(path), "--method", "fast", "--quiet", "--report", str(report)]) == 0
    page = report.read_text("utf-8")
    assert "192 × 256 pixels, uint8" in page  # upright, and in 8 bits
    assert "unknown, since the image was not yet developed" in page


# Real files.


@pytest.mark.skipif(
    not FILES.is_dir(), reason="NLRIDGE_RAW_FILES does not name a folder of raw files"
)
def test_real_raw_files_are_copied_bit_for_bit(tmp_path):
    rawpy = pytest.importorskip("rawpy")
    copied = 0
    for path in sorted(FILES.iterdir()):
        with rawpy.imread(str(path)) as raw:
            is_mosaic = raw.raw_type == rawpy.RawType.Flat
        if not is_mosaic:
            with pytest.raises(ValueError, match="a linear DNG"):
                read(path)
            continue
        picture = read(path)
        target = tmp_path / f"{path.stem}.dng"
        write(target, picture)
        with rawpy.imread(str(path)) as a, rawpy.imread(str(target)) as b:
            np.testing.assert_array_equal(a.raw_image, b.raw_image)
            assert a.sizes == b.sizes
            assert a.black_level_per_channel == b.black_level_per_channel
            assert a.white_level == b.white_level
        copied += 1
    assert copied


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
def test_exiftool_finds_no_fault(tmp_path):
    pytest.importorskip("rawpy")
    path = write_raw(tmp_path / "a.dng", with_noise(mosaic_of(scene())), profile=(30.0, 90.0))
    write(tmp_path / "b.dng", read(path))
    found = subprocess.run(
        ["exiftool", "-validate", "-warning", "-error", "-a", str(tmp_path / "b.dng")],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "OK" in found
