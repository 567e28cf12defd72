"""What nlridge is told and what it says: kinds of noise, warnings, and what was found and removed."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from skimage import data

import nlridge
from nlridge import (
    denoise,
    denoise_to_disk,
    denoise_with_details,
    estimate_noise,
    estimate_quality,
)
from nlridge.apps.cli import main
from nlridge.noise.correlated import correlation_between
from nlridge.noise.drawing import draw


def photons(height=96, width=96):
    """Counts of photons: noise that grows with the signal."""
    y, x = np.mgrid[:height, :width]
    truth = 60 + 50 * np.sin(x / 15) * np.cos(y / 20)
    return np.random.default_rng(0).poisson(truth).astype(np.float32)


# The kind of noise to estimate.


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["auto", "gaussian", "poisson"])
def test_all_functions_take_the_same_kinds_of_noise(kind):
    image = photons(160, 160)
    model = estimate_noise(image, kind=kind)
    expected = denoise(image, noise=model, method="fast")
    details = denoise_with_details(image, noise=kind, method="fast")
    assert details.noise == model
    assert not details.noise_given
    assert denoise_with_details(image, noise=model, method="fast").noise_given
    np.testing.assert_array_equal(details.image, expected)
    np.testing.assert_array_equal(denoise(image, noise=kind, method="fast"), expected)
    estimated = estimate_quality(image, noise=kind, method="fast")
    given = estimate_quality(image, noise=model, method="fast")
    assert estimated.psnr == given.psnr
    assert estimated.standard_error > given.standard_error


@pytest.mark.slow
def test_large_images_take_the_same_kinds_of_noise(tmp_path):
    da = pytest.importorskip("dask.array")
    image = photons(160, 160)
    expected = denoise(image, noise=estimate_noise(image, kind="gaussian"), method="fast")
    options = {"noise": "gaussian", "method": "fast"}
    np.testing.assert_array_equal(denoise_to_disk(image, tmp_path / "a.npy", **options), expected)
    np.testing.assert_array_equal(denoise(da.from_array(image), **options).compute(), expected)


def test_tensors_take_the_same_kinds_of_noise():
    torch = pytest.importorskip("torch")
    image = photons(64, 64)
    sigma = estimate_noise(image, kind="gaussian").sigma
    for needs_gradient in (False, True):
        tensor = torch.tensor(image, requires_grad=needs_gradient)
        result = denoise(tensor, noise="gaussian", method="fast")
        assert torch.equal(result, denoise(tensor, sigma, method="fast"))


def test_unknown_kinds_of_noise():
    expected = "'loud'; expected 'auto', 'gaussian', 'poisson' or 'correlated'"
    with pytest.raises(ValueError, match=f"noise is {expected}"):
        denoise(np.zeros((9, 9)), noise="loud")
    with pytest.raises(ValueError, match=f"kind is {expected}"):
        estimate_noise(np.zeros((9, 9)), kind="loud")
    with pytest.raises(ValueError, match="sigma is given and noise is 'poisson'; expected at most"):
        denoise(np.zeros((9, 9)), 1, noise="poisson")


# A sigma that cannot be meant.


def scene(dtype=np.float64, scale=1.0, noise=5.0, shape=(64, 64)):
    """A smooth image from 20 to 230, with noise, times a scale."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    truth = 125 + 100 * np.sin(x / 9) * np.cos(y / 11)
    noisy = truth + np.random.default_rng(0).normal(0, noise, shape)
    return (np.clip(noisy, 0, 255) * scale).astype(dtype)


IMPLAUSIBLE = {
    "floats": (scene(scale=1 / 255), 25, r"sigma is 25, but the image ranges from 0\.\d+ to 0\.8"),
    "eight bits": (scene(np.uint8), 0.1, "sigma is 0.1, .* less than the rounding error of uint8"),
    "sixteen bits": (scene(np.uint16, 10), 0.02, "sigma is 0.02, .* rounding error of uint16"),
    "small integers": (scene(np.int16, 0.1), 0.2, "sigma is 0.2, .* the rounding error of int16"),
    "no effect": (scene(), 1e-5, "sigma is 1e-05, which has no effect, since the image ranges"),
    "beyond the type": (scene(np.uint8), 200, "200, but the largest value of uint8 is 255"),
    "a model": (scene(scale=1e-4), nlridge.GaussianNoise(5), "sigma is 5, but the image ranges"),
    "a map": (
        scene(np.uint8),
        np.linspace(0.05, 0.15, 64) * np.ones((64, 1)),
        "sigma is 0.1, ",
    ),
    "correlated": (scene(np.uint8), nlridge.CorrelatedNoise(0.1, [[0.5, 1, 0.5]]), "rounding"),
}


@pytest.mark.parametrize(("image", "noise", "words"), IMPLAUSIBLE.values(), ids=IMPLAUSIBLE)
def test_a_sigma_that_cannot_be_meant_gets_a_warning(image, noise, words):
    name = "noise" if hasattr(noise, "level") else "sigma"
    with pytest.warns(UserWarning, match=words) as caught:
        denoise(image, **{name: noise}, method="fast")
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line of the caller
    assert str(caught[0].message).endswith(
        "expected a standard deviation in the units of the image"
    )


RNG = np.random.default_rng(0)
PLAUSIBLE = {
    "pure noise": (RNG.normal(0, 3, (64, 64)), 3),
    "pure noise, large": (RNG.normal(1000, 3, (512, 512)), 3),
    "pure noise, tiny": (RNG.normal(0, 3, (8, 8)), 3),
    "more noise than signal": (scene() + RNG.normal(0, 2000, (64, 64)), 2000),
    "a constant image": (np.full((64, 64), 7.0), 10),
    "a black image": (np.zeros((64, 64), np.uint8), 10),
    "few gray levels": (scene(np.uint16, 0.05), 0.5),
    "sixteen bits": (scene(np.uint16, 100), 8),
    "clipped": (np.clip(scene() + RNG.normal(0, 120, (64, 64)), 0, 255).astype(np.uint8), 120),
    "small units": (scene(scale=1e-20), 5e-20),
    "large units": (scene(scale=1e20), 5e20),
    "mostly missing": (np.where(RNG.random((64, 64)) < 0.8, np.nan, RNG.normal(0, 3, (64, 64))), 3),
    "photons": (photons(), nlridge.PoissonGaussianNoise(1)),
    "photons in other units": (photons(), nlridge.PoissonGaussianNoise(1e6)),
    "stripes": (RNG.normal(0, 3, (64, 1)) * np.ones((64, 64)), nlridge.CorrelatedNoise.lines(3)),
}


@pytest.mark.parametrize(("image", "noise"), PLAUSIBLE.values(), ids=PLAUSIBLE)
def test_a_sigma_that_can_be_meant_gets_none(image, noise):
    """Warnings are errors here."""
    denoise(image, **{"noise" if hasattr(noise, "level") else "sigma": noise}, method="fast")


def test_some_channels_without_noise_get_no_warning():
    image = np.stack([scene(np.uint8), scene(np.uint8, noise=0), scene(np.uint8)])
    denoise(image, (5, 0.01, 5), channel_axis=0, method="fast")
    with pytest.warns(UserWarning, match="sigma is up to 0.2, which is less than the rounding"):
        denoise(image, (0.2, 0.1, 0.2), channel_axis=0, method="fast")


def test_a_range_that_is_given_counts():
    image = scene()
    denoise(image, 300, data_range=255, method="fast")
    with pytest.warns(UserWarning, match="sigma is 25, but the image ranges from 0 to 1;"):
        denoise(image, 25, data_range=1, method="fast")


def test_one_warning_for_a_stack_wherever_it_is_denoised(tmp_path):
    da = pytest.importorskip("dask.array")
    torch = pytest.importorskip("torch")
    stack = np.stack([scene(np.float32, 1 / 255)] * 3)
    calls = {
        "array": lambda: denoise(stack, 25, stack_axis=0, method="fast"),
        "tiles": lambda: denoise_to_disk(
            stack, tmp_path / "a.npy", 25, stack_axis=0, method="fast"
        ),
        "Dask": lambda: denoise(da.from_array(stack), 25, stack_axis=0, method="fast"),
        "tensor": lambda: denoise(torch.tensor(stack), 25, stack_axis=0, method="fast"),
        "gradient": lambda: denoise(
            torch.tensor(stack, requires_grad=True), 25, stack_axis=0, method="fast"
        ),
        "details": lambda: denoise_with_details(stack[0], 25, method="fast"),
        "quality": lambda: estimate_quality(stack[0], 25, method="fast"),
    }
    for where, call in calls.items():
        with pytest.warns(UserWarning, match="sigma is 25, but the image ranges from 0") as caught:
            call()
        assert len(caught) == 1, where
        assert caught[0].filename == __file__, where


@pytest.mark.parametrize("words", [[], ["--json"], ["--quiet"], ["--tile", "64"]])
def test_the_command_line_warns_by_the_name_of_the_option(tmp_path, capsys, words):
    path = tmp_path / "a.npy"
    np.save(path, np.stack([scene(np.uint8)] * 2))
    options = ["--sigma", "0.1", "--stack-axis", "0", "--method", "fast"]
    assert main(["denoise", str(path), *options, *words]) == 0
    said = capsys.readouterr()
    warning = f"{path}: --sigma is 0.1, which is less than the rounding error of uint8, 0.29;"
    assert said.err.count(f"nlridge: note: {warning}") == ("--quiet" not in words)
    if "--json" in words:
        assert json.loads(said.out)["notes"][0].startswith("--sigma is 0.1, which is less")


def test_the_demo_warns_as_well(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(scene(np.uint8)).save("a.png")
    assert main(["demo", "a.png", "--sigma", "0.1", "--method", "fast"]) == 0
    assert capsys.readouterr().err.count("nlridge: note: --sigma is 0.1, which is less") == 1


# What was found and removed.


def test_details_say_what_was_found_and_removed():
    image = scene(np.float64, noise=12)
    image[:3, :3] = np.nan
    details = denoise_with_details(image, 12)
    there = np.isfinite(image)
    assert details.removed == pytest.approx(np.sqrt(np.mean(details.residual[there] ** 2)))
    assert details.level == pytest.approx(12)
    assert details.unchanged == ""
    assert re.fullmatch(
        r"Gaussian noise with a standard deviation of 12 \(given\); "
        r"removed 1[12]\.?\d* \(rms\), (9\d|10\d)% of its level",
        str(details),
    )
    assert "(estimated); removed 1" in str(denoise_with_details(image))
    counts = denoise_with_details(photons(), noise=nlridge.PoissonGaussianNoise(1))
    assert counts.level == pytest.approx(np.sqrt(60), rel=0.05)
    assert "Poisson noise with a gain of 1 (given); removed " in str(counts)


def test_details_say_why_nothing_was_removed():
    flat = denoise_with_details(np.full((32, 32), 7.0))
    assert str(flat).endswith(
        "(estimated); removed nothing, since the image seems to have no noise; "
        "if there is visible noise, pass sigma or noise"
    )
    with pytest.warns(UserWarning, match="has no effect"):
        faint = denoise_with_details(scene(), 1e-5)
    assert str(faint).endswith(
        "(given); removed nothing, since such noise is invisible beside the range of the image; "
        "a larger sigma or strength removes more"
    )
    with pytest.warns(UserWarning, match="rounding error"):
        rounded = denoise_with_details(scene(np.uint8, noise=0), 0.2)
    assert rounded.unchanged == "such noise is below the rounding error of the pixels"
    assert "removed next to nothing (0.1" in str(rounded)


def test_the_command_line_says_what_was_found_and_removed(tmp_path, capsys):
    Image.fromarray(scene(np.uint8, noise=12)).save(tmp_path / "a.png")
    Image.fromarray(np.full((40, 40), 9, np.uint8)).save(tmp_path / "b.png")
    report = tmp_path / "r.html"
    assert (
        main(["denoise", str(tmp_path), "-o", str(tmp_path / "out"), "--report", str(report)]) == 0
    )
    removed = r"removed 1[012]\.?\d* \(rms\), \d+% of its level"
    nothing = "nothing, since the image seems to have no noise; if there is visible noise, pass --sigma or --noise"
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert re.search(
        rf": very strong noise, about \d+% of the range; Gaussian noise with a standard deviation of 1\d\.\d+ "
        rf"\(estimated\); {removed}, \d+\.\d\d s",
        first,
    )
    assert f"(estimated); removed {nothing}" in second
    assert ": no noise found; " in second
    page = report.read_text("utf-8")
    assert re.search(
        r"<dt>noise</dt><dd>very strong noise, about \d+% of the range; Gaussian", page
    )
    assert re.search(r"<dt>removed</dt><dd>1[012]\.?\d* \(rms\), \d+% of its level</dd>", page)
    assert f"<dt>removed</dt><dd>{nothing}</dd>" in page
    assert '<span class="tag left">nothing removed</span>' in page

    words = ["denoise", str(tmp_path / "a.png"), "--sigma", "12", "--overwrite", "--json"]
    assert main(words) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["noise_given"] is True
    assert line["in_words"].startswith("very strong noise, about ")
    assert line["unchanged"] == ""
    assert 10 < line["removed"] < 13


def test_correlated_noise_as_json():
    from nlridge.apps.cli.results import noise_as_json

    noise = nlridge.CorrelatedNoise(
        (7.4, 4.5, 3.8), np.full((1, 3), 0.5) + np.diag([0, 0.5, 0])[1:2]
    )
    assert json.loads(json.dumps(noise_as_json(noise))) == {
        "kind": "CorrelatedNoise",
        "noise": {
            "kind": "GaussianNoise",
            "sigma": [7.4, 4.5, 3.8],
            "words": "Gaussian noise with standard deviations of 7.4, 4.5 and 3.8 in the channels",
        },
        "lengths": [1, 2],
        "share": 1.0,
        "words": f"{noise}",
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nlridge.NoiseWarning")
def test_noise_that_may_be_texture_is_removed_so_far_as_cannot_be_seen():
    """Texture that is stronger in some areas, blurred like noise after demosaicking."""
    y, x = np.mgrid[:256, :320]
    contrast = np.exp(1.5 * np.sin(x / 50) * np.cos(y / 40))
    grain = draw(correlation_between(MODELS["correlated"], 1), (1, 256, 320), seed=0)[0]
    image = np.rint(110 + 60 * np.sin(x / 90) + 6 * contrast * grain).clip(0, 255)
    details = denoise_with_details(image.astype(np.uint8), method="fast")
    assert isinstance(details.noise, nlridge.CorrelatedNoise)
    assert 0 < details.noise.share < 0.5
    assert 0 < details.removed < np.ptp(image) / 250  # 48 dB
    sentence = (
        r"of which \d+% is to be removed \(estimated\); removed .*, since it may be texture; "
    )
    assert re.search(sentence + "a larger strength removes more", str(details))
    stronger = denoise_with_details(image.astype(np.uint8), method="fast", strength=2)
    assert stronger.removed > 1.9 * details.removed
    forced = denoise_with_details(image.astype(np.uint8), noise="correlated", method="fast")
    assert forced.noise.share == 1
    assert forced.removed > 2 * details.removed


# Strength.

MAP = np.linspace(5, 30, 56) * np.ones((56, 1))
MODELS = {
    "constant": nlridge.GaussianNoise(15),
    "map": nlridge.GaussianNoise(MAP),
    "growing": nlridge.PoissonGaussianNoise(2),
    "correlated": nlridge.CorrelatedNoise.from_kernel(15, [[1, 2, 1], [2, 4, 2], [1, 2, 1]]),
    "correlated and growing": nlridge.CorrelatedNoise.from_kernel(
        nlridge.PoissonGaussianNoise(2), [[1, 1], [1, 1]]
    ),
}


@pytest.mark.parametrize("method", nlridge.method_names())
@pytest.mark.parametrize("noise", MODELS.values(), ids=MODELS)
def test_more_strength_removes_more_of_any_noise(noise, method):
    clean = data.camera()[120:176, 170:226].astype(np.float64)
    drawn = np.random.default_rng(0).normal(size=(1, *clean.shape))
    correlation = correlation_between(noise, 1)
    if correlation is not None:
        drawn = draw(correlation, drawn.shape, seed=0)
    levels = np.sqrt(noise.variance(clean, np.asarray(noise.level)))
    noisy = clean + levels * drawn[0]
    removed = [
        float(
            np.sqrt(np.mean((noisy - denoise(noisy, noise=noise, method=method, strength=s)) ** 2))
        )
        for s in (0.25, 0.5, 1, 2, 4)
    ]
    assert all(more > 1.03 * less for less, more in pairwise(removed))
    level = np.sqrt(np.mean(levels**2))
    assert removed[0] < 0.2 * level
    assert 0.7 * level < removed[2] < 1.1 * level
