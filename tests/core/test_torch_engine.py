"""The PyTorch engine: formulas and results on tensors agree with those of the compiled engine."""

import numpy as np
import pytest
from family_cases import STEPS, TAME, estimator_and_group
from groups import group, uneven
from tensors import ALL_OF_IT, SMALL, denoised, methods, photograph, psnr

import nlridge
from nlridge.core.algorithm import pyramid
from nlridge.core.algorithm.inputs import PlaneNoise
from nlridge.core.algorithm.passes import Pass
from nlridge.core.algorithm.settings import Step
from nlridge.core.engines.grid import Block
from nlridge.core.families import GroupNoise, Ridge, ridge

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from nlridge.core.engines import torch as engine  # noqa: E402
from nlridge.torch import NLRidge  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def by_cpu(image, sigma=0.1, method="standard"):
    return nlridge.denoise(image, sigma, method=method, channel_axis=0, data_range=1)


# The formulas.


@pytest.mark.parametrize("noise", ["same", "uneven"])
@pytest.mark.parametrize(("n", "m"), [(4, 9), (9, 5), (49, 18), (25, 60)])
@pytest.mark.parametrize(("name", "step"), STEPS)
def test_formulas_return_the_same_for_tensors(name, step, n, m, noise):
    estimator, Y, X = estimator_and_group(name, step, n, m)
    Y, X = np.stack([Y, 0.5 * Y]), np.stack([X, 0.5 * X])
    variance = 100.0 if noise == "same" else np.stack([uneven((n, m))] * 2)
    expected = estimator.formula(Y, X, GroupNoise(variance))
    Y, X, variance = (torch.tensor(value, dtype=torch.float64) for value in (Y, X, variance))
    results = estimator.formula(Y, X, GroupNoise(variance))
    for ours, theirs in zip(results, expected, strict=True):
        assert ours.dtype == torch.float64
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)


@pytest.mark.parametrize("mean", [0.0, 100.0, 30000.0])
@pytest.mark.parametrize(("name", "step"), TAME)
def test_formulas_hold_in_float32(name, step, mean):
    """Patches much brighter than the noise, where the Gram matrix of a less careful formula loses all digits."""
    estimator, Y, X = estimator_and_group(
        name, step, 81, 18 if step == "pilot" else 90, mean=mean, sigma=1.0
    )
    expected, _ = estimator.formula(Y, X, GroupNoise(1.0))
    tensors = torch.tensor(Y).float(), torch.tensor(X).float()
    result, _ = estimator.formula(*tensors, GroupNoise(1.0))
    assert result.dtype == torch.float32
    assert np.sqrt(np.mean((result.numpy() - expected) ** 2)) < 0.06


def test_inverses_of_matrices_that_are_not_positive_are_nan():
    inverses = nlridge.core.arrays.inverse(torch.tensor([[[-1.0]], [[4.0]]]))
    assert inverses.isnan().flatten().tolist() == [True, False]


def pivoted_cholesky(G, tolerance):
    """As in a textbook, for one matrix."""
    rest, columns = G.copy(), []
    while np.trace(rest) > tolerance:
        p = np.argmax(np.diag(rest))
        columns.append(rest[:, p] / np.sqrt(rest[p, p]))
        rest -= np.outer(columns[-1], columns[-1])
    return np.stack(columns, axis=1) if columns else np.zeros((len(G), 0))


@pytest.mark.parametrize("to", [np.asarray, torch.tensor])
def test_the_rank_of_each_group_is_its_own(to):
    groups = [group(25, 12, rank=rank, mean=0)[1] for rank in (1, 3, 6)] + [np.zeros((25, 12))]
    grams = np.stack([X.T @ X for X in groups])
    factors = np.asarray(ridge._pivoted_cholesky(to(grams), 1e-3, 12))
    ranks = []
    for F, G in zip(factors, grams, strict=True):
        expected = pivoted_cholesky(G, 1e-3)
        rank = expected.shape[1]
        np.testing.assert_allclose(F[:, :rank], expected, atol=1e-6)
        assert not F[:, rank:].any()
        ranks.append(rank)
    assert ranks == [2, 4, 7, 0]  # and one more each, for the mean patch
    assert factors.shape[-1] == 7


@pytest.mark.parametrize("shape", [(1, 1), (5, 2), (33, 40)])
def test_the_pyramid_is_the_same_for_tensors(shape):
    image = np.random.default_rng(0).random((2, *shape), dtype=np.float32)
    coarse = 0.9 * pyramid.coarser(image)
    np.testing.assert_allclose(0.9 * pyramid.coarser(torch.tensor(image)), coarse, atol=1e-6)
    np.testing.assert_allclose(
        pyramid.coarser_noise(PlaneNoise(torch.tensor(image))).variance,
        pyramid.coarser_noise(PlaneNoise(image)).variance,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        pyramid.with_coarse(torch.tensor(image), torch.tensor(coarse), 2),
        pyramid.with_coarse(image, coarse, 2),
        atol=1e-5,
    )


# The engine.


@pytest.mark.parametrize("max_memory", [1, 2**16, 2**24])
@pytest.mark.parametrize("shape", [(1, 2, 20, 23), (2, 1, 13, 30)])
@pytest.mark.parametrize("shifted", [False, True])
def test_groups_are_those_of_the_definition(shifted, shape, max_memory):
    step = Pass(Ridge(), False, Step(5, 12, 3, 9), shifted)
    _, batch, height, width = shape
    images = np.random.default_rng(0).random(shape)
    seen = set()
    for strip in engine._strips(torch.tensor(images), step, max_memory):
        places = engine.match(torch.tensor(images), strip, step, 12, 1.0).tolist()
        rows = strip.pixels.stop - strip.pixels.start
        references = [
            (b, y, x)
            for b in range(batch)[strip.images]
            for y in strip.block.ys
            for x in strip.block.xs
        ]
        for (b, y, x), nearest in zip(references, places, strict=True):
            seen.add((b, y, x))
            distances = {}
            for v in range(max(0, y - 4), min(height - 5, y + 4) + 1):
                for u in range(max(0, x - 4), min(width - 5, x + 4) + 1):
                    here = images[:, b, y : y + 5, x : x + 5]
                    there = images[:, b, v : v + 5, u : u + 5]
                    place = ((b - strip.images.start) * rows + v - strip.pixels.start) * width + u
                    distances[place] = np.sum((here - there) ** 2)
            assert nearest == sorted(distances, key=distances.get)[:12]
    first = 1 if shifted else 0
    ys, xs = ({0, *range(first, length - 5, 3), length - 5} for length in (height, width))
    assert seen == {(b, y, x) for b in range(batch) for y in ys for x in xs}


@pytest.mark.parametrize("channels", [1, 3])
@methods
def test_as_good_as_the_compiled_engine(method, channels):
    clean, noisy = photograph((channels, 66, 75))
    theirs = by_cpu(noisy, method=method)
    ours = denoised(noisy, method=method)
    assert abs(psnr(ours, clean) - psnr(theirs, clean)) < 0.002
    assert np.mean(np.abs(ours - theirs)) < 1e-4 * 0.1  # of the noise


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 1, 30), (1, 5, 9), (1, 16, 50), (2, 33, 24)])
@pytest.mark.parametrize("method", ["nl-ridge", "standard", "bm3d", ALL_OF_IT])
def test_small_images_and_any_number_of_channels(method, shape):
    _, noisy = photograph(shape)
    np.testing.assert_allclose(
        denoised(noisy, method=method), by_cpu(noisy, method=method), atol=0.005
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_noise_that_differs_from_pixel_to_pixel(channels):
    clean, noisy = photograph((channels, 44, 50))
    ramp = np.tile(np.linspace(0.05, 0.15, 50), (44, 1))
    noisy = (clean + (noisy - clean) * ramp / 0.1).astype(np.float32)
    for method in ("standard", "nl-bayes", "bm3d", ALL_OF_IT):
        expected = by_cpu(noisy, ramp, method)
        result = denoised(noisy, torch.tensor(ramp), method)
        np.testing.assert_allclose(result, expected, atol=1e-3)
    if channels == 3:
        maps = ramp * np.array([1, 1.1, 0.9])[:, None, None]
        result = denoised(noisy, torch.tensor(maps))
        np.testing.assert_allclose(result, by_cpu(noisy, maps), atol=1e-3)
        each = [0.1, 0.12, 0.08]
        result = denoised(noisy, torch.tensor(each).reshape(3, 1, 1))
        np.testing.assert_allclose(result, by_cpu(noisy, each), atol=1e-3)


@pytest.mark.parametrize("max_memory", [1, 2**19])
@pytest.mark.parametrize("method", ["standard", ALL_OF_IT])
def test_memory_has_no_influence_on_the_result(method, max_memory):
    _, noisy = photograph((1, 40, 45))
    result = denoised(noisy, method=method, max_memory=max_memory)
    np.testing.assert_allclose(result, denoised(noisy, method=method), atol=1e-4)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("method", ["standard", SMALL])
def test_each_image_of_a_batch_is_denoised_as_if_alone(method, channels):
    _, noisy = photograph((channels, 40, 50))
    _, gray = photograph((1, 40, 50), seed=1)
    gray = np.random.default_rng(2).normal(gray, 0.05, noisy.shape).astype(np.float32)
    batch = torch.tensor(np.stack([noisy, 0.5 * noisy, gray, noisy[:, ::-1].copy()]))
    sigmas = [0.1, 0.05, 0.12, 0.1]
    result = NLRidge(method)(batch, torch.tensor(sigmas))
    for image, sigma, clean in zip(batch, sigmas, result, strict=True):
        np.testing.assert_allclose(clean, NLRidge(method)(image[None], sigma)[0], atol=1e-5)


@pytest.mark.parametrize("level", [15, 35, 50])
def test_the_ends_of_a_table_are_those_of_the_compiled_engine(level):
    sigma = level / 255
    _, noisy = photograph((1, 40, 40), sigma)
    expected = by_cpu(noisy, sigma, "nl-ridge")
    for given in (sigma, torch.tensor([sigma])):
        np.testing.assert_allclose(denoised(noisy, given, "nl-ridge"), expected, atol=1e-4)


def test_images_of_one_level_go_together(monkeypatch):
    batches = []
    monkeypatch.setattr(
        "nlridge.images.tensor.run_pass",
        lambda inputs, *a, **k: (
            batches.append(inputs.noisy.shape[1]) or (inputs.noisy, inputs.noisy)
        ),
    )
    x = torch.rand(5, 1, 20, 20)
    NLRidge("nl-ridge")(x, 0.1)
    NLRidge("nl-ridge")(x, torch.tensor([0.1, 0.2, 0.1, 0.1, 0.2]))
    NLRidge(SMALL)(x, torch.tensor([0.1, 0.2, 0.1, 0.1, 0.2]))
    assert batches == [5, 5, 3, 3, 2, 2, 5, 5]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_types_are_kept_and_half_precision_computes_in_float32(dtype):
    _, noisy = photograph((1, 40, 40))
    x = torch.tensor(noisy)[None].to(dtype)
    result = NLRidge()(x, 0.1)
    assert result.dtype == dtype
    expected = NLRidge()(x.to(torch.promote_types(dtype, torch.float32)), 0.1)
    torch.testing.assert_close(result, expected.to(dtype))


def test_scaling_by_a_power_of_two_is_exact_and_far_from_one_too():
    _, noisy = photograph((1, 40, 40))
    expected = denoised(noisy)
    for scale in (2.0**-60, 2.0**60):
        result = denoised(scale * noisy, scale * 0.1, data_range=scale)
        np.testing.assert_array_equal(result, np.float32(scale) * expected)


def test_noise_that_float32_cannot_resolve_returns_the_image():
    _, noisy = photograph((1, 30, 30))
    bright = noisy.copy()
    bright[0, 10, 10] = 1e12
    result = denoised(bright)
    assert np.isfinite(result).all()
    assert np.isfinite(denoised(noisy, 1e-3)).all()
    np.testing.assert_array_equal(denoised(noisy, 1e-6), noisy)


@methods
def test_results_are_the_same_every_time(method):
    _, noisy = photograph((1, 48, 50))
    np.testing.assert_array_equal(denoised(noisy, method=method), denoised(noisy, method=method))


def test_deterministic_algorithms_are_enough():
    _, noisy = photograph((1, 30, 30))
    expected = denoised(noisy)
    torch.use_deterministic_algorithms(True)
    try:
        np.testing.assert_array_equal(denoised(noisy), expected)
    finally:
        torch.use_deterministic_algorithms(False)


def test_the_input_is_not_written_to():
    _, noisy = photograph((3, 30, 30))
    x = torch.tensor(noisy)[None]
    sigma = torch.tensor([0.1])
    NLRidge()(x, sigma)
    np.testing.assert_array_equal(x[0], noisy)
    assert sigma.item() == np.float32(0.1)


@pytest.mark.parametrize("junk", [np.nan, np.inf, 3e38])
def test_matching_of_tensors_stays_within_the_image_for_any_pixels(junk):
    image = torch.randn((1, 1, 20, 24), generator=torch.Generator().manual_seed(0))
    image[torch.rand(image.shape, generator=torch.Generator().manual_seed(1)) < 0.3] = junk
    strip = engine.Strip(
        slice(0, 1), Block(np.arange(0, 17, 4), np.arange(0, 21, 4)), slice(0, 20), slice(0, 1)
    )
    step = Pass(Ridge(), False, Step(4, 16, window=9))
    places = engine.match(image, strip, step, 16, 1.0)
    assert 0 <= int(places.min()) <= int(places.max()) <= 16 * 24 + 20
    assert int((places % 24).max()) <= 20


@pytest.mark.filterwarnings("ignore:sigma is 3.3e.38, but the images range")
def test_a_tensor_becomes_its_mean_if_sigma_is_near_the_limit_of_float32():
    noisy = torch.rand(1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    mean = noisy.mean().expand_as(noisy)
    torch.testing.assert_close(NLRidge()(noisy, 3.3e38), mean, atol=0.01, rtol=0)


def test_a_level_too_small_to_invert(recwarn):
    image = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    result = NLRidge(data_range=1)(image, torch.tensor(1e-310, dtype=torch.float64))
    np.testing.assert_array_equal(result, image)
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]
