"""Frames that belong together: matching against a plain oracle, and streams (docs/theory.md is the map)."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import nlridge
from nlridge.core.arrays import block_means
from nlridge.core.kernels.simd import LANES
from nlridge.core.patches.matching import FAR
from nlridge.core.patches.tracking import match_across
from nlridge.images.motion import motion_between


def tracked(frames, own, y, x, patch, m, window, near, far, shifts=None, every=1):
    """The frame and the corner of each patch that the kernel finds, the nearest first.

    `shifts` are the rows and columns by which each frame has moved as a whole.
    """
    if shifts is None:
        shifts = np.zeros((len(frames), 2), np.intp)
    margin = max(window, near, far) // 2
    count, height, width = frames.shape
    sides = (0, 0), (margin, margin), (margin, margin + 2 * LANES)
    padded = np.pad(frames.astype(np.float32), sides, constant_values=FAR)
    row = padded.shape[2]
    size = padded[0].size
    flat = np.append(padded.ravel(), np.full(4 * LANES, FAR, np.float32))
    places, frame_of = np.zeros((2, m), np.intp)
    match_across(
        flat, row, 0, 1, margin, height, width, np.arange(count) * size, shifts.ravel(), own, np.array([y]), np.array([x]),
        1, patch, every, window, near, far, np.float32(1), np.array([m]), m, places, frame_of,
    )  # fmt: skip
    corners = [divmod(int(place), row) for place in places - frame_of * size]
    return [(int(k), i - margin, j - margin) for k, (i, j) in zip(frame_of, corners, strict=True)]


def oracle(frames, own, y, x, patch, m, window, near, far, shifts, every):
    """The same, slow and plain."""
    compared = np.s_[:patch:every, :patch:every]
    reference = frames[own, y:, x:][compared]
    bottom, right = (length - patch for length in frames.shape[1:])

    def candidates(k, top, left, side):
        """The patches of a window, with their distances."""
        reach = side // 2
        return [
            (np.sum((frames[k, i:, j:][compared] - reference) ** 2), k, i, j)
            for i in range(max(top - reach, 0), min(top + reach, bottom) + 1)
            for j in range(max(left - reach, 0), min(left + reach, right) + 1)
        ]

    all_of_them = [
        (-1 if (i, j) == (y, x) else distance, k, i, j)
        for distance, k, i, j in candidates(own, y, x, window)
    ]
    for direction in (-1, 1):
        still, move = np.array([y, x]), np.zeros(2, int)  # without the motion of frames
        k = own + direction
        while 0 <= k < len(frames):
            expected = np.clip(still + move + shifts[k], 0, (bottom, right))
            there = candidates(k, *expected, near if abs(k - own) == 1 else far)
            here = np.array(min(there, key=lambda patch: patch[0])[2:])
            move, still = move + here - expected, here - shifts[k]
            all_of_them += there
            k += direction
    return [place for _, *place in sorted(all_of_them, key=lambda patch: patch[0])[:m]]


@pytest.mark.parametrize(("window", "near", "far"), [(9, 7, 5), (1, 3, 1), (5, 9, 7)])
@pytest.mark.parametrize(("patch", "every"), [(4, 1), (7, 1), (4, 2), (6, 4)])
def test_matching_across_frames_is_that_of_the_oracle(window, near, far, patch, every):
    """Also at the borders, where windows are cut, and with ties, which go to the first."""
    frames = np.random.default_rng(0).integers(0, 9, (6, 21, 26)).astype(np.float64)
    for own, y, x in ((0, 0, 0), (2, 8, 9), (5, 21 - patch, 26 - patch), (3, 0, 15)):
        for step in ((0, 0), (1, -2)):
            shifts = np.outer(np.arange(6) - own, step)
            settings = own, y, x, patch, 9 if window > 1 else 4, window, near, far, shifts, every
            assert tracked(frames, *settings) == list(map(tuple, oracle(frames, *settings)))


def moving(frames, speed, seed=0):
    """A texture that moves by so many pixels per frame, without end."""
    texture = np.random.default_rng(seed).normal(0, 50, (60, 200))
    return np.stack([texture[:, 100 - speed * k : 180 - speed * k] for k in range(frames)])


def test_motion_is_followed_far_beyond_the_window():
    """The windows reach 3 pixels and then 2, but the patch has moved by 18 after six frames."""
    frames = moving(7, 3)
    matches = tracked(frames, 0, 20, 20, 8, 7, 1, 7, 5)
    assert sorted(matches) == [(k, 20, 20 + 3 * k) for k in range(7)]
    assert sorted(tracked(frames, 6, 20, 40, 8, 7, 1, 7, 5))[0] == (0, 20, 22)


def test_windows_move_along_with_frames_that_move_as_a_whole():
    """By more than the windows reach."""
    frames, shifts = moving(5, 9), np.outer(np.arange(5), (0, 9))
    where = 0, 20, 20, 8, 5, 1, 7, 5
    assert sorted(tracked(frames, *where, shifts)) == [(k, 20, 20 + 9 * k) for k in range(5)]
    assert (4, 20, 56) not in tracked(frames, *where)


def test_the_motion_of_frames_is_measured_in_noise():
    height, width = 96, 128
    scene = np.random.default_rng(0).normal(0, 1, (140, 300))
    for axis in (0, 1):  # structures of several pixels
        scene = sum(np.roll(scene, k, axis) for k in range(9))
    frames = np.stack([scene[3 * k : 3 * k + height, 11 * k : 11 * k + width] for k in range(3)])
    noisy = frames + np.random.default_rng(1).normal(0, np.std(frames), frames.shape)
    means = [block_means(frame, (4, 4)) for frame in noisy]
    for before, after in pairwise(means):
        np.testing.assert_allclose(4 * motion_between(before, after), (-3, -11), atol=1)
    assert not motion_between(means[0], means[0]).any()


def test_large_patches_tell_motion_from_noise():
    """The noise is as strong as the texture, which moves by 2 pixels per frame."""
    clean = moving(7, 2)
    noisy = clean + np.random.default_rng(1).normal(0, 75, clean.shape)
    followed = {}
    for patch in (6, 16):
        places = [(y, x) for y in range(4, 40, 6) for x in range(20, 45, 6)]
        hits = [(6, y, x + 12) in tracked(noisy, 0, y, x, patch, 20, 1, 7, 5) for y, x in places]
        followed[patch] = np.mean(hits)
    assert followed[6] < 0.7
    assert followed[16] > 0.9


# Streams.


def clip(count=14, sigma=20):
    truth = 100 + moving(count, 2)[:, :44, :52]
    return truth + np.random.default_rng(2).normal(0, sigma, truth.shape)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "sigma"), [("fast", 20), ("standard", 20), ("best", 40)])
def test_a_stream_has_the_bits_of_an_array_for_any_number_of_workers(method, sigma):
    noisy = clip(sigma=sigma)
    options = {"sigma": sigma, "method": method, "data_range": 255}
    whole = nlridge.denoise(noisy, **options, time_axis=0, workers=1)
    for workers in (1, 3):
        frames = nlridge.denoise_frames(iter(noisy), **options, workers=workers)
        np.testing.assert_array_equal(list(frames), whole)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "passes", "radius"), [("fast", 3, 2), ("standard", 3, 6), ("best", 5, 6)])  # fmt: skip
def test_each_pass_waits_for_twice_its_radius(method, passes, radius):
    """The passes of the coarse scale, and those of the second step, which follow them."""
    read = []

    def source():
        for k in range(80):
            read.append(k)
            yield noisy[k % len(noisy)]

    noisy = clip()
    frames = nlridge.denoise_frames(source(), 20, method=method, data_range=255, workers=1)
    waiting = [len(read) - number for number, _ in enumerate(frames)]
    assert waiting[0] == max(waiting)
    assert max(waiting) == 2 * radius * passes + 1  # with the frame itself
    assert len(waiting) == 80


@pytest.mark.slow
def test_distant_frames_have_no_influence():
    """Three passes of radius 2 reach 12 frames; gains against flicker depend on the 8 frames before."""
    noisy = clip(30)
    changed = noisy.copy()
    changed[0] = 255 - changed[0]
    results = [
        nlridge.denoise(video, 20, method="fast", data_range=255, time_axis=0)
        for video in (noisy, changed)
    ]
    np.testing.assert_array_equal(results[0][22:], results[1][22:])
    assert not np.array_equal(results[0][:8], results[1][:8])


def test_groups_of_gray_frames_have_their_own_size():
    """Those of the color planes are larger in "nl-ridge"."""
    noisy = clip(5)
    results = [
        nlridge.denoise(noisy, 20, method=method, data_range=255, time_axis=0)
        for method in (
            nlridge.recipe("nl-ridge", 20, kind="video"),
            _without_chroma(nlridge.recipe("nl-ridge", 20, kind="video")),
        )
    ]
    np.testing.assert_array_equal(*results)


def _without_chroma(recipe):
    return replace(recipe, second=replace(recipe.second, chroma_group_size=None))


@pytest.mark.slow
def test_flicker_is_equalised_and_restored():
    """Compared with slices of a volume, in which no flicker is expected."""
    truth = np.tile(150 + 0.7 * moving(1, 0)[0, :48, :64], (9, 2, 2))
    gain = np.array([1, 1.15, 0.9, 1.1, 0.85, 1.05, 0.95, 1.15, 0.9])[:, None, None]
    noisy = gain * truth + np.random.default_rng(3).normal(0, 20, truth.shape)
    options = {"sigma": 20, "method": "fast", "data_range": 255}
    video = nlridge.denoise(noisy, **options, time_axis=0)
    volume = nlridge.prepare(noisy, **options, depth_axis=0, spacing=(9, 1, 1)).denoise()
    assert np.std(video - gain * truth) < 0.9 * np.std(volume - gain * truth)
    np.testing.assert_allclose(video.mean((1, 2)), (gain * truth).mean((1, 2)), rtol=0.01)


def test_repeated_frames_count_once():
    noisy = clip(6)
    options = {"sigma": 20, "method": "fast", "data_range": 255, "time_axis": 0}
    once = nlridge.denoise(noisy, **options)
    twice = nlridge.denoise(np.repeat(noisy, 2, axis=0), **options)
    np.testing.assert_array_equal(twice[::2], twice[1::2])
    # Half as many different frames are searched.
    assert np.std(twice[::2] - noisy) > 0.8 * np.std(once - noisy)
