"""The brightness that noise took from photographs."""

import numpy as np
import pytest
from benchmarks.bias import to_light, to_tone
from command_line import run
from PIL import Image

import nlridge

TONES = np.linspace(0.1, 0.8, 8)


def shot(strength, tones=TONES, count=20_000):
    """Pixels of each tone with noise in linear light, from 0 to 255; their variance grows with the light."""
    light = to_light(tones)[:, None]
    noise = np.random.default_rng(0).normal(size=(len(tones), count))
    return 255 * to_tone(np.clip(light + np.sqrt(strength * (light + 0.01)) * noise, 0, 1))


@pytest.mark.parametrize("strength", [0.001, 0.01, 0.05])
def test_means_become_those_without_noise(strength):
    pixels = shot(strength)
    means = pixels.mean(axis=1)
    noise = nlridge.CurveNoise(means, pixels.std(axis=1))
    restored = nlridge.restore_brightness(means, noise, data_range=255)
    before, after = (np.abs(values - 255 * TONES).max() for values in (means, restored))
    assert after < 0.1 * before + 0.2


def test_black_becomes_black_again():
    pixels = shot(0.05, np.zeros(1))
    noise = nlridge.GaussianNoise(pixels.std())
    assert pixels.mean() > 10
    restored = nlridge.restore_brightness(np.full(9, pixels.mean()), noise, data_range=255)
    assert restored.max() < 1


def test_each_channel_has_its_own_noise():
    image = np.full((3, 20, 20), 60.0)
    noise = nlridge.GaussianNoise([0, 10, 30])
    restored = nlridge.restore_brightness(image, noise, data_range=255, channel_axis=0)
    means = restored.mean(axis=(1, 2))
    assert means[0] == 60
    assert means[0] < means[1] < means[2]
    last = np.moveaxis(image, 0, -1)
    again = nlridge.restore_brightness(last, noise, data_range=255, channel_axis=-1)
    np.testing.assert_array_equal(np.moveaxis(again, -1, 0), restored)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_types_and_units(dtype):
    white = np.iinfo(dtype).max if np.dtype(dtype).kind == "u" else 1.0
    image = (white * np.linspace(0, 1, 60).reshape(6, 10)).astype(dtype)
    kept = image.copy()
    restored = nlridge.restore_brightness(
        image, nlridge.GaussianNoise(0.1 * white), data_range=white
    )
    assert restored.dtype == (dtype if image.dtype.kind == "f" else np.float32)
    np.testing.assert_array_equal(image, kept)
    expected = nlridge.restore_brightness(image / white, nlridge.GaussianNoise(0.1), data_range=1)
    np.testing.assert_allclose(restored / white, expected, atol=0.01)
    if image.dtype.kind == "u":
        default = nlridge.restore_brightness(image, nlridge.GaussianNoise(0.1 * white))
        np.testing.assert_array_equal(default, restored)


def test_missing_pixels_and_values_beyond_the_range_stay():
    image = np.array([[np.nan, -5.0, 60.0, 300.0]])
    restored = nlridge.restore_brightness(image, nlridge.GaussianNoise(20), data_range=255)
    assert np.isnan(restored[0, 0])
    assert restored[0, 2] > 60
    np.testing.assert_allclose(restored[0, [1, 3]], [-5, 300])
    nothing = np.full((2, 2), np.nan)
    assert np.isnan(
        nlridge.restore_brightness(nothing, nlridge.GaussianNoise(20), data_range=255)
    ).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros((2, 2)), nlridge.GaussianNoise(1), {}), ValueError, "data_range is None; expected the value of white"),
        ((np.zeros((2, 2)), 5, {"data_range": 1}), TypeError, "noise is 5; expected a noise model"),
        ((np.zeros((2, 2), bool), nlridge.GaussianNoise(1), {}), TypeError, "image has dtype bool; expected integers"),
        ((np.zeros((2, 2)), nlridge.GaussianNoise(1), {"data_range": -1}), ValueError, "data_range is -1; expected a positive"),
        ((np.zeros((2, 2)), nlridge.GaussianNoise([1, 2, 3]), {"data_range": 1}), ValueError, "noise has 3 levels for 1 channels"),
        ((np.zeros((2, 2)), nlridge.GaussianNoise(1), {"data_range": 1, "channel_axis": 4}), ValueError, "channel_axis is 4; expected at most 1"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, error, message):
    image, noise, options = arguments
    with pytest.raises(error, match=message):
        nlridge.restore_brightness(image, noise, **options)


def test_the_command_line(tmp_path, capsys):
    pixels = np.rint(shot(0.02, np.full(64, 0.3), 64)).astype(np.uint8)
    source = tmp_path / "photo.png"
    Image.fromarray(pixels).save(source)
    means = []
    for number, flags in enumerate(([], ["--restore-brightness"])):
        target = tmp_path / f"{number}.png"
        assert run(source, "-o", target, *flags) == 0
        means.append(np.asarray(Image.open(target)).mean())
    assert means[0] == pytest.approx(pixels.mean(), abs=1)
    before, after = (abs(mean - 255 * 0.3) for mean in means)
    assert after < before / 2
    np.save(tmp_path / "floats.npy", pixels / np.float32(255))
    capsys.readouterr()
    assert run(tmp_path / "floats.npy", "--restore-brightness") == 1
    assert "expected integers for --restore-brightness" in capsys.readouterr().err
