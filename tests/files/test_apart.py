"""Files that are read in another process: the same pictures and errors, and a crash or a hang is an error of its file."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import names, run, save
from format_examples import FORMATS

from nlridge.apps.cli import main
from nlridge.files import apart, read
from nlridge.files.apart import read_apart
from nlridge.files.damage import UnnamedAxes

# Readers of NPY files that fail as C libraries do, by the names of the files.
FAILING = """
import ctypes, os, sys
sys.path[:] = {}
from nlridge.files.apart import serve
from nlridge.files.formats import npy
usual = npy.read
def read(path, axes):
    if "crash" in path.name:
        os.abort()
    if "exit" in path.name:
        os._exit(0)
    if "hang" in path.name:
        ctypes.PyDLL(None).sleep(600)  # no other thread of Python runs meanwhile
    if "panic" in path.name:
        raise SystemExit(3)
    if "print" in path.name:
        os.write(1, b"a warning of a library")
    return usual(path, axes)
npy.read = read
serve()
"""


@pytest.fixture
def failing(monkeypatch, tmp_path):
    """A process whose readers fail, instead of the usual one."""
    if os.name == "nt":
        pytest.skip("ctypes has no such functions on Windows")
    monkeypatch.setattr(apart, "_SERVE", FAILING)
    monkeypatch.setattr(apart, "_reader", apart._Reader())
    monkeypatch.chdir(tmp_path)
    yield
    apart._reader.end()


@pytest.mark.parametrize("example", FORMATS, ids=str)
def test_the_same_picture(tmp_path, example):
    file = example.file(tmp_path)
    axes = example.axes if example.given else None
    here, there = read(file, axes), read_apart(file, axes)
    for one, other in zip(here.layers, there.layers, strict=True):
        assert other.pixels.dtype == one.pixels.dtype
        np.testing.assert_array_equal(other.pixels, one.pixels)
        assert (other.axes, other.spacing, other.unit) == (one.axes, one.spacing, one.unit)
    assert (there.format, there.notes, there.exif) == (here.format, here.notes, here.exif)


def test_the_same_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("stack.npy", np.zeros((3, 8, 9)))
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.npy").write_text("no pixels")
    for name in ("stack.npy", "empty.png", "text.npy", "photo.xyz", "missing.png"):
        path = tmp_path.relative_to(tmp_path) / name
        with pytest.raises(Exception) as here:  # noqa: PT011
            read(path)
        with pytest.raises(Exception) as there:  # noqa: PT011
            read_apart(path)
        assert type(there.value) is type(here.value)
        assert str(there.value) == str(here.value)
    with pytest.raises(UnnamedAxes) as error:
        read_apart(tmp_path / "stack.npy")
    assert error.value.shape == (3, 8, 9)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("crash", "the library that reads .npy files crashed"),
        ("exit", "the library that reads .npy files crashed"),
        ("hang", "the library that reads .npy files did not return within 0.5"),
        ("panic", "SystemExit: 3"),
    ],
)
def test_what_ends_the_process_is_an_error_of_its_file(failing, monkeypatch, name, sentence):
    pixels = np.arange(20.0).reshape(4, 5)
    for file in (f"{name}.npy", "good.npy"):
        np.save(file, pixels)
    for _ in range(2):
        monkeypatch.setattr(apart, "SECONDS", 0.5 if name == "hang" else 60.0)
        with pytest.raises((ValueError, RuntimeError), match=sentence):
            read_apart(Path(f"{name}.npy"))
        monkeypatch.setattr(apart, "SECONDS", 60.0)
        np.testing.assert_array_equal(read_apart(Path("good.npy")).layers[0].pixels, pixels)


def test_what_libraries_print_is_not_taken_for_pixels(failing):
    np.save("print.npy", np.eye(9))
    np.testing.assert_array_equal(read_apart(Path("print.npy")).layers[0].pixels, np.eye(9))


def test_a_batch_goes_on_after_a_crash(failing, tmp_path, capsys):
    for name in ("a.png", "c.png"):
        save(tmp_path / "in" / name, size=16)
    np.save(tmp_path / "in" / "b-crash.npy", np.zeros((16, 16)))
    assert run(tmp_path / "in", "-o", tmp_path / "out", "--sigma", "20") == 1
    said = capsys.readouterr()
    assert f"{tmp_path / 'in' / 'b-crash.npy'}: the file is damaged: the library" in said.err
    assert "2 of 3 files done, 1 failed" in said.out
    assert names(tmp_path / "out") == ["a.png", "c.png"]


@pytest.mark.parametrize(
    "command",
    [
        ["denoise", "hang.npy", "-o", "out.npy"],
        ["denoise", "--burst", "hang.npy", "good.npy", "good.npy", "-o", "out.npy"],
        ["denoise", "good.npy", "--offset-map", "hang.npy", "-o", "out.npy"],
        ["noise", "hang.npy"],
        ["compare", "good.npy", "hang.npy"],
        ["demo", "hang.npy"],
    ],
    ids=" ".join,
)
def test_no_command_waits_for_ever_for_a_single_file(failing, monkeypatch, capsys, command):
    """As a damaged DNG on which LibRaw does not return."""
    for name in ("hang.npy", "good.npy"):
        np.save(name, np.zeros((16, 16)))
    monkeypatch.setattr(apart, "SECONDS", 0.5)
    assert main(command) != 0
    said = capsys.readouterr()
    assert "the library that reads .npy files did not return within 0.5" in said.err
    assert "Traceback" not in said.out + said.err


class Unsendable:
    """What the picture of a plug-in may hold."""

    def __reduce__(self):
        raise TypeError("not this one")


def test_pictures_that_cannot_be_sent_are_read_here(tmp_path, monkeypatch):
    save(tmp_path / "a.png", size=16)
    sent = []
    pipe = type("Pipe", (), {"write": lambda self, part: sent.append(bytes(part)), "flush": lambda self: None})()  # fmt: skip
    apart._send(pipe, Unsendable())
    assert pickle.loads(sent[-1]) == apart._UNSENDABLE
    monkeypatch.setattr(apart._reader, "ask", lambda question: apart._UNSENDABLE)
    assert read_apart(tmp_path / "a.png").layers[0].pixels.shape == (16, 16)


def test_errors_that_cannot_be_sent_keep_their_words():
    class Own(ValueError):
        def __init__(self, one, two):
            super().__init__(f"{one} and {two}")

    sent = []
    pipe = type("Pipe", (), {"write": lambda self, part: sent.append(bytes(part)), "flush": lambda self: None})()  # fmt: skip
    apart._send(pipe, Own("this", "that"))
    assert repr(pickle.loads(sent[-1])) == "ValueError('this and that')"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")
def test_the_process_ends_with_the_one_that_asked(tmp_path):
    """Also if that one had no time to say so."""
    save(tmp_path / "a.png", size=16)
    program = (
        "import os, sys; from pathlib import Path; from nlridge.files import apart\n"
        "apart.read_apart(Path(sys.argv[1])); print(apart._reader._process.pid, flush=True); os._exit(1)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "a.png"], capture_output=True)
    status = Path(f"/proc/{int(done.stdout)}/stat")
    for _ in range(600):
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError("the process is still there")
