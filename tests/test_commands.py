"""The commands denoise, noise and compare: inputs and outputs, what they print, and what happens on errors."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from skimage.metrics import structural_similarity

from nlridge.cli import main
from nlridge.jobs.axes import axes_of


def save(path, seed=0, size=32, sigma=20):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.clip(np.random.default_rng(seed).normal(120, sigma, (size, size)), 0, 255)
    if path.suffix == ".npy":
        np.save(path, pixels)
    else:
        Image.fromarray(pixels.astype(np.uint8)).save(path)


def run(*words, **options):
    return main(["denoise", "--method", "fast", *map(str, words), *options])


def names(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


# Where results go.


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


def test_a_noiseless_image_may_be_called_gaussian(tmp_path):
    np.save(tmp_path / "a.npy", np.full((40, 40), 3.0))
    assert run(tmp_path / "a.npy", "--noise", "gaussian") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a_denoised.npy"), 3.0)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize("number", [1, 2])
def test_a_terminal_shows_one_bar_with_the_time_left(tmp_path, number):
    """Files are counted in whole numbers, and only if there are several."""
    import fcntl
    import pty
    import struct
    import termios

    for k in range(number):
        save(tmp_path / f"{k}.tif", size=300)
    terminal, inner = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    command = [sys.executable, "-m", "nlridge", "denoise", str(tmp_path), "--method", "nl-ridge"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=inner) as process:
        os.close(inner)
        seen = b""
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
    os.close(terminal)
    assert process.returncode == 0
    bars = re.findall(r"denoising: +(\d+)% \|.*?\|(.*?) \[00:\d\d, \S+ left\]", seen.decode())
    assert len(bars) == seen.decode().count("denoising") >= 2
    assert any(0 < int(percentage) < 100 for percentage, _ in bars)
    counts = {count for _, count in bars}
    if number == 1:
        assert counts == {""}
    else:
        assert {" 0/2 files"} <= counts <= {f" {k}/2 files" for k in range(3)}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["missing.png"], "missing.png: no such file"),
        (["*.nothing"], "*.nothing: no such file"),
        (["a.png", "b.png", "-o", "one.png"], "output is one.png; expected a folder for 2 inputs"),
        (["a.png", "-o", "one.png", "--format", "tif"], "expected them to agree"),
        (["empty/"], "input is empty/, without any image files; expected files that end in .bmp"),
        ([""], "input is an empty name; expected a file, a folder or a pattern"),
        (["a.png", "-o", "x.gif"], "output is x.gif; expected one of .bmp"),
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


# What is printed.


def test_json_has_one_line_for_each_file(tmp_path, capsys):
    save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"")
    assert run(tmp_path, "-o", tmp_path / "out", "--json") == 1
    said = capsys.readouterr()
    good, bad = (json.loads(line) for line in said.out.splitlines())
    assert good["status"] == "done"
    assert good["input"] == str(tmp_path / "a.png")
    assert Path(good["output"]).exists()
    assert good["noise"]["kind"] == "GaussianNoise"
    assert good["noise"]["sigma"] == pytest.approx(20, rel=0.12)
    assert 0 < good["seconds"] < 60
    assert bad["status"] == "failed"
    assert "the file is empty" in bad["error"]


def test_quiet_says_nothing(tmp_path, capsys):
    save(tmp_path / "a.png")
    assert run(tmp_path / "a.png", "--quiet") == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err in ("", "compiling for this CPU, once ...\n")


@pytest.mark.parametrize("kind", ["gaussian", "poisson", "auto"])
def test_the_kind_of_noise_can_be_chosen(tmp_path, capsys, kind):
    truth = np.tile(np.linspace(5, 120, 256), (256, 1))
    counts = np.random.default_rng(0).poisson(truth)
    tifffile.imwrite(tmp_path / "counts.tif", counts.astype(np.uint16))
    assert run(tmp_path / "counts.tif", "--noise", kind, "--json") == 0
    estimated = json.loads(capsys.readouterr().out)["noise"]["kind"]
    assert estimated == ("GaussianNoise" if kind == "gaussian" else "PoissonGaussianNoise")


def test_noise_that_does_not_grow_is_not_poisson(tmp_path, capsys):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((64, 64), np.uint16))
    assert run(tmp_path / "a.tif", "--noise", "poisson") == 1
    assert "has no noise that grows with the signal" in capsys.readouterr().err
    assert main(["noise", str(tmp_path / "a.tif"), "--kind", "poisson"]) == 1
    assert "has no noise that grows with the signal (the kind 'poisson')" in capsys.readouterr().err


def test_messages_name_options_and_not_arguments():
    from nlridge.cli.parser import build_parser
    from nlridge.jobs.words import _OPTIONS, with_options

    commands = build_parser().commands.choices.values()
    known = {name for command in commands for name in command._option_string_actions}
    assert set(_OPTIONS.values()) <= known
    assert with_options("sigma is 0; expected more noise") == "--sigma is 0; expected more noise"
    assert with_options("output is a and format is b") == "output is a and --format is b"
    assert with_options("image has noise; pass stack_axis") == "image has noise; pass --stack-axis"
    assert with_options("noisy is 1, and so is sigma") == "noisy is 1, and so is sigma"


def test_options_are_passed_on(tmp_path):
    from nlridge import denoise

    save(tmp_path / "a.png")
    noisy = np.asarray(Image.open(tmp_path / "a.png"))
    assert main(["denoise", str(tmp_path / "a.png"), "--sigma", "15", "--strength", "0.8", "--method", "bm3d", "--workers", "1", "--quiet"]) == 0  # fmt: skip
    expected = np.rint(np.clip(denoise(noisy, 15, strength=0.8, method="bm3d"), 0, 255))
    np.testing.assert_array_equal(np.asarray(Image.open(tmp_path / "a_denoised.png")), expected)


def test_the_noise_command_prints_the_noise_of_each_file(tmp_path, capsys):
    save(tmp_path / "a.png", size=128)
    stack = np.random.default_rng(0).normal(1000, 50, (3, 96, 96)).astype(np.uint16)
    tifffile.imwrite(tmp_path / "b.tif", stack, photometric="minisblack")
    (tmp_path / "c.png").write_bytes(b"x")
    assert main(["noise", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert f"{tmp_path / 'a.png'}: Gaussian noise with a standard deviation of " in said.out
    assert f"{tmp_path / 'b.tif'} (frame 2 of 3): Gaussian noise" in said.out
    assert "c.png: the content of the file is not an image in a supported format" in said.err
    assert main(["noise", str(tmp_path / "b.tif"), "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["noise"]["sigma"] == pytest.approx(50, rel=0.06)


def test_the_compare_command_prints_measures_of_difference(tmp_path, capsys):
    a = np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)
    b = np.clip(a.astype(int) + np.random.default_rng(1).integers(-9, 10, a.shape), 0, 255)
    b = b.astype(np.uint8)
    Image.fromarray(a).save(tmp_path / "a.png")
    Image.fromarray(b).save(tmp_path / "b.png")
    assert main(["compare", str(tmp_path / "a.png"), str(tmp_path / "b.png"), "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    error = a.astype(float) - b
    assert line["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)))
    assert line["psnr"] == pytest.approx(10 * np.log10(255**2 / np.mean(error**2)))
    assert line["largest"] == np.abs(error).max()
    expected = structural_similarity(
        a, b, channel_axis=-1, data_range=255, gaussian_weights=True, sigma=1.5,
        use_sample_covariance=False, win_size=11,
    )  # fmt: skip
    assert line["ssim"] == pytest.approx(expected, abs=1e-6)
    assert main(["compare", str(tmp_path / "a.png"), str(tmp_path / "a.png")]) == 0
    assert (
        "PSNR                inf dB (for a peak of 255)\nSSIM                1.0000"
        in capsys.readouterr().out
    )
    save(tmp_path / "c.png")
    assert main(["compare", str(tmp_path / "a.png"), str(tmp_path / "c.png")]) == 1
    assert "expected the same" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "a.png"), str(tmp_path / "b.png"), "--peak", "0"]) == 1
    assert "peak is 0.0; expected a positive number" in capsys.readouterr().err


def test_pixels_that_are_not_numbers_are_not_compared(tmp_path, capsys):
    a = np.array([[1.0, np.nan], [np.inf, 4.0]])
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", np.ones((2, 2)))
    np.save(tmp_path / "nan.npy", np.full((2, 2), np.nan))
    assert main(["compare", str(tmp_path / "a.npy"), str(tmp_path / "b.npy"), "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["largest"] == 3
    assert line["ssim"] is None
    assert main(["compare", str(tmp_path / "nan.npy"), str(tmp_path / "b.npy")]) == 1
    assert "no pixels that are finite in both; expected at least one" in capsys.readouterr().err


def test_axes_are_named_by_letters():
    assert axes_of(None, None) is None
    assert axes_of(-1, None) == "YXC"
    assert axes_of(1, 0) == "QCYX"  # T would mean that they follow each other in time
    with pytest.raises(ValueError, match=r"^--channel-axis is 3; expected a number from -3 to 2$"):
        axes_of(3, None)
    with pytest.raises(
        ValueError,
        match=r"^--stack-axis and --channel-axis are both 0; expected different axes$",
    ):
        axes_of(0, 0)


IGNORED = "the given axes were ignored, as the file names its own"


def test_axes_that_are_ignored_are_noted(tmp_path, capsys):
    stack = np.random.default_rng(0).normal(100, 9, (2, 70, 64)).astype(np.float32)
    file = str(tmp_path / "a.tif")
    tifffile.imwrite(file, stack, imagej=True, metadata={"axes": "ZYX"})
    named = [file, "--channel-axis", "0"]
    for words in ([], ["--tile", "64"]):
        assert run(*named, *words, "--overwrite") == 0
        assert f" s; {IGNORED}\n" in capsys.readouterr().out
        assert run(*named, *words, "--overwrite", "--json") == 0
        assert json.loads(capsys.readouterr().out)["notes"] == [IGNORED]
    assert run(file, "--tile", "64", "--overwrite", "--json") == 0
    assert json.loads(capsys.readouterr().out)["notes"] == []
    for words in (["noise", *named], ["compare", file, *named]):
        assert main(words) == 0
        said = capsys.readouterr()
        notes = 2 if words[0] == "compare" else 1
        assert said.err == f"nlridge: note: {file}: {IGNORED}\n" * notes
        assert IGNORED not in said.out


def test_axes_that_a_pyramid_ignores_are_noted(tmp_path, capsys):
    zarr = pytest.importorskip("zarr")
    axes = [{"name": name} for name in "zyx"]
    scales = [{"axes": axes, "datasets": [{"path": "0"}], "version": "0.4"}]
    file = str(tmp_path / "a.zarr")
    group = zarr.create_group(file, zarr_format=2, attributes={"multiscales": scales})
    noisy = np.random.default_rng(0).normal(100, 9, (2, 70, 64)).astype(np.float32)
    group.create_array("0", data=noisy, chunks=(1, 64, 64))
    assert run(file, "--channel-axis", "0") == 0
    assert f" s; {IGNORED}\n" in capsys.readouterr().out
    for words in (["noise", file], ["compare", file, file]):
        assert main([*words, "--channel-axis", "0"]) == 0
        assert f"nlridge: note: {file}: {IGNORED}\n" in capsys.readouterr().err
        assert main(words) == 0
        assert capsys.readouterr().err == ""


def test_frames_without_valid_pixels_are_kept(tmp_path, capsys):
    from nlridge import denoise

    stack = np.random.default_rng(0).normal(100, 9, (4, 32, 32)).astype(np.float32)
    stack[0] = stack[2] = np.nan
    np.save(tmp_path / "a.npy", stack)
    words = [tmp_path / "a.npy", "--stack-axis", "0", "--sigma", "9", "--overwrite"]
    note = "frames without valid pixels were left unchanged (2 of 4)"
    assert run(*words, "--report", tmp_path / "r.html") == 0
    said = capsys.readouterr().out
    assert "4 frames, frame 2 with Gaussian noise" in said
    assert f" s; {note}\n" in said
    expected = denoise(stack, 9, method="fast", stack_axis=0)
    np.testing.assert_array_equal(np.load(tmp_path / "a_denoised.npy"), expected)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "(given) in frame 2" in page
    assert run(*words, "--json") == 0
    line = json.loads(capsys.readouterr().out)
    assert [noise and noise["sigma"] for noise in line["noise"]] == [None, 9, None, 9]
    assert line["notes"] == [note]
    np.save(tmp_path / "a.npy", np.full_like(stack, np.nan))
    assert run(*words) == 1
    assert "image has no valid pixels; expected at least one" in capsys.readouterr().err


# When something goes wrong.


def test_thirty_files_of_which_three_are_bad(tmp_path, capsys):
    for k in range(30):
        save(tmp_path / "in" / f"{k:02d}.png", seed=k, size=24)
    (tmp_path / "in" / "05.png").write_bytes(b"")
    half = (tmp_path / "in" / "12.png").read_bytes()[:300]
    (tmp_path / "in" / "12.png").write_bytes(half)
    Image.new("RGB", (8, 8)).save(tmp_path / "in" / "20.png", "JPEG")
    assert run(tmp_path / "in", "-o", tmp_path / "out", "--sigma", "20") == 1
    said = capsys.readouterr()
    assert names(tmp_path / "out") == [f"{k:02d}.png" for k in range(30) if k not in (5, 12, 20)]
    failures = [line for line in said.err.splitlines() if line.startswith("nlridge: ")]
    assert [Path(line.split(": ")[1]).name for line in failures] == ["05.png", "12.png", "20.png"]
    assert "27 of 30 files done" in said.out


def started(*words):
    """The command line in a process that reacts to Ctrl-C, which a shell may have switched off for this one."""
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from nlridge.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "denoise", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


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
        process.wait(10)
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
        "from nlridge.files.atomic import writing\n"
        "with writing(pathlib.Path(sys.argv[1], 'a_denoised.png')) as file:\n"
        "    file.write(b'half')\n"
        "    os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert list(tmp_path.glob(".*.part"))
    assert run(tmp_path / "a.png") == 0
    assert names(tmp_path) == ["a.png", "a_denoised.png"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of files")
@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.npy", "a.jpg", "a.webp"])
def test_a_full_disk_leaves_no_half_file(tmp_path, name):
    """A write that fails half way: the kernel refuses to let a file grow beyond 4 kB."""
    save(tmp_path / name, size=200)
    program = f"""
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from nlridge.cli import main
import nlridge, numpy as np
nlridge.denoise(np.zeros((20, 20)), 1.0, method="fast")  # compiled, and kept, before the disk is full
import nlridge.files.formats.png, nlridge.files.formats.tiff, nlridge.files.formats.pillow, nlridge.cli.commands
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
sys.exit(main(["denoise", {str(tmp_path / name)!r}, "--sigma", "1", "--method", "fast"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{name}: " in done.stderr
    assert names(tmp_path) == [name]
