"""Parts of a large video, frame by frame or as tasks of Dask: the same result as for the whole."""

from dataclasses import replace
from functools import partial
from itertools import repeat
from types import SimpleNamespace

import numpy as np
import pytest
from large_images import GIVEN
from large_videos import CASES, FROZEN, LAYOUTS, level_map, moving, planned

import nlridge
from nlridge.api.sequences import ArrayFrames
from nlridge.core.algorithm.tuning import Tuning
from nlridge.core.engines.stream import Stream
from nlridge.images.flicker import gains
from nlridge.images.motion import motions
from nlridge.planning.layout import SequenceAxis
from nlridge.planning.options import checked_options
from nlridge.planning.sequences import plan_sequence

# How the result for some frames depends on the others.


def panning_and_flickering(count):
    """Noisy frames that first move as a whole, and then flicker."""
    rng = np.random.default_rng(0)
    scene = 200 + 100 * np.kron(rng.random((8, 40)), np.ones((8, 8)))
    lefts = [7 * min(k, 20) for k in range(count)]
    clean = [scene[:, left : left + 68] * (1.1 if k % 3 else 1.0) for k, left in enumerate(lefts)]
    return (clean + rng.normal(0, 20, (count, 64, 68))).astype(np.float32)


def test_the_frames_of_the_next_test_move_and_flicker():
    video = panning_and_flickering(30)[:, None] / 20
    stream = partial(Stream, lambda: iter(video), video.shape[1:])
    about = SimpleNamespace(repeats=False, factor=1.0)
    source, ones = (Stream(partial(repeat, item, 30), (1, 1, 1)) for item in (about, np.float32(1)))
    assert list(motions(stream(), source, ones))[10].columns == pytest.approx(-7, abs=1)
    assert np.ptp(list(gains(stream()))) > 0.05


TIME, DEPTH = SequenceAxis("time_axis", 0), SequenceAxis("depth_axis", 0, (1, 1, 1))


def with_everything():
    """Rounds, a coarse scale, and patches of two frames."""
    fast = nlridge.recipe("fast", 20, kind="video")
    small = replace(fast, frames=nlridge.FrameSearch(2, 3, 3), coarse=None)
    rounds = nlridge.Rounds(2, keep=0.6)
    return replace(
        fast,
        frames=nlridge.FrameSearch(1, 5, 3, depth=2),
        rounds=rounds,
        coarse=nlridge.CoarseScale(small),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "sequence", "reach"),
    [
        ("fast", TIME, (20, 12)),
        ("standard", TIME, (44, 36)),
        ("fast", DEPTH, (20, 20)),
        (with_everything(), DEPTH, (14, 14)),
        (replace(with_everything(), coarse=None), TIME, (17, 9)),
        (nlridge.recipe("nl-ridge", 20), TIME, (8, 0)),
    ],
)
def test_some_frames_are_as_in_the_whole_video(method, sequence, reach):
    video = panning_and_flickering(50) if sequence is TIME else moving(50, 24, 26)
    plan, read = planned(video, method, sequence)
    assert plan.reach == reach
    whole = np.array([images[-1] for images in plan.run(read, 2)])
    for frames in (range(1), range(17, 18), range(34, 36), range(40, 50)):
        part = [images[-1] for images in plan.run(read, 1, frames=frames)]
        assert np.array_equal(part, whole[frames.start : frames.stop])
    alone = replace(plan, count=10).run(lambda k: read(k + 40), 1)
    assert not np.array_equal([images[-1] for images in alone], whole[40:])


@pytest.mark.slow
def test_some_frames_of_a_video_with_repeated_frames():
    """Wherever the frames that are read begin, before, within or after a repetition."""
    video = np.repeat(moving(25, 24, 26), np.tile([1, 3, 1, 2, 1], 5), axis=0)
    plan, read = planned(video, "fast", TIME)
    whole = np.array([images[-1] for images in plan.run(read, 1)])
    for first in range(17, 36):
        part = [images[-1] for images in plan.run(read, 1, frames=range(first, first + 2))]
        assert np.array_equal(part, whole[first : first + 2])


@pytest.mark.slow
def test_some_frames_of_a_video_whose_noise_changes():
    video = moving(36, 80, 88)
    video[20:] += np.random.default_rng(1).normal(0, 50, video[20:].shape).astype(np.float32)
    frames = ArrayFrames(video[:, None], None, np.zeros((1, 1, 1, 1)))
    options = checked_options(None, None, "fast", None, Tuning(1.0))
    plan = plan_sequence(frames.frame, len(video), options, TIME, workers=1)
    factors = [(plan.with_levels(frames.frame(k)).levels / plan.levels).item() for k in range(36)]
    assert factors[:20] == [1] * 20
    assert np.allclose(factors[20:], np.hypot(20, 50) / 20, rtol=0.15)
    whole = np.array([images[-1] for images in plan.run(frames.frame, 2)])
    part = [images[-1] for images in plan.run(frames.frame, 1, frames=range(19, 24))]
    assert np.array_equal(part, whole[19:24])


@pytest.mark.slow
def test_some_frames_of_a_video_that_freezes():
    """For longer than the reach of the method."""
    plan, read = planned(FROZEN, "fast", TIME)
    assert sum(plan.reach) < 40
    whole = np.array([images[-1] for images in plan.run(read, 1)])
    for workers in (2, 3):
        assert np.array_equal(whole, [images[-1] for images in plan.run(read, workers)])
    assert np.array_equal(whole[8:48], np.repeat(whole[8:9], 40, axis=0))
    for frames in (range(30, 32), range(47, 50), range(23, 26), range(52, 54)):
        part = [images[-1] for images in plan.run(read, 1, frames=frames)]
        assert np.array_equal(part, whole[frames.start : frames.stop])


# Dask arrays.


def compare_with_dask(video, chunks, **options):
    da = pytest.importorskip("dask.array")
    array = da.from_array(video, chunks=chunks)
    lazy = nlridge.prepare(array, **options).denoise()
    assert lazy.chunks == array.chunks
    whole = nlridge.prepare(video, **options).denoise()
    assert lazy.dtype == whole.dtype
    assert np.array_equal(lazy.compute(scheduler="threads"), whole, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_videos_of_dask(name):
    video, options = CASES[name]
    compare_with_dask(video, (3, 20, *video.shape[2:]), time_axis=0, **options)


@pytest.mark.slow
@pytest.mark.parametrize("chunks", [1, 7, 30, (31, 1, 70)])
def test_long_videos_of_dask(chunks):
    """Of several tasks."""
    compare_with_dask(
        panning_and_flickering(102), (chunks, 64, 68), time_axis=0, method="fast", **GIVEN
    )


@pytest.mark.parametrize("name", LAYOUTS)
def test_axes_of_dask(name):
    video, options = LAYOUTS[name]
    compare_with_dask(video, 5, **{"method": "fast", **GIVEN, **options})


@pytest.mark.slow
@pytest.mark.parametrize("lacking", [(), (0,), (1,)])
def test_masks_and_maps_of_dask(lacking):
    da = pytest.importorskip("dask.array")
    videos = moving(40, 30, 34, (2,))
    shape = [n for axis, n in enumerate(videos.shape) if axis not in lacking]
    mask = np.random.default_rng(1).random(shape) < 0.1
    options = {"method": "fast", "data_range": 255, "time_axis": 0, "stack_axis": 1}
    whole = nlridge.denoise(videos, level_map(shape), mask=mask, **options)
    lazy = nlridge.denoise(
        da.from_array(videos, chunks=(6, 1, 30, 34)),
        da.from_array(level_map(shape), chunks=11),
        mask=mask,
        **options,
    )
    assert np.array_equal(lazy.compute(scheduler="threads"), whole)


@pytest.mark.slow
def test_masked_videos_of_dask():
    da = pytest.importorskip("dask.array")
    video = np.ma.masked_greater(moving(8), 200)
    lazy = nlridge.denoise(da.from_array(video, chunks=3), time_axis=0, method="fast", **GIVEN)
    assert np.array_equal(
        lazy.compute(), nlridge.denoise(video, time_axis=0, method="fast", **GIVEN)
    )


@pytest.mark.slow
def test_a_video_of_dask_that_freezes():
    """A task that begins with repetitions cannot read the frames before; only these frames differ, by little."""
    dask = pytest.importorskip("dask.array")
    options = {"time_axis": 0, "method": "fast", **GIVEN}
    whole = nlridge.denoise(FROZEN, **options)
    lazy = nlridge.denoise(dask.from_array(FROZEN, chunks=(4, -1, -1)), **options)
    result = lazy.compute()
    differs = np.flatnonzero([not np.array_equal(a, b) for a, b in zip(result, whole, strict=True)])
    assert np.array_equal(differs, range(32, 48))  # the second task reads frames from 12 on
    assert np.std(result[32:48] - whole[32:48]) < 4


def test_videos_of_dask_are_computed_later():
    da = pytest.importorskip("dask.array")

    def fail(block):
        raise AssertionError("computed")

    video = da.zeros((40, 30, 34), chunks=(10, 30, 34)).map_blocks(fail, dtype=np.float32)
    lazy = nlridge.denoise(video, time_axis=0, **GIVEN)
    assert lazy.shape == video.shape
    assert lazy.dtype == np.float32
    with pytest.raises(AssertionError, match="computed"):
        lazy.compute(scheduler="sync")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tile": 64}, "tile is 64; expected None for a Dask array with time_axis"),
        ({"workers": 2}, "workers is 2; expected None for a Dask array"),
        ({"spacing": (1, 1, 1)}, r"spacing is \(1, 1, 1\); expected None without depth_axis"),
    ],
)
def test_options_that_are_refused_for_dask(options, message):
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=message):
        nlridge.prepare(da.zeros((4, 30, 34)), 20, time_axis=0, **options)


def test_dask_arrays_are_not_written_to_disk(tmp_path):
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="image is a Dask array; expected a Zarr array: write"):
        nlridge.denoise_to_disk(da.zeros((4, 30, 34)), tmp_path / "a.zarr", 20, time_axis=0)
    assert not list(tmp_path.iterdir())
