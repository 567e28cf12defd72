"""Writing files: atomically, and with a kill or a full disk at any operation."""

import errno
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nlridge
from nlridge import atomic
from nlridge.apps.cli import main

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="forks, locks and modes are those of POSIX")


@pytest.mark.long
@posix
def test_a_run_can_be_resumed_after_a_fault_at_any_point():
    """At some of the points; `make faults` tries all of them."""
    pytest.importorskip("zarr")
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.faults", "--every", "61"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(re.search(r"(\d+) faults in all", done.stdout)[1]) > 35


def test_a_file_is_whole_or_absent(tmp_path):
    path = tmp_path / "a.bin"

    def fail():
        with atomic.writing(path) as file:
            file.write(b"half")
            assert not path.exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not list(tmp_path.iterdir())
    with atomic.writing(path) as file:
        file.write(b"whole")
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_replacing_a_file_keeps_its_mode_and_links(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with atomic.writing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


@posix
def test_files_in_use_are_not_taken_for_leftovers(tmp_path):
    leftover = tmp_path / ".nlridge-0.part"
    leftover.write_bytes(b"half")
    with atomic.replacing(tmp_path / "a") as partial:
        assert not leftover.exists()
        with atomic.writing(tmp_path / "b") as file:
            file.write(b"b")
        assert partial.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@posix
@pytest.mark.parametrize("what", ["pipe", "folder", "device"])
def test_only_regular_files_are_replaced_or_read(what, tmp_path, capsys):
    np.save(tmp_path / "in.npy", np.ones((20, 20), np.uint8))
    place = Path(os.devnull) if what == "device" else tmp_path / "b.npy"
    if what == "pipe":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    with (
        pytest.raises(FileExistsError, match="is not a regular file; expected"),
        atomic.writing(place),
    ):
        pass  # fmt: skip
    if what == "pipe":
        for tile in ([], ["--tile", "64"]):
            assert main(["denoise", str(place), *tile]) == 1
            assert "is not a regular file; expected one" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".npy", ".tif", ".png"])
@pytest.mark.parametrize("tile", [[], ["--tile", "64"]])
def test_names_may_be_as_long_as_the_file_system_allows(suffix, tile, tmp_path):
    if tile and suffix == ".png":
        suffix = ".zarr"
        pytest.importorskip("zarr")
    np.save(tmp_path / "in.npy", np.full((70, 50), 9, np.uint8))
    (tmp_path / "out").mkdir()
    out = tmp_path / "out" / f"{'n' * (255 - len(suffix))}{suffix}"
    given = ["--sigma", "9", "--method", "fast", *tile]
    assert main(["denoise", str(tmp_path / "in.npy"), "-o", str(out), *given]) == 0
    assert [path.name for path in out.parent.iterdir()] == [out.name]


@posix
@pytest.mark.parametrize("suffix", [".npy", ".tif"])
def test_a_full_disk_is_noticed_before_the_work(suffix, tmp_path):
    """Space is allocated first: writing to a memory map of a file with holes would end the process."""
    image = np.random.default_rng(0).normal(100, 9, (300, 200)).astype(np.float32)
    np.save(tmp_path / "in.npy", image)
    program = f"""
import resource, sys
from nlridge.apps.cli import main
import nlridge, nlridge.apps.cli.commands, nlridge.files.formats.tiff
nlridge.denoise([[0.0] * 20] * 20, 1.0, method="fast")  # compiled, and kept, before the disk is full
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
given = ["--tile", "64", "--sigma", "9", "--method", "fast"]
sys.exit(main(["denoise", {str(tmp_path / "in.npy")!r}, "-o", {str(tmp_path / f"out{suffix}")!r}, *given]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"out{suffix}: File too large; free some space and run it again to resume" in done.stderr
    assert not (tmp_path / f"out{suffix}").exists()


@pytest.mark.parametrize("lacking", [AttributeError, OSError])
def test_space_is_allocated_on_any_system(lacking, tmp_path, monkeypatch):
    """Zeros are written where the system or the file system cannot allocate it."""

    def fail(*_):
        raise lacking(errno.EOPNOTSUPP, "no such thing")

    monkeypatch.setattr(os, "posix_fallocate", fail, raising=False)
    image = np.random.default_rng(0).normal(100, 9, (90, 70)).astype(np.float32)
    for suffix in (".npy", ".tif"):
        result = nlridge.denoise_to_disk(
            image, tmp_path / f"out{suffix}", 9, method="fast", tile=64
        )
        assert np.array_equal(result, nlridge.denoise(image, 9, method="fast"))


@pytest.mark.parametrize("how", ["exchanged", "set aside"])
def test_replacing_a_folder_swaps_the_two_names(how, tmp_path, monkeypatch):
    if how == "set aside":
        monkeypatch.setattr(atomic.sys, "platform", "another")
    new, old = tmp_path / "new", tmp_path / "old"
    for folder in (new, old):
        folder.mkdir()
        (folder / folder.name).touch()
    atomic.put(new, old)
    assert (old / "new").exists()
    assert (new / "old").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


@posix
def test_an_interrupted_run_says_how_far_it_got(tmp_path):
    np.save(tmp_path / "in.npy", np.random.default_rng(0).normal(100, 9, (300, 100)))
    given = [
        "denoise",
        str(tmp_path / "in.npy"),
        "--tile",
        "64",
        "--sigma",
        "9",
        "--method",
        "fast",
    ]
    program = f"""
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have switched off
from nlridge.apps.cli import main
from nlridge.large import frames
write, times = frames.Frame.write, []
def interrupted(*arguments):
    times.append(1)
    if len(times) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    write(*arguments)
frames.Frame.write = interrupted
sys.exit(main({given!r}))
"""
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 130
    sentence = re.search(
        r"^nlridge: interrupted with (\d+)% done; run it again to resume", done.stderr, re.M
    )
    # Two of three passes over five bands, and one or two of the third.
    assert 66 <= int(sentence[1]) <= 80
    assert main(given) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npy", "in_denoised.npy"]
