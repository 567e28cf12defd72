"""How strong noise is, in plain words: the same on the command line, in the report and in the studio."""

import re

import numpy as np
import pytest
import tifffile
from PIL import Image

from nlridge import CorrelatedNoise, GaussianNoise, PoissonGaussianNoise
from nlridge.apps.cli import main
from nlridge.apps.jobs.grain import is_photograph, plain_words, words_for
from nlridge.files import Layer, Picture, read
from nlridge.files.camera_metadata import iso_of
from nlridge.planning.mosaic import Mosaic

ORDER = ["no noise", "very faint", "faint", "moderate", "strong", "very strong"]


def rank(words):
    """The place of words among all strengths."""
    return max(k for k, strength in enumerate(ORDER) if words.startswith(strength))


def speed(words):
    return int(re.search(r"ISO (\d+)", words)[1])


def words_at(level, ends=(0, 255), **options):
    return plain_words(GaussianNoise(level), level, ends, **options)


def picture(pixels, form="pillow", exif=None, axes=None):
    axes = axes or ("YXC" if pixels.ndim == 3 else "YX")
    return Picture(form, [Layer(pixels, axes)], exif=exif)


def words_in(given, level, noise=None):
    layer = given.layers[0]
    return words_for(given, layer, layer.pixels, noise or GaussianNoise(level), level)


def photograph(dtype, seed=0):
    top = np.iinfo(dtype).max
    return np.random.default_rng(seed).integers(0, top, (16, 16, 3), dtype, endpoint=True)


def exif_with(iso):
    tags = Image.Exif()
    tags.get_ifd(0x8769)[0x8827] = iso
    return tags.tobytes()


def test_the_words_of_the_issue():
    assert words_at(6.4, photograph=True) == "strong grain, about ISO 6400"
    assert words_at(0) == "no noise found"


def test_more_noise_never_has_weaker_words():
    levels = [0, *np.geomspace(0.01, 1000, 400)]
    for options in ({}, {"photograph": True}):
        ranks = [rank(words_at(level, **options)) for level in levels]
        assert ranks == sorted(ranks)
        assert set(ranks) == set(range(len(ORDER)))  # none is out of reach
    speeds = [speed(words_at(level, photograph=True)) for level in levels[1:]]
    assert speeds == sorted(speeds)
    assert set(speeds) == {100 * 2**k for k in range(11)}  # steps of powers of two


def test_a_smooth_picture_has_no_noise_but_that_of_rounding(tmp_path, capsys):
    y, x = np.mgrid[:192, :192]
    smooth = 110 + 20 * np.sin(x / 31) * np.cos(y / 27)
    grain = np.random.default_rng(0).normal(0, 1, smooth.shape)
    for name, level in (("clean.png", 0), ("faint.png", 0.5)):
        Image.fromarray(np.rint(smooth + level * grain).astype(np.uint8)).save(tmp_path / name)
        assert main(["noise", str(tmp_path / name)]) == 0
    clean, faint = capsys.readouterr().out.splitlines()
    assert "clean.png: no noise found but that of rounding; " in clean
    assert "faint.png: moderate noise, about 1.4% of the range; " in faint


def test_the_words_for_doubted_noise_are_about_what_is_removed():
    noise = CorrelatedNoise(GaussianNoise(8.0), np.ones((1, 1)), share=0.1)
    assert plain_words(noise, 8.0, (0, 255)) == "very faint noise, or fine texture, about 0.3% of the range"  # fmt: skip
    assert plain_words(noise, 8.0, (0, 255), given=True).startswith("strong noise, about 3%")


def test_four_times_the_speed_is_twice_the_noise():
    for level in np.geomspace(1, 10, 50):
        slow, fast = (speed(words_at(k * level, photograph=True)) for k in (1, 2))
        assert fast == 4 * slow


@pytest.mark.parametrize("level", [0.5, 2.0, 4.0, 7.0, 31.0])
def test_words_depend_on_neither_the_unit_nor_the_offset(level):
    assert words_at(level) == words_at(level / 255, (0, 1)) == words_at(level * 7, (-300, 255 * 7 - 300))  # fmt: skip
    noise = PoissonGaussianNoise(level)
    scaled = PoissonGaussianNoise(1e-6 * level, 0, 5.0)
    assert plain_words(noise, level, (0, 255)) == plain_words(scaled, 1e-6 * level, (5.0, 5.0 + 255e-6))  # fmt: skip


@pytest.mark.parametrize("level", [0.5, 2.0, 7.0])
def test_a_photograph_has_the_same_words_in_8_and_in_16_bits(level):
    small, large = picture(photograph(np.uint8)), picture(photograph(np.uint16), "png")
    words = words_in(small, level)
    assert "grain, about ISO" in words
    assert words == words_in(large, 257 * level)
    assert words == words_in(picture(small.layers[0].pixels // 4), level)  # dark or bright


def test_other_images_are_no_photographs():
    gray, floats = photograph(np.uint8)[..., 0], photograph(np.uint8).astype(np.float32)
    for given in (picture(gray), picture(floats), picture(photograph(np.uint16), "czi"), picture(photograph(np.uint8), "tiff")):  # fmt: skip
        assert not is_photograph(given, given.layers[0])
        words = words_in(given, 3.0)
        assert "ISO" not in words
        assert "grain" not in words
        assert "% of the range" in words
    scan = picture(photograph(np.uint8), "tiff", exif_with(200))
    assert is_photograph(scan, scan.layers[0])


def test_counted_photons_are_told():
    noise = PoissonGaussianNoise(2.0, 0.0, 100.0)
    assert plain_words(noise, 8.0, (100.0, 180.0)).endswith(", about 40 photons in the brightest pixels")  # fmt: skip
    assert "photons" not in plain_words(noise, 8.0, (0.0, 255.0), photograph=True)


def test_what_the_camera_says_is_not_contradicted(tmp_path):
    """Small sensors have more noise at the same speed."""
    for iso in (64, 800, 25600):
        Image.fromarray(photograph(np.uint8)).save(tmp_path / "a.jpg", exif=exif_with(iso))
        given = read(tmp_path / "a.jpg")
        assert iso_of(given) == iso
        for level in (0.5, 30.0):
            assert re.findall(r"ISO (\d+)", words_in(given, level)) == [str(iso)]
            assert "about" not in words_in(given, level)


def test_damaged_or_missing_speeds_are_unknown(tmp_path):
    Image.fromarray(photograph(np.uint8)).save(tmp_path / "a.jpg")
    assert iso_of(read(tmp_path / "a.jpg")) is None
    whole = exif_with(400).removeprefix(b"Exif\0\0")
    for exif in (b"", b"nonsense", whole[: len(whole) // 2], exif_with(0), exif_with(65535)):
        assert iso_of(picture(photograph(np.uint8), exif=exif)) is None
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] = rng.integers(256)
        iso_of(picture(photograph(np.uint8), exif=bytes(damaged)))  # whatever it finds
    tifffile.imwrite(tmp_path / "a.tif", photograph(np.uint8), photometric="rgb")
    assert iso_of(read(tmp_path / "a.tif")) is None


def test_noise_that_may_be_texture_is_not_called_noise():
    doubtful = CorrelatedNoise(5.0, [[0.5, 1, 0.5]], share=0.4)
    assert "or fine texture" in plain_words(doubtful, 5.0, (0, 255), photograph=True)
    assert "texture" not in plain_words(doubtful, 5.0, (0, 255), photograph=True, given=True)


def test_raw_noise_is_judged_as_a_screen_shows_it():
    """A medium gray of 18 % with noise of 1 % of the range: 1.16 % after the tone curve."""
    raw = np.zeros((16, 16), np.uint16)
    layer = Layer(raw, "YX", mosaic=Mosaic("RGGB", 512.0, 512.0 + 10_000))

    class Origin:
        order, tags = "<", ()

    noise = PoissonGaussianNoise(100.0**2 / 1800)  # its standard deviation is 100 at 1800
    words = words_for(Picture("raw", [layer], origin=Origin), layer, raw, noise, 50.0)
    assert words == words_at(2.95, photograph=True)


def test_an_image_without_a_range_or_without_pixels_has_words():
    for pixels in (np.full((8, 8), 5.0), np.full((8, 8), np.nan)):
        assert words_in(picture(pixels, "npy"), 1.0) == "very strong noise, more than the range"
