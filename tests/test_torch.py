"""The PyTorch engine: the same algorithm on tensors."""

import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from groups import Custom, custom_recipe, group, uneven
from images import texture
from memory import PEAK
from skimage import data
from test_families import STEPS, TAME, estimator_and_group

import nlridge
import nlridge.algorithm.framework
from nlridge.algorithm import pyramid
from nlridge.algorithm.inputs import PlaneNoise
from nlridge.algorithm.passes import Pass
from nlridge.algorithm.settings import CoarseScale, FrameSearch, Recipe, Rounds, Step
from nlridge.engines.grid import Block
from nlridge.families import GroupNoise, Ridge, TwoSided, ridge

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from nlridge.engines import torch as engine  # noqa: E402
from nlridge.torch import NLRidge  # noqa: E402

ALL_OF_IT = Recipe(
    TwoSided(),
    Step(7, 24, window=37),
    Step(6, 48, window=45),
    Rounds(3, 0.75, 0.3),
    CoarseScale(
        Recipe(TwoSided(), Step(7, 24, window=37), Step(6, 48, window=45), Rounds(3, 0.75, 0.25))
    ),
)
METHODS = {name: name for name in nlridge.method_names()} | {"all of it": ALL_OF_IT}
SMALL = Recipe(Ridge(tolerance=1.5), Step(4, 8, 3, 9), Step(4, 12, 3, 9))
methods = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
pytestmark = pytest.mark.usefixtures("one_torch_thread")


def photograph(shape, sigma=0.1, seed=0):
    """A clean image of (..., height, width), from 0 to 1, and a noisy one."""
    image = np.moveaxis(data.astronaut()[60:, 100:] / 255, -1, 0)[:, : shape[-2], : shape[-1]]
    clean = (image if shape[0] == 3 else image[: shape[0]]).astype(np.float32)
    noise = np.random.default_rng(seed).normal(0, sigma, clean.shape)
    return clean, (clean + noise).astype(np.float32)


def psnr(image, truth):
    return -10 * np.log10(np.mean((np.clip(image, 0, 1) - truth) ** 2))


def denoised(image, sigma=0.1, method="standard", **options):
    """A single image of (channels, height, width), as an array."""
    return NLRidge(method, **options)(torch.tensor(image)[None], sigma)[0].numpy()


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
    inverses = nlridge.arrays.inverse(torch.tensor([[[-1.0]], [[4.0]]]))
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
        places = engine.match(torch.tensor(images), strip, step, 12).tolist()
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
    clean, noisy = photograph((channels, 90, 101))
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
        "nlridge.torch.run_pass",
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


# Within PyTorch.


def test_inference_mode_autocast_and_compile():
    _, noisy = photograph((3, 40, 40))
    x = torch.tensor(noisy)[None]
    module = NLRidge()
    expected = module(x, 0.1)
    with torch.inference_mode():
        torch.testing.assert_close(module(x, 0.1), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(module(x, 0.1), expected)
    torch.testing.assert_close(torch.compile(module, backend="eager")(x, 0.1), expected)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 1), torch.nn.ReLU()).requires_grad_(False)

    @torch.compile(backend="eager")
    def around(x):
        return module(network(x), 0.1) + 1

    torch.testing.assert_close(around(x), module(network(x), 0.1) + 1)


@pytest.mark.parametrize(
    "family",
    [Ridge(), Ridge(tolerance=1.0), TwoSided(), nlridge.recipe("bm3d", 9).family,
     nlridge.recipe("nl-bayes", 9).family],
    ids=["ridge", "low rank", "two-sided", "bm3d", "bayes"],
)  # fmt: skip
def test_the_gradient_is_the_derivative(family):
    rounds, coarse = Rounds(), None
    if isinstance(family, TwoSided):
        rounds = Rounds(2, 0.5, 0.5)
        coarse = CoarseScale(Recipe(family, Step(3, 6, 3, 7), Step(3, 6, 3, 7), rounds))
    recipe = Recipe(family, Step(3, 8, 3, 7), Step(3, 8, 3, 7), rounds, coarse)
    x = torch.rand(1, 1, 10, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    module = NLRidge(recipe)
    assert torch.autograd.gradcheck(partial(module, sigma=0.3), x.requires_grad_(), fast_mode=True)


def test_the_gradient_in_colour_reaches_a_preceding_network():
    _, noisy = photograph((3, 24, 24))
    gain = torch.tensor(1.0, requires_grad=True)
    x = torch.tensor(noisy)[None]

    def energy(gain):
        return NLRidge(SMALL)(gain * x, 0.1).square().mean()

    energy(gain).backward()
    slope = (energy(torch.tensor(1.01)) - energy(torch.tensor(0.99))) / 0.02
    assert gain.grad.item() == pytest.approx(slope.item(), rel=0.02)


class Calls(TorchDispatchMode):
    """Counts operations by name, and copies between devices by whether Python waits for them."""

    def __init__(self):
        super().__init__()
        self.count = {}

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        name = function.__name__.split(".")[0]
        if name == "_to_copy" and result.device != arguments[0].device:
            name = "copy, sent" if options.get("non_blocking") else "copy, waited for"
        self.count[name] = self.count.get(name, 0) + 1
        return result


@methods
def test_python_waits_for_the_device_once_a_call(method):
    """Whatever the size of the image: `_local_scalar_dense` is `.item()`, and `nonzero` is indexing by a mask."""
    waits = {}
    for side in (24, 60):
        with Calls() as calls:
            NLRidge(method, max_memory=2**22)(torch.rand(1, 1, side, side), torch.tensor([0.1]))
        waits[side] = [calls.count.get(n, 0) for n in ("_local_scalar_dense", "nonzero", "equal")]
    assert calls.count["topk"] > 2
    assert waits == {24: [0, 0, 0], 60: [0, 0, 0]}  # `tolist`, the one wait, is not an operation


@methods
def test_a_step_runs_on_the_meta_device(method):
    """On the meta device: all tensors are made on the device of the images, and none is ever read."""
    recipe = nlridge.recipe(method, 25) if isinstance(method, str) else method
    noisy = torch.empty(2, 1, 32, 33, device="meta")
    variance = torch.empty(1, 1, 32, 33, device="meta")
    run = partial(engine.run_pass, max_memory=2**30)
    for known in (1.0, variance):
        with Calls() as calls:
            *_, result = nlridge.algorithm.framework.denoised(noisy, PlaneNoise(known), recipe, run)
        assert result.device.type == "meta"
        assert result.shape == noisy.shape
        assert "copy, waited for" not in calls.count


def running_out(times):
    """A recipe whose formula is out of memory at first."""
    family = TwoSided()
    left = [times]

    def formula(Y, X, noise):
        if left[0] > 0:
            left[0] -= 1
            raise torch.OutOfMemoryError("out of memory")
        return family.pilot.formula(Y, X, noise)

    return Recipe(Custom(nlridge.Estimator(formula)), SMALL.first)


def test_out_of_memory_is_retried_with_half_and_the_option_is_named():
    _, noisy = photograph((1, 30, 30))
    expected = denoised(noisy, method=running_out(0))
    with pytest.warns(
        RuntimeWarning, match=r"with max_memory=\d+ \(pass a smaller max_memory to NLRidge"
    ):
        result = denoised(noisy, method=running_out(2))
    np.testing.assert_allclose(result, expected, atol=1e-6)
    with pytest.raises(torch.OutOfMemoryError), pytest.warns(RuntimeWarning):
        denoised(noisy, method=running_out(100))


def test_a_formula_for_arrays_only_is_refused():
    def formula(Y, X, noise):
        return np.asarray(Y), np.ones(Y[:, 0].shape)

    recipe = Recipe(Custom(nlridge.Estimator(formula)), SMALL.first)
    with pytest.raises(
        TypeError, match="the formula returned ndarray and ndarray; expected tensors"
    ):
        NLRidge(recipe)(torch.rand(1, 1, 20, 20), 0.1)


@pytest.mark.parametrize(
    ("x", "sigma", "error", "message"),
    [
        (np.zeros((1, 1, 9, 9)), 1, TypeError, "x is of type ndarray; expected a tensor"),
        (torch.zeros(9, 9), 1, ValueError, r"x has shape \(9, 9\); expected \(batch, channels, "),
        (torch.zeros(1, 0, 9, 9), 1, ValueError, r"x has shape \(1, 0, 9, 9\); .*one pixel"),
        (torch.zeros(1, 1, 9, 9).int(), 1, TypeError, r"x has dtype torch.int32; expected floats"),
        (torch.zeros(1, 1, 9, 9), 0, ValueError, "sigma is 0; expected a positive number"),
        (torch.zeros(1, 1, 9, 9), "a", TypeError, "sigma is 'a'; expected a positive number"),
        (torch.zeros(2, 1, 9, 9), torch.ones(3), ValueError,
         r"sigma has shape \(3,\); expected a number, one for each image, \(2,\), or"),
        (torch.zeros(2, 1, 9, 9), torch.ones(9, 8), ValueError, r"sigma has shape \(9, 8\)"),
        (torch.zeros(2, 1, 9, 9), torch.tensor([1.0, -1.0]), ValueError,
         "sigma ranges from -1 to 1; expected finite numbers, most of them positive"),
        (torch.zeros(2, 1, 9, 9), torch.tensor([1.0, torch.nan]), ValueError, "sigma ranges from nan"),
        (torch.full((1, 1, 2, 9), torch.nan), 1, ValueError, "x has 18 non-finite pixels"),
    ],
)  # fmt: skip
def test_bad_input_gets_a_sentence(x, sigma, error, message):
    with pytest.raises(error, match=message):
        NLRidge()(x, sigma)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "magic"}, ValueError, "method is 'magic'; expected one of"),
        ({"data_range": 0}, ValueError, "data_range is 0; expected a positive number"),
        ({"strength": -1}, ValueError, "strength is -1; expected"),
        ({"max_memory": "all"}, TypeError, "max_memory is 'all'; expected a positive number"),
    ],
)
def test_bad_options_get_a_sentence(options, error, message):
    with pytest.raises(error, match=message):
        NLRidge(**options)


def test_the_module_has_a_readable_repr_and_no_weights():
    assert str(NLRidge("bm3d")) == "NLRidge(method='bm3d', data_range=1, strength=1)"
    assert str(NLRidge(ALL_OF_IT)).startswith("NLRidge(method='TwoSided'")
    assert not NLRidge().state_dict()


def test_more_strength_removes_more():
    _, noisy = photograph((1, 40, 40))
    weak, strong = (denoised(noisy, strength=strength) for strength in (0.5, 1.5))
    assert np.std(noisy - weak) < np.std(noisy - denoised(noisy)) < np.std(noisy - strong)


# A tensor for `denoise`.


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float64])
def test_denoise_takes_and_returns_a_tensor(dtype):
    _, noisy = photograph((3, 40, 44))
    image = torch.tensor(200 * noisy).clip(0, 255).to(dtype)
    options = {"channel_axis": 0, "data_range": 255.0}
    result = nlridge.denoise(image, torch.tensor([20.0, 20, 20]), **options)
    assert result.dtype == (torch.float32 if dtype == torch.uint8 else dtype)
    array = (image.float() if dtype == torch.bfloat16 else image).numpy()
    expected = torch.tensor(nlridge.denoise(array, [20.0, 20, 20], **options))
    torch.testing.assert_close(result, expected.to(result.dtype), rtol=0, atol=0)


@pytest.mark.parametrize("sigma", [None, 20.0, [20.0, 20, 25], "map"])
def test_denoise_with_a_gradient_uses_the_engine_for_tensors(sigma):
    _, noisy = photograph((3, 40, 44))
    stack = np.stack([200 * noisy, 100 * noisy], axis=-1)
    if sigma == "map":
        sigma = np.tile(np.linspace(10, 20, 44), (40, 1))
    options = {"channel_axis": 0, "stack_axis": -1, "strength": 1.1}
    result = nlridge.denoise(torch.tensor(stack, requires_grad=True), sigma, **options)
    assert result.requires_grad
    np.testing.assert_allclose(result.detach(), nlridge.denoise(stack, sigma, **options), atol=0.01)
    with torch.no_grad():
        result = nlridge.denoise(torch.tensor(stack, requires_grad=True), sigma, **options)
    np.testing.assert_array_equal(result, nlridge.denoise(stack, sigma, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 2}, "workers is 2; expected None for a tensor that needs a gradient"),
        ({"progress": True}, "progress is True; expected False for a tensor that needs"),
        ({"mask": np.zeros((9, 9), bool)}, "(?s)mask is .*; expected None for a tensor"),
        (
            {"noise": nlridge.PoissonGaussianNoise(1.0)},
            "noise is Poisson.*; expected Gaussian noise",
        ),
        ({"channel_axis": 0}, r"image has shape \(9, 9\); expected three dimensions"),
        ({"sigma": [1.0, 2.0]}, "sigma has 2 numbers; expected one"),
    ],
)
def test_unsupported_options_of_tensors_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        nlridge.denoise(torch.rand(9, 9, requires_grad=True), **options)


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_pytorch_is_never_imported_unless_it_is_used():
    program = "import sys, nlridge, numpy; nlridge.denoise(numpy.ones((9, 9)), 1.0); "
    assert run(program + "print('torch' in sys.modules)").stdout == "False\n"


@pytest.mark.skipif(
    sys.platform == "win32", reason="how much memory was taken is not known on Windows"
)
def test_memory_is_bounded():
    """By `max_memory`, 128 MB by default, and a few images."""
    program = (
        PEAK
        + """
import torch
from nlridge.torch import NLRidge
torch.set_num_threads(1)
NLRidge("nl-ridge")(torch.rand(1, 1, 20, 20), 0.1)
before = peak()
NLRidge("nl-ridge")(torch.rand(1, 1, 300, 300), 0.1)
print(peak() - before)
"""
    )
    assert float(run(program).stdout) < 200


def test_without_pytorch_the_message_says_how_to_install_it():
    done = run("import sys; sys.modules['torch'] = None; import nlridge.torch")
    assert (
        "ImportError: nlridge.torch needs torch, which is not installed: pip install torch"
        in done.stderr
    )


def test_a_module_can_be_saved_and_loaded(tmp_path):
    """With a recipe, whose family is a value, and by name."""
    for method in (nlridge.recipe("standard", 25), SMALL, "fast"):
        torch.save(NLRidge(method), tmp_path / "module.pt")
        again = torch.load(tmp_path / "module.pt", weights_only=False)
        assert again.method == method
        x = torch.rand(1, 1, 16, 16)
        torch.testing.assert_close(again(x, 0.1), NLRidge(method)(x, 0.1))


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_a_formula_that_calls_numpy_with_a_tensor(needs_gradient):
    def formula(Y, X, variance):
        return np.maximum(Y, 0), Y[..., 0, :] * 0 + 1

    image = torch.tensor(texture(24, 30)[None, None], requires_grad=needs_gradient)
    with pytest.raises(
        TypeError, match="called a NumPy function with a tensor; expected operators"
    ):
        NLRidge(custom_recipe(formula))(image, 10.0)


@pytest.mark.parametrize("junk", [np.nan, np.inf, 3e38])
def test_matching_of_tensors_stays_within_the_image_for_any_pixels(junk):
    image = torch.randn((1, 1, 20, 24), generator=torch.Generator().manual_seed(0))
    image[torch.rand(image.shape, generator=torch.Generator().manual_seed(1)) < 0.3] = junk
    strip = engine.Strip(
        slice(0, 1), Block(np.arange(0, 17, 4), np.arange(0, 21, 4)), slice(0, 20), slice(0, 1)
    )
    step = Pass(Ridge(), False, Step(4, 16, window=9))
    places = engine.match(image, strip, step, 16)
    assert 0 <= int(places.min()) <= int(places.max()) <= 16 * 24 + 20
    assert int((places % 24).max()) <= 20


def test_a_tensor_becomes_its_mean_if_sigma_is_near_the_limit_of_float32():
    noisy = torch.rand(1, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    mean = noisy.mean().expand_as(noisy)
    torch.testing.assert_close(NLRidge()(noisy, 3.3e38), mean, atol=0.01, rtol=0)


# Frames that belong together.


def clip(frames, height, width, channels=1, sigma=0.1, gains=None, speed=3):
    """Clean and noisy frames of (frames, channels, height, width) from 0 to 1; the camera moves."""
    image = np.moveaxis(data.astronaut()[100:, 180:] / 255, -1, 0)[:channels]
    clean = np.stack(
        [image[:, 2 * k : 2 * k + height, speed * k : speed * k + width] for k in range(frames)]
    )
    if gains is not None:
        clean = (2 + 0.4 * clean) * np.reshape(gains, (-1, 1, 1, 1))
    noise = np.random.default_rng(0).normal(0, sigma, clean.shape)
    return clean.astype(np.float32), (clean + noise).astype(np.float32)


def by_both_engines(noisy, sigma=0.1, **options):
    """The results for an array, and for a tensor that needs a gradient, which is checked to be finite."""
    arguments = {"channel_axis": 1, "data_range": 1, **options}
    images = torch.tensor(noisy, requires_grad=True)
    result = nlridge.denoise(images, sigma, **arguments)
    assert result.requires_grad
    (gradient,) = torch.autograd.grad(result.square().sum(), images)
    assert gradient.isfinite().all()
    assert gradient.any()
    return nlridge.denoise(noisy, sigma, **arguments), result.detach().numpy()


def assert_agree(expected, result):
    """Within 0.01 of 255; where two patches are equally similar, one or the other is chosen."""
    assert result.dtype == expected.dtype
    assert np.sqrt(np.mean((result - expected) ** 2)) < 0.01 / 255


@pytest.mark.parametrize("method", nlridge.method_names())
def test_frames_of_a_tensor_agree_with_the_compiled_engine(method):
    for channels in (1, 3):
        assert_agree(*by_both_engines(clip(4, 36, 40, channels)[1], time_axis=0, method=method))


@pytest.mark.parametrize("method", ["fast", "best", "nl-ridge", "bm3d"])
@pytest.mark.parametrize("spacing", [(1, 1, 1), (4, 1, 1)])
def test_slices_of_a_tensor_agree_with_the_compiled_engine(method, spacing):
    _, noisy = clip(5, 32, 36)
    assert_agree(*by_both_engines(noisy, depth_axis=0, method=method, spacing=spacing))


@pytest.mark.parametrize(
    "noisy",
    [
        clip(1, 30, 34)[1],
        clip(2, 30, 34)[1],
        clip(4, 5, 9)[1],
        clip(3, 1, 7)[1],
        clip(5, 64, 80, gains=[1, 1.1, 0.95, 1.05, 0.9])[1],
        clip(4, 70, 80, speed=11)[1],
    ],
    ids=[
        "one frame",
        "two frames",
        "small frames",
        "rows",
        "flicker",
        "fast motion",
    ],
)
def test_unusual_frames_of_a_tensor_agree_with_the_compiled_engine(noisy):
    assert_agree(*by_both_engines(noisy, time_axis=0))


def test_repeated_frames_of_a_tensor_count_once():
    numbers = [0, 0, 1, 1, 1, 2]
    noisy = clip(3, 30, 34)[1][numbers]
    expected, result = by_both_engines(noisy, time_axis=0)
    for frames in (expected, result):
        for k in (1, 3, 4):
            np.testing.assert_array_equal(frames[k], frames[k - 1])
    assert_agree(expected, result)


@pytest.mark.parametrize("shape", [(4, 1, 1, 1), (4, 1, 30, 34), (1, 1, 30, 34)])
def test_noise_that_differs_from_frame_to_frame(shape):
    _, noisy = clip(4, 30, 34, channels=3)
    levels = np.random.default_rng(1).uniform(0.05, 0.15, shape)
    result = NLRidge(kind="video")(torch.tensor(noisy), torch.tensor(levels)).numpy()
    sigma = np.broadcast_to(levels[:, 0], (4, 30, 34))
    assert_agree(nlridge.denoise(noisy, sigma, time_axis=0, channel_axis=1, data_range=1), result)


def test_frames_on_the_cpu_are_denoised_by_the_compiled_engine():
    _, noisy = clip(3, 24, 28)
    video = noisy[:, 0].astype(np.float64)
    result = nlridge.denoise(torch.tensor(video), 0.1, time_axis=0)
    assert result.dtype == torch.float64
    np.testing.assert_array_equal(result, nlridge.denoise(video, 0.1, time_axis=0))


def test_several_videos_of_a_tensor_whose_noise_is_estimated():
    noisy = np.stack([clip(3, 40, 44, sigma=sigma)[1][:, 0] for sigma in (0.05, 0.2)])
    expected, result = by_both_engines(
        noisy, None, channel_axis=None, stack_axis=0, time_axis=1, noise="gaussian"
    )
    assert_agree(expected, result)


def test_correlated_noise_of_frames():
    """Whitened group by group: the noise of different frames is independent, even if they have few rows."""
    stripes = np.ones((1, 17)) * 0.7
    stripes[0, 8] = 1
    noise = nlridge.CorrelatedNoise(0.1, stripes)
    _, noisy = clip(3, 12, 30)
    small = replace(SMALL, frames=FrameSearch(1))
    assert_agree(*by_both_engines(noisy, None, noise=noise, time_axis=0, method=small))


def test_memory_has_no_influence_on_frames():
    noisy = torch.tensor(clip(4, 30, 34)[1])
    whole, parts = (
        NLRidge("best", kind="video", max_memory=memory)(noisy, 0.1) for memory in (None, 2**17)
    )
    torch.testing.assert_close(parts, whole, atol=1e-5, rtol=0)


def test_a_module_for_videos():
    clean, noisy = clip(5, 36, 40)
    module = NLRidge("fast", kind="video")
    assert "kind='video'" in repr(module)
    alone = NLRidge("fast")(torch.tensor(noisy), 0.1).numpy()
    together = module(torch.tensor(noisy), 0.1).numpy()
    assert psnr(together, clean) > psnr(alone, clean) + 0.5
    with pytest.raises(ValueError, match="kind is 'film'; expected 'image', 'video' or 'volume'"):
        NLRidge(kind="film")


def test_a_recipe_for_videos_denoises_images_of_a_batch_alone():
    _, noisy = clip(2, 24, 28)
    module = NLRidge(nlridge.recipe("fast", 25, kind="volume"))
    both = module(torch.tensor(noisy), 0.1)
    torch.testing.assert_close(both[1:], module(torch.tensor(noisy[1:]), 0.1))


def test_noise_that_tensors_do_not_support_is_refused_for_frames():
    video = torch.rand(3, 20, 24, requires_grad=True)
    with pytest.raises(ValueError, match="expected Gaussian noise for a tensor that needs"):
        nlridge.denoise(video, noise=nlridge.PoissonGaussianNoise(0.01, 0.01), time_axis=0)


def test_noise_of_frames_that_may_be_texture():
    """For tensors it is Gaussian noise, since that depends on the brightness only in arrays."""
    y, x = np.mgrid[:96, :128]
    grain = np.random.default_rng(0).normal(size=x.shape)
    for axis in (0, 1, 0, 1):
        grain = (np.roll(grain, 1, axis) + 2 * grain + np.roll(grain, -1, axis)) / 4
    grain /= grain.std()
    contrast = np.exp(1.5 * np.sin(x / 50) * np.cos(y / 40))
    image = np.rint(110 + 60 * np.sin(x / 90) + 6 * contrast * grain).astype(np.float32)
    assert nlridge.estimate_noise(image).share < 1
    video = np.stack([image, image[::-1]])
    options = {"time_axis": 0, "method": replace(SMALL, frames=FrameSearch(1)), "data_range": 255}
    with_gradient = nlridge.denoise(torch.tensor(video, requires_grad=True), **options)
    expected = nlridge.denoise(video, noise="gaussian", **options)
    assert_agree(expected / 255, with_gradient.detach().numpy() / 255)


def test_a_level_too_small_to_invert(recwarn):
    image = torch.zeros(1, 1, 8, 8, dtype=torch.float64)
    result = NLRidge(data_range=1)(image, torch.tensor(1e-310, dtype=torch.float64))
    np.testing.assert_array_equal(result, image)
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]
