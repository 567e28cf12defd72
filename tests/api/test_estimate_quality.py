"""The quality of a result, estimated without the truth."""

from dataclasses import replace

import numpy as np
import pytest
from skimage import data

import nlridge
from nlridge import CorrelatedNoise, PoissonGaussianNoise, estimate_quality
from nlridge.noise.correlated import correlation_between
from nlridge.noise.drawing import draw

PHOTOGRAPHS = ("camera", "coins", "brick", "gravel", "grass", "page")


def photograph(name):
    return getattr(data, name)()[:190, :380].astype(np.float64)


def psnr(result, clean):
    return 10 * np.log10(255**2 / np.mean((result - clean) ** 2))


def _quality_of(image, details, **settings):
    """The quality of an image that has already been denoised."""
    prepared = nlridge.prepare(image, noise=details, method=details.recipe)
    return prepared.quality(denoised=details.image, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [15, 25])
def test_the_estimate_is_near_the_truth(sigma):
    errors, scores = [], []
    for seed, name in enumerate(PHOTOGRAPHS):
        clean = photograph(name)
        noisy = clean + np.random.default_rng(seed).normal(0, sigma, clean.shape)
        quality = estimate_quality(noisy, sigma, peak=255, data_range=255)
        assert quality.noisy_psnr == pytest.approx(20 * np.log10(255 / sigma))
        np.testing.assert_array_equal(
            quality.denoised.image, nlridge.denoise(noisy, sigma, data_range=255)
        )
        errors.append(quality.psnr - psnr(quality.denoised.image, clean))
        scores.append(errors[-1] / quality.standard_error)
    assert np.mean(np.abs(errors)) < 0.25
    assert np.max(np.abs(scores)) < 1.5  # the standard error can be relied on


def test_more_probes_are_steadier():
    clean = photograph("brick")[:96, :96]
    noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    one, many = (estimate_quality(noisy, 20, probes=n) for n in (1, 4))
    assert many.standard_error < 0.9 * one.standard_error
    assert many.gain == pytest.approx(one.gain, abs=one.standard_error)


@pytest.mark.slow
def test_color_maps_masks_and_counts():
    clean = data.astronaut()[:128, 160:288].astype(np.float64)
    rng = np.random.default_rng(0)
    sigma = np.where(np.arange(128) < 64, 10.0, 30.0) * np.ones((128, 1))
    noisy = clean + sigma[..., None] * rng.normal(size=clean.shape)
    noisy[5:9, 20:30] = np.nan
    quality = estimate_quality(noisy, sigma, channel_axis=-1, peak=255)
    there = np.isfinite(noisy)
    truth = psnr(quality.denoised.image[there], clean[there])
    assert quality.standard_error < 1
    assert quality.psnr == pytest.approx(truth, abs=2 * quality.standard_error)

    gain = 3.0
    counts = gain * rng.poisson(clean / gain)
    quality = estimate_quality(counts, noise=PoissonGaussianNoise(gain), channel_axis=-1, peak=255)
    assert quality.standard_error < 1
    assert quality.psnr == pytest.approx(
        psnr(quality.denoised.image, clean), abs=2 * quality.standard_error
    )


BLUR = CorrelatedNoise.from_kernel(1, [[1, 2, 1], [2, 4, 2], [1, 2, 1]])
LINES = CorrelatedNoise.lines(1, length=20, white=0.2)
MIXED = CorrelatedNoise(
    1, np.array([[1, 0.5, 0], [0.5, 1, -0.3], [0, -0.3, 1]])[:, :, None, None] * BLUR.correlation
)


@pytest.mark.parametrize("noise", [BLUR, LINES, MIXED], ids=["blur", "lines", "mixed"])
def test_noise_is_drawn_with_its_correlation(noise):
    between = correlation_between(noise, 3)
    drawn = draw(between, (3, 300, 280), seed=0)
    top, left = (length // 2 for length in between.shape[2:])
    for dy, dx in ((0, 0), (0, 1), (1, 0), (2, 1), (0, 3)):
        moved = drawn[:, dy:, dx:]
        still = drawn[:, : 300 - dy, : 280 - dx]
        measured = np.einsum("iyx,jyx->ij", moved, still) / still[0].size
        expected = np.zeros((3, 3))
        if dy <= top and dx <= left:
            expected = between[..., top + dy, left + dx]
        np.testing.assert_allclose(measured, expected, atol=0.04)


@pytest.mark.parametrize("sigma", [10, 25])
@pytest.mark.parametrize("shape", [BLUR, LINES], ids=["blur", "lines"])
def test_the_estimate_for_correlated_noise_is_near_the_truth(shape, sigma):
    noise = CorrelatedNoise(sigma, shape.correlation)
    clean = photograph("coins")[:160, :200]
    noisy = clean + sigma * draw(correlation_between(noise, 1), (1, 160, 200), seed=7)[0]
    quality = estimate_quality(noisy, noise=noise, peak=255, data_range=255)
    truth = psnr(quality.denoised.image, clean)
    assert truth > quality.noisy_psnr + 4
    assert quality.standard_error < 1
    assert quality.psnr == pytest.approx(truth, abs=2 * quality.standard_error)


def test_the_estimate_for_noise_that_channels_share():
    clean = data.astronaut()[:128, 160:288].astype(np.float64)
    sigmas = np.array([15.0, 10.0, 20.0])
    noise = CorrelatedNoise(sigmas, MIXED.correlation)
    noisy = clean + sigmas * np.moveaxis(draw(noise.correlation, (3, 128, 128), seed=3), 0, -1)
    quality = estimate_quality(noisy, noise=noise, channel_axis=-1, peak=255)
    truth = psnr(quality.denoised.image, clean)
    assert quality.standard_error < 1
    assert quality.psnr == pytest.approx(truth, abs=2 * quality.standard_error)


def test_an_estimate_that_means_nothing_says_why():
    y, x = np.mgrid[:96, :96]
    smooth = np.rint(120 + 60 * np.sin(x / 20) * np.cos(y / 25)).astype(np.uint8)
    with pytest.warns(UserWarning, match="rounding error"):
        details = nlridge.denoise_with_details(smooth, 0.2)
    quality = _quality_of(smooth, replace(details, noise_given=False))
    assert quality.doubt == "the estimated noise is below the rounding error of the pixels"
    assert _quality_of(smooth, details).doubt == ""

    noisy = photograph("brick")[:96, :96] + np.random.default_rng(0).normal(0, 2, (96, 96))
    details = nlridge.denoise_with_details(noisy, 2, strength=8)
    quality = _quality_of(noisy, replace(details, noise_given=False), strength=8)
    assert quality.gain < 0
    assert quality.doubt == "more was removed than the estimated noise explains"
    assert _quality_of(noisy, details, strength=8).doubt == ""  # what was asked for

    flat = 100 + np.random.default_rng(0).normal(0, 25, (128, 128))
    assert estimate_quality(flat, 25).doubt == "too little noise is left to estimate it"


@pytest.mark.slow
def test_an_estimate_of_the_noise_makes_the_quality_less_certain():
    clean = photograph("camera")
    noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    known, blind = estimate_quality(noisy, 20, peak=255), estimate_quality(noisy, peak=255)
    assert blind.standard_error > 1.5 * known.standard_error
    truth = psnr(blind.denoised.image, clean)
    assert blind.psnr == pytest.approx(truth, abs=1.5 * blind.standard_error)


def test_an_image_without_noise_cannot_gain():
    quality = estimate_quality(np.full((64, 64), 7.0))
    assert (quality.psnr, quality.gain, quality.standard_error) == (np.inf, 0, 0)
    assert quality.doubt == "there was no noise to remove"


def test_estimates_of_flat_images_are_uncertain():
    """With so little noise left, the estimate depends on this image's actual noise power, which is unknown."""
    noisy = 100 + np.random.default_rng(0).normal(0, 25, (128, 128))
    quality = estimate_quality(noisy, 25, peak=255)
    assert quality.standard_error > 5
    truth = psnr(quality.denoised.image, 100.0)
    assert quality.psnr == pytest.approx(truth, abs=1.5 * quality.standard_error)


def test_bad_arguments():
    with pytest.raises(ValueError, match="probes is 0; expected at least 1"):
        estimate_quality(np.zeros((9, 9)), 1, probes=0)
    with pytest.raises(TypeError, match="probes is '1'; expected a whole number"):
        estimate_quality(np.zeros((9, 9)), 1, probes="1")
    with pytest.raises(ValueError, match="probes is 1001; expected at most 1000"):
        estimate_quality(np.zeros((9, 9)), 1, probes=1001)
    with pytest.raises(ValueError, match="peak is -1; expected a positive number"):
        estimate_quality(np.zeros((9, 9)), 1, peak=-1)


def test_masked_pixels_do_not_count_however_they_are_masked():
    clean = photograph("brick")[:80, :80]
    noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    bad = np.random.default_rng(1).random(clean.shape) < 0.2
    noisy[bad] = 5000
    by_mask = estimate_quality(noisy, 20, peak=255, mask=bad)
    by_array = estimate_quality(np.ma.masked_array(noisy, bad), 20, peak=255)
    by_nan = estimate_quality(np.where(bad, np.nan, noisy), 20, peak=255)
    assert by_array.psnr == by_mask.psnr == pytest.approx(by_nan.psnr)


def test_an_image_that_is_left_as_it_is_gains_nothing():
    """By a range beside which its noise cannot be seen."""
    noisy = np.random.default_rng(0).normal(100, 10, (64, 64))
    with pytest.warns(UserWarning, match="sigma is 10, which has no effect"):
        quality = estimate_quality(noisy, 10, data_range=1e8)
    np.testing.assert_array_equal(quality.denoised.image, noisy)
    assert abs(quality.gain) < 4 * quality.standard_error
    assert abs(quality.gain) < 0.3
    assert quality.doubt == "nothing was removed"
