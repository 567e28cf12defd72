"""Frames that belong together: the same result however it is computed, volumes, and the arguments."""

from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pytest
from images import psnr
from moving_scenes import methods, scene, with_noise

import nlridge
from nlridge import CorrelatedNoise, FrameSearch, PoissonGaussianNoise

# The same result, however it is computed.

CASES = {
    "gray": (lambda clip: with_noise(clip), {"sigma": 20}),
    "integers": (lambda clip: np.clip(with_noise(clip), 0, 255).astype(np.uint8), {"sigma": 20}),
    "color": (
        lambda clip: with_noise(np.stack([clip, 0.8 * clip, 0.5 * clip + 30], -1)),
        {"sigma": [20, 15, 25], "channel_axis": -1},
    ),
    "apart": (
        lambda clip: with_noise(np.stack([clip, clip[::-1, ::-1]], 1)),
        {"sigma": 20, "channel_axis": 1},
    ),
    "missing": (
        lambda clip: np.where(np.indices(clip.shape).sum(0) % 7, with_noise(clip), np.nan),
        {"sigma": 20},
    ),
    "poisson": (
        lambda clip: np.random.default_rng(0).poisson(clip / 4).astype(float),
        {"noise": PoissonGaussianNoise(1.0)},
    ),
    "few photons": (
        lambda clip: np.random.default_rng(0).poisson(clip / 100),
        {"noise": PoissonGaussianNoise(1.0)},
    ),
    "correlated": (
        lambda clip: clip + np.repeat(with_noise(0 * clip[:, ::2]), 2, axis=1)[:, : clip.shape[1]],
        {"noise": CorrelatedNoise.from_kernel(20, [[1], [1]])},
    ),
    "lines": (
        lambda clip: clip + with_noise(0 * clip[:, :, :1]),
        {"noise": CorrelatedNoise.lines(20, white=0.1)},
    ),
}
cases = pytest.mark.parametrize("case", CASES)


@cases
def test_any_number_of_workers_gives_the_same_bits_as_a_stream(case):
    make, options = CASES[case]
    noisy = make(scene(5, (40, 48)))
    options = {**options, "data_range": 255}
    original = noisy.copy()
    result = nlridge.denoise(noisy, time_axis=0, workers=1, **options)
    assert np.array_equal(noisy, original, equal_nan=True)
    assert result.shape == noisy.shape
    for workers in (2, 5):
        again = nlridge.denoise(noisy, time_axis=0, workers=workers, **options)
        assert np.array_equal(again, result, equal_nan=True)
    if case == "apart":
        options["channel_axis"] = 0
    streamed = nlridge.denoise_frames(noisy, workers=2, **options)
    assert np.array_equal(np.stack(list(streamed)), result, equal_nan=True)


@cases
def test_every_kind_of_noise_is_removed_better_than_frame_by_frame(case):
    make, options = CASES[case]
    clip = scene(7, (56, 64))
    noisy = make(clip)
    truths = {
        "color": np.stack([clip, 0.8 * clip, 0.5 * clip + 30], -1),
        "apart": np.stack([clip, clip[::-1, ::-1]], 1),
        "poisson": clip / 4,
        "few photons": clip / 100,
    }
    truth = truths.get(case, clip)
    valid = np.isfinite(noisy)
    together = nlridge.denoise(noisy, time_axis=0, **options)
    alone = nlridge.denoise(noisy, stack_axis=0, **options)
    errors = [np.mean(np.square(result[valid] - truth[valid])) for result in (together, alone)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.slow
def test_a_map_of_levels():
    clip = scene(6)
    levels = np.broadcast_to(np.linspace(5, 40, 64), clip.shape[1:])
    noisy = clip + levels * np.random.default_rng(0).normal(size=clip.shape)
    together = nlridge.denoise(noisy, levels, time_axis=0)
    assert np.array_equal(nlridge.denoise(noisy, np.stack([levels] * 6), time_axis=0), together)
    assert psnr(together, clip) > psnr(nlridge.denoise(noisy, levels, stack_axis=0), clip) + 1
    assert psnr(together, clip) > psnr(nlridge.denoise(noisy, 23.0, time_axis=0), clip) + 0.5
    streamed = np.stack(list(nlridge.denoise_frames(noisy, levels)))
    assert psnr(streamed, clip) > psnr(together, clip) - 0.1


def test_a_frame_with_hopeless_levels():
    clip = scene(5)
    noisy, levels = with_noise(clip), np.full(clip.shape, 20.0)
    noisy[2], levels[2] = 1e9 * noisy[2], 1e30
    result = nlridge.denoise(noisy, levels, time_axis=0, data_range=255)
    assert np.isfinite(result).all()
    others = [0, 1, 3, 4]
    assert psnr(result[others], clip[others]) > psnr(with_noise(clip)[others], clip[others]) + 6


@pytest.mark.parametrize("shape", [(3, 1, 9), (4, 2, 2), (2, 1, 1)])
def test_tiny_frames(shape):
    noisy = np.random.default_rng(0).normal(100, 10, shape)
    result = nlridge.denoise(noisy, 10, time_axis=0, workers=2**40)
    assert np.array_equal(result, nlridge.denoise(noisy, 10, time_axis=0, workers=1))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis(axis):
    noisy = with_noise(scene(4, (32, 36)))
    expected = nlridge.denoise(noisy, 20, time_axis=0)
    moved = nlridge.denoise(np.moveaxis(noisy, 0, axis), 20, time_axis=axis)
    assert np.array_equal(np.moveaxis(moved, axis, 0), expected)


def test_a_stack_of_videos():
    clips = np.stack([with_noise(scene(4, (32, 36), seed=k), seed=k) for k in range(2)], axis=1)
    result = nlridge.denoise(clips, 20, time_axis=0, stack_axis=1, data_range=255)
    for k in range(2):
        alone = nlridge.denoise(clips[:, k], 20, time_axis=0, data_range=255)
        assert np.array_equal(result[:, k], alone)


def test_a_mask_and_a_frame_without_pixels():
    clip = scene(6)
    noisy = with_noise(clip)
    mask = np.zeros(clip.shape, bool)
    mask[3] = mask[:, 10:14, 20:30] = True
    result = nlridge.denoise(np.where(mask, 1e6, noisy), 20, time_axis=0, mask=mask)
    assert np.all(result[mask] == 1e6)
    assert psnr(result[~mask], clip[~mask]) > psnr(noisy[~mask], clip[~mask]) + 6
    gone = np.where(mask, np.nan, noisy)
    assert np.array_equal(np.isnan(nlridge.denoise(gone, 20, time_axis=0)), mask)
    with pytest.raises(ValueError, match="image has no valid pixels; expected at least one"):
        nlridge.denoise(np.full((3, 8, 8), np.nan), 20, time_axis=0)


def test_details_of_a_video():
    noisy = with_noise(scene(4))
    details = nlridge.denoise_with_details(noisy, 20, time_axis=0)
    assert np.array_equal(details.image, nlridge.denoise(noisy, 20, time_axis=0))
    np.testing.assert_allclose(details.residual, noisy - details.image, atol=1e-4)
    assert psnr(details.pilot, scene(4)) < psnr(details.image, scene(4))
    assert details.recipe.frames == FrameSearch(6)
    assert 15 < details.removed < 21
    assert details.level == 20
    assert details.unchanged == ""


def test_progress_ends_at_the_total():
    calls = []
    nlridge.denoise(
        with_noise(scene(4)), 20, time_axis=0, progress=lambda *call: calls.append(call)
    )
    assert calls[-1][0] == calls[-1][1] == len(calls)


def test_strength_removes_more():
    noisy = with_noise(scene(4))
    removed = [
        np.std(noisy - nlridge.denoise(noisy, 20, time_axis=0, strength=strength))
        for strength in (0.3, 1, 2)
    ]
    assert removed[0] < removed[1] < removed[2]


@pytest.mark.parametrize("kind", ["textured", "smooth", "one frame", "color"])
@pytest.mark.parametrize("sigma", [10, 40])
def test_previews_of_clips_are_no_worse_than_those_of_their_frames(kind, sigma):
    """Smooth scenes and strong noise, which need the coarse scale, and colors, which need larger groups."""
    y, x = np.mgrid[:96, :120]
    clip = scene(1 if kind == "one frame" else 6, (96, 120))
    options = {"sigma": sigma, "method": "preview", "data_range": 255}
    if kind == "smooth":
        clip = np.stack([128 + 90 * np.sin(x / 50 + k / 30) * np.cos(y / 60) for k in range(6)])
    if kind == "color":
        clip, options["channel_axis"] = np.stack([clip, 0.8 * clip, 0.5 * clip + 30], -1), -1
    noisy = with_noise(clip, sigma)
    together, alone = (
        psnr(nlridge.denoise(noisy, **options, **axis), clip)
        for axis in ({"time_axis": 0}, {"stack_axis": 0})
    )
    assert together == alone if kind == "one frame" else together > alone + 1


def test_previews_of_clips_have_fewer_and_smaller_groups():
    preview, fast = (nlridge.recipe(name, 20, kind="video") for name in ("preview", "fast"))
    for scale, other in ((preview, fast), (preview.coarse.recipe, fast.coarse.recipe)):
        for step, one in ((scale.first, other.first), (scale.second, other.second)):
            assert step.group_size <= one.group_size / 2
            assert step.stride > one.stride
    assert preview == nlridge.recipe("preview", 50, kind="video")


# Volumes.


def volume(shape=(12, 40, 44), depth=1.0):
    z, y, x = np.mgrid[: shape[0], : shape[1], : shape[2]]
    return (
        128
        + 60 * np.sin(depth * z / 5) * np.sin(y / 4)
        + 40 * np.sign(np.sin(x / 6 + depth * z / 7))
    )


@methods
def test_patches_of_isotropic_volumes_extend_over_slices(method):
    clean = volume()
    noisy = with_noise(clean)
    details = nlridge.denoise_with_details(noisy, 20, depth_axis=0, method=method)
    assert details.recipe.frames.depth == 3
    assert (
        psnr(details.image, clean)
        > psnr(nlridge.denoise(noisy, 20, stack_axis=0, method=method), clean) + 0.5
    )
    given = nlridge.prepare(noisy, 20, depth_axis=0, spacing=(1, 1, 1), method=method).denoise()
    assert np.array_equal(given, details.image)
    several = nlridge.denoise(noisy, 20, depth_axis=0, method=method, workers=3)
    assert np.array_equal(several, details.image)


def test_slices_far_apart_are_compared_by_flat_patches():
    noisy = with_noise(volume())
    details = nlridge.prepare(noisy, 20, depth_axis=0, spacing=(4, 1, 1)).details()
    assert details.recipe.frames.depth == 1
    far_apart = nlridge.denoise_with_details(with_noise(volume(depth=9.0)), 20, depth_axis=0)
    assert far_apart.recipe.frames.depth == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_volumes_of_few_slices(count):
    noisy = with_noise(volume((count, 30, 30)))
    result = nlridge.prepare(noisy, 20, depth_axis=0, spacing=(1, 1, 1)).denoise()
    assert psnr(result, volume((count, 30, 30))) > 25


@pytest.mark.slow
def test_colors_of_a_volume():
    clean = np.stack([volume(), 0.5 * volume() + 20], axis=-1)
    noisy = with_noise(clean)
    result = nlridge.prepare(noisy, 20, depth_axis=0, channel_axis=-1, spacing=(1, 1, 1)).denoise()
    assert (
        psnr(result, clean)
        > psnr(nlridge.denoise(noisy, 20, stack_axis=0, channel_axis=-1), clean) + 0.5
    )


@pytest.mark.slow
def test_a_map_of_levels_of_a_volume():
    """Patches that extend over slices take the level of each pixel from its own slice and channel."""
    clean = np.stack([volume(), 0.5 * volume() + 20], axis=-1)
    levels = np.empty(clean.shape)
    levels[..., 0] = np.linspace(5, 40, len(clean))[:, None, None]
    levels[..., 1] = 10
    noisy = clean + levels * np.random.default_rng(0).normal(size=clean.shape)
    options = {"depth_axis": 0, "channel_axis": -1, "spacing": (1, 1, 1)}
    result = nlridge.prepare(noisy, levels, workers=1, **options).denoise()
    with_two = nlridge.prepare(noisy, levels, workers=2, **options).denoise()
    assert np.array_equal(with_two, result)
    constant, twenty, map_of_twenty = (
        nlridge.prepare(noisy, sigma, **options).denoise()
        for sigma in (19.0, 20.0, np.full(clean.shape, 20.0))
    )
    assert psnr(result, clean) > psnr(constant, clean) + 1
    assert np.abs(map_of_twenty - twenty).max() < 0.5


# Settings and arguments.


def test_a_recipe_sets_all_of_it():
    noisy = with_noise(scene(5, (32, 36)))
    standard = nlridge.recipe("standard", 20, kind="video")
    assert np.array_equal(
        nlridge.denoise(noisy, 20, time_axis=0, method=standard, data_range=255),
        nlridge.denoise(noisy, 20, time_axis=0, data_range=255),
    )
    nearer = replace(standard, frames=FrameSearch(1, 3, 3))
    assert not np.array_equal(
        nlridge.denoise(noisy, 20, time_axis=0, method=nearer),
        nlridge.denoise(noisy, 20, time_axis=0, method=standard),
    )


@pytest.mark.parametrize("method", ["nl-ridge", "nl-bayes", "bm3d"])
def test_published_methods_search_other_frames_too(method):
    clip = scene(5)
    noisy = with_noise(clip)
    together, alone = (
        psnr(nlridge.denoise(noisy, 20, method=method, **axis), clip)
        for axis in ({"time_axis": 0}, {"stack_axis": 0})
    )
    assert together > alone + 0.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"time_axis": 0, "depth_axis": 1}, ValueError, "time_axis is 0 and depth_axis is 1; expected one of them"),
        ({"time_axis": 3}, ValueError, "time_axis is 3; expected a number from -3 to 2"),
        ({"depth_axis": "z"}, TypeError, "depth_axis is 'z'; expected a whole number or None"),
        ({"time_axis": 0, "channel_axis": 0}, ValueError, "time_axis is 0; expected two different axes|four dimensions"),
        ({"time_axis": 0, "spacing": (1, 1, 1)}, ValueError, r"spacing is \(1, 1, 1\); expected None without depth_axis"),
        ({"depth_axis": 0, "spacing": 3}, ValueError, "spacing is 3; expected three numbers"),
        ({"depth_axis": 0, "spacing": (1, 0, 1)}, ValueError, "spacing is 0; expected a positive"),
        ({"time_axis": 0, "stack_axis": 1}, ValueError, "expected four dimensions"),
    ],
)  # fmt: skip
def test_bad_axes(arguments, error, message):
    with pytest.raises(error, match=message):
        nlridge.prepare(np.zeros((4, 20, 20)), 10, **arguments)


@pytest.mark.parametrize(
    ("frames", "error", "message"),
    [
        (5, TypeError, "frames is 5; expected an iterable of arrays"),
        ([np.zeros((8, 8)), np.zeros((8, 9))], ValueError, r"frame 1 has shape \(8, 9\) and dtype float64; expected"),
        ([np.zeros((8, 8)), np.zeros((8, 8), np.uint8)], ValueError, "frame 1 has shape .* and dtype uint8; expected"),
        ([np.zeros((8, 8, 3))], ValueError, r"image has shape \(8, 8, 3\); expected two dimensions"),
    ],
)  # fmt: skip
def test_bad_frames(frames, error, message):
    with pytest.raises(error, match=message):
        list(nlridge.denoise_frames(frames, 10))


def test_bad_arguments_of_denoise_frames_are_found_at_once():
    with pytest.raises(ValueError, match="sigma is -1; expected"):
        nlridge.denoise_frames(iter([]), -1)
    assert list(nlridge.denoise_frames(iter([]), 10)) == []
    assert len(list(islice(nlridge.denoise_frames([np.zeros((8, 8))] * 3), 2))) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(FrameSearch, -1), "radius is -1; expected a number from 0 to 64"),
        (partial(FrameSearch, 2, 4), "near is 4; expected an odd number"),
        (partial(FrameSearch, 2, 3, 65), "far is 65; expected a number from 1 to 63"),
        (partial(FrameSearch, depth=0), "depth is 0; expected a number from 1 to 8"),
        (partial(nlridge.recipe, "fast", 20, kind="film"), "kind is 'film'; expected 'image', 'video' or 'volume'"),
    ],
)  # fmt: skip
def test_bad_settings(make, message):
    with pytest.raises(ValueError, match=message):
        make()
