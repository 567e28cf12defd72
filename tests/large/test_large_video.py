"""Videos and volumes larger than memory: the same result to the bit as in memory."""

import tracemalloc

import numpy as np
import pytest
from large_images import GIVEN
from large_videos import CASES, LAYOUTS, Counted, level_map, moving, planned

import nlridge
from nlridge.core.algorithm.tuning import Tuning
from nlridge.large.disk import open_read_only
from nlridge.large.frames import frames_of, sources_of
from nlridge.large.new import NewArray
from nlridge.large.sequences import run_sequences, sequences_of
from nlridge.planning.layout import Layout, SequenceAxis
from nlridge.planning.options import checked_options

zarr = pytest.importorskip("zarr")


@pytest.mark.parametrize("name", CASES)
def test_videos_on_disk_are_as_in_memory(name, tmp_path):
    frames, options = CASES[name]
    whole = nlridge.denoise(frames, time_axis=0, **options)
    written = nlridge.denoise_to_disk(
        frames, tmp_path / "out.zarr", time_axis=0, tile=64, **options
    )
    assert written.dtype == whole.dtype
    assert np.array_equal(written[:], whole, equal_nan=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.zarr"]


@pytest.mark.parametrize("suffix", [".zarr", ".npy", ".tif"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_axes_on_disk_are_as_in_memory(name, suffix, tmp_path):
    frames, options = LAYOUTS[name]
    options = {"method": "fast", **GIVEN, **options}
    whole = nlridge.prepare(frames, **options).denoise()
    written = nlridge.denoise_to_disk(frames, tmp_path / f"out{suffix}", **options)
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
    written = nlridge.denoise_to_disk(
        stored[0], tmp_path / "out.zarr", stored[1], mask=stored[2], **options
    )
    assert np.array_equal(written[:], whole)


def test_chunks_of_several_frames_are_read_once(tmp_path):
    video = Counted(moving(10), chunks=(4, 20, 20))
    options = {"time_axis": 0, "method": "fast", **GIVEN}
    written = nlridge.denoise_to_disk(video, tmp_path / "out.npy", **options)
    assert np.array_equal(written, nlridge.denoise(video.array, **options))
    # First all frames are checked, then some are sampled for the plan, and then all are denoised.
    assert video.read == 3 * [(0, 4), (4, 8), (8, 10)]


@pytest.mark.slow
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
        nlridge.denoise_to_disk(Long(count), tmp_path / f"{count}.npy", **options)
        return tracemalloc.get_traced_memory()[1], tracemalloc.stop()

    peak(12)  # compiles
    assert peak(70)[0] < peak(30)[0] + 20 * frame.nbytes


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
    )
    options = {"stack_axis": 0, "channel_axis": 1, "depth_axis": 2, "spacing": (1, 1, 1)}
    whole = nlridge.prepare(stack, 20, method="fast", **options).denoise()
    assert np.array_equal(open_read_only(out), nlridge.to_dtype(whole, np.uint8))


def test_isotropic_volumes_are_recognised():
    z, y, x = np.mgrid[:40, :40, :40]
    noise = np.random.default_rng(0).normal(0, 20, z.shape)
    smooth = 100 + 50 * np.sin(z / 4) * np.sin(y / 4) * np.cos(x / 4) + noise
    without_spacing = SequenceAxis("depth_axis", 0)
    assert planned(smooth, "fast", without_spacing)[0].plan.recipe.frames.depth == 3
    assert planned(smooth[::4], "fast", without_spacing)[0].plan.recipe.frames.depth == 1


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
        nlridge.denoise_to_disk(moving(6), **options)
    assert not list(tmp_path.iterdir())


def test_infinite_pixels_are_refused(tmp_path):
    video = moving(6)
    video[4, 3, 2] = np.inf
    with pytest.raises(ValueError, match="image has 1 infinite pixels"):
        nlridge.denoise_to_disk(video, tmp_path / "a.npy", 20, time_axis=0)
    assert not list(tmp_path.iterdir())
