"""The examples, as readers would use them: a family from outside the package."""

import time

import numpy as np
import pytest
from examples import low_rank, nl_means, optimal_weights
from groups import Custom, group, run_kernel
from skimage import data

import nlridge
from nlridge.families import GroupNoise


def recipe(with_kernel=True):
    return nlridge.Recipe(nl_means.NLMeans(compiled=with_kernel), nl_means.SETTINGS)


@pytest.fixture(scope="module")
def photograph():
    clean = data.camera()[40:296, 40:296].astype(np.float64)
    return clean, clean + np.random.default_rng(0).normal(0, 20, clean.shape)


@pytest.mark.parametrize(("n", "m"), [(9, 5), (49, 32), (25, 17)])
def test_nl_means_kernel_and_formula_agree(n, m):
    Y, _ = group(n, m, mean=0)
    estimator = nl_means.NLMeans().pilot
    denoised, weights = estimator.formula(Y, Y, GroupNoise(100.0))
    fast, fast_weights = run_kernel(estimator, Y, Y, 100.0)
    np.testing.assert_allclose(fast, denoised, atol=1e-3)
    np.testing.assert_allclose(fast_weights, weights, rtol=1e-3)


def test_nl_means_is_a_denoiser_in_one_step(photograph):
    clean, noisy = photograph
    result = nlridge.denoise(noisy, 20, method=recipe())
    assert np.std(result - clean) < 0.33 * 20
    slow = nlridge.denoise(noisy[:80, :90], 20, method=recipe(with_kernel=False))
    np.testing.assert_allclose(
        nlridge.denoise(noisy[:80, :90], 20, method=recipe()), slow, atol=1e-3
    )


def test_a_custom_kernel_runs_at_compiled_speed(photograph):
    """The best of several turns, which alternate: other processes disturb both alike."""
    _, noisy = photograph
    seconds = {True: [], False: []}
    for _ in range(7):  # the first of which compiles
        for with_kernel, turns in seconds.items():
            start = time.process_time()
            nlridge.denoise(noisy, 20, method=recipe(with_kernel), workers=1)
            turns.append(time.process_time() - start)
    assert min(seconds[True]) < 0.95 * min(seconds[False])


def test_low_rank_minimises_the_weighted_nuclear_norm():
    """ŝ = s - w(ŝ) with the larger solution, and the directions that are dropped have none."""
    Y, _ = group(36, 70, mean=0)
    denoised, weights = low_rank.shrink(Y, Y, GroupNoise(100.0), 0.7)
    assert weights.shape == (70,)
    mean = Y.mean(axis=1, keepdims=True)
    s = np.linalg.svd(Y - mean, compute_uv=False)
    shrunk = np.linalg.svd(denoised - mean, compute_uv=False)
    kept = shrunk > 1e-6
    constant = 2 * 0.7 * np.sqrt(70) * 100
    assert 0 < kept.sum() < 35
    np.testing.assert_allclose(shrunk[kept], s[kept] - constant / shrunk[kept], rtol=1e-6)
    assert (shrunk[kept] >= s[kept] / 2).all()
    assert (s[~kept] ** 2 <= 4 * constant).all()


def test_optimal_weights_minimise_the_bound_of_the_risk():
    rho = np.abs(np.random.default_rng(0).normal(0, 8, (12, 5)))
    rho[0] = 0
    weights = optimal_weights.triangle(rho, np.float64(9.0))
    np.testing.assert_allclose(weights.sum(axis=0), 1)

    def bound(w):
        return np.sum(w * rho, axis=0) ** 2 + 9 * np.sum(w**2, axis=0)

    for seed in range(20):
        other = np.maximum(weights + np.random.default_rng(seed).normal(0, 0.02, rho.shape), 0)
        assert (bound(weights) <= bound(other / other.sum(axis=0)) + 1e-9).all()


@pytest.mark.parametrize("example", [low_rank, optimal_weights])
def test_other_families_denoise_a_photograph(example, photograph):
    clean, noisy = (image[:96, :96] for image in photograph)
    result = nlridge.denoise(noisy, 20, method=example.recipe(20))
    assert np.std(result - clean) < 0.4 * 20


def test_a_formula_that_returns_the_wrong_shapes_is_refused():
    def formula(Y, X, variance):
        return Y, np.ones(Y.shape)

    family = Custom(nlridge.Estimator(formula))
    with pytest.raises(ValueError, match=r"the formula returned arrays of shapes .*; expected .*"):
        nlridge.denoise(
            np.zeros((20, 20)), 1, method=nlridge.Recipe(family, nlridge.Step(4, 5, 4, 9))
        )


def test_a_kernel_that_is_not_compiled_is_refused():
    family = Custom(nlridge.Estimator(lambda Y, X, noise: (Y, Y), lambda *a: None))
    with pytest.raises(TypeError, match=r"expected a function decorated with nlridge\.kernels"):
        nlridge.denoise(
            np.zeros((20, 20)), 1, method=nlridge.Recipe(family, nlridge.Step(4, 5, 4, 9))
        )


@pytest.mark.usefixtures("one_torch_thread")
def test_plug_and_play_deblurs():
    import torch
    from examples.plug_and_play import blur, deblur, psnr, wiener

    from nlridge.torch import NLRidge

    truth = torch.tensor(data.camera()[100:196, 180:276] / 255, dtype=torch.float32)[None, None]
    kernel = torch.full((5, 5), 1 / 25)
    noise = torch.randn(truth.shape, generator=torch.Generator().manual_seed(0))
    blurred = blur(truth, kernel) + 0.01 * noise
    sharp = deblur(blurred, kernel, 0.01, NLRidge("fast"), rounds=6)
    assert psnr(sharp, truth) > psnr(wiener(blurred, kernel, 0.01), truth) + 1.5
    assert psnr(sharp, truth) > psnr(blurred, truth) + 4


def test_frames_of_a_time_lapse_are_denoised_together():
    from examples.time_lapse import psnr, time_lapse

    truth, counts = time_lapse(frames=7, side=96)
    photons = nlridge.PoissonGaussianNoise(gain=1)
    alone = nlridge.denoise(counts, noise=photons, stack_axis=0)
    together = nlridge.denoise(counts, noise=photons, time_axis=0)
    assert psnr(alone, truth) > psnr(counts, truth) + 5
    assert psnr(together, truth) > psnr(alone, truth) + 0.8


def test_a_night_video_is_denoised_as_it_is_recorded():
    from examples.night_video import denoised, psnr, recording, street

    read = []

    def watched():
        for frame in recording(40):
            read.append(len(read))
            yield frame

    for number, (before, after) in enumerate(denoised(watched(), method="fast")):
        if number == 0:
            assert len(read) < 40  # it does not wait for the end
        assert before.dtype == after.dtype == np.uint8
        assert psnr(after, street(number)) > psnr(before, street(number)) + 10
    assert number == 39
