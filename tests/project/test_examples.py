"""The examples, as readers would use them: a family from outside the package."""

import numpy as np
import pytest
from examples import low_rank, nl_means, optimal_weights, pewa, plr
from groups import Custom, group, run_kernel
from scipy.fft import idctn
from skimage import data

import nlridge
from nlridge.core.families import GroupNoise


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


def test_a_custom_kernel_runs_without_python(photograph, monkeypatch):
    """Compiled code calls it for each group, and the formula is not used; the example itself measures its speed."""
    _, noisy = photograph
    calls = {True: 0, False: 0}
    for with_kernel in calls:

        def average(*arguments, with_kernel=with_kernel, formula=nl_means.average, **options):
            calls[with_kernel] += 1
            return formula(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(nl_means, "average", average)
            nlridge.denoise(noisy[:80, :90], 20, method=recipe(with_kernel))
    assert calls[True] == 0
    assert calls[False] > 0
    assert nl_means.average_kernel.nopython_signatures


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


def test_plr_minimises_the_rank():
    """|Y - X|² + t² rank(X) is smallest among all truncations, and no matrix of that rank is nearer than a truncation."""
    Y, _ = group(36, 70, mean=0)
    denoised, weights = plr.truncate(Y, Y, GroupNoise(100.0), 1.8)
    mean = Y.mean(axis=1, keepdims=True)
    U, s, Vt = np.linalg.svd(Y - mean, full_matrices=False)
    truncations = [(U[:, :rank] * s[:rank]) @ Vt[:rank] for rank in range(37)]
    penalty = 1.8**2 * 70 * 100
    objectives = [np.sum((Y - mean - X) ** 2) + penalty * r for r, X in enumerate(truncations)]
    rank = np.argmin(objectives)
    assert 0 < rank < 36
    np.testing.assert_allclose(denoised - mean, truncations[rank], atol=1e-8)
    np.testing.assert_allclose(weights, 70 / (100 * (1 + rank)))


def test_pewa_weights_are_exponentials_of_the_risk():
    Y, _ = group(49, 12, mean=0)
    variances = np.full(12, 100.0)
    U, kept = pewa.weak(Y, 27 * np.ones(12))
    risks = pewa.risk(Y, U, kept, variances)
    k, j = 3, 8
    np.testing.assert_allclose(risks[k, j], np.sum((Y[:, j] - U[:, k]) ** 2) - 49 * 100)
    own = np.sum((Y[:, j] - U[:, j]) ** 2) - 49 * 100 + 2 * 100 * kept[j]
    np.testing.assert_allclose(risks[j, j], own)
    weights = pewa.exponential(risks, 800.0)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    ratio = np.exp((risks[j, j] - risks[k, j]) / 800)
    np.testing.assert_allclose(weights[k, j] / weights[j, j], ratio)
    denoised, _ = pewa.aggregate(Y, Y, GroupNoise(100.0), 8.0, (2.7,), guided=False)
    np.testing.assert_allclose(denoised, U @ weights)


def test_pewa_estimates_the_risk_without_bias():
    """The mean of SURE over the noise is the mean squared error, of a patch's own candidate and of another's."""
    rng = np.random.default_rng(0)
    # Coefficients are far from the threshold, since the divergence leaves out the jump there.
    coefficients = 300.0 * (rng.random((7, 7, 2)) < 0.3)
    truth = idctn(coefficients, axes=(0, 1), norm="ortho").reshape(49, 2)
    Y = truth + rng.normal(0, 10, (4000, 49, 2))
    U, kept = pewa.weak(Y, np.full((4000, 2), 100.0))
    assert (kept > 0).all()
    assert (kept < 30).all()
    risks = pewa.risk(Y, U, kept, np.full((4000, 2), 100.0)).mean(axis=0)
    errors = np.sum((U[..., :, None] - truth[:, None, :]) ** 2, axis=-3).mean(axis=0)
    np.testing.assert_allclose(risks, errors, rtol=0.05)


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


@pytest.mark.parametrize("example", [low_rank, optimal_weights, pewa, plr])
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
