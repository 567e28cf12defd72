"""Noise that may be texture: the warning about it, the command that removes it, and the effect of a larger strength."""

import json
import shlex
import warnings

import numpy as np
import pytest
from correlated_images import KERNELS, noise_of
from PIL import Image

import nlridge
from nlridge.apps.cli import main
from nlridge.planning import blind
from nlridge.planning.doubts import NoiseWarning

SENTENCE = "noise of about 7.9 is left, since it is texture with a probability of 60%; "


def scene(side=192):
    y, x = np.mgrid[:side, :side]
    return 110 + 60 * np.sin(x / 31) * np.cos(y / 27) + 20 * (np.hypot(y - 90, x - 80) < 40)


def noisy(sigma=8):
    return np.rint(scene() + sigma * noise_of(KERNELS["blur"], scene().shape)).clip(0, 255)


@pytest.fixture
def doubted(monkeypatch):
    """Return a function that makes what clearly is noise less probable."""
    clear = blind.correlated_noise_of

    def doubt(probability):
        def found(*arguments):
            return clear(*arguments)._replace(probability=probability)

        monkeypatch.setattr(blind, "correlated_noise_of", found)

    return doubt


def removed(image, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        return nlridge.denoise_with_details(image, method="fast", **options).removed


@pytest.mark.slow
def test_a_warning_names_the_argument_that_removes_it(doubted, tmp_path):
    image = noisy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        full = nlridge.denoise(image, method="fast")
    doubted(0.4)
    with pytest.warns(NoiseWarning, match=rf"^{SENTENCE}noise='correlated' removes it$") as caught:
        part = nlridge.denoise(image, method="fast")
    assert caught[0].filename == __file__
    assert np.std(part - image) < 0.2 * np.std(full - image)
    with pytest.warns(NoiseWarning, match="is left"):
        nlridge.denoise_to_disk(image, tmp_path / "a.npy", method="fast")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(nlridge.denoise(image, noise="correlated", method="fast"), full)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.png", "it's a name.png"])
def test_the_printed_command_removes_it(doubted, tmp_path, capsys, monkeypatch, name):
    doubted(0.4)
    monkeypatch.chdir(tmp_path)
    image = noisy().astype(np.uint8)
    Image.fromarray(image).save(name)
    words = ["denoise", name, "--method", "fast", "-o", "clean.png", "--report", "r.html"]
    assert main(words) == 0
    [note] = [line for line in capsys.readouterr().err.splitlines() if "is left" in line]
    assert note.startswith(f"nlridge: note: {name}: {SENTENCE}this removes it: nlridge denoise ")
    assert (
        "this removes it: nlridge denoise --noise correlated" in (tmp_path / "r.html").read_text()
    )
    left = np.std(np.asarray(Image.open("clean.png")) - scene())
    command = shlex.split(note.partition("this removes it: ")[2])
    assert command[0] == "nlridge"
    assert main(command[1:]) == 0
    assert "is left" not in capsys.readouterr().err
    assert np.std(np.asarray(Image.open("clean.png")) - scene()) < 0.5 * left
    assert main([*words[:-2], "--overwrite", "--json"]) == 0
    assert "this removes it" in json.loads(capsys.readouterr().out)["notes"][0]


def test_the_estimate_says_the_same(doubted, tmp_path, capsys, monkeypatch):
    doubted(0.4)
    with pytest.warns(NoiseWarning, match=f"^{SENTENCE}"):
        nlridge.estimate_noise(noisy())
    monkeypatch.chdir(tmp_path)
    Image.fromarray(noisy().astype(np.uint8)).save("a.png")
    assert main(["noise", "a.png"]) == 0
    [note] = capsys.readouterr().err.splitlines()
    command = "nlridge denoise --noise correlated a.png"
    assert note == f"nlridge: note: a.png: {SENTENCE}this removes it: {command}"
    doubted(0.1)
    assert main(["noise", "a.png"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_studio_says_the_same(doubted):
    parts = pytest.importorskip("nlridge.apps.studio.parts")
    doubted(0.4)
    words = parts.measure(noisy().astype(np.uint8)[None], "auto").described()["words"]
    assert words.endswith(f"; {SENTENCE}--noise correlated removes it")
    sampled = parts.measure(noisy().astype(np.uint8)[None], "auto", sampled=True)
    assert sampled.described()["words"] == words


@pytest.mark.slow
@pytest.mark.parametrize("probability", [0.4, 0.1])
def test_a_larger_strength_removes_more_of_what_is_doubted(doubted, probability):
    """Also if there is white noise beside it, as there is in the brightness of this image."""
    image = noisy() + np.random.default_rng(1).normal(0, 1.5, (192, 192))
    full = removed(image)
    doubted(probability)
    found = blind.estimate_of(image[None], None).noise
    assert isinstance(found, nlridge.GaussianNoise)
    amounts = [removed(image, strength=strength) for strength in (1, 1.5, 3, 10)]
    assert amounts == sorted(amounts)
    assert amounts[0] < 0.3 * full
    assert amounts[1] > 1.2 * amounts[0]
    assert amounts[2] > 0.6 * full
    assert amounts[3] > 0.8 * full


@pytest.mark.slow
def test_nothing_is_said_of_images_without_noise():
    y, x = np.mgrid[:256, :256]
    drawing = np.where(np.hypot(y - 100, x - 90) < 50, 200.0, 30.0)
    contrast = np.exp(np.sin(x / 50) * np.cos(y / 40))
    texture = 110 + 8 * contrast * noise_of(KERNELS["blur"], x.shape)
    smooth = np.rint(110 + 60 * np.sin(x / 31) * np.cos(y / 27))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for image in (drawing, texture, smooth):
            nlridge.denoise(image, method="fast")


@pytest.mark.slow
def test_a_warning_names_the_argument_that_keeps_what_may_be_texture(doubted, tmp_path, capsys):
    image = noisy()
    doubted(0.6)
    sentence = "what is removed is texture, rather than noise, with a probability of 40%; "
    with pytest.warns(NoiseWarning, match=f"^{sentence}noise='gaussian' keeps it$"):
        nlridge.denoise(image, method="fast")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = nlridge.denoise(image, noise="gaussian", method="fast")
    assert np.std(kept - image) < 0.5 * removed(image)
    Image.fromarray(image.astype(np.uint8)).save(tmp_path / "a.png")
    assert main(["denoise", str(tmp_path / "a.png"), "--method", "fast"]) == 0
    assert "this keeps it: nlridge denoise --noise gaussian" in capsys.readouterr().err
    doubted(0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlridge.denoise(image, method="fast")
