"""Simulated cameras: every kind takes pictures with their truth, the same ones again, and others for the other half."""

import runpy

import numpy as np
import pytest
from PIL import Image

for package in ("scipy", "rawpy", "av", "pillow_heif"):
    pytest.importorskip(package)

from benchmarks.cameras import learning, scenes  # noqa: E402
from benchmarks.cameras.shots import JUDGE, KINDS, LEARN, shot  # noqa: E402


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """A folder of test sets with two images each, one for each half."""
    folder = tmp_path_factory.mktemp("data")
    y, x = np.mgrid[:160, :200]
    for name in ("cbsd68", "bsd68", "urban100", "set12"):
        (folder / name).mkdir()
        for k in range(2):
            wave = 128 + 90 * np.sin(x / (9 + 4 * k)) * np.cos(y / 11)
            image = wave if name != "cbsd68" else np.stack([wave, 255 - wave, 0.5 * wave], -1)
            Image.fromarray(image.astype(np.uint8)).save(folder / name / f"{k}.png")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_shot_has_its_truth(kind, photographs):
    taken = shot(kind, 1, photographs, JUDGE)
    assert taken.noisy.shape == taken.truth.shape
    assert np.isfinite(taken.truth).all()
    error = (taken.noisy - taken.truth) / taken.scale
    if kind == "white":
        assert taken.left == pytest.approx(np.std(error), rel=0.1)
    assert 0.2 * taken.left <= np.std(error) + 0.6
    assert np.array_equal(taken.noisy, shot(kind, 1, photographs, JUDGE).noisy)
    other = shot(kind, 1, photographs, LEARN).noisy
    assert other.shape != taken.noisy.shape or not np.array_equal(other, taken.noisy)


@pytest.mark.parametrize("seed", range(12))
def test_textures_are_pictures(seed):
    image = scenes.texture(np.random.default_rng(seed), 96)
    assert image.shape == (96, 96, 1)
    assert image.min() >= 0
    assert image.max() <= 255
    assert image.std() > 3
    assert np.array_equal(image, scenes.texture(np.random.default_rng(seed), 96))


def test_the_regression_finds_what_noise_follows_from():
    rng = np.random.default_rng(0)
    evidence = rng.normal(size=(4000, 2))
    columns = learning.columns_of(evidence)  # a, b, a², a b, b²
    score = 2 * columns[:, 0] - columns[:, 3]
    has_noise = (rng.random(4000) < 1 / (1 + np.exp(-score))).astype(float)
    weights, constant = learning.regression(columns, has_noise, np.ones(4000))
    np.testing.assert_allclose(weights, [2, 0, 0, -1, 0], atol=0.25)
    assert abs(constant) < 0.25


def test_what_is_learned_is_written_as_the_package_reads_it(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    count = len(learning.Evidence._fields)

    def measured(half, options):
        evidence = rng.normal(3, 2, size=(500, count))
        return evidence, (evidence[:, 1] > 3).astype(float), np.ones(500)

    monkeypatch.setattr(learning, "measured", measured)
    monkeypatch.setattr(learning.learned, "__file__", str(tmp_path / "learned.py"))
    monkeypatch.setattr("sys.argv", ["learning", "--data", str(tmp_path)])
    learning.main()
    learned = runpy.run_path(str(tmp_path / "learned.py"))
    np.testing.assert_allclose(learned["MEANS"], 3, atol=0.4)
    np.testing.assert_allclose(learned["DEVIATIONS"], 2, atol=0.3)
    assert np.argmax(np.abs(learned["WEIGHTS"])) == 1
    assert learned["PRODUCTS"].shape == (count, count)
    assert np.isfinite(learned["CONSTANT"])
