"""Raw images: mosaics in Python, raw files in and DNG out, bursts."""

import io
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

import nlridge
from nlridge import Mosaic, PoissonGaussianNoise, denoise
from nlridge.api.mosaics import MosaicPlanes
from nlridge.cli import main
from nlridge.files import read, write
from nlridge.files.directories import (
    ASCII,
    EXIF,
    GPS,
    SHORT,
    find,
    header_of,
    new_tag,
    packed,
    pointer,
    read_directory,
)
from nlridge.files.dng import (
    NOISE_PROFILE,
    RawFile,
    camera_tags,
    dng_bytes,
    noise_profile,
    raw_tags,
)
from nlridge.noise.raw import raw_noise_of
from nlridge.planning.mosaic import repair

BLACK, WHITE = 512, 16383
BALANCE = (2.0, 1.0, 1.6)
# A folder of raw files of any kind.
FILES = Path(os.environ.get("NLRIDGE_RAW_FILES", "none"))
XYZ_TO_SRGB = np.array(
    [[3.2404542, -1.5371385, -0.4985314], [-0.9692660, 1.8760108, 0.0415560], [0.0556434, -0.2040259, 1.0572252]]
)  # fmt: skip


def scene(height=192, width=256):
    """A colourful scene in linear light, as a camera sees it."""
    y, x = np.mgrid[:height, :width] / 32
    brightness = 0.25 + 0.2 * np.sin(2 * x + y) * np.cos(3 * y) + 0.2 * ((x // 2 + y // 2) % 2)
    colours = [1 + 0.3 * np.sin(x + k) for k in range(3)]
    return np.stack([brightness * colour for colour in colours], axis=-1) / (2 * np.array(BALANCE))


def mosaic_of(image, pattern="RGGB"):
    mosaic = np.empty(image.shape[:2])
    for k, colour in enumerate(pattern):
        mosaic[k // 2 :: 2, k % 2 :: 2] = image[k // 2 :: 2, k % 2 :: 2, "RGB".index(colour)]
    return mosaic


def with_noise(mosaic, photons=400, read_noise=3, seed=0):
    """Values of a camera that counts so many photons at white."""
    random = np.random.default_rng(seed)
    gain = (WHITE - BLACK) / photons
    counts = random.poisson(mosaic * photons) + random.normal(0, read_noise, mosaic.shape)
    return np.clip(np.rint(BLACK + gain * counts), 0, WHITE).astype(np.uint16)


def error(mosaic, truth):
    return np.sqrt(np.mean((mosaic - (BLACK + (WHITE - BLACK) * truth)) ** 2))


def raw_file(values, pattern="RGGB", order="<", profile=None, area=None):
    height, width = values.shape
    area = area or (0, 0, height, width)
    tags = [
        new_tag(order, 271, ASCII, b"A maker"),
        new_tag(order, 272, ASCII, b"A model"),
        new_tag(order, 274, SHORT, 6),
        new_tag(order, 306, ASCII, b"2024:05:06 07:08:09"),
        pointer(
            EXIF, [new_tag(order, 34855, SHORT, 1600), new_tag(order, 42036, ASCII, b"A lens")]
        ),
        pointer(GPS, [new_tag(order, 1, ASCII, b"N")]),
        *camera_tags(order, XYZ_TO_SRGB, BALANCE, b"A maker A model"),
    ]
    size = area[3] - area[1], area[2] - area[0]
    of_raw = raw_tags(order, pattern, [BLACK] * 4, WHITE, area, (0, 0, *size))
    if profile is not None:
        empty = new_tag(order, NOISE_PROFILE, 12, 0.0, 0.0)
        of_raw.append(noise_profile(order, empty, *profile, WHITE - BLACK))
    return RawFile(values, area, order, tags, of_raw)


def write_raw(path, values, **options):
    path.write_bytes(dng_bytes(raw_file(values, **options), np.zeros((8, 8, 3), np.uint8)))
    return path


def developed(path):
    rawpy = pytest.importorskip("rawpy")
    with rawpy.imread(str(path)) as raw:
        return raw.postprocess(use_camera_wb=True, no_auto_bright=True).astype(np.float64)


# Mosaics in Python.


@pytest.mark.parametrize("shape", [(6, 8), (7, 9), (2, 3)])
def test_a_mosaic_is_put_together_again(shape):
    image = np.random.default_rng(0).normal(size=shape)
    mosaic = Mosaic("GRBG")
    planes = mosaic.planes(image)
    assert planes.shape == (4, -(-shape[0] // 2), -(-shape[1] // 2))
    np.testing.assert_array_equal(mosaic.joined(planes, shape), image)


@pytest.mark.parametrize("pattern", ["RGGB", "BGGR", "GRBG", "GBRG"])
def test_denoising_a_mosaic_removes_most_of_the_noise(pattern):
    truth = mosaic_of(scene(), pattern)
    noisy = with_noise(truth)
    mosaic = Mosaic(pattern, BLACK, WHITE)
    result = denoise(noisy, mosaic=mosaic, method="fast")
    assert result.shape == noisy.shape
    assert error(result, truth) < 0.4 * error(noisy, truth)
    # As if the noise were known.
    gain = (WHITE - BLACK) / 400
    known = denoise(noisy, noise=PoissonGaussianNoise(gain, 3 * gain), mosaic=mosaic, method="fast")
    assert error(result, truth) < 1.05 * error(known, truth)


def test_planes_denoised_jointly_are_better_than_apart():
    truth = mosaic_of(scene())
    noisy = with_noise(truth)
    gain = (WHITE - BLACK) / 400
    noise = PoissonGaussianNoise(gain, 3 * gain, BLACK)
    apart = np.empty(noisy.shape)
    for y, x in np.ndindex(2, 2):
        apart[y::2, x::2] = denoise(noisy[y::2, x::2], noise=noise, method="fast")
    together = denoise(noisy, noise=noise, mosaic=Mosaic("RGGB", 0, WHITE), method="fast")
    assert error(together, truth) < 0.9 * error(apart, truth)


def test_the_mean_of_both_ways_to_divide_a_mosaic_is_better_than_one(monkeypatch):
    y, x = np.mgrid[:96, :128] / 9
    gray = 0.1 + 0.2 * (np.sin(x + 0.4 * y) > 0) + 0.1 * np.sin(3 * y - x)  # edges anywhere
    truth = mosaic_of(gray[..., None] / np.array(BALANCE))
    noisy, mosaic = with_noise(truth, 100), Mosaic("RGGB", BLACK, WHITE)
    reported = []
    both = denoise(
        noisy, mosaic=mosaic, progress=lambda done, total: reported.append((done, total))
    )
    assert [done for done, _ in reported] == sorted({done for done, _ in reported})
    assert reported[-1] == (200, 200)
    details = nlridge.denoise_with_details(noisy, mosaic=mosaic)
    np.testing.assert_array_equal(details.image, both)
    monkeypatch.setattr(MosaicPlanes, "parts", lambda planes, *_: [planes])
    assert error(both, truth) < 0.97 * error(denoise(noisy, mosaic=mosaic), truth)


@pytest.mark.parametrize("time_axis", [None, 0])
def test_strength_0_leaves_a_mosaic_as_it_is(time_axis):
    noisy = with_noise(mosaic_of(scene(33, 47)))
    noisy[10, 10] = WHITE - 1  # a hot pixel
    frames = noisy if time_axis is None else np.stack([noisy, noisy + 1])
    options = {
        "mosaic": Mosaic("RGGB", (512.25, 510, 511, 512)),
        "time_axis": time_axis,
        "strength": 0,
    }
    result = nlridge.denoise_with_details(frames, **options)
    np.testing.assert_array_equal(np.rint(result.image), frames)
    np.testing.assert_array_equal(np.rint(denoise(frames, **options)), frames)
    assert str(result).endswith("removed nothing, since the strength is 0")


def test_the_noise_of_a_mosaic_is_estimated_on_all_planes():
    noise = nlridge.estimate_noise(
        with_noise(mosaic_of(scene(384, 512))), mosaic=Mosaic("RGGB", BLACK, WHITE)
    )
    gain = (WHITE - BLACK) / 400
    assert noise.gain == pytest.approx(gain, rel=0.1)
    assert noise.read_noise == pytest.approx(3 * gain, rel=0.2)


def test_a_dark_frame_has_gaussian_noise():
    dark = with_noise(np.zeros((128, 128)))
    mosaic = Mosaic("RGGB", BLACK, WHITE)
    noise = nlridge.estimate_noise(dark, mosaic=mosaic)
    assert noise.sigma == pytest.approx(3 * (WHITE - BLACK) / 400, rel=0.1)
    result = denoise(dark, mosaic=mosaic, method="fast")
    assert np.std(result) < 0.2 * np.std(dark)
    assert np.mean(result) == pytest.approx(np.mean(dark), abs=1)


def test_an_image_without_noise_stays_as_it_is():
    flat = np.full((64, 64), 1000, np.uint16)
    np.testing.assert_array_equal(denoise(flat, mosaic="RGGB"), flat)
    assert raw_noise_of(np.zeros((4, 4, 4)), None).sigma == 0


def test_saturated_areas_are_left_unchanged_and_black_levels_are_those_of_each_plane():
    truth = mosaic_of(scene(128, 128))
    noisy = with_noise(truth)
    saturated = noisy.copy()
    saturated[40:80, 40:80] = WHITE
    mosaic = Mosaic("RGGB", BLACK, WHITE)
    result = denoise(saturated, mosaic=mosaic, method="fast")
    assert np.all(result[44:76, 44:76] == WHITE)
    assert error(result[:30], truth[:30]) < 0.5 * error(noisy[:30], truth[:30])
    levels = (0.0, 100.0, 200.0, 300.0)
    uneven = noisy.astype(np.float64)
    for k, level in enumerate(levels):
        uneven[k // 2 :: 2, k % 2 :: 2] += level
    result = denoise(noisy, mosaic=mosaic, method="fast")
    black = [BLACK + level for level in levels]
    shifted = denoise(uneven, mosaic=Mosaic("RGGB", black), method="fast")
    for k, level in enumerate(levels):
        shifted[k // 2 :: 2, k % 2 :: 2] -= level
    np.testing.assert_allclose(shifted, result, atol=0.1)


def test_hot_and_dead_pixels_are_replaced_and_stars_are_not():
    random = np.random.default_rng(0)
    truth = mosaic_of(scene(128, 128))
    noisy = with_noise(truth)
    hot, dead = random.integers(4, 124, (2, 20, 2))
    noisy[tuple(hot.T)] = 12000
    noisy[tuple(dead.T)] = 0
    star = np.array([[0.2, 0.5, 0.2], [0.5, 1.0, 0.5], [0.2, 0.5, 0.2]]) * 9000
    noisy[60:63, 60:63] = np.minimum(noisy[60:63, 60:63] + star, WHITE)
    details = nlridge.denoise_with_details(
        noisy, mosaic=Mosaic("RGGB", BLACK, WHITE), method="fast"
    )
    result = details.image
    assert 20 < details.defects <= 40
    assert details.axes == "YX"
    assert str(details).endswith(f"; replaced {details.defects} defective pixels")
    expected = BLACK + (WHITE - BLACK) * truth
    alone = [p for p in hot if np.abs(p - [61, 61]).max() > 6]
    for place in alone:
        assert abs(result[tuple(place)] - expected[tuple(place)]) < 1000
    assert result[61, 61] > expected[61, 61] + 4000
    planes = Mosaic("RGGB", BLACK).planes(with_noise(truth)).astype(np.float64) - BLACK
    gain = (WHITE - BLACK) / 400
    assert repair(planes, PoissonGaussianNoise(gain, 3 * gain)) == 0


@pytest.mark.parametrize(
    ("image", "options", "sentence"),
    [
        (np.zeros((8, 8)), {"mosaic": "RGB"}, "mosaic is 'RGB'; expected 'RGGB', 'BGGR', 'GRBG' or 'GBRG'"),
        (np.zeros((8, 8, 3)), {"mosaic": "RGGB"}, "expected 2 dimensions"),
        (np.zeros((8, 8)), {"mosaic": "RGGB", "channel_axis": 0}, "channel_axis is 0; expected None for a mosaic"),
        (np.zeros((8, 8)), {"mosaic": "RGGB", "out": "x.npy"}, "out is 'x.npy'; expected None for a mosaic"),
    ],
)  # fmt: skip
def test_wrong_mosaics_get_one_sentence(image, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        denoise(image, **options)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("RGGB", (1, 2)), "black_level has 2 numbers; expected one, or four"),
        (("RGGB", 100, 50), "white_level is 50; expected a number above the black level"),
        (("RGGB", float("nan")), "black_level is nan; expected finite numbers"),
    ],
)
def test_wrong_levels_get_one_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Mosaic(*arguments)


def test_a_burst_of_mosaics_is_better_than_one():
    truth = mosaic_of(scene(96, 128))
    frames = np.stack([with_noise(truth, 100, seed=seed) for seed in range(5)])
    mosaic = Mosaic("RGGB", BLACK, WHITE)
    one = denoise(frames[2], mosaic=mosaic, method="fast")
    all_of_them = denoise(frames, mosaic=mosaic, time_axis=0, method="fast")
    assert all_of_them.shape == frames.shape
    assert error(all_of_them[2], truth) < 0.8 * error(one, truth)


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


@pytest.mark.parametrize(("format", "dtype"), [(None, np.uint16), ("jpg", np.uint8)])
def test_develop_writes_a_picture_in_colour(tmp_path, format, dtype):
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
    alone = denoise(read(tmp_path / "1.dng").layers[0].pixels, mosaic=Mosaic("RGGB", BLACK, WHITE), method="fast")  # fmt: skip
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
    tifffile.imwrite(linear, np.stack([values] * 3, -1), photometric=34892, extratags=version, metadata=None)  # fmt: skip
    assert main(["denoise", str(x_trans), str(linear)]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert "its pattern of colours is X-Trans; expected a Bayer pattern" in errors[0]
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


def test_the_report_shows_raw_files_developed(tmp_path):
    pytest.importorskip("rawpy")
    path = write_raw(tmp_path / "a.dng", with_noise(mosaic_of(scene())))
    report = tmp_path / "report.html"
    assert main(["denoise", str(path), "--method", "fast", "--quiet", "--report", str(report)]) == 0
    page = report.read_text("utf-8")
    assert "192 × 256 pixels, uint8" in page  # upright, and in 8 bits
    assert "unknown, since the image was not yet developed" in page
