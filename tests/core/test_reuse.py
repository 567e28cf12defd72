"""What is kept of one strength for the next: less work, and the same bits."""

from functools import cache

import numpy as np
import pytest

import nlridge
from nlridge.api.in_memory import denoise_frame, frame_for
from nlridge.core.algorithm.tuning import Tuning
from nlridge.core.engines import reuse
from nlridge.core.engines.grid import Window
from nlridge.core.engines.reuse import Kept
from nlridge.planning.options import checked_options


def scene(channels=1, seed=0):
    y, x = np.mgrid[:64, :72]
    clean = 120 + 60 * np.sin(x / 9) * np.cos(y / 7) + 20 * np.arange(channels)[:, None, None]
    return (clean + np.random.default_rng(seed).normal(0, 15, clean.shape)).astype(np.float32)


CASES = {
    "gray": (scene(), nlridge.GaussianNoise(15)),
    "color": (scene(3), nlridge.GaussianNoise(15)),
    "map": (scene(), nlridge.GaussianNoise(np.linspace(10, 20, 64 * 72).reshape(64, 72))),
    "short": (scene(3), nlridge.CorrelatedNoise.from_kernel(15, [[1, 2, 1]])),
    "long": (scene(), nlridge.CorrelatedNoise.lines(15)),
    "photons": (
        np.random.default_rng(0).poisson(scene() / 60).astype(np.float32),
        nlridge.PoissonGaussianNoise(1.0),
    ),
}


def planned(image, noise, method="standard", **tuning):
    options = checked_options(None, noise, method, None, Tuning(**tuning))
    levels = np.asarray(noise.level, np.float64)
    levels = levels[None] if levels.ndim == 2 else levels.reshape(-1, 1, 1)
    missing = np.isnan(image) if np.isnan(image).any() else None
    return frame_for(image, missing, levels, options, 1)


@cache
def denoised(case, strength, color):
    image, noise = CASES[case]
    return nlridge.denoise(image, noise=noise, strength=strength, color=color, channel_axis=0)


@pytest.fixture
def passes(monkeypatch):
    """The passes that the engine runs, as whether each is of the second step, and whether it had groups."""
    run, ran = [], reuse.run_pass

    def noted(inputs, step, groups=None, **how):
        run.append((step.is_second, bool(groups)))
        return ran(inputs, step, groups, **how)

    monkeypatch.setattr(reuse, "run_pass", noted)
    return run


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("window", [None, Window(range(20, 50), range(10, 60))])
def test_the_bits_are_those_of_a_run_that_keeps_nothing(case, window):
    image, noise = CASES[case]
    kept = Kept()
    for strength, color in [(1.0, 1.0), (1.5, 1.0), (0.6, 1.0), *[(2.2, 0.7)] * (len(image) > 1)]:
        frame = planned(image, noise, strength=strength, color=color)
        expected = denoised(case, strength, color)
        if window:
            expected = expected[:, *(slice(span.start, span.stop) for span in window)]
        result = denoise_frame(frame, 1, False, window, kept)
        np.testing.assert_array_equal(result, expected)


def test_missing_pixels_keep_their_bits():
    image = scene()
    image[:, 30:34, 40:60] = np.nan
    kept, noise = Kept(), nlridge.GaussianNoise(15)
    for strength in (1.0, 2.0):
        frame = planned(image, noise, strength=strength)
        expected = nlridge.denoise(image[0], noise=noise, strength=strength)
        np.testing.assert_array_equal(denoise_frame(frame, 1, False, None, kept)[0], expected)


@pytest.mark.parametrize("method", ["fast", "standard"])
@pytest.mark.parametrize("window", [None, Window(range(20, 50), range(10, 60))])
def test_from_a_strength_of_one_on_first_steps_and_first_searches_are_not_repeated(
    method, window, passes
):
    image, noise = CASES["color"]
    kept = Kept()
    denoise_frame(planned(image, noise, method), 1, False, window, kept)
    first = passes.copy()
    assert (False, False) in first
    searches = first.count((True, False))
    passes.clear()
    denoise_frame(planned(image, noise, method, strength=1.7), 1, False, window, kept)
    assert not any(not is_second for is_second, _ in passes)
    assert (
        passes.count((True, False)) == searches - 1
    )  # finer pilots take structures from coarser results
    passes.clear()
    denoise_frame(planned(image, noise, method, strength=0.5), 1, False, window, kept)
    assert passes == first  # weaker noise is another pilot


def test_progress_ends_at_the_end():
    image, noise = CASES["color"]
    kept = Kept()
    for strength in (1.0, 1.5):
        for window in (None, Window(range(20, 50), range(10, 60))):
            said = []
            frame = planned(image, noise, strength=strength)
            denoise_frame(frame, 1, lambda *share, said=said: said.append(share), window, kept)
            assert said[-1][0] == said[-1][1]
            assert [done for done, _ in said] == sorted(done for done, _ in said)


def test_no_more_is_kept_than_allowed():
    image, noise = CASES["color"]
    for most in (0, 10**5):
        kept = Kept(most)
        for strength in (1.0, 1.5):
            frame = planned(image, noise, strength=strength)
            result = denoise_frame(frame, 1, False, None, kept)
            np.testing.assert_array_equal(result, denoised("color", strength, 1.0))
            assert kept.nbytes <= most
    assert kept.nbytes > 0
    kept.clear()
    assert kept.nbytes == 0


def test_another_image_finds_nothing_of_the_last():
    noise, kept = nlridge.GaussianNoise(15), Kept()
    for seed in (0, 1):
        image = scene(seed=seed)
        expected = nlridge.denoise(image[0], noise=noise)
        np.testing.assert_array_equal(denoise_frame(planned(image, noise), 1, False, None, kept)[0], expected)  # fmt: skip
