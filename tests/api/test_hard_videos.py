"""Videos that are hard: of unknown or changing noise, of fast motion, cuts, fades and flicker."""

from dataclasses import replace

import numpy as np
import pytest
from images import psnr
from moving_scenes import methods, scene, with_noise

import nlridge
from nlridge import CorrelatedNoise, GaussianNoise
from nlridge.images.flicker import change_between
from nlridge.images.motion import motion_between

# Noise that is unknown, or that changes.


@pytest.mark.slow
@methods
def test_noise_is_estimated_once_from_several_frames(method):
    clip = scene(9, (80, 96))
    noisy = with_noise(clip)
    known, blind = (
        psnr(nlridge.denoise(noisy, sigma, time_axis=0, method=method), clip)
        for sigma in (20, None)
    )
    assert blind > known - 0.3
    assert abs(nlridge.denoise_with_details(noisy, time_axis=0).noise.level - 20) < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 2])
def test_the_noise_of_a_video_most_of_whose_frames_are_missing(channels):
    """Also if each channel has pixels in other frames, as in a microscope that records one of them at a time."""
    clean = np.stack([scene(30, (80, 96))] * channels, axis=1)
    noisy = with_noise(clean)
    gone = np.ones((30, channels), bool)
    for channel in range(channels):
        gone[3 + channel :: 4, channel] = False
    noisy[gone] = np.nan
    result = nlridge.denoise(noisy, time_axis=0, channel_axis=1, method="fast")
    assert np.array_equal(np.isnan(result).all((2, 3)), gone)
    assert psnr(result[~gone], clean[~gone]) > psnr(noisy[~gone], clean[~gone]) + 5
    late = nlridge.denoise_frames(noisy[:, 0][[0] * 9 + [3, 7, 11]], method="fast")
    assert late.noise.level == pytest.approx(20, rel=0.15)
    assert psnr(np.stack(list(late))[9:], clean[[3, 7, 11], 0]) > 26


@pytest.mark.slow
@methods
def test_noise_that_changes_with_the_exposure(method):
    """Its level is estimated for each frame, if it differs from that of most frames."""
    clean = scene(16, (112, 120))
    levels = np.where(np.arange(16) < 9, 10.0, 30.0)[:, None, None]
    noisy = clean + np.random.default_rng(0).normal(0, 1, clean.shape) * levels
    options = {"time_axis": 0, "method": method, "data_range": 255}
    blind = nlridge.denoise(noisy, **options)
    streamed = nlridge.denoise_frames(noisy, method=method, data_range=255, workers=2)
    for result in (blind, np.stack(list(streamed))):
        for part, sigma in ((slice(0, 9), 10), (slice(9, 16), 30)):
            known = psnr(nlridge.denoise(noisy[part], sigma, **options), clean[part])
            assert psnr(result[part], clean[part]) > known - 0.5


@pytest.mark.slow
def test_noise_that_does_not_change_has_one_level():
    """The result is that for the estimate, to the bit, also if the scene or its brightness changes."""
    clean = np.concatenate([scene(5, (96, 112)), 0.7 * scene(5, (96, 112), seed=3)])
    noisy = with_noise(clean)
    details = nlridge.denoise_with_details(noisy, time_axis=0, method="fast")
    given = nlridge.denoise(noisy, noise=details.noise, time_axis=0, method="fast")
    assert np.array_equal(details.image, given)


def test_a_stream_tells_its_noise():
    """Also before the first frame is asked for, and without changing the frames."""
    noisy = with_noise(scene(10))
    estimated = nlridge.denoise_frames(iter(noisy), noise="gaussian", method="fast")
    assert estimated.noise.sigma == pytest.approx(20, rel=0.1)
    assert (estimated.noise_given, estimated.doubt) == (False, "")
    silent = nlridge.denoise_frames(iter(noisy), noise="gaussian", method="fast")
    np.testing.assert_array_equal(np.stack(list(estimated)), np.stack(list(silent)))
    given = nlridge.denoise_frames(iter(noisy), 1e-9, method="fast")
    with pytest.warns(UserWarning, match="sigma is 1e-09"):
        assert given.doubt.startswith("sigma is 1e-09, which has no effect")
    assert (given.noise_given, given.noise) == (True, nlridge.GaussianNoise(1e-9))
    with pytest.raises(ValueError, match="frames is empty; expected at least one frame"):
        nlridge.denoise_frames([]).noise  # noqa: B018


# Never worse than frame by frame.


def _repeated(clip):
    return np.repeat(with_noise(clip[::2]), 2, axis=0)


HARD = {
    "fast motion": (lambda: scene(6, step=14), with_noise),
    "cuts": (lambda: np.concatenate([scene(3, seed=k) for k in range(3)]), with_noise),
    "flicker": (
        lambda: scene(8) * (1 + 0.12 * np.array([0, 1, -1, 0.5, -0.5, 1, -1, 0]))[:, None, None],
        with_noise,
    ),
    "repeated frames": (lambda: np.repeat(scene(8)[::2], 2, axis=0), _repeated),
    "two frames": (lambda: scene(2), with_noise),
    "smooth": (lambda: np.tile(np.linspace(50, 200, 64), (6, 56, 1)), with_noise),
}


@pytest.mark.parametrize("case", HARD)
@pytest.mark.parametrize("method", ["fast", "standard"])
def test_never_worse_than_frame_by_frame(case, method):
    make, noise = HARD[case]
    clip = make()
    noisy = noise(clip)
    together, alone = (
        psnr(nlridge.denoise(noisy, 20, method=method, data_range=255, **axis), clip)
        for axis in ({"time_axis": 0}, {"stack_axis": 0})
    )
    assert together > alone


@pytest.mark.parametrize(("method", "sigma"), [("fast", 40), ("standard", 20)])
@pytest.mark.parametrize("last", [1, 0.1])
def test_smooth_scenes_and_fades_are_no_worse_than_frame_by_frame(method, sigma, last):
    """Few patches are not enough for a smooth scene, and frames that are brightened have more noise than others."""
    rows, columns = np.arange(96)[:, None] / 25, np.arange(112) / 21
    fade = np.linspace(1, last, 8)[:, None, None]
    clip = fade * (130 + 60 * np.sin(rows) * np.cos(columns) + 40 * np.tanh(9 * np.sin(columns)))
    noisy = with_noise(clip, sigma)
    together, alone = (
        psnr(nlridge.denoise(noisy, sigma, method=method, data_range=255, **axis), clip)
        for axis in ({"time_axis": 0}, {"stack_axis": 0})
    )
    assert together > alone


@pytest.mark.parametrize("noise", [GaussianNoise(20), CorrelatedNoise.lines(20, white=0.2)])
def test_the_recipe_of_a_volume_for_one_image(noise):
    noisy = with_noise(scene(1))[0]
    volume_recipe = nlridge.recipe("standard", 20, kind="volume")
    flat = replace(volume_recipe, frames=None)
    results = [
        nlridge.denoise(noisy, noise=noise, method=method) for method in (volume_recipe, flat)
    ]
    assert np.array_equal(*results)


def test_one_frame_is_an_image():
    noisy = with_noise(scene(1))
    expected = nlridge.denoise(noisy[0], 20, data_range=255)
    np.testing.assert_allclose(
        nlridge.denoise(noisy, 20, time_axis=0, data_range=255)[0], expected, atol=0.5
    )


def test_repetitions_of_a_frame_stay_the_same():
    noisy = np.repeat(with_noise(scene(3)), [1, 3, 2], axis=0)
    calls = []
    result = nlridge.denoise(noisy, 20, time_axis=0, progress=lambda *call: calls.append(call))
    assert calls[-1][0] == calls[-1][1]
    for a, b in ((1, 2), (2, 3), (4, 5)):
        assert np.array_equal(result[a], result[b])
    assert not np.array_equal(result[0], result[1])


def test_a_change_of_brightness_is_measured():
    random = np.random.default_rng(0)
    before = random.uniform(20, 200, (6, 8))
    assert change_between(before, 1.2 * before) == pytest.approx(np.log(1.2))
    assert change_between(before, before + random.normal(0, 0.05, before.shape)) == 0
    assert change_between(before, random.uniform(20, 200, (6, 8))) == 0  # another scene
    assert change_between(before[:2, :2], 1.2 * before[:2, :2]) == 0  # too few blocks
    # In units of the noise, of which means of 16 x 16 pixels have a sixteenth.
    dark = random.uniform(2.5, 4, (6, 8))
    noisy = random.normal(dark * np.array([1, 1, 1.15])[:, None, None], 1 / 16)
    assert change_between(noisy[0], noisy[1]) == 0
    assert change_between(noisy[1], noisy[2]) == pytest.approx(np.log(1.15), abs=0.02)


@pytest.mark.parametrize("moved", [(0, 5), (3, -6), (-4, 0), (0, 0)])
def test_the_motion_of_a_frame_is_measured(moved):
    random = np.random.default_rng(0)
    wide = np.kron(random.uniform(0, 100, (24, 24)), np.ones((3, 3)))
    y, x = moved
    before, after = wide[16:48, 16:56], wide[16 - y : 48 - y, 16 - x : 56 - x]
    noisy = [image + random.normal(0, 3, image.shape) for image in (before, after)]
    np.testing.assert_allclose(motion_between(*noisy), moved, atol=0.3)
    assert np.all(motion_between(before, random.uniform(0, 100, before.shape)) == 0)
