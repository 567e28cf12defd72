"""Beyond the paper: the second step in rounds, and the help of a coarser image."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
import pywt
from groups import Custom

from nlridge import (
    CoarseScale,
    Estimator,
    GaussianNoise,
    Recipe,
    Rounds,
    Step,
    denoise,
    recipe,
)
from nlridge.algorithm import pyramid
from nlridge.algorithm.framework import denoised
from nlridge.algorithm.inputs import PlaneNoise
from nlridge.algorithm.pyramid import coarser, coarser_noise, coarser_shape, with_coarse
from nlridge.families import Bayes, Ridge, TwoSided

FIRST, SECOND = Step(5, 9, stride=3, window=11), Step(4, 14, stride=2, window=13)


def texture(height, width, sigma=10.0):
    y, x = np.mgrid[:height, :width]
    clean = 100 + 50 * np.sin(x / 3) * np.cos(y / 4)
    return clean + np.random.default_rng(0).normal(0, sigma, clean.shape)


def noise(*shape):
    return np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(33, 40), (9, 50), (17, 11)])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_rounds_against_the_oracle(shape, count):
    noisy = texture(*shape)
    settings = SECOND.patch_size, SECOND.group_size, SECOND.stride, SECOND.window
    first = FIRST.patch_size, FIRST.group_size, FIRST.stride, FIRST.window
    pilot = oracle.step(noisy, noisy, oracle.nl_ridge(10.0, 0.2)[0], *first)
    keep, blend = (0.7, 0.4) if count > 1 else (0.0, 1.0)
    expected = oracle.rounds(
        noisy, pilot, 10.0, oracle.two_sided(0.4), settings, count, keep, blend
    )
    family = TwoSided(noisier=0.2, penalty=0.4)
    method = Recipe(family, FIRST, SECOND, Rounds(count, keep, blend))
    result = denoise(noisy, 10.0, method=method)
    assert np.sqrt(np.mean((result - expected) ** 2)) < 0.05
    assert np.median(np.abs(result - expected)) < 0.005


@pytest.mark.parametrize("family", [Ridge(), Bayes(), TwoSided()])
def test_rounds_and_scales_can_be_had_with_any_family(family):
    noisy, clean = texture(70, 81), texture(70, 81, sigma=0)
    plain = Recipe(family, FIRST, SECOND)
    rounds = replace(plain, rounds=Rounds(3, keep=0.6, blend=0.5))
    both = replace(rounds, coarse=CoarseScale(plain))
    errors = [np.std(denoise(noisy, 10, method=method) - clean) for method in (plain, rounds, both)]
    assert max(errors) < 0.7 * 10
    assert len(set(errors)) == 3


def test_a_formula_of_ones_own_in_rounds():
    """It is promised a number for the variance, or one for each pixel: also where each group has its own."""
    shapes = set()

    def shrink(Y, X, noise):
        variance = noise.variance
        shapes.add(np.shape(variance) == Y.shape or np.ndim(variance) == 0)
        assert shapes == {True}
        return Y.mean(axis=-1, keepdims=True) * np.ones(Y.shape), np.ones(Y.shape)[..., 0, :]

    family = Custom(Estimator(shrink), Estimator(shrink))
    denoise(texture(30, 30), 10, method=Recipe(family, FIRST, SECOND, Rounds(3, 0.5)))
    assert shapes == {True}


def test_a_recipe_of_one_round_is_the_two_steps_of_the_paper():
    """Whatever the rounds would keep or blend: of one of them nothing is kept."""
    noisy = texture(40, 50)
    plain = recipe("nl-ridge", 10)
    np.testing.assert_array_equal(
        denoise(noisy, 10, method=plain),
        denoise(noisy, 10, method=replace(plain, rounds=Rounds(1, keep=0.9, blend=0.1))),
    )


def test_what_each_scale_is_given():
    """By an engine whose result is as easily foretold as different at each scale."""
    calls = []

    def run(inputs, step, groups=None):
        calls.append((inputs.noisy.shape[1:], step.settings, inputs.noise.variance))
        return np.abs(inputs.noisy), inputs.noisy

    fine = Recipe(Ridge(), FIRST, SECOND)
    small = Recipe(Ridge(), SECOND, FIRST)
    image = noise(1, 31, 40)
    pilot, result = denoised(
        image, PlaneNoise(4.0), replace(fine, coarse=CoarseScale(small, 1, 2)), run
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
    assert np.std(pilot - result) > 0.1


def test_what_is_no_matter_of_noise_is_not_spread():
    image = np.zeros((1, 64, 64), np.float32)
    coarse = coarser(image)
    coarse[0, 16, 16] = 1e6
    assert np.abs(with_coarse(image, coarse, 1, 0.5)).max() < 1


def test_progress_counts_the_rounds_and_the_scales():
    calls = []
    small = Recipe(Ridge(), FIRST, SECOND, Rounds(2, 0.5))
    method = Recipe(Ridge(), FIRST, SECOND, Rounds(3, 0.5), CoarseScale(small))
    denoise(texture(90, 70), 10, method=method, progress=lambda *done: calls.append(done))
    assert calls[-1][0] == calls[-1][1] == len(calls)


def test_noise_that_differs_from_pixel_to_pixel():
    """A map of one level is that level; and with two of them each half is denoised by its own."""
    noisy = texture(60, 64)
    method = recipe("best", 10)
    flat = denoise(noisy, 10, method=method)
    np.testing.assert_allclose(
        denoise(noisy, np.full(noisy.shape, 10.0), method=method), flat, atol=0.05
    )
    levels = np.where(np.arange(64) < 32, 2.0, 20.0) * np.ones((60, 1))
    clean = texture(60, 64, sigma=0)
    uneven = clean + levels * noise(60, 64)
    result = denoise(uneven, noise=GaussianNoise(levels), method=method)
    for half in (np.s_[:, :32], np.s_[:, 32:]):
        error = np.std((result - clean)[half])
        assert error < 0.7 * np.std((uneven - clean)[half])
        assert error < np.std((denoise(uneven, 11, method=method) - clean)[half])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rounds(0), "count is 0; expected a number from 1 to 100"),
        (lambda: Rounds(2.5), "count is 2.5; expected a whole number"),
        (lambda: Rounds(2, keep=1.5), "keep is 1.5; expected a number from 0 to 1"),
        (lambda: Rounds(2, blend=-1), "blend is -1; expected a number from 0 to 1"),
        (
            lambda: CoarseScale(recipe("fast", 10), 0),
            "pilot_level is 0; expected a number from 1 to 10",
        ),
        (lambda: Rounds(2, keep="a"), "keep is 'a'; expected a number from 0 to 1"),
        (lambda: CoarseScale("best"), "recipe is 'best'; expected a Recipe"),
        (lambda: replace(recipe("fast", 10), rounds=3), "rounds is 3; expected Rounds"),
        (
            lambda: replace(recipe("fast", 10), coarse="best"),
            "coarse is 'best'; expected a CoarseScale",
        ),
        (lambda: TwoSided(penalty=-1), "penalty is -1; expected a non-negative number"),
    ],
)
def test_settings_that_cannot_be(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


# The pyramid.


def test_the_filter_is_the_wavelet_that_it_says():
    np.testing.assert_allclose(pyramid._FILTER, pywt.Wavelet("sym8").dec_lo, atol=1e-12)


@pytest.mark.parametrize("shape", [(64, 64), (63, 70), (5, 9), (1, 1), (1, 30), (2, 3)])
@pytest.mark.parametrize("level", [1, 2, 3, 6])
def test_an_image_with_its_own_coarse_one_is_itself(shape, level):
    image = 100 + noise(2, *shape)
    assert coarser(image).shape == (2, *coarser_shape(shape))
    np.testing.assert_allclose(with_coarse(image, coarser(image), level), image, atol=1e-4)
    np.testing.assert_allclose(coarser(np.full_like(image, 7.0)), 7, rtol=1e-6)


def test_what_is_put_back_is_what_was_given():
    """At the first level all of the coarse image is taken (but for where the image ends), and nothing finer changes."""
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
    assert abs(small.std() - 0.5) < 0.01
    for shift in ((0, 1), (1, 0), (1, 1), (2, 0)):
        assert abs(np.mean(small * np.roll(small, shift, (0, 1)))) < 0.01 * 0.25


def test_the_variance_of_the_coarser_image():
    variance = (1 + np.arange(48, dtype=np.float32)) * np.ones((1, 40, 1), np.float32)
    draws = np.random.default_rng(0).normal(0, np.sqrt(variance), (4000, 40, 48)).astype(np.float32)
    found = coarser(draws).var(axis=0)
    expected = coarser_noise(PlaneNoise(variance)).variance[0]
    inner = np.s_[6:-6, 6:-6]
    assert np.abs(found[inner] / expected[inner] - 1).max() < 0.15
    assert abs(np.mean(found[inner] / expected[inner]) - 1) < 0.01
    assert coarser_noise(PlaneNoise(4.0)).variance == 1.0


def test_far_away_nothing_changes_with_two_scales():
    small = Recipe(TwoSided(), FIRST, SECOND, Rounds(3, 0.5, 0.3))
    method = replace(small, coarse=CoarseScale(small))
    noisy = texture(700, 720)
    whole = denoise(noisy, 10, method=method)
    part = denoise(noisy[:560, :580], 10, method=method)
    np.testing.assert_array_equal(whole[:40, :50], part[:40, :50])


def test_far_away_nothing_changes():
    image = noise(1, 200, 200)
    other = image.copy()
    other[:, 150:] += 5
    a, b = (with_coarse(each, noise(1, 100, 100), 3) for each in (image, other))
    np.testing.assert_array_equal(a[:, :30], b[:, :30])
    assert not np.array_equal(a[:, 30:150], b[:, 30:150])
