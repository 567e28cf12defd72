"""How frames are matched with each other, and how a stream computes them one by one."""

import weakref

import numpy as np
import pytest
from moving_scenes import methods, scene, with_noise

import nlridge
from nlridge.core.engines.stream import Stream, each
from nlridge.core.kernels.simd import LANES
from nlridge.core.patches.matching import FAR
from nlridge.core.patches.tracking import match_across

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
        ys, xs, patch, patch, 1, window, near, far, np.float32(25), np.full(len(ys) * len(xs), m), m, places, numbers,
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
