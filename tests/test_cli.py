"""The command line as a person meets it."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from nlridge import __version__
from nlridge.cli import main


def test_demo(tmp_path, capsys):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--method", "fast", "--output", str(picture)]) == 0
    said = capsys.readouterr().out
    assert "512 x 512 pixels\nGaussian noise with a standard deviation of 25 (given)" in said
    assert "20.59 dB noisy" in said
    assert f"side by side: {picture}" in said
    denoised = float(said.split(" dB denoised")[0].split()[-1])
    assert 29.5 < denoised < 31
    with Image.open(picture) as image:
        assert image.width == 2 * 512 + 8
        noisy, clean = np.asarray(image)[60:, :512], np.asarray(image)[60:, 520:]
    flat = np.s_[:60, :90]  # sky
    assert clean[flat].std() < 0.3 * noisy[flat].std()
    assert [file.name for file in tmp_path.iterdir()] == ["demo.png"]


@pytest.mark.parametrize("mode", ["L", "I;16", "F", "RGB", "P"])
def test_demo_with_an_image_of_ones_own(tmp_path, capsys, mode):
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
    assert f"cleaned {file.name}, 60 x 40 pixels\n" in said
    assert f"Gaussian noise with a standard deviation of {sigma} (given)" in said
    assert "PSNR" not in said  # the truth is not known
    with Image.open(picture) as image:
        clean = np.asarray(image)[-40:, 68:]
    assert clean.shape == ((40, 60, 3) if mode in ("RGB", "P") else (40, 60))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing.png", "--sigma", "20"], "No such file or directory: 'nothing.png'"),
        (
            ["README.md", "--sigma", "20"],
            "files that end in .md are not known; expected one of .png",
        ),
        (["--sigma", "-3"], "sigma is -3.0; expected a positive number"),
        (["--output", "no/such/folder/x.png"], "No such file or directory"),
        (["--output", "x.gif"], "files that end in .gif are not known"),
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
        (["demo"], "side-by-side picture"),
    ):
        shown = run(["-X", "importtime", "-m", "nlridge", *words, "--help"])
        assert expected in shown.stdout
        for heavy in ("numba", "numpy", "PIL", "tqdm", "tifffile"):
            assert heavy not in shown.stderr


def test_help_comes_at_once():
    def seconds(program):
        found = []
        for _ in range(5):
            start = time.perf_counter()
            run(program)
            found.append(time.perf_counter() - start)
        return min(found)

    assert seconds(["-m", "nlridge", "--help"]) < 0.3 + seconds(["-c", "pass"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "nlridge" in script
    assert "skip-existing" in script


def test_bash_takes_the_completion():
    script = run(["-m", "nlridge", "completion", "bash"]).stdout
    done = subprocess.run(
        ["bash", "-c", script + "\ncomplete -p nlridge"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "nlridge" in done.stdout


def test_the_methods_of_the_command_line_are_the_recipes():
    from nlridge import recipe_names
    from nlridge.cli import _METHODS
    from nlridge.commands import _PURPOSES

    assert recipe_names() == _METHODS == tuple(_PURPOSES)


def test_methods_are_measured(capsys):
    assert main(["methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {line.split()[0]: float(line.split()[1]) for line in lines[1:7]}
    assert list(found) == ["fast", "standard", "best", "nl-ridge", "nl-bayes", "bm3d"]
    assert found["fast"] > found["nl-ridge"] > found["best"] > 0


def test_importing_the_package_imports_nothing_heavy():
    program = "import sys, nlridge; print({'numpy', 'numba', 'PIL', 'tqdm'} & set(sys.modules))"
    assert run(["-c", program]).stdout == "set()\n"


def test_compilation_is_announced_once_and_then_kept(tmp_path):
    command = ["-m", "nlridge", "demo", "--method", "fast", "--output", str(tmp_path / "x.png")]
    cache = str(tmp_path / "cache")
    first, second = run(command, NUMBA_CACHE_DIR=cache), run(command, NUMBA_CACHE_DIR=cache)
    assert first.returncode == second.returncode == 0
    assert first.stderr == "compiling for this CPU, once ...\n"
    assert second.stderr == ""


def test_it_works_where_no_cache_can_be_written_and_says_so_once():
    program = """
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []  # as on a machine without any writable folder
import numpy as np, nlridge
print(nlridge.denoise(np.zeros((20, 20)), 1).shape)
"""
    done = run(["-c", program])
    assert done.stdout == "(20, 20)\n"
    assert done.stderr.count("RuntimeWarning: nlridge found no folder") == 1


@pytest.mark.parametrize("features", ["without AVX-512", "as it is"])
def test_both_vector_widths_agree(features):
    """The kernels for 8 and for 16 lanes give the same image but for rounding."""
    import llvmlite.binding as llvm

    host = llvm.get_host_cpu_features()
    if not host.get("avx512f", False):
        pytest.skip("this CPU has no AVX-512, so there is one width only")
    narrow = ",".join(
        ("-" if name.startswith(("avx512", "avx10", "amx", "evex512")) or not on else "+") + name
        for name, on in host.items()
    )
    environment = {}
    if features == "without AVX-512":
        environment = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": narrow}
    program = """
import numpy as np, nlridge
from nlridge.kernels.simd import LANES
y, x = np.mgrid[:60, :80]
noisy = 100 + 50 * np.sin(x / 3) + np.random.default_rng(0).normal(0, 10, x.shape)
print(LANES, [float(nlridge.denoise(noisy, 10, method=m, data_range=255)[20, 30]) for m in nlridge.recipe_names()])
"""
    done = run(["-c", program], **environment)
    lanes, values = done.stdout.split(" ", 1)
    assert lanes == ("8" if environment else "16")
    from nlridge import denoise, recipe_names

    x = np.mgrid[:60, :80][1]
    noisy = 100 + 50 * np.sin(x / 3) + np.random.default_rng(0).normal(0, 10, x.shape)
    here = [float(denoise(noisy, 10, method=m, data_range=255)[20, 30]) for m in recipe_names()]
    np.testing.assert_allclose(np.fromstring(values.strip(" []\n"), sep=","), here, atol=0.01)
