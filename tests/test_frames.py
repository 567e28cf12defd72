"""Frames that belong together: `time_axis`, `depth_axis` and `denoise_frames`."""

import weakref
from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np
import pytest
from images import psnr

import nlridge
from nlridge import CorrelatedNoise, FrameSearch, GaussianNoise, PoissonGaussianNoise
from nlridge.engines.stream import Stream, each
from nlridge.kernels.simd import LANES
from nlridge.patches.matching import FAR
from nlridge.patches.tracking import match_across
from nlridge.video.flicker import change_between
from nlridge.video.motion import motion_between

methods = pytest.mark.parametrize("method", ["fast", "standard", "best"])


def scene(count=6, shape=(56, 64), step=1.5, seed=0):
    """A textured scene that moves by `step` columns from frame to frame."""
    random = np.random.default_rng(seed)
    waves = random.uniform(0.1, 0.6, (5, 2)), random.uniform(0, 6, 5), random.uniform(8, 16, 5)
    y, x = np.mgrid[: shape[0], : shape[1]]
    frames = []
    for number in range(count):
        frame = np.full(shape, 128.0)
        for k, ((a, b), phase, height) in enumerate(zip(*waves, strict=True)):
            wave = np.sin(a * y + b * (x - step * number) + phase)
            frame += height * (np.sign(wave) if k < 2 else wave)
        frames.append(frame)
    return np.stack(frames)


def with_noise(clip, sigma=20, seed=1):
    return clip + np.random.default_rng(seed).normal(0, sigma, clip.shape)


# Matching.


def followed(frames, own, corner, patch, window, near, far, shifts, m):
    """The m patches nearest to a reference, by the rules of `match_across`, one by one."""
    _, height, width = frames.shape
    y0, x0 = corner
    reference = frames[own, y0 : y0 + patch, x0 : x0 + patch]
    found = []

    def searched(number, y, x, side):
        best = (np.inf, 0, 0)
        for dy in range(-(side // 2), side // 2 + 1):
            for dx in range(-(side // 2), side // 2 + 1):
                yy, xx = y + dy, x + dx
                if not (0 <= yy <= height - patch and 0 <= xx <= width - patch):
                    continue
                candidate = frames[number, yy : yy + patch, xx : xx + patch]
                distance = float(np.sum(np.square(candidate - reference)))
                if number == own and (dy, dx) == (0, 0):
                    distance = -1.0
                found.append((distance, number, yy, xx))
                if distance < best[0]:
                    best = distance, dy, dx
        return best[1:]

    searched(own, y0, x0, window)
    for direction in (-1, 1):
        still, move = np.array([y0, x0]), np.array([0, 0])
        number = own + direction
        while 0 <= number < len(frames):
            side = near if abs(number - own) == 1 else far
            shift = shifts[number]
            place = np.clip(still + move + shift, 0, [height - patch, width - patch])
            best = np.array(searched(number, *place, side))
            move = move + best
            still = place + best - shift
            number += direction
    return sorted(found)[:m]


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(
    ("patch", "window", "near", "far"), [(4, 5, 7, 3), (7, 9, 5, 5), (3, 3, 17, 3)]
)
def test_patches_are_followed_from_frame_to_frame(patch, window, near, far, shifted):
    frames = with_noise(scene(5, (30, 33), step=2.5), 5).astype(np.float32)
    count, height, width = frames.shape
    margin = max(window, near, far) // 2
    wide = np.full((count, height + 2 * margin, width + 2 * margin + 2 * LANES), FAR, np.float32)
    wide[:, margin : margin + height, margin : margin + width] = frames
    row, frame = wide.shape[2], wide[0].size
    flat = np.concatenate([wide.reshape(-1), np.full(4 * LANES, FAR, np.float32)])
    shifts = np.zeros((count, 2), np.intp)
    if shifted:
        shifts = np.array([[0, -4], [1, -2], [0, 0], [-1, 2], [0, 5]], np.intp)
    ys, xs = np.array([0, 8, height - patch]), np.array([0, 4, 8, 12, width - patch])
    own, m = 2, 12
    places, numbers = np.zeros((2, len(ys) * len(xs) * m), np.intp)
    rows = match_across(
        flat, row, flat.size, 1, margin, height, width, np.arange(count) * frame, shifts.reshape(-1), own,
        ys, xs, patch, window, near, far, np.float32(25), np.full(len(ys) * len(xs), m), m, places, numbers,
    )  # fmt: skip
    result = zip(places.reshape(-1, m), numbers.reshape(-1, m), strict=True)
    corners = [(y, x) for y in ys for x in xs]
    for corner, (found, frames_found) in zip(corners, result, strict=True):
        expected = followed(frames.astype(float), own, corner, patch, window, near, far, shifts, m)
        y, x = np.divmod(found - frames_found * frame, row)
        assert {
            (k, i - margin, j - margin) for k, i, j in zip(frames_found, y, x, strict=True)
        } == {place[1:] for place in expected}
        assert (frames_found[0], y[0] - margin, x[0] - margin) == (own, *corner)
        assert rows[0] <= min(y) - margin
        assert max(y) - margin <= rows[1]


# Streams.


def test_a_stream_computes_each_frame_once_and_only_if_needed():
    computed = []

    def source():
        for k in range(5):
            computed.append(k)
            yield np.full((1, 2, 2), k, np.float32)

    stream = Stream(source, (1, 2, 2))
    total = stream + 2 * (stream - stream)
    never = each(lambda frame: 1 / 0, stream)
    assert computed == []
    iterator = iter(total)
    assert next(iterator).mean() == 0
    assert computed == [0]
    assert [frame.mean() for frame in iterator] == [1, 2, 3, 4]
    assert computed == [0, 1, 2, 3, 4]
    assert len(stream) == 1
    assert never.shape == stream.shape


def test_a_video_of_any_length_needs_the_memory_of_a_few_frames():
    class Frame(np.ndarray):
        """An array that can be watched."""

    alive, most = [], 0

    def camera():
        nonlocal most
        random = np.random.default_rng(0)
        for _ in range(60):
            frame = random.normal(100, 10, (24, 24)).view(Frame)
            alive.append(weakref.ref(frame))
            most = max(most, sum(1 for watched in alive if watched() is not None))
            yield frame

    clip = nlridge.denoise_frames(camera(), 10, method="fast", workers=2)
    assert sum(1 for _ in clip) == 60
    assert most <= 20


@methods
def test_frames_arrive_after_a_bounded_delay(method):
    read = 0

    def camera():
        nonlocal read
        random = np.random.default_rng(0)
        while True:
            read += 1
            yield random.normal(100, 10, (20, 20))

    clip = nlridge.denoise_frames(camera(), 10, method=method, workers=1)
    next(clip)
    delay = {"fast": 14, "standard": 38, "best": 62}[method]
    assert read <= delay + 1
    for _ in range(5):
        next(clip)
    assert read <= delay + 6
    clip.close()


def test_an_error_of_the_camera_reaches_the_caller():
    def camera():
        yield np.zeros((20, 20))
        raise OSError("the camera is gone")

    with pytest.raises(OSError, match="the camera is gone"):
        list(nlridge.denoise_frames(camera(), 10))


# The same result, however it is computed.


CASES = {
    "gray": (lambda clip: with_noise(clip), {"sigma": 20}),
    "integers": (lambda clip: np.clip(with_noise(clip), 0, 255).astype(np.uint8), {"sigma": 20}),
    "colour": (
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
        "colour": np.stack([clip, 0.8 * clip, 0.5 * clip + 30], -1),
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


def test_strength_removes_more():
    noisy = with_noise(scene(4))
    removed = [
        np.std(noisy - nlridge.denoise(noisy, 20, time_axis=0, strength=strength))
        for strength in (0.3, 1, 2)
    ]
    assert removed[0] < removed[1] < removed[2]


# Hard videos: never worse than frame by frame.


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
    given = nlridge.denoise(noisy, 20, depth_axis=0, spacing=(1, 1, 1), method=method)
    assert np.array_equal(given, details.image)
    several = nlridge.denoise(noisy, 20, depth_axis=0, method=method, workers=3)
    assert np.array_equal(several, details.image)


def test_slices_far_apart_are_compared_by_flat_patches():
    noisy = with_noise(volume())
    details = nlridge.denoise_with_details(noisy, 20, depth_axis=0, spacing=(4, 1, 1))
    assert details.recipe.frames.depth == 1
    far_apart = nlridge.denoise_with_details(with_noise(volume(depth=9.0)), 20, depth_axis=0)
    assert far_apart.recipe.frames.depth == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_volumes_of_few_slices(count):
    noisy = with_noise(volume((count, 30, 30)))
    result = nlridge.denoise(noisy, 20, depth_axis=0, spacing=(1, 1, 1))
    assert psnr(result, volume((count, 30, 30))) > 25


def test_colours_of_a_volume():
    clean = np.stack([volume(), 0.5 * volume() + 20], axis=-1)
    noisy = with_noise(clean)
    result = nlridge.denoise(noisy, 20, depth_axis=0, channel_axis=-1, spacing=(1, 1, 1))
    assert (
        psnr(result, clean)
        > psnr(nlridge.denoise(noisy, 20, stack_axis=0, channel_axis=-1), clean) + 0.5
    )


def test_a_map_of_levels_of_a_volume():
    """Patches that extend over slices take the level of each pixel from its own slice and channel."""
    clean = np.stack([volume(), 0.5 * volume() + 20], axis=-1)
    levels = np.empty(clean.shape)
    levels[..., 0] = np.linspace(5, 40, len(clean))[:, None, None]
    levels[..., 1] = 10
    noisy = clean + levels * np.random.default_rng(0).normal(size=clean.shape)
    options = {"depth_axis": 0, "channel_axis": -1, "spacing": (1, 1, 1)}
    result = nlridge.denoise(noisy, levels, workers=1, **options)
    assert np.array_equal(nlridge.denoise(noisy, levels, workers=2, **options), result)
    assert psnr(result, clean) > psnr(nlridge.denoise(noisy, 19.0, **options), clean) + 1
    even = nlridge.denoise(noisy, np.full(clean.shape, 20.0), **options)
    assert np.abs(even - nlridge.denoise(noisy, 20.0, **options)).max() < 0.5


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
        nlridge.denoise(np.zeros((4, 20, 20)), 10, **arguments)


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
