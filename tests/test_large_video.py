"""Videos and volumes larger than memory: the same result to the bit, however the work is divided or stopped."""

import errno
import os
import signal
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from functools import partial
from itertools import repeat
from types import SimpleNamespace

import numpy as np
import pytest

import nlridge
from nlridge.algorithm.tuning import Tuning
from nlridge.api.sequences import ArrayFrames
from nlridge.cli import main
from nlridge.engines.stream import Stream
from nlridge.large.disk import NewArray, open_read_only
from nlridge.large.frames import Frame, frames_of, sources_of
from nlridge.large.sequences import run_sequences, sequences_of
from nlridge.planning.layout import Layout
from nlridge.planning.options import checked_options
from nlridge.video.flicker import gains
from nlridge.video.motion import motions
from nlridge.video.planning import SequenceAxis, plan_sequence

zarr = pytest.importorskip("zarr")

GIVEN = {"sigma": 20, "data_range": 255}


def moving(count, height=40, width=44, channels=(), seed=0):
    """Noisy frames that move, flicker a little and are cut once."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    frames = []
    for k in range(count):
        scene = np.sin((x + 1.5 * k) / 6) * np.cos(y / 7) if k < count // 2 else np.cos(x * y / 90)
        frames.append((128 + 60 * scene) * (1.0 if k % 5 else 1.1))
    clean = np.stack(frames).reshape(count, *(1,) * len(channels), height, width)
    noise = rng.normal(0, 20, (count, *channels, height, width))
    return (clean + noise).astype(np.float32)


def with_gaps(frames):
    frames = frames.copy()
    frames[3, 4:9, 5:20] = np.nan
    frames[5] = np.nan
    return frames


def level_map(shape):
    return np.where(np.indices(shape).sum(0) % 7 == 0, 30.0, 20.0)


CASES = {
    "gray": (moving(20), GIVEN),
    "of unknown noise": (moving(20), {}),
    "uint8": (np.clip(moving(10), 0, 255).astype(np.uint8), {"sigma": 20}),
    "colour": (
        np.moveaxis(moving(7, channels=(3,)), 1, -1),
        {"channel_axis": -1, "method": "fast", **GIVEN},
    ),
    "with missing pixels": (with_gaps(moving(9)), {"method": "fast", **GIVEN}),
    "of few photons": (
        np.random.default_rng(0).poisson(np.abs(moving(8)) / 60).astype(np.uint16),
        {"noise": nlridge.PoissonGaussianNoise(1.0), "method": "fast"},
    ),
    "of one frame": (moving(1), GIVEN),
    "of two frames": (moving(2), {"sigma": 20}),
}


@pytest.mark.parametrize("name", CASES)
def test_videos_on_disk_are_as_in_memory(name, tmp_path):
    frames, options = CASES[name]
    whole = nlridge.denoise(frames, time_axis=0, **options)
    written = nlridge.denoise(frames, time_axis=0, out=tmp_path / "out.zarr", tile=64, **options)
    assert written.dtype == whole.dtype
    assert np.array_equal(written[:], whole, equal_nan=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


VOLUME = moving(12, 30, 34)
LAYOUTS = {
    "a volume with its spacing": (VOLUME, {"depth_axis": 0, "spacing": (2, 2, 2)}),
    "a volume": (np.moveaxis(VOLUME, 0, 2), {"depth_axis": 2}),
    "a stack of videos": (moving(6, 30, 34, (2,)), {"time_axis": 0, "stack_axis": 1}),
    "a stack of videos in colour": (
        np.moveaxis(moving(6, 30, 34, (2, 3)), 0, 1),
        {"stack_axis": 0, "time_axis": 1, "channel_axis": 2},
    ),
}


@pytest.mark.parametrize("suffix", [".zarr", ".npy", ".tif"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_axes_on_disk_are_as_in_memory(name, suffix, tmp_path):
    frames, options = LAYOUTS[name]
    options = {"method": "fast", **GIVEN, **options}
    whole = nlridge.denoise(frames, **options)
    written = nlridge.denoise(frames, out=tmp_path / f"out{suffix}", **options)
    assert np.array_equal(written[:], whole)


@pytest.mark.parametrize("lacking", [(), (0,), (1,), (0, 1), (2,)])
def test_masks_and_maps_on_disk(lacking, tmp_path):
    """Which may lack the axes of the stack, of time and of the channels."""
    videos = np.moveaxis(moving(5, 30, 34, (2, 2)), 1, 2)  # time, channel, stack
    shape = [n for axis, n in enumerate(videos.shape) if axis not in lacking]
    mask = np.random.default_rng(1).random(shape) < 0.1
    axes = {"time_axis": 0, "channel_axis": 1, "stack_axis": 2}
    options = {"method": "fast", "data_range": 255, **axes}
    whole = nlridge.denoise(videos, level_map(shape), mask=mask, **options)
    stored = [
        zarr.create_array(str(tmp_path / name), data=array)
        for name, array in (("image", videos), ("sigma", level_map(shape)), ("mask", mask))
    ]
    written = nlridge.denoise(*stored[:2], mask=stored[2], out=tmp_path / "out.zarr", **options)
    assert np.array_equal(written[:], whole)


class Counted:
    """An array that counts how often it is read, and what."""

    def __init__(self, array, chunks=None):
        self.array, self.chunks, self.read = array, chunks, []
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, index):
        self.read.append((index[0].start, index[0].stop))
        return self.array[index]


def test_chunks_of_several_frames_are_read_once(tmp_path):
    video = Counted(moving(10), chunks=(4, 20, 20))
    options = {"time_axis": 0, "method": "fast", **GIVEN}
    written = nlridge.denoise(video, out=tmp_path / "out.npy", **options)
    assert np.array_equal(written, nlridge.denoise(video.array, **options))
    # First all frames are checked, then some are sampled for the plan, and then all are denoised.
    assert video.read == 3 * [(0, 4), (4, 8), (8, 10)]


def test_only_a_few_frames_are_in_memory(tmp_path):
    frame = moving(1, 64, 64)

    class Long:
        """A video whose frames are made as they are read."""

        dtype = frame.dtype

        def __init__(self, count):
            self.shape = count, 64, 64

        def __getitem__(self, index):
            return np.roll(frame, index[0].start, axis=2)

    def peak(count):
        tracemalloc.start()
        options = {"time_axis": 0, "method": "fast", "workers": 1, **GIVEN}
        nlridge.denoise(Long(count), out=tmp_path / f"{count}.npy", **options)
        return tracemalloc.get_traced_memory()[1], tracemalloc.stop()

    peak(12)  # compiles
    assert peak(120)[0] < peak(40)[0] + 40 * frame.nbytes


# How the result for some frames depends on the others.


def planned(video, method, sequence):
    options = checked_options(20, None, method, 255, Tuning(1.0))
    frames = ArrayFrames(video[:, None], None, np.full((1, 1, 1, 1), 20.0)).frame
    return plan_sequence(frames, len(video), options, sequence, workers=1), frames


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


def test_some_frames_of_a_video_with_repeated_frames():
    """Wherever the frames that are read begin, before, within or after a repetition."""
    video = np.repeat(moving(25, 24, 26), np.tile([1, 3, 1, 2, 1], 5), axis=0)
    plan, read = planned(video, "fast", TIME)
    whole = np.array([images[-1] for images in plan.run(read, 1)])
    for first in range(17, 36):
        part = [images[-1] for images in plan.run(read, 1, frames=range(first, first + 2))]
        assert np.array_equal(part, whole[first : first + 2])


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


FROZEN = np.repeat(moving(30, 24, 26), [1] * 8 + [40] + [1] * 21, axis=0)  # from frame 8 to 47


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


def test_a_video_that_freezes_is_resumed(tmp_path):
    options = {"time_axis": 0, "method": "fast", **GIVEN}
    with pytest.raises(Stopped):
        nlridge.denoise(FROZEN, out=tmp_path / "out.npy", progress=stops_at(35), **options)
    resumed = nlridge.denoise(FROZEN, out=tmp_path / "out.npy", **options)
    assert np.array_equal(resumed, nlridge.denoise(FROZEN, **options))


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


# A run that is stopped.


class Stopped(Exception):
    pass


def stops_at(frame, error=Stopped):
    """For `progress`: an exception after so many frames."""

    def stop(done, total):
        if done == frame:
            raise error

    return stop


@pytest.mark.parametrize("suffix", [".zarr", ".npy", ".tif"])
def test_a_video_is_resumed_where_it_stopped(suffix, tmp_path):
    video, options = Counted(moving(60, 24, 26)), {"time_axis": 0, "method": "fast", **GIVEN}
    out = tmp_path / f"out{suffix}"
    with pytest.raises(Stopped):
        nlridge.denoise(video, out=out, progress=stops_at(41), **options)
    assert [path.name for path in tmp_path.iterdir()] == [f".out{suffix}.part"]
    video.read.clear()
    seen = []
    written = nlridge.denoise(video, out=out, progress=lambda *done: seen.append(done), **options)
    assert np.array_equal(written[:], nlridge.denoise(video.array, **options))
    # Some frames before are read again, after those that are checked and sampled.
    assert video.read[60 + 8 : 60 + 10] == [(40, 41), (41, 42)]  # whether one repeats the other
    assert video.read[60 + 10] == (21, 22)
    assert seen == [(k, 60) for k in range(41, 61)]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_an_interrupted_video_says_how_far_it_got(tmp_path):
    stop = stops_at(5, KeyboardInterrupt)
    with pytest.raises(
        KeyboardInterrupt, match="interrupted with 50% done; run it again to resume"
    ):
        nlridge.denoise(moving(10), 20, time_axis=0, out=tmp_path / "out.npy", progress=stop)


def test_a_stack_of_videos_is_resumed(tmp_path):
    videos = moving(12, 24, 26, (2,))
    options = {"time_axis": 0, "stack_axis": 1, "method": "fast", **GIVEN}
    with pytest.raises(Stopped):
        nlridge.denoise(videos, out=tmp_path / "out.zarr", progress=stops_at(17), **options)
    seen = []
    written = nlridge.denoise(
        videos, out=tmp_path / "out.zarr", progress=lambda *done: seen.append(done[0]), **options
    )
    assert np.array_equal(written[:], nlridge.denoise(videos, **options))
    assert seen == [12, *range(17, 25)]


PROGRAM = """
import os, signal, sys
import numpy as np
import nlridge
from nlridge.large import sequences

sequences._SECONDS = 0
folder = sys.argv[1]

def die(done, total):
    if done == 30:
        os.kill(os.getpid(), signal.SIGKILL)

nlridge.denoise(
    np.load(folder + "/in.npy", mmap_mode="r"), 20, data_range=255, method="fast", time_axis=0,
    out=folder + "/out.zarr", progress=die,
)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_video_that_is_killed_is_resumed(tmp_path):
    video = moving(50, 24, 26)
    np.save(tmp_path / "in.npy", video)
    killed = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    seen = []
    written = nlridge.denoise(
        np.load(tmp_path / "in.npy", mmap_mode="r"),
        time_axis=0,
        method="fast",
        out=tmp_path / "out.zarr",
        progress=lambda *done: seen.append(done[0]),
        **GIVEN,
    )
    assert seen[0] >= 30
    assert np.array_equal(written[:], nlridge.denoise(video, time_axis=0, method="fast", **GIVEN))


@pytest.mark.parametrize("changed", ["a pixel", "sigma", "the mask", "the axis"])
def test_a_video_that_has_changed_starts_again(changed, tmp_path):
    video, out = moving(20, 24, 26), tmp_path / "out.npy"
    options = {"time_axis": 0, "method": "fast", "mask": np.zeros(video.shape, bool), **GIVEN}
    with pytest.raises(Stopped):
        nlridge.denoise(video, out=out, progress=stops_at(15), **options)
    if changed == "a pixel":
        video[1, 2, 3] += 1
    if changed == "sigma":
        options["sigma"] = 21
    if changed == "the mask":
        options["mask"][1, 2, 3] = True
    if changed == "the axis":
        options["stack_axis"] = options.pop("time_axis")
    seen = []
    written = nlridge.denoise(video, out=out, progress=lambda *done: seen.append(done), **options)
    assert seen[0][0] <= 1
    assert np.array_equal(written, nlridge.denoise(video, **options))


def test_images_and_videos_do_not_mix_their_work(tmp_path):
    """Frames that an interrupted run has written are not taken for those of another kind of run."""
    video, out, options = moving(12, 24, 26), tmp_path / "out.npy", {"method": "fast", **GIVEN}
    for axis in ("stack_axis", "time_axis"):
        with pytest.raises(Stopped):
            nlridge.denoise(video, out=out, tile=64, progress=stops_at(9), **{axis: 0}, **options)
    written = nlridge.denoise(video, out=out, tile=64, stack_axis=0, **options)
    assert np.array_equal(written, nlridge.denoise(video, stack_axis=0, **options))


# What is refused.


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"client": "tcp://a:1"},
            ValueError,
            "client is 'tcp://a:1'; expected None with time_axis",
        ),
        ({"out": "a.png"}, ValueError, "out is a.png; expected a name that ends in .zarr"),
        ({"out": None, "tile": 64}, ValueError, "tile is 64; expected None without out"),
        ({"mask": np.ones((6, 40, 44), bool)}, ValueError, "image has no valid pixels"),
        ({"sigma": np.full((6, 40, 44), -1.0)}, ValueError, "sigma .* negative"),
        ({"sigma": np.zeros((6, 40, 44))}, ValueError, "no positive value"),
        ({"sigma": np.ones((5, 40, 44))}, ValueError, "sigma has shape .5, 40, 44.; expected"),
        ({"time_axis": 3}, ValueError, "time_axis is 3; expected a number from -3 to 2"),
    ],
)
def test_bad_options(options, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"time_axis": 0, "out": "a.npy", **options}
    with pytest.raises(error, match=message):
        nlridge.denoise(moving(6), **options)
    assert not list(tmp_path.iterdir())


def test_infinite_pixels_are_refused(tmp_path):
    video = moving(6)
    video[4, 3, 2] = np.inf
    with pytest.raises(ValueError, match="image has 1 infinite pixels"):
        nlridge.denoise(video, 20, time_axis=0, out=tmp_path / "a.npy")
    assert not list(tmp_path.iterdir())


# Dask arrays.


def compare_with_dask(video, chunks, **options):
    da = pytest.importorskip("dask.array")
    array = da.from_array(video, chunks=chunks)
    lazy = nlridge.denoise(array, **options)
    assert lazy.chunks == array.chunks
    whole = nlridge.denoise(video, **options)
    assert lazy.dtype == whole.dtype
    assert np.array_equal(lazy.compute(scheduler="threads"), whole, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_videos_of_dask(name):
    video, options = CASES[name]
    compare_with_dask(video, (3, 20, *video.shape[2:]), time_axis=0, **options)


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


def test_masked_videos_of_dask():
    da = pytest.importorskip("dask.array")
    video = np.ma.masked_greater(moving(8), 200)
    lazy = nlridge.denoise(da.from_array(video, chunks=3), time_axis=0, method="fast", **GIVEN)
    assert np.array_equal(
        lazy.compute(), nlridge.denoise(video, time_axis=0, method="fast", **GIVEN)
    )


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
        ({"out": "a.zarr"}, "image is a Dask array and out is given; expected a Zarr array"),
    ],
)
def test_options_that_are_refused_for_dask(options, message):
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=message):
        nlridge.denoise(da.zeros((4, 30, 34)), 20, time_axis=0, **options)


def test_a_full_disk_while_a_video_is_written(tmp_path, monkeypatch):
    video, options = moving(30, 24, 26), {"time_axis": 0, "method": "fast", **GIVEN}
    write = Frame.write

    def full(frame, rows, pixels, workers):
        if frame.number == (20,):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(frame, rows, pixels, workers)

    monkeypatch.setattr(Frame, "write", full)
    with pytest.raises(OSError, match=r"free some space and run it again to resume.*out\.npy"):
        nlridge.denoise(video, out=tmp_path / "out.npy", **options)
    monkeypatch.undo()
    seen = []
    written = nlridge.denoise(
        video, out=tmp_path / "out.npy", progress=lambda *done: seen.append(done[0]), **options
    )
    assert seen[0] == 20
    assert np.array_equal(written, nlridge.denoise(video, **options))


def test_a_stack_with_several_axes(tmp_path):
    """As in a microscope's file: volumes over time, in a type that results are rounded to."""
    stack = np.clip(moving(6, 24, 26, (2, 3)), 0, 255).astype(np.uint8)  # time, channel, depth
    axes, out = "TCZYX", tmp_path / "out.tif"
    run_sequences(
        sequences_of(sources_of(frames_of(stack, axes)), "Z"),
        Layout(stack.shape, None, 1),
        checked_options(20, None, "fast", None, Tuning(1.0)),
        SequenceAxis("depth_axis", None, (1, 1, 1)),
        out,
        NewArray(stack.shape, stack.dtype, axes, 64),
        workers=1,
        progress=False,
        store=nlridge.to_dtype,
    )
    options = {"stack_axis": 0, "channel_axis": 1, "depth_axis": 2, "spacing": (1, 1, 1)}
    whole = nlridge.denoise(stack, 20, method="fast", **options)
    assert np.array_equal(open_read_only(out), nlridge.to_dtype(whole, np.uint8))


@pytest.mark.parametrize("deeper", [1.0, 4.0])
def test_a_pyramid_of_volumes_on_the_command_line(deeper, tmp_path, capsys):
    """It is resumed, and keeps its metadata, which say whether voxels are isotropic."""
    volume = np.clip(moving(20, 24, 26)[:, None], 0, 255).astype(np.uint8)  # (depth, channel, ...)
    group = zarr.create_group(tmp_path / "in.zarr", zarr_format=2)
    group.create_array("0", data=volume, chunks=(10, 1, 24, 26))
    group.create_array("1", data=volume[:, :, ::2, ::2], chunks=(10, 1, 12, 13))
    names = [{"name": a, "type": "space", "unit": "micrometer"} for a in "zyx"]
    axes = [names[0], {"name": "c", "type": "channel"}, *names[1:]]
    levels = [
        {"path": str(k), "coordinateTransformations": [{"type": "scale", "scale": [deeper, 1, f, f]}]}
        for k, f in enumerate((1, 2))
    ]  # fmt: skip
    group.attrs["multiscales"] = [{"version": "0.4", "axes": axes, "datasets": levels}]
    words = ["denoise", str(tmp_path / "in.zarr"), "-o", str(tmp_path / "out.zarr"), "--json"]
    words += ["--method", "fast", "--sigma", "20"]
    original, written = Frame.write, []

    def write(frame, *arguments):
        if len(written) == 12:
            raise KeyboardInterrupt
        written.append(frame.number)
        original(frame, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Frame, "write", write)
        assert main(words) == 130
        assert "interrupted with" in capsys.readouterr().err
    resumed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Frame, "write", lambda frame, *a: (resumed.append(frame), original(frame, *a))
        )
        assert main(words) == 0
    assert 8 <= len(resumed) < 20
    result = zarr.open_group(tmp_path / "out.zarr", mode="r")
    assert dict(result.attrs) == dict(group.attrs)
    options = {"depth_axis": 0, "channel_axis": 1, "spacing": (deeper, 1, 1), "method": "fast"}
    expected = nlridge.to_dtype(nlridge.denoise(volume, 20, **options), np.uint8)
    assert np.array_equal(result["0"][:], expected)
    assert result["1"].shape == (20, 1, 12, 13)


def test_isotropic_volumes_are_recognised():
    z, y, x = np.mgrid[:40, :40, :40]
    noise = np.random.default_rng(0).normal(0, 20, z.shape)
    smooth = 100 + 50 * np.sin(z / 4) * np.sin(y / 4) * np.cos(x / 4) + noise
    without_spacing = SequenceAxis("depth_axis", 0)
    assert planned(smooth, "fast", without_spacing)[0].plan.recipe.frames.depth == 3
    assert planned(smooth[::4], "fast", without_spacing)[0].plan.recipe.frames.depth == 1
