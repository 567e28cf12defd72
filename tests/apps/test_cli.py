"""The command line as users meet it: demo, help, completion, and commands in fresh processes."""

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from nlridge import __version__, denoise
from nlridge.apps.cli import main
from nlridge.files import read


def test_the_demo_cleans_a_photograph_and_draws_both(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--method", "fast", "-o", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "512 x 512 pixels\nGaussian noise with a standard deviation of 25 (given)" in said
    assert "20.59 dB noisy" in said
    assert f"side by side: {picture}" in said
    denoised = float(said.split(" dB denoised")[0].split()[-1])
    assert denoised == pytest.approx(29.91, abs=0.03)
    with Image.open(picture) as image:
        assert image.width == 2 * 512 + 8
        noisy, clean = np.asarray(image)[60:, :512], np.asarray(image)[60:, 520:]
    flat = np.s_[:60, :90]  # sky
    assert clean[flat].std() < 0.2 * noisy[flat].std()
    assert [file.name for file in tmp_path.iterdir()] == ["demo.png"]


@pytest.mark.parametrize("mode", ["L", "I;16", "F", "RGB", "P"])
def test_the_demo_takes_an_image_of_any_mode(tmp_path, capsys, mode):
    noisy = np.clip(np.random.default_rng(0).normal(120, 20, (40, 60)), 0, 255)
    if mode == "I;16":
        image = Image.fromarray((noisy * 100).astype(np.uint16))
    elif mode == "F":
        image = Image.fromarray(noisy.astype(np.float32))
    else:
        image = Image.fromarray(noisy.astype(np.uint8)).convert(mode)
    file = tmp_path / ("noisy.tif" if mode == "F" else "noisy.png")
    image.save(file)
    picture = tmp_path / "out.png"
    sigma = "2000" if mode == "I;16" else "20"
    assert main(["demo", str(file), "--sigma", sigma, "--output", str(picture)]) == 0
    said = capsys.readouterr().out
    assert f"denoised {file.name}, 60 x 40 pixels\n" in said
    assert f"Gaussian noise with a standard deviation of {sigma} (given)" in said
    assert "PSNR" not in said  # the truth is not known
    with Image.open(picture) as image:
        clean = np.asarray(image)[-40:, 68:]
    assert clean.shape == ((40, 60, 3) if mode in ("RGB", "P") else (40, 60))


def test_the_demo_replaces_only_its_default_output(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.full((24, 24), 90, np.uint8)).save("noisy.png")
    for name in ("d.png", "demo.png"):
        (tmp_path / name).write_text("precious")
    words = ["demo", "noisy.png", "--sigma", "5", "--method", "fast"]
    for name in ("d.png", "demo.png"):
        assert main([*words, "--output", name]) == 1
        expected = f"nlridge: output is {name}, which exists; expected a new name\n"
        assert capsys.readouterr().err == expected
        assert (tmp_path / name).read_text() == "precious"
    assert main(words) == 0
    with Image.open("demo.png") as image:
        assert image.width == 2 * 24 + 8


@pytest.mark.parametrize("output", ["noisy.png", "d.png", "d.psd"])
def test_the_demo_checks_its_output_before_any_work(tmp_path, monkeypatch, output):
    from nlridge.apps.cli import demo

    def fail(*_, **__):
        raise AssertionError("the image was denoised")

    monkeypatch.chdir(tmp_path)
    Image.fromarray(np.full((24, 24), 90, np.uint8)).save("noisy.png")
    (tmp_path / "d.png").write_text("precious")
    monkeypatch.setattr(demo, "denoise", fail)
    assert main(["demo", "noisy.png", "--sigma", "5", "--output", output]) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.png", "--sigma", "20"], "No such file or directory: 'nothing.png'"),
        (
            ["README.md", "--sigma", "20"],
            "the suffix of the file is .md; expected one of .bmp",
        ),
        (["--sigma", "-3"], "sigma is -3.0; expected a positive number"),
        (["--output", "no/such/folder/x.png"], "No such file or directory"),
        (["--output", "x.psd"], "the suffix of the file is .psd; expected one of .bmp"),
    ],
)
def test_one_sentence_for_each_failure(capsys, arguments, sentence):
    assert main(["demo", *arguments]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("nlridge: ")
    assert sentence in said.err
    assert said.err.count("\n") == 1


def run(program, **environment):
    return subprocess.run(
        [sys.executable, *program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_version_and_help_start_without_the_kernels():
    version = run(["-m", "nlridge", "--version"]).stdout
    assert version.startswith(f"nlridge {__version__}\nPython 3.")
    assert "numba 0." in version
    for words, expected in (
        ([], "nlridge denoise photo.jpg"),
        (["denoise"], "--skip-existing"),
        (["demo"], "side-by-side image"),
    ):
        shown = run(["-X", "importtime", "-m", "nlridge", *words, "--help"])
        assert expected in shown.stdout
        for heavy in ("numba", "numpy", "PIL", "tqdm", "tifffile"):
            assert heavy not in shown.stderr


def test_help_imports_little():
    """Few modules of its own, and of others only those of the standard library: it comes at once."""
    program = (
        "import runpy, sys\nbefore = set(sys.modules)\nsys.argv = ['nlridge', '--help']\ntry: "
    )
    program += "runpy.run_module('nlridge', run_name='__main__')\nfinally: print(set(sys.modules) - before)"
    new = eval(run(["-c", program]).stdout.splitlines()[-1])
    others = [name for name in new if name.split(".")[0] not in sys.stdlib_module_names]
    assert len(new) < 200
    assert "nlridge.apps.cli.parser" in others
    assert {name.split(".")[0] for name in others} == {"nlridge"}
    assert len(others) < 12


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_scripts_name_the_options(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("denoise", "compare", "skip-existing", "channel-axis"):
        assert word in script


def test_bash_accepts_the_completion_script():
    script = run(["-m", "nlridge", "completion", "bash"]).stdout
    done = subprocess.run(
        ["bash", "-c", script + "\ncomplete -p nlridge"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "nlridge" in done.stdout


def test_the_methods_of_the_command_line_are_the_recipes():
    from nlridge import method_names
    from nlridge.apps.options import METHODS, OPTIONS

    assert method_names() == OPTIONS["method"].choices == tuple(METHODS)


def test_the_kinds_of_noise_of_the_command_line_are_those_of_python():
    from nlridge.apps.options import OPTIONS
    from nlridge.planning.options import NOISE_KINDS

    assert OPTIONS["noise"].choices == tuple(NOISE_KINDS)


def test_the_methods_command_measures_their_speed(monkeypatch, capsys):
    """The best of three runs of each, by a clock that each call of a method advances."""
    from nlridge.apps.cli import commands

    names = ["preview", "fast", "standard", "best", "nl-ridge", "nl-bayes", "bm3d"]
    clock, runs = [100.0], []

    def timed(image, sigma, method, **options):
        if image.size == 2**16:
            runs.append(method)
            clock[0] += (1 + names.index(method)) * (2 - runs.count(method) % 2)
        return denoise(image[:16, :16], sigma, method=method, **options)

    monkeypatch.setattr(commands, "denoise_image", timed)
    monkeypatch.setattr(commands.time, "perf_counter", lambda: clock[0])
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    speeds = {line.split()[0]: float(line.split()[1]) for line in lines[1 : 1 + len(names)]}
    assert list(speeds) == names
    assert runs == [name for name in names for _ in range(3)]
    for seconds, speed in enumerate(speeds.values(), start=1):
        assert speed == pytest.approx(0.065536 / seconds, abs=0.006)


@pytest.mark.long
def test_compilation_is_announced_once_and_then_kept(tmp_path):
    command = ["-m", "nlridge", "demo", "--method", "fast", "--output"]
    cache = str(tmp_path / "cache")
    first, second = (
        run([*command, str(tmp_path / name)], NUMBA_CACHE_DIR=cache) for name in ("x.png", "y.png")
    )
    assert first.returncode == second.returncode == 0
    assert first.stderr == "compiling for this CPU, once ...\n"
    assert second.stderr == ""


@pytest.mark.long
def test_it_works_where_no_cache_can_be_written_and_says_so_once():
    program = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []  # as on a machine without any writable folder
import numpy as np, nlridge
print(nlridge.denoise(np.zeros((20, 20)), 1).shape)
"""
    done = run(["-c", program])
    assert done.stdout == "(20, 20)\n"
    assert done.stderr.count("RuntimeWarning: nlridge cannot save its compiled kernels") == 1
    assert done.stderr.count("nlridge is compiling for this CPU; this takes") == 1
    assert "once" not in done.stderr


# In a fresh process, which has not imported yet what a command forgot to import.


def nlridge(*words, **options):
    command = [sys.executable, "-m", "nlridge", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """A noisy image in each format."""
    folder = tmp_path_factory.mktemp("noisy")
    pixels = np.random.default_rng(0).normal(120, 15, (40, 48)).clip(0, 255).astype(np.uint8)
    for name in ("a.png", "a.jpg", "a.webp", "a.tif"):
        Image.fromarray(pixels).save(folder / name)
    np.save(folder / "a.npy", pixels)
    cards = ["SIMPLE  = T", "BITPIX  = 8", "NAXIS   = 2", "NAXIS1  = 48", "NAXIS2  = 40", "END"]
    header = "".join(card.ljust(80) for card in cards).ljust(2880)
    (folder / "a.fits").write_bytes(header.encode() + pixels.tobytes().ljust(2880, b"\0"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.fits"])
def test_denoise_in_a_fresh_process(noisy, name, tmp_path):
    done = nlridge("denoise", noisy / name, "-o", tmp_path / name, "--method", "fast", "--json")
    assert done.stderr in ("", "compiling for this CPU, once ...\n")
    assert done.returncode == 0
    before, after = (read(folder / name).layers[0].pixels for folder in (noisy, tmp_path))
    assert (after.shape, after.dtype) == (before.shape, before.dtype)
    assert after.std() < (0.6 if name == "a.jpg" else 0.3) * before.std()


@pytest.mark.slow
def test_denoise_tile_by_tile_in_a_fresh_process(noisy, tmp_path):
    done = nlridge("denoise", noisy / "a.npy", "-o", tmp_path / "a.npy", "--tile", "64", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert np.load(tmp_path / "a.npy").std() < 1.5


@pytest.mark.slow
def test_noise_in_a_fresh_process(noisy):
    done = nlridge("noise", noisy)
    assert done.returncode == 0
    assert done.stdout.count("; Gaussian noise with a standard deviation of ") == 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.webp", "a.npy", "a.fits"])
def test_compare_in_a_fresh_process(noisy, name):
    done = nlridge("compare", noisy / name, noisy / name)
    assert (done.returncode, done.stderr) == (0, "")
    assert "PSNR                inf dB" in done.stdout


def test_the_demo_needs_no_other_package(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "skimage", None)
    assert main(["demo", "--method", "fast", "-o", str(tmp_path / "x.png")]) == 0
    assert "denoised a photograph of a cameraman" in capsys.readouterr().out


@pytest.mark.slow
def test_demo_in_a_fresh_process(noisy, tmp_path):
    for k, words in enumerate(([], [noisy / "a.fits", "--sigma", "15"])):
        done = nlridge("demo", *words, "--method", "fast", "--output", tmp_path / f"{k}.png")
        assert done.returncode == 0
        assert "side by side: " in done.stdout


@pytest.mark.slow
def test_report_in_a_fresh_process(noisy, tmp_path):
    words = ["--method", "fast", "--quiet", "--report", tmp_path / "r.html"]
    done = nlridge("denoise", noisy / "a.fits", "-o", tmp_path / "a.fits", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert "a.fits" in (tmp_path / "r.html").read_text("utf-8")


# Unknown words.


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["denoize", "a.png"], "invalid choice: 'denoize'; did you mean denoise? (choose from"),
        (["denoise", "a.png", "--sgma", "10"], "--sgma 10; did you mean --sigma?"),
        (["denoise", "a.png", "--sgma=10"], "--sgma=10; did you mean --sigma?"),
        (["denoise", "a.png", "--method", "standrad"], "'standrad'; did you mean standard?"),
        (["compare", "a.png", "b.png", "--peek", "1"], "did you mean --peak?"),
        (["completion", "bahs"], "did you mean bash?"),
    ],
)
def test_a_misspelt_word_gets_a_suggestion(capsys, words, hint):
    with pytest.raises(SystemExit) as error:
        main(words)
    assert error.value.code == 2
    assert hint in capsys.readouterr().err


def test_an_unknown_word_is_refused_without_a_suggestion(capsys):
    with pytest.raises(SystemExit):
        main(["denoise", "a.png", "--zzz\x1b[31m", ""])
    said = capsys.readouterr().err
    assert "unrecognized arguments: --zzz\\x1b[31m" in said
    assert "did you mean" not in said


# Where the output goes.


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are those of POSIX")
@pytest.mark.parametrize("words", [["completion", "bash"], ["--help"], ["--version"], ["noise", "a.png"]])  # fmt: skip
def test_a_reader_that_stops_reading_causes_no_error(noisy, words):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "nlridge", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=noisy)
    os.close(writing)
    # argparse ends as usual whether or not its help is read.
    assert done.returncode == (0 if words == ["--help"] else 141)
    assert done.stderr == ""


HOSTILE = b"\x1b[31mred\nline \xff \xe2\x82\xac.png"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names of files are always text")
@pytest.mark.parametrize(
    ("command", "encoding"),
    [("denoise", "ascii"), ("noise", "utf-8"), ("noise", "ascii"), ("demo", "ascii"), ("compare", "utf-8")],
)  # fmt: skip
def test_names_that_cannot_be_printed_are_escaped(noisy, tmp_path, command, encoding):
    place = os.path.join(os.fsencode(tmp_path), HOSTILE)
    broken = os.path.join(os.fsencode(tmp_path), b"a" + HOSTILE)
    with open(place, "wb") as file, open(broken, "wb") as other:
        file.write((noisy / "a.png").read_bytes())
        other.write(b"no image")
    words = {
        "denoise": [place, broken, noisy / "a.tif", "-o", tmp_path / "out", "--report", tmp_path / "r.html"],
        "noise": [place, broken, noisy / "a.tif"],
        "demo": [place, "--output", tmp_path / "demo\x1b.png"],
        "compare": [broken, place],
    }[command]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "nlridge", command, *words],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"},
    )
    said = done.stdout + done.stderr
    assert b"Traceback" not in said
    assert b"\x1b" not in said
    assert rb"\x1b[31mred\nline \udcff " in said
    if command in ("denoise", "noise"):  # the others are done all the same
        assert done.returncode == 1
        assert b"a.tif" in done.stdout
        assert done.stderr.count(b"nlridge: ") == 1
    if command == "denoise":
        assert sorted(os.listdir(os.fsencode(tmp_path / "out"))) == [HOSTILE, b"a.tif"]
        assert b"\x1b" not in (tmp_path / "r.html").read_bytes()
