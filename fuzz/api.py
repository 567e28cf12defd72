"""Calls of the public functions with random arguments, and what must hold of their results."""

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nlridge
from nlridge.planning.explained import UnexplainedWarning
from nlridge.torch import NLRidge

from .arguments import (
    KINDS,
    Random,
    Shape,
    anything,
    common_options,
    custom_recipe,
    image_of,
    level_of,
    mask_of,
    method_of,
    mostly,
    noise_model,
    of_type,
    one_of,
    recipe_of,
    sigma_map,
    values_of,
)
from .harness import SOURCE, innermost


class Unclear(Exception):
    """An error of the package that does not say what was expected."""


def warm_up() -> None:
    """Compile all kernels: for images, videos and volumes, for a number and for a map, and for outliers."""
    torch.set_num_threads(1)
    image = np.random.default_rng(0).normal(100, 10, (3, 16, 16))
    for method in nlridge.method_names():
        for sigma in (10.0, np.full(image.shape, 10.0)):
            nlridge.denoise(image, sigma, method=method, channel_axis=0, workers=1)
            for axis in ("time_axis", "depth_axis"):
                nlridge.denoise(image, sigma, method=method, workers=1, **{axis: 0})
    nlridge.denoise(
        image[0], workers=1, method=replace(custom_recipe(), rounds=nlridge.Rounds(2, 0.5))
    )
    for noise in (nlridge.CorrelatedNoise.lines(10), nlridge.CorrelatedNoise(10, [[0.5, 1, 0.5]])):
        for method in nlridge.method_names():
            nlridge.denoise(image, noise=noise, method=method, channel_axis=0, workers=1)
        nlridge.denoise(image, noise=noise, time_axis=0, workers=1)
    nlridge.estimate_quality(image[0], 10.0, workers=1)
    hot = np.pad(image[0], 16, "reflect")
    hot[20, 20] = 1000  # an outlier
    nlridge.denoise(hot, 10.0, workers=1)
    nlridge.denoise(torch.tensor(image[0], requires_grad=True), 10.0)


def run(seed: int, folder: Path) -> None:
    random = np.random.default_rng(seed)
    calls = list(_SHARES_OF_CALLS)
    call = calls[random.choice(len(calls), p=list(_SHARES_OF_CALLS.values()))]
    with np.errstate(all="ignore"):  # while the case is made
        try:
            call(random, folder)
        except (ValueError, TypeError) as error:
            if "expected" not in str(error) and innermost(error)[0].is_relative_to(SOURCE):
                raise Unclear(str(error)) from error
            raise


def _performed(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result of a call, during which NumPy warns; no argument may be written to."""
    before = copy.deepcopy((arguments, options))
    with (
        np.errstate(over="warn", invalid="warn", divide="warn", under="ignore"),
        warnings.catch_warnings(),
    ):
        if isinstance(options.get("method"), nlridge.Recipe):  # may remove anything
            warnings.simplefilter("ignore", UnexplainedWarning)
        result = function(*arguments, **options)
    assert _same(before, (arguments, options)), "an argument was written to"
    return result


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return (
            a.tobytes() == b.tobytes()
            and np.ma.getmaskarray(a).tobytes() == np.ma.getmaskarray(b).tobytes()
        )
    if isinstance(a, torch.Tensor):
        return bool(torch.equal(a.nan_to_num(), b.nan_to_num()))
    if isinstance(a, dict):
        return all(_same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_same, a, b))
    return True


# Arguments.


def _float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float32)


def _check(image: Any, result: Any, name: str = "result") -> None:
    """The result has the shape and the type of the image, and is finite where the image is."""
    if isinstance(image, torch.Tensor):
        wanted = image.dtype if image.is_floating_point() else torch.float32
        assert isinstance(result, torch.Tensor), f"{name} is not a tensor"
        assert (result.shape, result.dtype) == (image.shape, wanted), f"{name} is of another kind"
        image, result = image.detach().numpy(), result.detach().numpy()
    image = np.asarray(np.ma.getdata(image))
    assert result.shape == image.shape, f"{name} has shape {result.shape}, not {image.shape}"
    assert result.dtype == _float_type(image.dtype), f"{name} has dtype {result.dtype}"
    assert np.isfinite(result[np.isfinite(image)]).all(), f"{name} is not finite"


def _denoise(random: Random, folder: Path) -> None:
    shape = Shape(random, may_be_stack=True)
    image, options = (
        image_of(random, shape.shape),
        {**shape.options, **common_options(random, shape)},
    )
    if "depth_axis" in options and random.random() < 0.5:
        options["spacing"] = mostly(random, one_of(random, ((1, 1, 1), (3, 1, 1), [1e-9, 1, 1])))
    for name in ("out", "tile", "client", "time_axis", "spacing"):
        if random.random() < 0.005:
            options[name] = anything(random)
    if "out" in options and isinstance(options["out"], str | bytes):
        options["out"] = "a.xyz"
    result = _performed(nlridge.denoise, image, **options)
    _check(image, result)
    if random.random() < 0.15 and options["workers"] == 1 and not isinstance(image, torch.Tensor):
        again = nlridge.denoise(image, **{**options, "workers": 2})
        assert np.array_equal(again, result, equal_nan=True), "one and two threads differ"
    if random.random() < 0.1 and not isinstance(image, torch.Tensor):
        dtype = one_of(random, ("u1", ">i2", "i8", "f2", "f8"))
        typed = nlridge.denoise(image, **{**options, "dtype": dtype})
        expected = nlridge.to_dtype(result, np.dtype(dtype).newbyteorder("="))
        assert typed.dtype == expected.dtype, f"the result has dtype {typed.dtype}, not {dtype}"
        assert np.array_equal(typed, expected, equal_nan=True), "the type changes the result"


def _details(random: Random, folder: Path) -> None:
    shape = Shape(random, may_be_stack=False)
    image, options = (
        image_of(random, shape.shape),
        {**shape.options, **common_options(random, shape)},
    )
    details = _performed(nlridge.denoise_with_details, image, **options)
    assert str(details.noise)
    for name in ("image", "pilot", "residual"):
        _check(image, getattr(details, name), name)


def _contrast(random: Random, folder: Path) -> None:
    """Errors are those of the noise, whatever the contrast."""
    contrast = 10 ** random.uniform(0, 7)
    channels, size = int(random.integers(1, 4)), int(random.integers(12, 48))
    truth = random.uniform(-contrast, contrast) + np.zeros((channels, size, size))
    for _ in range(random.integers(1, 9)):  # boxes, lines and dots, in some channels
        (y, x), (height, width) = random.integers(0, size, 2), random.integers(1, 12, 2)
        truth[random.random(channels) < 0.7, y : y + height, x : x + width] += (
            contrast * 10 ** random.uniform(-4, 0)
        )
    sigma = 10 ** random.uniform(-3, 3)
    noisy = sigma * (truth + random.normal(size=truth.shape))
    method = one_of(random, nlridge.method_names())
    result = _performed(nlridge.denoise, noisy, sigma, method=method, channel_axis=0, mask=False)
    error = float(np.abs(result / sigma - truth).max())
    assert error < 15 + 1e-5 * np.abs(truth).max(), f"an error of {error:.3g} sigma"


def _quality(random: Random, folder: Path) -> None:
    shape = Shape(random, may_be_stack=False)
    image, options = (
        image_of(random, shape.shape),
        {**shape.options, **common_options(random, shape)},
    )
    if random.random() < 0.3:
        options["peak"] = mostly(random, one_of(random, (1, 255, 1e-299, 1e299)), 0.8)
    if random.random() < 0.2:
        options["probes"] = mostly(random, 2, 0.7)
        if options["probes"] in (10, 25, 255):  # which would take long
            options["probes"] = 3
    quality = _performed(nlridge.estimate_quality, image, **options)
    for name in ("noisy_psnr", "psnr", "standard_error", "gain"):
        assert not math.isnan(getattr(quality, name)), f"{name} is NaN"
    assert quality.standard_error >= 0
    assert quality.standard_error < math.inf


def _estimating(random: Random) -> tuple[Any, dict[str, Any]]:
    shape = Shape(random, may_be_stack=False)
    options = shape.options
    if random.random() < 0.2:
        options = {**options, "mask": mask_of(random, shape)}
    return image_of(random, shape.shape), options


def _sigma(random: Random, folder: Path) -> None:
    image, options = _estimating(random)
    sigma = _performed(nlridge.estimate_sigma, image, **options)
    assert np.all(np.isfinite(sigma)), "sigma is not finite"
    assert np.all(np.asarray(sigma) >= 0), "sigma is negative"


def _noise(random: Random, folder: Path) -> None:
    image, options = _estimating(random)
    if random.random() < 0.3:
        options["kind"] = mostly(random, one_of(random, KINDS), 0.9)
    noise = _performed(nlridge.estimate_noise, image, **options)
    assert str(noise)
    assert np.all(np.isfinite(np.asarray(noise.level, float))), "the noise is not finite"


def _settings(random: Random, folder: Path) -> None:
    """Recipes, steps and noise models, without an image."""
    shape = Shape(random, may_be_stack=True)
    kind = random.integers(5)
    if kind == 0:
        _performed(
            nlridge.recipe,
            method_of(random),
            *(anything(random) for _ in range(random.integers(1, 3))),
        )
    elif kind == 1:
        nlridge.Step(*(mostly(random, 3, 0.7) for _ in range(random.integers(1, 6))))
    elif kind == 2:
        model = noise_model(random, shape)
        assert str(model) or not model, "a model has no description"
        if isinstance(model, nlridge.GaussianNoise | nlridge.PoissonGaussianNoise):
            assert model == copy.deepcopy(model), "a model differs from itself"
            assert hash(model) == hash(copy.deepcopy(model)), "the hash of a model changes"
    elif kind == 3:
        recipe = recipe_of(random)
        assert recipe == replace(recipe), "a recipe differs from itself"
    else:
        model = nlridge.PoissonGaussianNoise(
            *(anything(random) for _ in range(random.integers(1, 4)))
        )
        values = np.array([0.0, 1.0, 1e5])
        assert np.isfinite(model.restore(model.stabilise(values))).all()


def _module(random: Random, folder: Path) -> None:
    """The module for PyTorch."""
    module = NLRidge(
        method_of(random),
        data_range=mostly(random, 255.0, 0.9),
        strength=mostly(random, 1.0, 0.9),
        max_memory=mostly(random, None, 0.9),
    )
    shape = tuple(
        int(n) for n in (random.integers(1, 3), random.integers(1, 4), *random.integers(1, 20, 2))
    )
    if random.random() < 0.03:
        shape = shape[1:]
    dtype = one_of(random, (torch.float32, torch.float64, torch.float16, torch.bfloat16))
    x = torch.tensor(values_of(random, shape)).to(dtype)
    if random.random() < 0.03:
        x = anything(random)
    kind = random.random()
    sigma: Any = level_of(random)
    if kind < 0.2:
        sigma = torch.tensor([level_of(random) for _ in range(shape[0])])
    elif kind < 0.5:
        sigma = torch.tensor(np.array(sigma_map(random, shape), np.float64))
    elif kind < 0.55:
        sigma = anything(random)
    if isinstance(x, torch.Tensor) and x.is_floating_point() and random.random() < 0.2:
        x.requires_grad_()
    result = _performed(module, x, sigma)
    assert (result.shape, result.dtype) == (x.shape, x.dtype), "the result is of another kind"
    assert bool(result.isfinite().all()), "the result is not finite"


def _on_disk(random: Random, folder: Path) -> None:
    """An image in tiles, whose result is the same to the bit."""
    shape = Shape(random, may_be_stack=True)
    image = of_type(one_of(random, ("f4", "f8", "u1", "u2", "f2")), values_of(random, shape.shape))
    options = {
        **shape.options,
        "sigma": level_of(random),
        "method": one_of(random, ("fast", "standard", "bm3d")),
    }
    if random.random() < 0.4:
        options["sigma"] = sigma_map(random, shape.lacking(random))
    if random.random() < 0.4:
        options["mask"] = mask_of(random, shape)
    out = str(folder / one_of(random, ("a.npy", "a.zarr")))
    tiled = _performed(
        nlridge.denoise_to_disk, image, out=out, tile=mostly(random, 64), workers=1, **options
    )
    whole = nlridge.denoise(image, workers=1, **options)
    assert np.array_equal(np.asarray(tiled[...]), whole, equal_nan=True), "tiles differ"


_SHARES_OF_CALLS = {
    _denoise: 0.38,
    _contrast: 0.04,
    _details: 0.12,
    _quality: 0.08,
    _sigma: 0.09,
    _noise: 0.09,
    _settings: 0.1,
    _module: 0.06,
    _on_disk: 0.04,
}
