"""Beyond the paper: the help of a coarser image, and the pyramid that makes it."""

from dataclasses import replace

import numpy as np
import pytest
import pywt
from images import texture
from kinds import RunBy

from nlridge import CoarseScale, Recipe, Rounds, Step, denoise
from nlridge.core.algorithm import pyramid
from nlridge.core.algorithm.filtering import filtered
from nlridge.core.algorithm.framework import denoised
from nlridge.core.algorithm.inputs import PlaneNoise
from nlridge.core.algorithm.pyramid import coarser, coarser_noise, coarser_shape, with_coarse
from nlridge.core.engines.pool import in_order
from nlridge.core.families import Ridge, TwoSided
from nlridge.images.array import Arrays

FIRST, SECOND = Step(5, 9, stride=3, window=11), Step(4, 14, stride=2, window=13)


def noise(*shape):
    return np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)


def test_threads_make_no_difference():
    image, counts = noise(3, 401, 503), []

    def each(function, items):
        items = list(items)
        counts.append(len(items))
        return in_order(function, items, 3)

    taps = np.random.default_rng(2).random((3, 7, 7)).astype(np.float32)
    variances = PlaneNoise(image**2)
    coarse = coarser(image) + 0.1
    scales = Arrays()
    scales._map = each
    np.testing.assert_array_equal(scales.coarser(image), coarser(image))
    np.testing.assert_array_equal(
        scales.coarser_noise(variances).variance, coarser_noise(variances).variance
    )
    np.testing.assert_array_equal(
        scales.with_coarse(image, coarse, 2, 0.05), with_coarse(image, coarse, 2, 0.05)
    )
    np.testing.assert_array_equal(scales.filtered(image, taps), filtered(image, taps))
    assert max(counts) > 2  # bands


def test_the_inputs_of_each_scale():
    """By an engine whose results are easy to predict, and different at each scale."""
    calls = []

    def run(inputs, step, groups=None):
        calls.append((inputs.noisy.shape[1:], step.settings, inputs.noise.variance))
        return np.abs(inputs.noisy), inputs.noisy

    fine = Recipe(Ridge(), FIRST, SECOND)
    small = Recipe(Ridge(), SECOND, FIRST)
    image = noise(1, 31, 40)
    pilot, result = denoised(
        image, PlaneNoise(4.0), replace(fine, coarse=CoarseScale(small, 1, 2)), RunBy(run)
    )
    assert calls == [
        ((16, 20), SECOND, 1.0),
        ((16, 20), FIRST, 1.0),
        ((31, 40), FIRST, 4.0),
        ((31, 40), SECOND, 4.0),
    ]
    coarse = np.abs(coarser(image))
    np.testing.assert_array_equal(pilot, with_coarse(np.abs(image), coarse, 1))
    np.testing.assert_array_equal(result, with_coarse(np.abs(image), coarse, 2))
    assert np.std(pilot - result) > 0.25


def test_an_outlier_of_the_coarse_image_is_not_spread():
    image = np.zeros((1, 64, 64), np.float32)
    coarse = coarser(image)
    coarse[0, 16, 16] = 1e6
    assert np.abs(with_coarse(image, coarse, 1, 0.5)).max() < 0.7


# The pyramid.


def test_the_filter_is_the_wavelet_sym8():
    np.testing.assert_allclose(pyramid._FILTER, pywt.Wavelet("sym8").dec_lo, atol=1e-12)


@pytest.mark.parametrize("shape", [(64, 64), (63, 70), (5, 9), (1, 1), (1, 30), (2, 3)])
@pytest.mark.parametrize("level", [1, 2, 3, 6])
def test_replacing_the_coarse_part_by_itself_changes_nothing(shape, level):
    image = 100 + noise(2, *shape)
    assert coarser(image).shape == (2, *coarser_shape(shape))
    np.testing.assert_allclose(with_coarse(image, coarser(image), level), image, atol=1e-5)
    np.testing.assert_allclose(coarser(np.full_like(image, 7.0)), 7, rtol=1e-6)


def test_the_coarse_part_is_replaced_and_nothing_else():
    """At the first level all of the coarse image is taken, except at the border, and nothing finer changes."""
    image, coarse = noise(1, 128, 144), noise(1, 64, 72)
    result = with_coarse(image, coarse, 1)
    inner = np.s_[:, 10:-10, 10:-10]
    np.testing.assert_allclose(coarser(result)[inner], coarse[inner], atol=1e-5)
    change = result - image
    inner = np.s_[:, 20:-20, 20:-20]
    nothing_else = with_coarse(np.zeros_like(image), coarser(change), 1)
    np.testing.assert_allclose(change[inner], nothing_else[inner], atol=1e-5)


def test_noise_stays_white_and_is_halved():
    small = coarser(noise(1, 512, 512))[0]
    assert abs(small.std() - 0.5) < 0.005
    for shift in ((0, 1), (1, 0), (1, 1), (2, 0)):
        assert abs(np.mean(small * np.roll(small, shift, (0, 1)))) < 0.01 * 0.25


@pytest.mark.slow
def test_the_variance_of_the_coarser_image():
    variance = (1 + np.arange(48, dtype=np.float32)) * np.ones((1, 40, 1), np.float32)
    draws = np.random.default_rng(0).normal(0, np.sqrt(variance), (4000, 40, 48)).astype(np.float32)
    measured = coarser(draws).var(axis=0)
    expected = coarser_noise(PlaneNoise(variance)).variance[0]
    inner = np.s_[6:-6, 6:-6]
    assert np.abs(measured[inner] / expected[inner] - 1).max() < 0.1
    assert abs(np.mean(measured[inner] / expected[inner]) - 1) < 0.005
    assert coarser_noise(PlaneNoise(4.0)).variance == 1.0


@pytest.mark.slow
def test_distant_pixels_have_no_influence_with_two_scales():
    small = Recipe(TwoSided(), FIRST, SECOND, Rounds(3, 0.5, 0.3))
    method = replace(small, coarse=CoarseScale(small))
    noisy = texture(700, 720)
    whole = denoise(noisy, 10, method=method)
    part = denoise(noisy[:560, :580], 10, method=method)
    np.testing.assert_array_equal(whole[:40, :50], part[:40, :50])


def test_distant_pixels_have_no_influence():
    image = noise(1, 200, 200)
    other = image.copy()
    other[:, 150:] += 5
    a, b = (with_coarse(each, noise(1, 100, 100), 3) for each in (image, other))
    np.testing.assert_array_equal(a[:, :30], b[:, :30])
    assert not np.array_equal(a[:, 30:150], b[:, 30:150])


@pytest.mark.parametrize("shape", [(1, 64, 40), (3, 77, 51), (2, 33, 1), (1, 17, 300)])
def test_bands_have_the_bits_of_the_whole(monkeypatch, shape):
    """Large images are filtered in bands of rows."""
    image = np.random.default_rng(0).normal(1000, 10, shape).astype(np.float32)
    coarse = pyramid.coarser(image) + 5
    filtered = [pyramid.coarser(image), *(pyramid.with_coarse(image, coarse, k) for k in (1, 2))]
    monkeypatch.setattr(pyramid, "_BAND", 1)
    in_bands = [pyramid.coarser(image), *(pyramid.with_coarse(image, coarse, k) for k in (1, 2))]
    for whole, bands in zip(filtered, in_bands, strict=True):
        np.testing.assert_array_equal(whole, bands)


@pytest.mark.parametrize("shape", [(1, 64, 40), (3, 77, 51), (2, 1, 9), (1, 5, 300)])
def test_kernels_have_the_bits_of_formulas(monkeypatch, shape):
    image = np.random.default_rng(0).normal(1000, 10, shape).astype(np.float32)
    coarse = pyramid.coarser(image) + np.float32(5)

    def all_results():
        return [pyramid.coarser(image), *(pyramid.with_coarse(image, coarse, k) for k in (1, 3))]

    by_kernels = all_results()
    monkeypatch.setattr(pyramid, "_is_compiled", lambda image: False)
    for one, other in zip(by_kernels, all_results(), strict=True):
        assert one.tobytes() == other.tobytes()
