"""The commands denoise, noise and compare: their options, and what they print."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tifffile
from command_line import run, save
from PIL import Image
from skimage.metrics import structural_similarity

from nlridge import ArgumentError
from nlridge.apps.cli import main
from nlridge.apps.jobs.axes import axes_of
from nlridge.apps.jobs.words import with_options


def test_a_noiseless_image_may_be_called_gaussian(tmp_path):
    np.save(tmp_path / "a.npy", np.full((40, 40), 3.0))
    assert run(tmp_path / "a.npy", "--noise", "gaussian") == 0
    np.testing.assert_array_equal(np.load(tmp_path / "a_denoised.npy"), 3.0)


@pytest.mark.slow
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
    from nlridge.apps.cli.parser import build_parser
    from nlridge.apps.jobs.words import with_options
    from nlridge.apps.options import FLAGS
    from nlridge.errors import ArgumentError, Words

    commands = build_parser().commands.choices.values()
    known = {name for command in commands for name in command._option_string_actions}
    assert set(FLAGS.values()) <= known
    error = ArgumentError("sigma", 0, "more noise")
    assert with_options(error) == "--sigma is 0; expected more noise"
    error = ArgumentError("output", "a", "them to agree", found="is a and `format` is b")
    assert with_options(error) == "output is a and --format is b; expected them to agree"
    error = ArgumentError("image", None, "`stack_axis`", found="has noise")
    assert with_options(error) == "image has noise; expected --stack-axis"
    warning = UserWarning(Words("`noise='poisson'` is better"))
    assert with_options(warning) == "--noise poisson is better"
    assert with_options(ValueError("sigma is 1")) == "sigma is 1"


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
    first, second = said.out.splitlines()
    assert first.startswith(f"{tmp_path / 'a.png'}: very strong noise, about ")
    assert "% of the range; Gaussian noise with a standard deviation of " in first
    assert second.startswith(f"{tmp_path / 'b.tif'} (frame 2 of 3): very strong noise, about ")
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
    with pytest.raises(ArgumentError) as caught:
        axes_of(3, None)
    assert with_options(caught.value) == "--channel-axis is 3; expected a number from -3 to 2"
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
    assert re.search("4 frames, frame 2 with [^;]* noise, [^;]*; Gaussian noise", said)
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
