"""PSNR on the sample images of scikit-image: a change of 0.03 dB is noticed."""

import numpy as np
import pytest
from skimage import data

import nlridge

# PSNR of camera, brick and coins by (sigma, method), as measured
MEASURED = {
    (5, "fast"): (40.866, 42.133, 36.598),
    (5, "standard"): (40.987, 42.271, 36.634),
    (5, "best"): (41.078, 42.404, 36.668),
    (5, "nl-ridge"): (40.853, 42.167, 36.646),
    (15, "fast"): (34.813, 37.125, 30.312),
    (15, "standard"): (34.994, 37.317, 30.389),
    (15, "best"): (35.104, 37.693, 30.414),
    (15, "nl-ridge"): (34.656, 36.845, 30.305),
    (25, "fast"): (32.002, 34.479, 27.749),
    (25, "standard"): (32.301, 35.125, 27.886),
    (25, "best"): (32.474, 35.566, 28.007),
    (25, "nl-ridge"): (31.946, 34.560, 27.724),
    (50, "fast"): (28.654, 30.952, 24.721),
    (50, "standard"): (28.922, 31.979, 24.952),
    (50, "best"): (29.049, 32.447, 25.086),
    (50, "nl-ridge"): (28.502, 30.601, 24.658),
    (5, "nl-bayes"): (40.855, 42.231, 36.668),
    (5, "bm3d"): (40.732, 42.167, 36.542),
    (15, "nl-bayes"): (34.724, 36.961, 30.311),
    (15, "bm3d"): (34.725, 36.952, 30.186),
    (25, "nl-bayes"): (31.995, 34.333, 27.757),
    (25, "bm3d"): (32.095, 34.396, 27.643),
    (50, "nl-bayes"): (28.579, 30.182, 24.675),
    (50, "bm3d"): (28.658, 30.590, 24.658),
}


def psnr(estimate, truth):
    return 10 * np.log10(255**2 / np.mean((np.clip(estimate, 0, 255) - truth) ** 2))


@pytest.mark.parametrize(("sigma", "method"), MEASURED)
def test_psnr_is_as_measured(sigma, method):
    measured = []
    for seed, name in enumerate(("camera", "brick", "coins")):
        truth = getattr(data, name)()[40:296, 40:296].astype(np.float64)
        noisy = truth + np.random.default_rng(seed).normal(0, sigma, truth.shape)
        measured.append(psnr(nlridge.denoise(noisy, sigma, method=method, data_range=255), truth))
    np.testing.assert_allclose(measured, MEASURED[sigma, method], atol=0.03)


@pytest.mark.parametrize("pedestal", [1000, 30000])
@pytest.mark.parametrize("method", nlridge.method_names())
def test_a_pedestal_costs_nothing(method, pedestal):
    """The offset of a camera, however large it is compared with the noise."""
    truth = data.camera()[40:168, 40:168].astype(np.float64)
    noisy = truth + np.random.default_rng(0).normal(0, 5, truth.shape)
    plain = psnr(nlridge.denoise(noisy, 5, method=method, data_range=255), truth)
    raised = nlridge.denoise(noisy + pedestal, 5, method=method, data_range=255) - pedestal
    assert psnr(raised, truth) == pytest.approx(plain, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [75, 150])
def test_best_is_at_least_standard_where_noise_is_very_strong(sigma):
    """Above the last row of its table, and in a smooth image: with its large windows it lost up to 0.6 dB."""
    truth = data.moon()[::2, ::2].astype(np.float64)
    noisy = truth + np.random.default_rng(1).normal(0, sigma, truth.shape)
    best, standard = (
        psnr(nlridge.denoise(noisy, sigma, method=method, data_range=255), truth)
        for method in ("best", "standard")
    )
    assert best > standard
