"""A batch of files goes on whatever happens to one of them: errors that nobody expected, in every reader and writer."""

import json

import numpy as np
import pytest
from clips import make_clip
from command_line import names, run, save

from nlridge import files
from nlridge.apps.cli import main
from nlridge.files import Layer, Picture, output_suffix, suffixes
from nlridge.files.video import SUFFIXES as VIDEO_SUFFIXES
from nlridge.files.video import writing


@pytest.fixture(autouse=True)
def reads_here(monkeypatch):
    """Files are read in this process, in which tests can replace the functions that read."""
    monkeypatch.setattr("nlridge.apps.jobs.pictures.read_apart", files.read)
    monkeypatch.setattr("nlridge.apps.cli.estimating.read_apart", files.read)


class Panic(BaseException):
    """Not an Exception, as the errors of libraries written in Rust."""


ERRORS = [
    RuntimeError("two\nlines"),
    KeyError("missing"),
    AttributeError("'DataStream' object has no attribute 'codec_tag'"),
    BrokenPipeError(),
    MemoryError(),
    SystemExit(3),
    Panic("at the disco"),
]
MODULES = {files.format_of(suffix).__name__: suffix for suffix in reversed(suffixes())}
"""The usual suffix of each format that is registered."""
CASES = [
    *((suffix, error) for suffix in MODULES.values() for error in (ERRORS[0], ERRORS[-1])),
    *((".npy", error) for error in ERRORS[1:-1]),
]


def in_words(case):
    return case if isinstance(case, str) else type(case).__name__


def batch(folder, suffix):
    """Two good files, and between them one of a format that is about to fail."""
    good = ".png" if suffix != ".png" else ".bmp"
    for name in ("a", "c"):
        save(folder / f"{name}{good}", size=16)
    return folder / f"b{suffix}", good


def raising(error):
    def function(*arguments, **options):
        raise error

    return function


def expect_the_others(folder, bad, good, capsys):
    """The batch has gone on, the file is named in one sentence, and nothing is left of it."""
    output = folder.parent / "out"
    assert run(folder, "-o", output, "--sigma", "20") == 1
    said = capsys.readouterr()
    errors = [line for line in said.err.splitlines() if line.startswith("nlridge: ")]
    assert len(errors) == 1, said.err
    assert errors[0].startswith(f"nlridge: {bad}: ")
    assert "Traceback" not in said.err
    assert names(output) == [f"a{good}", f"c{good}"]
    assert "2 of 3 files done, 1 failed" in said.out


@pytest.mark.parametrize(("suffix", "error"), CASES, ids=in_words)
def test_a_reader_that_raises_anything(tmp_path, capsys, monkeypatch, suffix, error):
    bad, good = batch(tmp_path / "in", suffix)
    bad.write_bytes(b"anything")
    module = files.format_of(suffix)
    monkeypatch.setattr(module, "recognises", lambda head: True)
    monkeypatch.setattr(module, "read", raising(error))
    expect_the_others(tmp_path / "in", bad, good, capsys)


@pytest.mark.parametrize(("suffix", "error"), CASES, ids=in_words)
def test_a_writer_that_raises_anything(tmp_path, capsys, monkeypatch, suffix, error):
    bad, good = batch(tmp_path / "in", suffix)
    bad.write_bytes(b"anything")

    def read(path, *arguments):
        pixels = np.random.default_rng(0).normal(120, 20, (16, 16)).astype(np.uint8)
        return Picture("something else", [Layer(pixels, "YX")])

    def write(path, picture, name):
        path.write_bytes(b"half of a fi")
        raise error

    monkeypatch.setattr(files.format_of(suffix), "recognises", lambda head: True)
    monkeypatch.setattr(files.format_of(suffix), "read", read)
    monkeypatch.setattr(files.format_of(output_suffix(suffix)), "write", write)
    expect_the_others(tmp_path / "in", bad, good, capsys)


@pytest.mark.parametrize("error", [ERRORS[2], ERRORS[-1]], ids=in_words)
@pytest.mark.parametrize("place", ["open_clip", "images_of", "put_images", "_encoder"])
@pytest.mark.parametrize("suffix", VIDEO_SUFFIXES)
def test_a_video_that_raises_anything(tmp_path, capsys, monkeypatch, suffix, place, error):
    bad, good = batch(tmp_path / "in", suffix)
    codec = {".webm": "libvpx-vp9", ".y4m": "rawvideo"}.get(suffix, "libx264")
    make_clip(bad, codec=codec, size=(16, 16), times=range(2))
    monkeypatch.setattr(writing, place, raising(error))
    expect_the_others(tmp_path / "in", bad, good, capsys)


def test_the_noise_of_other_files_is_printed(tmp_path, capsys, monkeypatch):
    bad, _ = batch(tmp_path / "in", ".npy")
    bad.write_bytes(b"\x93NUMPY")
    monkeypatch.setattr(files.format_of(".npy"), "read", raising(Panic("at the disco")))
    assert main(["noise", str(tmp_path / "in"), "--json"]) == 1
    lines = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert ["noise" in line for line in lines] == [True, False, True]
    assert "Panic: at the disco" in lines[1]["error"]


def test_the_report_of_other_files_is_written(tmp_path, capsys, monkeypatch):
    from nlridge.apps.pages import report

    batch(tmp_path / "in", ".npy")
    entry, calls = report.entry, []

    def failing_once(source, *arguments):
        calls.append(source)
        if len(calls) == 1:
            raise Panic("at the disco")
        return entry(source, *arguments)

    monkeypatch.setattr(report, "entry", failing_once)
    page = tmp_path / "report.html"
    assert run(tmp_path / "in", "-o", tmp_path / "out", "--sigma", "20", "--report", page) == 1
    assert f"nlridge: report: {calls[0]}: an error that nobody expected" in capsys.readouterr().err
    assert names(tmp_path / "out") == ["a.png", "c.png"]
    assert "c.png" in page.read_text()


def test_an_interruption_stops_the_batch(tmp_path, capsys, monkeypatch):
    bad, _ = batch(tmp_path / "in", ".npy")
    bad.write_bytes(b"\x93NUMPY")
    monkeypatch.setattr(files.format_of(".npy"), "read", raising(KeyboardInterrupt()))
    assert run(tmp_path / "in", "-o", tmp_path / "out", "--sigma", "20") == 130
    assert names(tmp_path / "out") == ["a.png"]


def test_a_result_that_cannot_be_right_fails_and_is_not_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("nlridge.planning.explained._LARGEST_RATIO", 0.5)
    rng = np.random.default_rng(0)
    for name, scale in (("noisy", 10.0), ("calm", 0.01)):
        np.save(tmp_path / f"{name}.npy", 100 + scale * rng.normal(size=(48, 48)))
    inputs = [str(tmp_path / f"{name}.npy") for name in ("noisy", "calm")]
    options = ["--sigma", "10", "--method", "fast", "-o", str(tmp_path / "clean")]
    assert main(["denoise", *inputs, *options]) == 1
    captured = capsys.readouterr()
    assert "noisy.npy: what was removed is" in captured.err
    assert "which cannot be right; nothing was written; please report it" in captured.err
    assert captured.out.splitlines()[-1] == "1 of 2 files done, 1 failed"
    assert [path.name for path in (tmp_path / "clean").iterdir()] == ["calm.npy"]
