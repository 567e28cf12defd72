"""Simulated cameras: every kind takes pictures with their truth, the same ones again, and others for the other half."""

import numpy as np
import pytest
from PIL import Image

for package in ("scipy", "rawpy", "av", "pillow_heif"):
    pytest.importorskip(package)

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
