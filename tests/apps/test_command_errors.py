"""The command line on errors: one sentence for each mistake, and no half file."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tifffile
from command_line import names, run, save

from nlridge.apps.cli import main


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["missing.png"], "missing.png: no such file"),
        (["*.nothing"], "*.nothing: no such file"),
        (["a.png", "b.png", "-o", "one.png"], "output is one.png; expected a folder for 2 inputs"),
        (["a.png", "-o", "one.png", "--format", "tif"], "expected them to agree"),
        (["empty/"], "input is empty/, without any image files; expected files that end in .bmp"),
        ([""], "input is an empty name; expected a file, a folder or a pattern"),
        (["a.png", "-o", "x.psd"], "output is x.psd; expected one of .bmp"),
        (["a.png", "b.png", "-o", "a.png/deeper"], "but a.png is a file; expected a folder"),
        (["a.png", "--sigma", "-1"], "sigma is -1.0; expected a positive number"),
        (["a.png", "--strength", "-1"], "strength is -1.0; expected a positive number"),
        (["a.png", "--workers", "0"], "workers is 0; expected at least 1"),
        (
            ["a.png", "--sigma", "1,2"],
            "nlridge: a.png: --sigma has 2 numbers; expected one, or one for each channel, "
            "and --channel-axis\n",
        ),
        (
            ["a.png", "--channel-axis", "7"],
            "--channel-axis is 7; expected a number from -3 to 2",
        ),
        (
            ["a.png", "--channel-axis", "0", "--stack-axis", "-4"],
            "--stack-axis and --channel-axis are both 0; expected different axes",
        ),
        (
            ["a.zarr", "--scheduler", "tcp://localhost:1", "--workers", "2"],
            "nlridge: --workers is 2; expected none with --scheduler\n",
        ),
        (
            ["a.zarr", "--recursive"],
            "nlridge: --recursive is given; expected no --recursive for processing in tiles\n",
        ),
        (["a.npy", "b.npy", "--tile", "64"], "input has 2 names; expected one for processing"),
        (["a.png", "b.png", "--sigma", "-1"], "nlridge: --sigma is -1.0; expected a positive"),
        (
            ["a.png", "b.png", "--strength", "500"],
            "nlridge: --strength is 500.0; expected a number",
        ),
        (["a.png", "b.png", "--workers", "0"], "nlridge: --workers is 0; expected at least 1"),
        (["missing.zarr", "--sigma", "0"], "nlridge: --sigma is 0.0; expected a positive number"),
    ],
)
def test_one_sentence_for_each_mistake(tmp_path, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "a.png")
    save(tmp_path / "b.png")
    (tmp_path / "empty").mkdir()
    assert main(["denoise", "--quiet", *words]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert names(tmp_path) == ["a.png", "b.png"]


def test_impossible_options_are_refused_by_the_parser(capsys):
    for words in (["--method", "bm4d"], ["--sigma", "ten"], ["--overwrite", "--skip-existing"]):
        with pytest.raises(SystemExit) as error:
            main(["denoise", "a.png", *words])
        assert error.value.code == 2
        capsys.readouterr()


# When something goes wrong.


def test_thirty_files_of_which_three_are_bad(tmp_path, capsys):
    for k in range(30):
        save(tmp_path / "in" / f"{k:02d}.png", seed=k, size=24)
    (tmp_path / "in" / "05.png").write_bytes(b"")
    half = (tmp_path / "in" / "12.png").read_bytes()[:300]
    (tmp_path / "in" / "12.png").write_bytes(half)
    (tmp_path / "in" / "20.png").write_bytes(b"not an image at all")
    assert run(tmp_path / "in", "-o", tmp_path / "out", "--sigma", "20") == 1
    said = capsys.readouterr()
    assert names(tmp_path / "out") == [f"{k:02d}.png" for k in range(30) if k not in (5, 12, 20)]
    failures = [line for line in said.err.splitlines() if line.startswith("nlridge: ")]
    assert [Path(line.split(": ")[1]).name for line in failures] == ["05.png", "12.png", "20.png"]
    assert "27 of 30 files done" in said.out


def started(*words):
    """The command line in a process that reacts to Ctrl-C, which a shell may have switched off for this one."""
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from nlridge.apps.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "denoise", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_batch_that_is_stopped_leaves_whole_files_and_can_be_resumed(tmp_path, stop):
    for k in range(8):
        save(tmp_path / "in" / f"{k}.tif", seed=k, size=300)
    words = [
        tmp_path / "in",
        "-o",
        tmp_path / "out",
        "--sigma",
        "20",
        "--method",
        "nl-ridge",
        "--json",
    ]
    with started(*words) as process:
        process.stdout.readline()  # the first is done
        process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(stop)
        process.wait(60)
        error = process.stderr.read()
    if stop == signal.SIGINT:
        assert process.returncode == 130
        assert "nlridge: interrupted" in error
    done = [name for name in names(tmp_path / "out") if not name.startswith(".")]
    assert 2 <= len(done) < 8
    for name in done:
        assert tifffile.imread(tmp_path / "out" / name).shape == (300, 300)
    before = {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in done}
    with started(*words, "--skip-existing") as process:
        lines = [json.loads(line) for line in process.stdout.read().splitlines()]
    assert process.returncode == 0
    assert [line["status"] for line in lines] == ["skipped"] * len(done) + ["done"] * (
        8 - len(done)
    )
    assert names(tmp_path / "out") == [f"{k}.tif" for k in range(8)]
    for name, changed in before.items():
        assert (tmp_path / "out" / name).stat().st_mtime_ns == changed


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    save(tmp_path / "a.png")
    program = (
        "import os, pathlib, sys\n"
        "from nlridge.atomic import writing\n"
        "with writing(pathlib.Path(sys.argv[1], 'a_denoised.png')) as file:\n"
        "    file.write(b'half')\n"
        "    os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert list(tmp_path.glob(".*.part"))
    assert run(tmp_path / "a.png") == 0
    assert names(tmp_path) == ["a.png", "a_denoised.png"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.npy", "a.jpg", "a.webp"])
def test_a_full_disk_leaves_no_half_file(tmp_path, name):
    """A write that fails half way: the kernel refuses to let a file grow beyond 4 kB."""
    save(tmp_path / name, size=200)
    program = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from nlridge.apps.cli import main
import nlridge, numpy as np
nlridge.denoise(np.zeros((20, 20)), 1.0, method="fast")  # compiled, and kept, before the disk is full
import nlridge.files.formats.png, nlridge.files.formats.tiff, nlridge.files.formats.pillow, nlridge.apps.cli.commands
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
sys.exit(main(["denoise", {str(tmp_path / name)!r}, "--sigma", "1", "--method", "fast"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{name}: " in done.stderr
    assert names(tmp_path) == [name]
