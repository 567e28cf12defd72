"""Every family: its formulas against the paper, and its kernels against its formulas."""

import math
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import oracle
import pytest
from family_cases import FAMILIES, STEPS, TAME, WILD, estimator_and_group
from groups import Custom, custom_recipe, group, run_kernel, uneven
from images import texture

import nlridge
from nlridge.core.families import BM3D, Bayes, GroupNoise, Ridge, TwoSided
from nlridge.core.families.bm3d import biorthogonal, dct, haar

SIZES = [(1, 1), (4, 9), (9, 5), (49, 18), (25, 60), (49, 80), (64, 16), (100, 33), (81, 120)]


@pytest.mark.parametrize("noise", ["same", "uneven"])
@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize(("name", "step"), TAME)
def test_kernel_and_formula_agree(name, step, n, m, noise):
    estimator, Y, X = estimator_and_group(name, step, n, m)
    variance = 100.0 if noise == "same" else uneven((n, m))
    denoised, weights = estimator.formula(Y, X, GroupNoise(variance))
    fast, fast_weights = run_kernel(estimator, Y, X, variance)
    np.testing.assert_allclose(fast, denoised, atol=0.02)  # of a noise level of 10
    np.testing.assert_allclose(fast_weights, weights, rtol=2e-3)


@pytest.mark.parametrize(("n", "m"), SIZES)
def test_kernel_and_formula_agree_on_unconstrained_sure(n, m):
    estimator, Y, X = estimator_and_group(*WILD, n, m)
    denoised, weights = estimator.formula(Y, X, GroupNoise(100.0))
    fast, fast_weights = run_kernel(estimator, Y, X, 100.0)
    np.testing.assert_allclose(fast, denoised, atol=0.02 * np.abs(denoised).max())
    np.testing.assert_allclose(fast_weights, weights, rtol=0.05)


@pytest.mark.parametrize(
    ("family", "expected"),
    [
        (Ridge(), oracle.nl_ridge(10.0)),
        (Ridge(noisier=0.5), oracle.nl_ridge(10.0, 0.5)),
        (Bayes(), oracle.nl_bayes(10.0)),
        (Bayes(noisier=0.5), oracle.nl_bayes(10.0, 0.5)),
        (BM3D(), oracle.bm3d(10.0)),
        (BM3D(threshold=math.sqrt(2)), oracle.bm3d(10.0, math.sqrt(2))),
    ],
)
@pytest.mark.parametrize(("n", "m"), [(4, 9), (9, 5), (49, 18), (25, 60)])
def test_formulas_are_those_of_the_paper(family, expected, n, m):
    Y, X = group(n, m)
    for estimator, estimate in zip((family.pilot, family.refine), expected, strict=True):
        denoised, weights = estimator.formula(Y, X, GroupNoise(100.0))
        denoised_there, weights_there = estimate(Y, X)
        np.testing.assert_allclose(denoised, denoised_there, atol=1e-6)
        np.testing.assert_allclose(weights, weights_there, rtol=1e-6)


@pytest.mark.parametrize(("name", "step"), STEPS)
def test_one_variance_for_all_pixels_is_the_same_as_one_for_each(name, step):
    estimator, Y, X = estimator_and_group(name, step, 49, 24)
    denoised, weights = estimator.formula(Y, X, GroupNoise(100.0))
    map_denoised, map_weights = estimator.formula(Y, X, GroupNoise(np.full(Y.shape, 100.0)))
    np.testing.assert_allclose(map_denoised, denoised, rtol=1e-8)
    np.testing.assert_allclose(map_weights, weights, rtol=1e-8)


@pytest.mark.parametrize(("name", "step"), STEPS)
def test_formulas_take_batches(name, step):
    estimator = getattr(FAMILIES[name], step)
    groups = [group(25, 12, mean=mean) for mean in (50, 100, 150)]
    Y, X = (np.stack(part) for part in zip(*groups, strict=True))
    variances = np.stack([uneven(Y.shape[-2:], 50.0 * (k + 1)) for k in range(3)])
    denoised, weights = estimator.formula(Y, X, GroupNoise(variances))
    for k, (y, x) in enumerate(groups):
        one, one_weights = estimator.formula(y, x, GroupNoise(variances[k]))
        np.testing.assert_allclose(denoised[k], one, atol=1e-9)
        np.testing.assert_allclose(weights[k], one_weights)


@pytest.mark.parametrize("mean", [0.0, 100.0, 30000.0])
@pytest.mark.parametrize("sigma", [1.0, 5.0])
@pytest.mark.parametrize(("name", "step"), TAME)
def test_kernels_hold_at_low_noise(name, step, sigma, mean):
    """Patches much brighter than the noise: where a less careful kernel loses all digits."""
    m = 18 if step == "pilot" else 90
    estimator, Y, X = estimator_and_group(name, step, 81, m, mean=mean, sigma=sigma)
    denoised, _ = estimator.formula(Y, X, GroupNoise(sigma**2))
    fast, _ = run_kernel(estimator, Y, X, sigma**2)
    error = (fast - fast.mean()) - (denoised - denoised.mean())
    assert np.sqrt(np.mean(error**2)) < 0.05 * sigma
    assert abs(fast.mean() - denoised.mean()) < 0.05 * sigma


@pytest.mark.parametrize("m", [3, 9, 40, 80])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0])
def test_bayes_in_flat_areas(spread, m):
    """Where C_Y is singular or nearly so, for equal patches or m <= n, the estimate stays tame."""
    rng = np.random.default_rng(m)
    Y = 100 + spread * rng.normal(size=(49, m))
    for run in (lambda e: e.formula(Y, Y, GroupNoise(100.0)), lambda e: run_kernel(e, Y, Y, 100.0)):
        denoised, _ = run(Bayes().pilot)
        assert np.isfinite(denoised).all()
        # Θ is at least -1/α: what is left of the differences is at most ten times as large.
        np.testing.assert_allclose(denoised, 100, atol=60 * spread + 1e-3)


@pytest.mark.parametrize("family", [Ridge(noisier=0), Bayes(noisier=0)])
@pytest.mark.parametrize("m", [5, 60])
def test_the_plain_formula_is_finite_in_flat_areas_too(family, m):
    Y = np.full((25, m), 100.0)
    denoised, weights = family.pilot.formula(Y, Y, GroupNoise(100.0))
    fast, fast_weights = run_kernel(family.pilot, Y, Y, 100.0)
    for values in (denoised, weights, fast, fast_weights):
        assert np.isfinite(values).all()


@pytest.mark.parametrize("transform", [dct, haar])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 16, 33, 64])
def test_transforms_are_orthonormal_and_their_first_row_is_the_mean(transform, size):
    matrix = transform(size)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-12)
    np.testing.assert_allclose(matrix[0], 1 / math.sqrt(size))


def test_haar_is_the_textbook_transform_at_powers_of_two():
    r = math.sqrt(0.5)
    expected = [[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, -0.5, -0.5], [r, -r, 0, 0], [0, 0, r, -r]]
    np.testing.assert_allclose(haar(4), expected, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 10, 12, 16])
def test_biorthogonal_wavelets_reconstruct_and_keep_the_level_of_the_noise(size):
    matrix = biorthogonal(size)
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=1), 1)
    np.testing.assert_allclose(matrix[0], 1 / math.sqrt(size))
    assert np.linalg.cond(matrix) < 3
    np.testing.assert_allclose(matrix[1:].sum(axis=1), 0, atol=1e-12)  # details of a constant


def test_biorthogonal_wavelets_are_those_of_pywavelets():
    pywt = pytest.importorskip("pywt")
    means, rows = np.eye(8), []
    while len(means) > 1:
        means, details = pywt.dwt(means, "bior1.5", "periodization", axis=0)
        rows = [*details, *rows]
    theirs = np.array([*means, *rows])
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    # Each row is one of theirs; their order within a level, and their signs, are a convention.
    np.testing.assert_allclose(np.abs(biorthogonal(8) @ theirs.T).max(axis=1), 1, atol=1e-6)


def test_the_first_step_can_have_a_transform_of_its_own():
    Y, X = group(64, 16)
    both = BM3D(pilot_transform=biorthogonal)
    for step, alike in (("pilot", BM3D(patch_transform=biorthogonal)), ("refine", BM3D())):
        result, _ = getattr(both, step).formula(Y, X, GroupNoise(100.0))
        expected, _ = getattr(alike, step).formula(Y, X, GroupNoise(100.0))
        np.testing.assert_array_equal(result, expected)


def test_a_patch_transform_that_is_not_invertible_is_refused():
    family = BM3D(patch_transform=lambda size: np.full((size, size), size**-0.5))
    with pytest.raises(ValueError, match="expected a function that returns an invertible matrix of 8 x 8 whose rows"):  # fmt: skip
        family.pilot.parameters(64, 16)


def test_a_window_weights_the_pixels_of_patches():
    """Where overlapping patches disagree, a pixel is closer to the patch whose centre it is closer to."""

    def alternate(Y, X, noise):
        return 0 * Y, 1 + 0 * Y[..., 0, :]

    def half(Y, X, noise):  # the pixels of a patch that change: its upper half alone
        rows = np.arange(Y.shape[-2]) // 4 < 2
        return np.where(rows[:, None], 0, 1) * Y, 1 + 0 * Y[..., 0, :]

    image = np.full((12, 13), 100.0)
    step = nlridge.Step(patch_size=4, group_size=1, stride=2, window=5)
    window = np.array([0.25, 1, 1, 0.5])
    for formula in (alternate, half):
        recipe = nlridge.Recipe(Custom(nlridge.Estimator(formula, window=lambda p: window[:p])), step)  # fmt: skip
        total, weight = np.zeros(image.shape), np.zeros(image.shape)
        for y in oracle.references(12, 4, 2):
            for x in oracle.references(13, 4, 2):
                inside = np.s_[y : y + 4, x : x + 4]
                column = formula(image[inside].reshape(16, 1), None, None)[0]
                total[inside] += np.outer(window, window) * column.reshape(4, 4)
                weight[inside] += np.outer(window, window)
        result = nlridge.denoise(image, 50, method=recipe)
        np.testing.assert_allclose(result, total / weight, atol=1e-3)


@pytest.mark.parametrize("window", [[1, 1, 1], [1, 0, 1, 1], [1, np.nan, 1, 1]])
def test_a_window_of_no_use_is_refused(window):
    estimator = nlridge.Estimator(lambda Y, X, noise: (Y, Y[..., 0, :]), window=lambda p: window)
    recipe = nlridge.Recipe(Custom(estimator), nlridge.Step(4, 4, window=9))
    with pytest.raises(ValueError, match=r"window\(4\) is \[1.*; expected 4 positive numbers"):
        nlridge.denoise(texture(20, 20), 10, method=recipe)


@pytest.mark.usefixtures("one_torch_thread")
def test_a_window_is_the_same_on_tensors_with_a_formula_and_with_a_kernel():
    torch = pytest.importorskip("torch")
    image = texture(40, 44)
    family = BM3D(pilot_transform=biorthogonal, group_transform=haar, kaiser=2.0)
    step = nlridge.Step(patch_size=8, group_size=8, stride=3, window=15)
    recipe = nlridge.Recipe(family, step, step)
    result = nlridge.denoise(image, 10, method=recipe)
    tensor = nlridge.denoise(torch.tensor(image), 10, method=recipe).numpy()
    assert np.quantile(np.abs(result - tensor), 0.99) < 0.01  # other groups at ties
    plain = replace(family, kaiser=0.0)
    flat = nlridge.denoise(image, 10, method=replace(recipe, family=plain))
    assert np.abs(result - flat).max() > 0.1


def test_a_transform_that_is_not_orthonormal_is_refused():
    family = BM3D(group_transform=lambda size: np.ones((size, size)))
    with pytest.raises(
        ValueError, match="expected a function that returns an orthonormal matrix of 16 x 16"
    ):
        family.pilot.parameters(64, 16)
    with pytest.raises(
        ValueError, match="expected a function that returns an orthonormal matrix of 16 x 16"
    ):
        family.pilot.formula(np.zeros((64, 16)), None, GroupNoise(1.0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: Ridge(noisier=-0.1),
        lambda: Ridge(tolerance=float("nan")),
        lambda: Bayes(noisier=-1),
        lambda: BM3D(threshold=-2),
        lambda: BM3D(kaiser=-1),
        lambda: TwoSided(kaiser=-1),
    ],
)
def test_negative_parameters_are_refused(call):
    with pytest.raises(ValueError, match="expected a non-negative number"):
        call()


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_values(name):
    family = FAMILIES[name]
    again = pickle.loads(pickle.dumps(family))
    assert again == family
    assert hash(again) == hash(family)
    assert family != Ridge(noisier=0.123)
    with pytest.raises(FrozenInstanceError):
        family.noisier = 1


def test_families_have_a_readable_repr():
    assert repr(Ridge()) == "Ridge(noisier=0.05, tolerance=0.0)"
    assert repr(TwoSided(penalty=0.5)) == "TwoSided(noisier=0.2, penalty=0.5, kaiser=0.0)"
    haar_groups = BM3D(group_transform=haar)
    assert repr(haar_groups) == "BM3D(threshold=2.7, patch_transform=dct, group_transform=haar)"
    original = BM3D(pilot_transform=biorthogonal, kaiser=2.0)
    assert repr(original).endswith("pilot_transform=biorthogonal, kaiser=2.0)")


@pytest.mark.parametrize("name", nlridge.method_names())
def test_recipes_are_values(name):
    recipe = nlridge.recipe(name, 25)
    assert recipe == nlridge.recipe(name, 25) == pickle.loads(pickle.dumps(recipe))
    # "preview" has the same settings at all levels.
    assert (recipe == nlridge.recipe(name, 50)) == (name == "preview")
    assert "object at" not in repr(recipe)
    assert "function" not in repr(recipe)


def test_a_recipe_needs_a_family():
    with pytest.raises(TypeError, match="family is 'ridge'; expected a Family such as"):
        nlridge.Recipe("ridge", nlridge.Step(5, 9))


@pytest.mark.parametrize("value", ["a", [1.0], True])
@pytest.mark.parametrize("call", [lambda x: Ridge(noisier=x), lambda x: BM3D(threshold=x)])
def test_non_numeric_parameters_are_refused(call, value):
    with pytest.raises(TypeError, match="expected a number"):
        call(value)


def test_parameters_whose_square_is_too_large_are_refused():
    with pytest.raises(ValueError, match="noisier is inf; expected at most 1e12"):
        Ridge(noisier=float("inf"))


# Formulas from outside the package.


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (lambda Y, X, variance: Y, r"the formula returned an? (array|tensor); expected \(denoised, weights\)"),
        (lambda Y, X, variance: None, r"the formula returned None; expected \(denoised, weights\)"),
        (lambda Y, X, variance: (Y, Y, Y), r"the formula returned 3 values; expected \(denoised, weights\)"),
        (lambda Y, X, variance: (Y, Y), r"the formula returned (array|tensor)s of shapes .*; expected \(\d+, 16, 4\) and \(\d+, 4\)"),
        (lambda Y, X, variance: ("a", "b"), "the formula returned .*; expected (numbers|tensors for tensors)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["array", "tensor", "tensor that needs a gradient"])
def test_what_a_formula_must_return(formula, message, kind):
    image = texture(24, 30)
    if kind != "array":
        torch = pytest.importorskip("torch")
        image = torch.tensor(image, requires_grad=kind != "tensor")
    with pytest.raises((TypeError, ValueError), match=message):
        nlridge.denoise(image, 10, method=custom_recipe(formula))
    noise = nlridge.CorrelatedNoise.lines(10, length=40)
    with pytest.raises((TypeError, ValueError), match=message):
        nlridge.denoise(image, noise=noise, method=custom_recipe(formula))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_patches_that_a_formula_cannot_denoise_are_left_unchanged(value, recwarn):
    def formula(Y, X, variance):
        return Y + value, Y[..., 0, :] * 0 + 1

    noisy = texture(24, 30)
    result = nlridge.denoise(noisy, 10, method=custom_recipe(formula))
    np.testing.assert_allclose(result, noisy, rtol=1e-6)
    stripes = nlridge.CorrelatedNoise.lines(10, length=40)
    result = nlridge.denoise(noisy, noise=stripes, method=custom_recipe(formula))
    np.testing.assert_allclose(result, noisy, rtol=1e-6)
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]
