"""The paper's lemmas and propositions, one by one (docs/theory.md is the map).

Expectations are means over draws of the noise. Such a mean may differ by four standard errors, which
happens by chance once in 16 000 times (seeds are fixed), and the standard error has to be small, or the test
would show nothing.
"""

from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from benchmarks.sure import biases
from groups import group, uneven
from skimage import data

from nlridge.core.families import GroupNoise, bayes, bm3d, ridge
from nlridge.core.families.family import squared_norm

SIGMA = 3.0
DRAWS = 40_000


class Case(NamedTuple):
    """A family and the functions of its file, for parameters held in one tuple."""

    shape: tuple  # of a group
    sizes: tuple  # of the parameters: the shape of each
    f: object
    risk: object
    sure: object
    minimise_sure: object
    minimise_risk: object


def ridge_case(noisier=0.0, shape=(16, 5)):
    m = shape[1]
    return Case(
        shape,
        ((m, m),),
        lambda Y, p: Y @ p[0],
        lambda X, p, variance: ridge.risk(X, *p, GroupNoise((1 + noisier) * variance)),
        lambda Y, p, variance: ridge.sure(Y, *p, GroupNoise(variance), noisier),
        lambda Y, variance: (ridge.minimise_sure(Y, GroupNoise(variance), noisier),),
        lambda X, variance: (ridge.minimise_risk(X, GroupNoise((1 + noisier) * variance)),),
    )


def bayes_case(noisier=0.0, shape=(4, 12)):
    n = shape[0]
    return Case(
        shape,
        ((n, n), (n,)),
        lambda Y, p: p[0] @ Y + p[1][:, None],
        lambda X, p, variance: bayes.risk(X, *p, GroupNoise((1 + noisier) * variance)),
        lambda Y, p, variance: bayes.sure(Y, *p, GroupNoise(variance), noisier),
        lambda Y, variance: bayes.minimise_sure(Y, GroupNoise(variance), noisier),
        lambda X, variance: bayes.minimise_risk(X, GroupNoise((1 + noisier) * variance)),
    )


def bm3d_case(transform=bm3d.dct, shape=(9, 4)):
    P, Q = bm3d.transforms(*shape, transform, transform)
    return Case(
        shape,
        (shape,),
        lambda Y, p: P.T @ (p[0] * (P @ Y @ Q)) @ Q.T,
        lambda X, p, variance: bm3d.risk(X, *p, GroupNoise(variance), P, Q),
        lambda Y, p, variance: bm3d.sure(Y, *p, GroupNoise(variance), P, Q),
        lambda Y, variance: (bm3d.minimise_sure(Y, GroupNoise(variance), P, Q),),
        lambda X, variance: (bm3d.minimise_risk(X, GroupNoise(variance), P, Q),),
    )


CASES = {
    "ridge": ridge_case(),
    "bayes": bayes_case(),
    "bm3d": bm3d_case(),
    "bm3d, Haar": bm3d_case(bm3d.haar),
}
NOISIER = {
    "ridge": (ridge_case(0.3), ridge_case()),
    "bayes": (bayes_case(0.3), bayes_case()),
}


def truth(case):
    _, X = group(*case.shape, rank=2, mean=5.0)
    return X / 10


def some_parameters(case, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(0.3, 0.4, size) for size in case.sizes)


def noises(shape, seed=0, variance=SIGMA**2):
    return np.sqrt(variance) * np.random.default_rng(seed).normal(size=(DRAWS, *shape))


def variance_of(case, noise):
    """The variance of the noise of a group: one number, or one for each pixel."""
    return SIGMA**2 if noise == "same" else uneven(case.shape, SIGMA**2)


# The propositions for one variance hold for one of each pixel as well.
any_noise = pytest.mark.parametrize("noise", ["same", "uneven"])


def assert_mean_is(samples, expected, precision):
    """The samples' mean is as expected, to within four standard errors that are small enough."""
    error = samples.std() / np.sqrt(len(samples))
    assert error < precision
    assert abs(samples.mean() - expected) < 4 * error


def gradient(function, parameters):
    """By central differences, which are exact for quadratic functions, but for rounding."""
    slopes = []
    for i, values in enumerate(parameters):
        slope = np.empty(values.shape)
        for index in np.ndindex(values.shape):
            step = np.zeros(values.shape)
            step[index] = 1e-3
            ahead, behind = (
                (*parameters[:i], values + s * step, *parameters[i + 1 :]) for s in (1, -1)
            )
            slope[index] = (function(ahead) - function(behind)) / 2e-3
        slopes.append(slope.ravel())
    return np.concatenate(slopes)


def assert_minimal(function, parameters):
    """The gradient is zero, compared with that nearby, and no random step goes down."""
    rng = np.random.default_rng(1)
    lowest = function(parameters)
    steps = [
        tuple(rng.normal(0, size, values.shape) for values in parameters)
        for size in (1e-3, 1e-2, 0.1, 1.0)
        for _ in range(50)
    ]
    for step in steps:
        moved = tuple(v + s for v, s in zip(parameters, step, strict=True))
        assert function(moved) > lowest
    nearby = tuple(values + 0.1 for values in parameters)
    scale = np.abs(gradient(function, nearby)).max()
    assert np.abs(gradient(function, parameters)).max() < 1e-6 * scale


# The lemmas of the supplement.


def test_lemma_6_1_the_mean_of_a_noisy_regression():
    rng = np.random.default_rng(0)
    A, B = rng.normal(0, 3, (2, 6, 4))
    theta = rng.normal(size=(4, 4))
    errors = squared_norm((A + noises((6, 4))) @ theta - B)
    expected = squared_norm(A @ theta - B) + 6 * SIGMA**2 * squared_norm(theta)
    assert_mean_is(errors, expected, 0.005 * expected)


def test_lemma_6_2_regression_with_a_penalty_on_the_trace():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 6, 4))
    gram, penalty = A.T @ A, 0.7
    minimiser = np.linalg.inv(gram) @ (A.T @ B - penalty * np.eye(4))
    assert_minimal(
        lambda p: squared_norm(A @ p[0] - B) + 2 * penalty * np.trace(p[0]), (minimiser,)
    )


def test_lemma_6_3_ridge_regression():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(2, 6, 4))
    minimiser = np.linalg.inv(A.T @ A + 0.7 * np.eye(4)) @ A.T @ B
    assert_minimal(lambda p: squared_norm(A @ p[0] - B) + 0.7 * squared_norm(p[0]), (minimiser,))


def test_lemma_6_4_the_best_common_column():
    rng = np.random.default_rng(0)
    A, v = rng.normal(size=(6, 4)), rng.normal(size=4)
    assert_minimal(lambda p: squared_norm(A - np.outer(p[0], v)), (A @ v / (v @ v),))


# The propositions, for each family.


@any_noise
@pytest.mark.parametrize("name", CASES)
def test_the_risk_is_the_mean_error(name, noise):
    case = CASES[name]
    variance = variance_of(case, noise)
    X, parameters = truth(case), some_parameters(case)
    errors = squared_norm(case.f(X + noises(case.shape, variance=variance), parameters) - X)
    expected = case.risk(X, parameters, variance)
    assert_mean_is(errors, expected, 0.005 * expected)


@any_noise
@pytest.mark.parametrize("name", CASES)
def test_sure_is_unbiased(name, noise):
    case = CASES[name]
    variance = variance_of(case, noise)
    X, parameters = truth(case), some_parameters(case)
    estimates = case.sure(X + noises(case.shape, variance=variance), parameters, variance)
    expected = case.risk(X, parameters, variance)
    assert_mean_is(estimates, expected, 0.01 * expected)


@any_noise
@pytest.mark.parametrize("name", NOISIER)
def test_the_noisier_sure_is_unbiased_for_the_noisier_risk(name, noise):
    """The risk for noise of variance (1 + α) σ², estimated from Y alone."""
    case, plain = NOISIER[name]
    variance = variance_of(case, noise)
    X, parameters = truth(case), some_parameters(case)
    estimates = case.sure(X + noises(case.shape, variance=variance), parameters, variance)
    expected = case.risk(X, parameters, variance)
    assert expected > 1.05 * plain.risk(X, parameters, variance)
    assert_mean_is(estimates, expected, 0.01 * expected)


@any_noise
@pytest.mark.parametrize("name", NOISIER)
def test_the_noisier_sure_is_the_mean_over_noise_added_to_y(name, noise):
    """As defined: noise of variance α σ² is added to Y, and SURE is taken of the sum."""
    case, plain = NOISIER[name]
    variance = variance_of(case, noise)
    Y, parameters = truth(case) + noises(case.shape, variance=variance)[0], some_parameters(case)
    added = np.sqrt(0.3) * noises(case.shape, 1, variance)
    estimates = plain.sure(Y + added, parameters, 1.3 * variance)
    expected = case.sure(Y, parameters, variance)
    assert_mean_is(estimates, expected, 0.01 * abs(expected))


@any_noise
@pytest.mark.parametrize(
    "case",
    [*CASES.values(), *(noisier for noisier, _ in NOISIER.values())],
    ids=[*CASES, *(f"{name}, noisier" for name in NOISIER)],
)
def test_the_closed_form_of_step_1_minimises_sure(case, noise):
    variance = variance_of(case, noise)
    Y = truth(case) + noises(case.shape, variance=variance)[0]
    assert_minimal(lambda p: case.sure(Y, p, variance), case.minimise_sure(Y, variance))


@any_noise
@pytest.mark.parametrize("name", CASES)
def test_the_closed_form_of_step_2_minimises_the_risk(name, noise):
    case = CASES[name]
    variance = variance_of(case, noise)
    X = truth(case)
    assert_minimal(lambda p: case.risk(X, p, variance), case.minimise_risk(X, variance))


@pytest.mark.parametrize("case", [ridge_case(0.5, (3, 8)), bayes_case(0.5, (8, 3))])
def test_the_noisier_problem_has_a_minimiser_where_the_paper_has_none(case):
    """Groups whose Gram or covariance matrix is singular; SURE itself then has no minimum."""
    Y = truth(case) + noises(case.shape)[0]
    assert_minimal(lambda p: case.sure(Y, p, SIGMA**2), case.minimise_sure(Y, SIGMA**2))


@pytest.mark.parametrize("seed", range(5))
def test_among_zeros_and_ones_sure_is_minimal_at_the_square_root_of_two(seed):
    """By trying all 2^8 of them."""
    shape = (4, 2)
    P, Q = bm3d.transforms(*shape)
    Y = SIGMA * np.random.default_rng(seed).normal(size=shape)
    choices = np.array(list(product((0.0, 1.0), repeat=8))).reshape(-1, *shape)
    values = bm3d.sure(Y, choices, GroupNoise(SIGMA**2), P, Q)
    kept = bm3d.keep_or_cancel(Y, GroupNoise(SIGMA**2), P, Q, np.sqrt(2))
    np.testing.assert_array_equal(choices[np.argmin(values)], kept)
    assert np.sum(values <= values.min()) == 1


def test_the_threshold_of_bm3d_is_not_the_one_of_sure():
    shape = (16, 16)
    P, Q = bm3d.transforms(*shape)
    Y = SIGMA * np.random.default_rng(0).normal(size=shape)
    at = partial(bm3d.keep_or_cancel, Y, GroupNoise(SIGMA**2), P, Q)
    assert bm3d.sure(Y, at(np.sqrt(2)), GroupNoise(SIGMA**2), P, Q) < bm3d.sure(
        Y, at(2.7), GroupNoise(SIGMA**2), P, Q
    )
    assert bm3d.risk(0 * Y, at(2.7), GroupNoise(SIGMA**2), P, Q) < bm3d.risk(
        0 * Y, at(np.sqrt(2)), GroupNoise(SIGMA**2), P, Q
    )


@any_noise
@pytest.mark.parametrize("name", CASES)
def test_with_the_truth_step_2_beats_every_other_member_of_the_family(name, noise):
    """Step 1's choices for many draws of the noise, and members chosen at random, all do worse."""
    case = CASES[name]
    variance = variance_of(case, noise)
    X = truth(case)
    least = case.risk(X, case.minimise_risk(X, variance), variance)
    assert 0 < least < X.size * np.mean(variance)
    for W in noises(case.shape, variance=variance)[:200]:
        assert case.risk(X, case.minimise_sure(X + W, variance), variance) > least
    for seed in range(200):
        assert case.risk(X, some_parameters(case, seed), variance) > least


@any_noise
def test_the_affine_low_rank_minimiser_is_minimal_under_its_constraint(noise):
    """Adaptive rank at tolerance 0: among Θ whose columns sum to one, none has a lower risk."""
    case = ridge_case(shape=(16, 6))
    X, variance = truth(case), variance_of(case, noise)
    theta = ridge.minimise_risk_at_low_rank(X, GroupNoise(variance), 1e-12)
    np.testing.assert_allclose(theta.sum(axis=0), 1)
    free = theta[:-1]

    def constrained(p):
        return ridge.risk(X, np.vstack([p[0], 1 - p[0].sum(axis=0)]), GroupNoise(variance))

    assert_minimal(constrained, (free,))


# Groups that are cut from an image.


@pytest.mark.parametrize("name", ["ridge", "bayes"])
def test_sure_stays_unbiased_where_patches_overlap(name):
    """Propositions 2.1 and 6.5 ask for independence along rows or along columns only.

    Overlapping patches are different pixels in each row of a group, and in each column.
    """
    image = data.camera()[100:260, 100:260].astype(float)
    assert_mean_is(biases(image, name, draws=60), 0, 0.01)


def test_overlap_biases_the_sure_of_bm3d():
    """Proposition 6.8 asks for independence of all noise in a group, which overlap breaks."""
    image = data.camera()[100:260, 100:260].astype(float)
    assert_mean_is(biases(image, "bm3d", draws=60, own_noise=True), 0, 0.01)
    shared = biases(image, "bm3d", draws=60)
    assert abs(shared.mean()) > 4 * shared.std() / np.sqrt(len(shared))


@pytest.mark.parametrize("name", ["ridge", "bayes", "bm3d"])
def test_sure_is_too_low_where_groups_are_chosen_by_noisy_pixels(name):
    """By more than a tenth of the noise at sigma 25; `python -m benchmarks --only sure` prints it."""
    image = data.camera()[100:260, 100:260].astype(float)
    assert biases(image, name, draws=30, choose_noisy=True).mean() < -0.1
