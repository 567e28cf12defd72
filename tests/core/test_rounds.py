"""Beyond the paper: the second step in rounds."""

from dataclasses import replace

import numpy as np
import oracle
import pytest
from groups import Custom
from images import texture

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
from nlridge.core.families import BM3D, Bayes, Ridge, TwoSided

FIRST, SECOND = Step(5, 9, stride=3, window=11), Step(4, 14, stride=2, window=13)
SPARSE = Step(4, 14, stride=6, window=13)  # with gaps between reference patches
SAMPLED = Step(5, 11, stride=6, window=11, every=3)


@pytest.mark.parametrize("shape", [(33, 40), (9, 50), (17, 11)])
@pytest.mark.parametrize(
    ("count", "second", "later"),
    [
        (1, SECOND, None),
        (2, SECOND, None),
        (3, SECOND, None),
        (1, SPARSE, None),
        (2, SPARSE, SECOND),
        (4, SPARSE, SAMPLED),
    ],
)
@pytest.mark.parametrize("kaiser", [0.0, 2.0])
def test_rounds_against_the_oracle(shape, count, second, later, kaiser):
    noisy = texture(*shape)
    pilot = oracle.step(noisy, noisy, oracle.nl_ridge(10.0, 0.2)[0], *oracle.settings_of(FIRST))
    keep, blend = (0.7, 0.4) if count > 1 else (0.0, 1.0)
    settings = oracle.settings_of(second), oracle.settings_of(later or second)
    expected = oracle.rounds(
        noisy, pilot, 10.0, oracle.two_sided(0.4), settings, count, keep, blend, kaiser
    )
    family = TwoSided(noisier=0.2, penalty=0.4, kaiser=kaiser)
    method = Recipe(family, FIRST, second, Rounds(count, keep, blend, later))
    result = denoise(noisy, 10.0, method=method)
    assert np.sqrt(np.mean((result - expected) ** 2)) < 0.01
    assert np.median(np.abs(result - expected)) < 5e-5


@pytest.mark.parametrize(
    ("family", "measured"),
    [
        (Ridge(), (4.08, 3.87, 3.67)),
        (Bayes(), (6.06, 4.72, 4.50)),
        (TwoSided(), (3.97, 3.87, 3.59)),
        (BM3D(), (3.94, 3.93, 3.77)),
    ],
)
def test_rounds_and_a_coarse_scale_reduce_the_error_of_any_family(family, measured):
    noisy, clean = texture(70, 81), texture(70, 81, sigma=0)
    plain = Recipe(family, FIRST, SECOND)
    rounds = replace(plain, rounds=Rounds(3, keep=0.6, blend=0.5))
    both = replace(rounds, coarse=CoarseScale(plain))
    errors = [np.std(denoise(noisy, 10, method=method) - clean) for method in (plain, rounds, both)]
    assert errors == pytest.approx(measured, rel=0.01)
    assert errors[0] > errors[1] > errors[2]


def test_a_custom_formula_gets_the_variance_in_rounds_too():
    """Either a number, or one for each pixel, even though each group has its own."""
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
    """Whatever it would keep or blend: the last round keeps nothing."""
    noisy = texture(40, 50)
    plain = recipe("nl-ridge", 10)
    np.testing.assert_array_equal(
        denoise(noisy, 10, method=plain),
        denoise(noisy, 10, method=replace(plain, rounds=Rounds(1, keep=0.9, blend=0.1))),
    )


def test_keeping_hardly_any_noise_is_keeping_none():
    noisy, plain = texture(24, 30), recipe("nl-ridge", 10)
    none, hardly = (
        denoise(noisy, 10, method=replace(plain, rounds=Rounds(2, keep=keep)))
        for keep in (0.0, 1e-300)
    )
    np.testing.assert_array_equal(none, hardly)


def test_progress_counts_the_rounds_and_the_scales():
    calls = []
    small = Recipe(Ridge(), FIRST, SECOND, Rounds(2, 0.5))
    method = Recipe(Ridge(), FIRST, SECOND, Rounds(3, 0.5), CoarseScale(small))
    denoise(texture(90, 70), 10, method=method, progress=lambda *done: calls.append(done))
    assert calls == [(k + 1, len(calls)) for k in range(len(calls))]


def test_noise_that_differs_from_pixel_to_pixel():
    """A map of one level is the same as a number; with two levels, each half is denoised by its own."""
    noisy = texture(60, 64)
    method = recipe("best", 10)
    flat = denoise(noisy, 10, method=method)
    np.testing.assert_allclose(
        denoise(noisy, np.full(noisy.shape, 10.0), method=method), flat, atol=0.005
    )
    levels = np.where(np.arange(64) < 32, 2.0, 20.0) * np.ones((60, 1))
    clean = texture(60, 64, sigma=0)
    uneven = clean + levels * np.random.default_rng(1).normal(size=clean.shape).astype(np.float32)
    result = denoise(uneven, noise=GaussianNoise(levels), method=method)
    for half in (np.s_[:, :32], np.s_[:, 32:]):
        error = np.std((result - clean)[half])
        assert error < 0.3 * np.std((uneven - clean)[half])
        assert error < 0.9 * np.std((denoise(uneven, 11, method=method) - clean)[half])


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
def test_impossible_settings_are_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
