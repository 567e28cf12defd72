"""A run over a large video that is stopped, killed or out of space is resumed where it stopped."""

import errno
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from large_images import GIVEN, Stopped
from large_videos import FROZEN, Counted, moving

import nlridge
from nlridge.apps.cli import main
from nlridge.large.frames import Frame

zarr = pytest.importorskip("zarr")


def stops_at(frame, error=Stopped):
    """For `progress`: an exception after so many frames."""

    def stop(done, total):
        if done == frame:
            raise error

    return stop


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".zarr", ".npy", ".tif"])
def test_a_video_is_resumed_where_it_stopped(suffix, tmp_path):
    video, options = Counted(moving(60, 24, 26)), {"time_axis": 0, "method": "fast", **GIVEN}
    out = tmp_path / f"out{suffix}"
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(video, out, progress=stops_at(41), **options)
    assert [path.name for path in tmp_path.iterdir()] == [f".out{suffix}.part"]
    video.read.clear()
    seen = []
    written = nlridge.denoise_to_disk(
        video, out, progress=lambda *done: seen.append(done), **options
    )
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
        nlridge.denoise_to_disk(moving(10), tmp_path / "out.npy", 20, time_axis=0, progress=stop)


@pytest.mark.slow
def test_a_stack_of_videos_is_resumed(tmp_path):
    videos = moving(12, 24, 26, (2,))
    options = {"time_axis": 0, "stack_axis": 1, "method": "fast", **GIVEN}
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(videos, tmp_path / "out.zarr", progress=stops_at(17), **options)
    seen = []
    written = nlridge.denoise_to_disk(
        videos, tmp_path / "out.zarr", progress=lambda *done: seen.append(done[0]), **options
    )
    assert np.array_equal(written[:], nlridge.denoise(videos, **options))
    assert seen == [12, *range(17, 25)]


@pytest.mark.slow
def test_a_video_that_freezes_is_resumed(tmp_path):
    options = {"time_axis": 0, "method": "fast", **GIVEN}
    with pytest.raises(Stopped):
        nlridge.denoise_to_disk(FROZEN, tmp_path / "out.npy", progress=stops_at(35), **options)
    resumed = nlridge.denoise_to_disk(FROZEN, tmp_path / "out.npy", **options)
    assert np.array_equal(resumed, nlridge.denoise(FROZEN, **options))


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

nlridge.denoise_to_disk(
    np.load(folder + "/in.npy", mmap_mode="r"), folder + "/out.zarr", 20, data_range=255,
    method="fast", time_axis=0, progress=die,
)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
def test_a_video_that_is_killed_is_resumed(tmp_path):
    video = moving(50, 24, 26)
    np.save(tmp_path / "in.npy", video)
    killed = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    seen = []
    written = nlridge.denoise_to_disk(
        np.load(tmp_path / "in.npy", mmap_mode="r"),
        tmp_path / "out.zarr",
        time_axis=0,
        method="fast",
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
        nlridge.denoise_to_disk(video, out, progress=stops_at(15), **options)
    if changed == "a pixel":
        video[1, 2, 3] += 1
    if changed == "sigma":
        options["sigma"] = 21
    if changed == "the mask":
        options["mask"][1, 2, 3] = True
    if changed == "the axis":
        options["stack_axis"] = options.pop("time_axis")
    seen = []
    written = nlridge.denoise_to_disk(
        video, out, progress=lambda *done: seen.append(done), **options
    )
    assert seen[0][0] <= 1
    assert np.array_equal(written, nlridge.denoise(video, **options))


@pytest.mark.slow
def test_images_and_videos_do_not_mix_their_work(tmp_path):
    """Frames that an interrupted run has written are not taken for those of another kind of run."""
    video, out, options = moving(12, 24, 26), tmp_path / "out.npy", {"method": "fast", **GIVEN}
    for axis in ("stack_axis", "time_axis"):
        with pytest.raises(Stopped):
            nlridge.denoise_to_disk(
                video, out, tile=64, progress=stops_at(9), **{axis: 0}, **options
            )
    written = nlridge.denoise_to_disk(video, out, tile=64, stack_axis=0, **options)
    assert np.array_equal(written, nlridge.denoise(video, stack_axis=0, **options))


@pytest.mark.slow
def test_a_full_disk_while_a_video_is_written(tmp_path, monkeypatch):
    video, options = moving(30, 24, 26), {"time_axis": 0, "method": "fast", **GIVEN}
    write = Frame.write

    def full(frame, rows, pixels, workers):
        if frame.number == (20,):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(frame, rows, pixels, workers)

    monkeypatch.setattr(Frame, "write", full)
    with pytest.raises(OSError, match=r"free some space and run it again to resume.*out\.npy"):
        nlridge.denoise_to_disk(video, tmp_path / "out.npy", **options)
    monkeypatch.undo()
    seen = []
    written = nlridge.denoise_to_disk(
        video, tmp_path / "out.npy", progress=lambda *done: seen.append(done[0]), **options
    )
    assert seen[0] == 20
    assert np.array_equal(written, nlridge.denoise(video, **options))


@pytest.mark.slow
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
    expected = nlridge.prepare(volume, 20, **options).denoise(dtype=np.uint8)
    assert np.array_equal(result["0"][:], expected)
    assert result["1"].shape == (20, 1, 12, 13)
