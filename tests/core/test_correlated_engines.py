"""Correlated noise in every engine: kernels and formulas, tiles, Dask arrays and tensors agree."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from correlated_images import (
    KERNELS,
    blurred_with,
    correlation_of,
    methods,
    noise_of,
    scene,
    small,
    two_methods,
)
from family_cases import FAMILIES, TAME
from groups import without_kernels

import nlridge
from nlridge import CorrelatedNoise, PoissonGaussianNoise, Recipe, Rounds, Step
from nlridge.core.algorithm.inputs import PartialDenoising, PlaneNoise, StepInputs
from nlridge.core.algorithm.passes import Pass
from nlridge.core.engines import cpu


def planes_with_noise(count, shape):
    """The correlation of each of some planes, in units of one variance, and their noise."""
    kinds = [KERNELS["blur"], KERNELS["rings"], KERNELS["horizontal lines"]][:count]
    correlation = np.zeros((count, 41, 61))
    for k, kernel in enumerate(kinds):
        own = (1 + k) * correlation_of(kernel)
        margins = [(whole - part) // 2 for whole, part in zip((41, 61), own.shape, strict=True)]
        correlation[k] = np.pad(own, [(margin, margin) for margin in margins])
    noise = [np.sqrt(1 + k) * noise_of(kernel, shape, k) for k, kernel in enumerate(kinds)]
    return correlation, np.stack(noise)


def step_inputs(planes, *, is_second, uneven=False, partly=False):
    """Inputs of a pass over a small image; many groups at its borders are small."""
    correlation, noise = planes_with_noise(planes, (22, 24))
    y, x = np.mgrid[:22, :24]
    clean = np.stack([8 * np.sin(x / 3 + k) * np.cos(y / 4) + 10 for k in range(planes)])
    levels = 0.5 + x / 24 if uneven else np.ones(x.shape)
    noisy, less, pilot = (
        (clean + share * levels * noise).astype(np.float32) for share in (1, 0.6, 0.2)
    )
    variance = np.square(levels).astype(np.float32)[None] if uneven else 1.0
    guide = pilot if is_second else noisy
    return StepInputs(
        less if partly else noisy,
        guide=guide,
        similar=guide[:1],
        noise=PlaneNoise(variance, correlation),
        partly=PartialDenoising(noisy, 0.3) if partly else None,
    )


SETTINGS = Step(5, 30, stride=3, window=9)
KINDS = [
    (name, step, kind)
    for name, step in TAME
    for kind in ("plain", "uneven", "partly denoised", "uneven and partly denoised")
    if step == "refine" or "partly" not in kind  # rounds are those of the second step
]


@pytest.mark.parametrize("planes", [1, 3])
@pytest.mark.parametrize(("name", "step", "kind"), KINDS)
def test_kernel_and_formula_agree(name, step, kind, planes):
    family, is_second = FAMILIES[name], step == "refine"
    options = {"uneven": "uneven" in kind, "partly": "partly" in kind}
    inputs = step_inputs(planes, is_second=is_second, **options)
    run = partial(cpu.run_pass, inputs, workers=1, tick=lambda: None)
    by_kernel, by_formula = (
        run(Pass(chosen, is_second, SETTINGS)) for chosen in (family, without_kernels(family))
    )
    assert np.abs(by_kernel[0] - inputs.noisy).mean() > 0.05
    for fast, slow in zip(by_kernel, by_formula, strict=True):
        np.testing.assert_allclose(fast, slow, atol=5e-4)  # of a noise level of 1


SCENES = ("gray", "poisson", "color", "channels")


@pytest.mark.parametrize("kind", SCENES)
@methods
def test_tiles_are_the_same_as_the_whole_image(method, kind, tmp_path):
    noisy, options = scene(kind)
    options["method"] = method if kind == "gray" else small(method)
    whole = nlridge.denoise(noisy, workers=1, **options)
    assert np.array_equal(nlridge.denoise(noisy, workers=3, **options), whole)
    tiled = nlridge.denoise_to_disk(noisy, tmp_path / "out.npy", tile=64, **options)
    assert np.array_equal(tiled, whole)


@pytest.mark.parametrize("tile", [64, 80, 200])
def test_tiles_of_any_height(tile, tmp_path):
    noisy, options = scene("gray", (150, 40))
    whole = nlridge.denoise(noisy, **options)
    tiled = nlridge.denoise_to_disk(noisy, tmp_path / "out.npy", tile=tile, **options)
    assert np.array_equal(tiled, whole)


@pytest.mark.parametrize("shape", [(2, 2), (3, 1), (1, 70)])
def test_tiles_of_a_tiny_image_with_a_map_of_levels(shape, tmp_path):
    random = np.random.default_rng(0)
    noisy, levels = 100 + 20 * random.normal(size=shape), random.uniform(10, 20, shape)
    options = {"noise": CorrelatedNoise.from_kernel(levels, KERNELS["blur"]), "data_range": 255}
    whole = nlridge.denoise(noisy, **options)
    tiled = nlridge.denoise_to_disk(noisy, tmp_path / "out.npy", **options)
    assert np.array_equal(tiled, whole)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCENES)
def test_dask_arrays_are_the_same_as_the_whole_image(kind):
    da = pytest.importorskip("dask.array")
    noisy, options = scene(kind)
    options["method"] = small("standard")
    later = nlridge.prepare(da.from_array(noisy), tile=64, **options).denoise()
    whole = nlridge.denoise(noisy, **options)
    assert np.array_equal(later.compute(scheduler="synchronous"), whole)


@pytest.mark.parametrize("kind", ["gray", "color", "channels"])
@methods
def test_tensors_are_denoised_as_arrays_are(method, kind, one_torch_thread):
    torch = pytest.importorskip("torch")
    from nlridge.torch import NLRidge

    noisy, options = scene(kind, (40, 44))
    expected = nlridge.denoise(noisy, method=small(method), **options)
    channels = noisy.astype(np.float32).reshape(1, -1, 40, 44)
    model = options["noise"]
    module = NLRidge(small(method), data_range=255, correlation=model.correlation)
    sigma = torch.tensor(model.level, dtype=torch.float32).reshape(-1, 1, 1)
    result = module(torch.tensor(channels), sigma)[0].numpy().reshape(noisy.shape)
    if method == "bm3d":  # rounding decides about coefficients right at the threshold
        assert np.mean(np.abs(result - expected)) < 0.1
    else:
        np.testing.assert_allclose(result, expected, atol=0.01)


def test_gradients_are_finite_and_the_derivative(one_torch_thread):
    torch = pytest.importorskip("torch")
    from nlridge.core.families import TwoSided
    from nlridge.torch import NLRidge

    step = Step(3, 8, 3, 7)
    plain = Recipe(TwoSided(), step, step, Rounds(2, 0.5, 0.5))
    recipe = replace(plain, coarse=nlridge.CoarseScale(plain))
    module = NLRidge(recipe, correlation=blurred_with(0.4))
    x = torch.rand(1, 1, 10, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.autograd.gradcheck(partial(module, sigma=0.3), x.requires_grad_(), fast_mode=True)
    flat = torch.full((1, 3, 20, 20), 0.5, requires_grad=True)
    NLRidge(recipe, correlation=[[1]])(flat, 0.1).square().sum().backward()
    assert torch.isfinite(flat.grad).all()


@two_methods
def test_a_step_with_tensors_never_waits_for_the_device(method):
    torch = pytest.importorskip("torch")
    from tensors import Calls

    from nlridge.core.algorithm.framework import denoised
    from nlridge.images.tensor import Tensors

    noisy = torch.empty(2, 1, 32, 33, device="meta")
    correlation = np.stack([blurred_with(0.4), blurred_with(0.2)])
    images = Tensors(max_memory=2**30)
    for variance in (1.0, torch.empty(1, 1, 32, 33, device="meta")):
        noise = PlaneNoise(variance, correlation)
        with Calls() as calls:
            *_, result = denoised(noisy, noise, small(method), images)
        assert result.device.type == "meta"
        assert "copy, waited for" not in calls.count


def test_a_batch_of_tensors(one_torch_thread):
    torch = pytest.importorskip("torch")
    from nlridge.torch import NLRidge

    module = NLRidge(small("standard"), correlation=blurred_with(0.4))
    assert "correlation=an array of shape (3, 3)" in repr(module)
    assert "correlation" not in repr(NLRidge())
    x = torch.rand(3, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    sigmas = torch.tensor([0.05, 0.1, 0.1])
    batch = module(x, sigmas)
    for image, sigma, result in zip(x, sigmas, batch, strict=True):
        torch.testing.assert_close(module(image[None], sigma)[0], result, atol=1e-4, rtol=0)
    channels = NLRidge(small("standard"), correlation=np.ones((2, 1, 1)))
    with pytest.raises(
        ValueError, match="correlation is that of 2 channels; expected one for all, or 3"
    ):
        channels(x, 0.1)


def test_denoise_takes_tensors(one_torch_thread):
    torch = pytest.importorskip("torch")
    noisy, options = scene("gray", (40, 44))
    result = nlridge.denoise(torch.tensor(noisy), method=small("standard"), **options)
    expected = nlridge.denoise(noisy, method=small("standard"), **options)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_allclose(result.numpy(), expected, atol=0.01)
    x = torch.tensor(noisy, requires_grad=True)
    with_gradient = nlridge.denoise(x, method=small("standard"), data_range=255, **options)
    np.testing.assert_allclose(with_gradient.detach().numpy(), expected, atol=0.01)
    counts = {"noise": CorrelatedNoise(PoissonGaussianNoise(1), [[1]])}
    result = nlridge.denoise(x, method=small("standard"), **counts)
    expected = nlridge.denoise(noisy, method=small("standard"), **counts)
    np.testing.assert_allclose(result.detach().numpy(), expected, atol=0.02)
