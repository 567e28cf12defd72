"""Where the command denoise writes its results, and what it never overwrites."""

import sys

import numpy as np
import pytest
import tifffile
from command_line import names, run, save
from PIL import Image

from nlridge.apps.cli import main


def test_results_are_beside_their_inputs_by_default(tmp_path):
    save(tmp_path / "a.png")
    assert run(tmp_path / "a.png") == 0
    assert names(tmp_path) == ["a.png", "a_denoised.png"]


def test_the_output_is_a_file_or_a_folder(tmp_path):
    save(tmp_path / "a.png")
    save(tmp_path / "b.png")
    assert run(tmp_path / "a.png", "-o", tmp_path / "clean.tif") == 0
    assert tifffile.imread(tmp_path / "clean.tif").shape == (32, 32)
    assert run(tmp_path / "a.png", tmp_path / "b.png", "-o", tmp_path / "out") == 0
    assert names(tmp_path / "out") == ["a.png", "b.png"]
    assert run(tmp_path / "a.png", "-o", tmp_path / "out", "--format", "npy") == 0
    assert "a.npy" in names(tmp_path / "out")


def test_inputs_may_be_folders_and_patterns(tmp_path, capsys):
    for name in ("in/a.png", "in/b.tif", "in/deep/c.png", "in/notes.txt", "in/.hidden.png"):
        if name.endswith("txt"):
            (tmp_path / name).write_text("nothing to see")
        else:
            save(tmp_path / name)
    assert run(tmp_path / "in", "-o", tmp_path / "flat") == 0
    assert names(tmp_path / "flat") == ["a.png", "b.tif"]
    assert run(tmp_path / "in", "-o", tmp_path / "deep", "--recursive") == 0
    assert names(tmp_path / "deep") == ["a.png", "b.tif", "deep/c.png"]
    assert run(str(tmp_path / "in" / "*.png"), "-o", tmp_path / "some") == 0
    assert names(tmp_path / "some") == ["a.png"]
    # The second time, results beside the inputs are not taken for inputs.
    assert run(tmp_path / "in") == 0
    capsys.readouterr()
    assert run(tmp_path / "in", "--skip-existing") == 0
    assert capsys.readouterr().out.count("already done") == 2


def test_nothing_is_overwritten_unless_asked(tmp_path, capsys):
    save(tmp_path / "a.png")
    before = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a_denoised.png").write_text("precious")
    assert run(tmp_path / "a.png") == 1
    assert (
        "a_denoised.png, which exists; expected a new name, --overwrite or --skip-existing"
        in capsys.readouterr().err
    )
    assert run(tmp_path / "a.png", "-o", tmp_path / "a.png") == 1
    assert run(tmp_path / "a.png", "--skip-existing") == 0
    assert (tmp_path / "a_denoised.png").read_text() == "precious"
    assert (tmp_path / "a.png").read_bytes() == before
    assert run(tmp_path / "a.png", "--overwrite") == 0
    with Image.open(tmp_path / "a_denoised.png") as image:
        assert image.size == (32, 32)


def test_two_inputs_never_share_an_output(tmp_path, capsys):
    save(tmp_path / "x" / "a.png", 0)
    save(tmp_path / "y" / "a.png", 1)
    assert run(tmp_path / "x" / "a.png", tmp_path / "y" / "a.png", "-o", tmp_path / "out") == 1
    assert "a.png; expected different names" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_results_are_never_taken_for_inputs(tmp_path):
    save(tmp_path / "in" / "a.png")
    inside = [tmp_path / "in", "-o", tmp_path / "in" / "clean", "--recursive"]
    assert run(*inside) == 0
    assert run(*inside, "--skip-existing") == 0
    assert names(tmp_path / "in") == ["a.png", "clean/a.png"]
    pattern = str(tmp_path / "in" / "*.png")
    assert run(pattern) == 0
    assert run(pattern, "--skip-existing") == 0
    assert names(tmp_path / "in") == ["a.png", "a_denoised.png", "clean/a.png"]


def test_no_input_is_overwritten_before_it_is_read(tmp_path, capsys):
    save(tmp_path / "a.png", 0)
    save(tmp_path / "a_denoised.png", 1)
    before = (tmp_path / "a_denoised.png").read_bytes()
    assert run(tmp_path / "a.png", tmp_path / "a_denoised.png", "--overwrite") == 1
    assert "which is also an input; expected another name" in capsys.readouterr().err
    assert (tmp_path / "a_denoised.png").read_bytes() == before


@pytest.mark.parametrize("report", ["a.png", "out.png", "report.txt"])
def test_the_report_must_be_named_html(tmp_path, capsys, report):
    save(tmp_path / "a.png")
    before = (tmp_path / "a.png").read_bytes()
    words = [tmp_path / "a.png", "-o", tmp_path / "out.png", "--overwrite"]
    assert run(*words, "--report", tmp_path / report) == 1
    assert "expected a name that ends in .html" in capsys.readouterr().err
    assert names(tmp_path) == ["a.png"]
    assert (tmp_path / "a.png").read_bytes() == before


def test_the_demo_does_not_overwrite_its_input(tmp_path, capsys):
    save(tmp_path / "a.png")
    before = (tmp_path / "a.png").read_bytes()
    assert main(["demo", str(tmp_path / "a.png"), "--output", str(tmp_path / "a.png")]) == 1
    assert "which is the input; expected another name" in capsys.readouterr().err
    assert (tmp_path / "a.png").read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are those of POSIX")
def test_links_and_permissions_stay(tmp_path):
    save(tmp_path / "a.png")
    save(tmp_path / "real.png", 1)
    (tmp_path / "real.png").chmod(0o600)
    (tmp_path / "link.png").symlink_to(tmp_path / "real.png")
    assert run(tmp_path / "a.png", "-o", tmp_path / "link.png", "--overwrite") == 0
    assert (tmp_path / "link.png").is_symlink()
    assert (tmp_path / "real.png").stat().st_mode & 0o777 == 0o600
    with Image.open(tmp_path / "real.png") as image:
        assert np.asarray(image).std() < 4


def test_suffixes_of_the_same_format_agree(tmp_path):
    save(tmp_path / "a.png")
    for name, kind, written in (("x.tiff", "tif", "TIFF"), ("x.jpeg", "jpg", "JPEG")):
        assert run(tmp_path / "a.png", "-o", tmp_path / name, "--format", kind) == 0
        with Image.open(tmp_path / name) as image:
            assert image.format == written
