"""Mosaics in Python: their noise, their planes, defective pixels, and bursts."""

import numpy as np
import pytest
from raw_images import BALANCE, BLACK, WHITE, error, mosaic_of, scene, with_noise

import nlridge
from nlridge import Mosaic, PoissonGaussianNoise, denoise, denoise_mosaic
from nlridge.api.mosaic_planes import MosaicPlanes
from nlridge.noise.raw import raw_noise_of
from nlridge.planning.mosaic import repair


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
    result = denoise_mosaic(noisy, mosaic, method="fast")
    assert result.shape == noisy.shape
    assert error(result, truth) < 0.4 * error(noisy, truth)
    # As if the noise were known.
    gain = (WHITE - BLACK) / 400
    known = denoise_mosaic(noisy, mosaic, noise=PoissonGaussianNoise(gain, 3 * gain), method="fast")
    assert error(result, truth) < 1.05 * error(known, truth)


def test_planes_denoised_jointly_are_better_than_apart():
    truth = mosaic_of(scene())
    noisy = with_noise(truth)
    gain = (WHITE - BLACK) / 400
    noise = PoissonGaussianNoise(gain, 3 * gain, BLACK)
    apart = np.empty(noisy.shape)
    for y, x in np.ndindex(2, 2):
        apart[y::2, x::2] = denoise(noisy[y::2, x::2], noise=noise, method="fast")
    together = denoise_mosaic(noisy, Mosaic("RGGB", 0, WHITE), noise=noise, method="fast")
    assert error(together, truth) < 0.9 * error(apart, truth)


def test_the_mean_of_both_ways_to_divide_a_mosaic_is_better_than_one(monkeypatch):
    y, x = np.mgrid[:96, :128] / 9
    gray = 0.1 + 0.2 * (np.sin(x + 0.4 * y) > 0) + 0.1 * np.sin(3 * y - x)  # edges anywhere
    truth = mosaic_of(gray[..., None] / np.array(BALANCE))
    noisy, mosaic = with_noise(truth, 100), Mosaic("RGGB", BLACK, WHITE)
    reported = []
    both = denoise_mosaic(
        noisy, mosaic, progress=lambda done, total: reported.append((done, total))
    )
    assert [done for done, _ in reported] == sorted({done for done, _ in reported})
    assert reported[-1] == (200, 200)
    details = nlridge.prepare_mosaic(noisy, mosaic).details()
    np.testing.assert_array_equal(details.image, both)
    monkeypatch.setattr(MosaicPlanes, "parts", lambda planes, *_: [planes])
    assert error(both, truth) < 0.97 * error(denoise_mosaic(noisy, mosaic), truth)


@pytest.mark.parametrize("time_axis", [None, 0])
def test_strength_0_leaves_a_mosaic_as_it_is(time_axis):
    noisy = with_noise(mosaic_of(scene(33, 47)))
    noisy[10, 10] = WHITE - 1  # a hot pixel
    frames = noisy if time_axis is None else np.stack([noisy, noisy + 1])
    mosaic = Mosaic("RGGB", (512.25, 510, 511, 512))
    prepared = nlridge.prepare_mosaic(frames, mosaic, time_axis=time_axis, strength=0)
    result = prepared.details()
    np.testing.assert_array_equal(np.rint(result.image), frames)
    np.testing.assert_array_equal(np.rint(prepared.denoise()), frames)
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
    result = denoise_mosaic(dark, mosaic, method="fast")
    assert np.std(result) < 0.2 * np.std(dark)
    assert np.mean(result) == pytest.approx(np.mean(dark), abs=1)


def test_an_image_without_noise_stays_as_it_is():
    flat = np.full((64, 64), 1000, np.uint16)
    np.testing.assert_array_equal(denoise_mosaic(flat, "RGGB"), flat)
    assert raw_noise_of(np.zeros((4, 4, 4)), None).sigma == 0


def test_saturated_areas_are_left_unchanged_and_black_levels_are_those_of_each_plane():
    truth = mosaic_of(scene(128, 128))
    noisy = with_noise(truth)
    saturated = noisy.copy()
    saturated[40:80, 40:80] = WHITE
    mosaic = Mosaic("RGGB", BLACK, WHITE)
    result = denoise_mosaic(saturated, mosaic, method="fast")
    assert np.all(result[44:76, 44:76] == WHITE)
    assert error(result[:30], truth[:30]) < 0.5 * error(noisy[:30], truth[:30])
    levels = (0.0, 100.0, 200.0, 300.0)
    uneven = noisy.astype(np.float64)
    for k, level in enumerate(levels):
        uneven[k // 2 :: 2, k % 2 :: 2] += level
    result = denoise_mosaic(noisy, mosaic, method="fast")
    black = [BLACK + level for level in levels]
    shifted = denoise_mosaic(uneven, Mosaic("RGGB", black), method="fast")
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
    details = nlridge.prepare_mosaic(noisy, Mosaic("RGGB", BLACK, WHITE), method="fast").details()
    result = details.image
    assert 20 < details.defects <= 40
    assert details.axes == "YX"
    assert str(details).endswith(f"; replaced {details.defects} outliers (hot or dead pixels)")
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
        (np.zeros((8, 8)), {"mosaic": "RGGB", "mask": np.zeros((4, 4), bool)}, r"mask has shape \(4, 4\); expected that of"),
        (np.zeros((3, 8, 8)), {"mosaic": "RGGB", "time_axis": 1}, "time_axis is 1; expected 0 for frames of a mosaic"),
    ],
)  # fmt: skip
def test_wrong_mosaics_get_one_sentence(image, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        denoise_mosaic(image, **options)


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
    one = denoise_mosaic(frames[2], mosaic, method="fast")
    all_of_them = denoise_mosaic(frames, mosaic, time_axis=0, method="fast")
    assert all_of_them.shape == frames.shape
    assert error(all_of_them[2], truth) < 0.8 * error(one, truth)
