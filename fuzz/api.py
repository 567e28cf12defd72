"""Calls of the public functions with arguments of all types, shapes and sizes, most of them valid or nearly so."""

import contextlib
import copy
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nlridge
from nlridge.families import BM3D, Bayes, Ridge, TwoSided
from nlridge.torch import NLRidge

from .harness import SOURCE, innermost

Random = np.random.Generator

_DTYPES = ("f8", "f8", "f8", "f4", "f4", "f2", "g", "u1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", ">f4", ">f8", ">i2", ">u2")  # fmt: skip
_ODD_DTYPES = ("?", "c8", "c16", "O", "U5", "S3", "M8[s]", "V4")
_NUMBERS = (
    0, -1, 1, 2, 3, 7, 0.5, 1e-3, 10.0, 25, 255, 1e5, -0.0, 1e-320, 1e-310, 1e-300, 1e-45, 1e-30, 1e30, 1e38, 3.4e38,
    1e150, 1e200, 1e299, 1e300, 1.7e308, math.nan, math.inf, -math.inf, 10**18, 10**400, -(10**400), 10**5000,
    np.float16(3), np.float32(1e-45), np.longdouble("1e400"), np.int8(-128), np.uint64(2**64 - 1), True, Fraction(1, 3),
    Decimal("1e-400"),
)  # fmt: skip
_THINGS = (
    None, "", "1", "a", "line\nbreak", b"x", [], [1], [[1.0]], (1, 2), [1, [2]], {}, object(), type, len, 1j,
    np.array(5.0), np.array([[1.0]]), np.array([]), np.ma.masked, np.ma.array([1.0], mask=[True]), np.datetime64("2020"),
    np.arange(100.0), np.full((30, 30), "text"), range(3), torch.tensor(3.0), "x" * 5000, Ellipsis, slice(3),
)  # fmt: skip


class Unclear(Exception):
    """An error of the package that does not say what was expected."""


KINDS = ("auto", "gaussian", "poisson", "correlated")


def warm_up() -> None:
    """Compile all kernels: for images, videos and volumes, for a number and for a map."""
    torch.set_num_threads(1)
    image = np.random.default_rng(0).normal(100, 10, (3, 16, 16))
    for method in nlridge.method_names():
        for sigma in (10.0, np.full(image.shape, 10.0)):
            nlridge.denoise(image, sigma, method=method, channel_axis=0, workers=1)
            for axis in ("time_axis", "depth_axis"):
                nlridge.denoise(image, sigma, method=method, workers=1, **{axis: 0})
    nlridge.denoise(
        image[0], workers=1, method=replace(_custom_recipe(), rounds=nlridge.Rounds(2, 0.5))
    )
    for noise in (nlridge.CorrelatedNoise.lines(10), nlridge.CorrelatedNoise(10, [[0.5, 1, 0.5]])):
        for method in nlridge.method_names():
            nlridge.denoise(image, noise=noise, method=method, channel_axis=0, workers=1)
        nlridge.denoise(image, noise=noise, time_axis=0, workers=1)
    nlridge.estimate_quality(image[0], 10.0, workers=1)
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
    with np.errstate(over="warn", invalid="warn", divide="warn", under="ignore"):
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


def _one_of(random: Random, things: Any) -> Any:
    return things[random.integers(len(things))]


def _anything(random: Random) -> Any:
    return _one_of(random, _NUMBERS if random.random() < 0.6 else _THINGS)


def _mostly(random: Random, value: Any, share: float = 0.97) -> Any:
    """The value, or now and then anything at all."""
    return value if random.random() < share else _anything(random)


def _side(random: Random) -> int:
    limits = ((1, 4), (4, 20), (15, 40), (30, 81))
    return int(random.integers(*limits[random.choice(4, p=[0.15, 0.35, 0.35, 0.15])]))


class _Shape:
    """The shape of an image, and the options that name its axes."""

    def __init__(self, random: Random, may_be_stack: bool) -> None:
        plane = [_side(random), _side(random)]
        if random.random() < 0.01:
            plane[int(random.integers(2))] = 0
        self.options: dict[str, Any] = {}
        shape = plane
        kind = random.random()
        channels, frames = kind < 0.3, may_be_stack and 0.22 < kind < 0.4
        extra = [
            name for name, there in (("channel_axis", channels), ("stack_axis", frames)) if there
        ]
        for name in extra:
            axis = int(random.integers(len(shape) + 1))
            for other in self.options:
                if self.options[other] >= axis:
                    self.options[other] += 1
            count = int(random.integers(1, 5 if name == "channel_axis" else 6))
            shape = [*shape[:axis], count, *shape[axis:]]
            self.options[name] = axis
        if frames and random.random() < 0.6:
            name = _one_of(random, ("time_axis", "time_axis", "depth_axis"))
            self.options[name] = self.options.pop("stack_axis")
        if random.random() < 0.3:
            self.options = {name: axis - len(shape) for name, axis in self.options.items()}
        if random.random() < 0.02:
            self.options[
                _one_of(random, ("channel_axis", "stack_axis")) if may_be_stack else "channel_axis"
            ] = _anything(random)
        if random.random() < 0.01:
            shape = [*shape, 2]
        self.shape = tuple(shape)

    def lacking(self, random: Random) -> tuple[int, ...]:
        """The shape of a map or a mask, which may lack an axis of the image."""
        shape = list(self.shape)
        for axis in self.options.values():
            if random.random() < 0.4 and isinstance(axis, int) and len(shape) == len(self.shape):
                with contextlib.suppress(IndexError):
                    del shape[axis]
        if random.random() < 0.02:
            shape = [*shape, 1]
        return tuple(shape)


def _values(random: Random, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The pixels of an image, as floats."""
    kind = _one_of(
        random,
        ("noise", "noise", "ramp", "ramp", "constant", "counts", "steps", "outliers", "wild"),
    )
    sigma = float(_one_of(random, (0.1, 1, 10, 10, 30)))
    if kind == "constant":
        values = np.full(shape, float(_one_of(random, (0, 1, 100, -5, 1e-310, 1e30, 1e299))))
    elif kind == "counts":
        values = random.poisson(random.uniform(0, 50), shape).astype(float)
    elif kind == "steps":
        values = 50.0 * random.integers(0, 4, shape) + random.normal(0, sigma, shape)
    elif kind == "wild":
        values = random.normal(size=shape) * 10.0 ** random.uniform(-300, 290, shape)
    else:
        values = 100 + random.normal(0, sigma, shape)
        if kind == "ramp" and len(shape):
            values += np.linspace(0, 100, max(shape[-1], 1))[: shape[-1]]
        if kind == "outliers":
            there = random.random(shape) < _one_of(random, (0.001, 0.05, 0.5))
            values[there] = _one_of(
                random, (1e4, 1e8, 1e12, 1e15, 1e30, -1e30, 1e38, 1e200, 1e300, 1e307)
            )
    if random.random() < 0.25:
        values = values * float(
            _one_of(
                random,
                (1e-300, 1e-200, 1e-45, 1e-38, 1e-5, 255, 1e10, 1e36, 1e150, 1e200, 1e290, 1e306),
            )
        )
    if random.random() < 0.15:
        values[random.random(shape) < _one_of(random, (0.01, 0.3, 0.9, 1.0))] = math.nan
    if random.random() < 0.02:
        values[random.random(shape) < 0.05] = _one_of(random, (math.inf, -math.inf))
    return values


def _as(dtype: Any, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    dtype = np.dtype(dtype)
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        values = np.clip(np.nan_to_num(values), float(limits.min) / 1.01, float(limits.max) / 1.01)
    return values.astype(dtype)


def _laid_out(random: Random, image: np.ndarray[Any, Any]) -> Any:
    """The same values in another layout or container."""
    kind = random.random()
    if kind < 0.6:
        return image
    if kind < 0.68:
        return np.asfortranarray(image)
    if kind < 0.76:
        wide = np.zeros([2 * n for n in image.shape], image.dtype)
        view = wide[tuple(slice(None, None, -2) for _ in image.shape)]
        view[...] = image
        return view
    if kind < 0.82:
        image.flags.writeable = False
        return image
    if kind < 0.88:
        return image.tolist()
    if kind < 0.95:
        return np.ma.array(image, mask=random.random(image.shape) < _one_of(random, (0, 0.1, 1)))
    if (
        image.dtype.newbyteorder("=") != image.dtype
        or image.dtype.kind not in "uif"
        or image.dtype.char == "g"
    ):
        return image
    tensor = torch.tensor(image)
    return (
        tensor.requires_grad_() if tensor.is_floating_point() and random.random() < 0.5 else tensor
    )


def _image(random: Random, shape: tuple[int, ...]) -> Any:
    if random.random() < 0.01:
        return _anything(random)
    dtype = _one_of(random, _DTYPES if random.random() < 0.98 else _ODD_DTYPES)
    values = _values(random, shape)
    if dtype in _ODD_DTYPES:
        values = np.nan_to_num(values).clip(-1e3, 1e3)
    if dtype == "M8[s]":
        values = values.astype("i8")
    if dtype == "V4":
        return np.zeros(shape, "V4")
    return _laid_out(random, _as(dtype, values))


def _level(random: Random) -> float:
    return float(_one_of(random, (0.5, 3, 10, 10, 10, 25, 60, 300))) * (
        1.0 if random.random() < 0.8 else 10.0 ** random.uniform(-300, 290)
    )


def _sigma_map(random: Random, shape: tuple[int, ...]) -> Any:
    kind = _one_of(random, ("same", "ramp", "spots", "band", "columns", "wild", "zeros", "mild"))
    level = _level(random)
    levels = np.full(shape, level)
    odd = float(
        _one_of(random, (0, 1e-320, 1e-5, 50, 1e3, 1e5, 1e10, 1e30, 1e38, 1e160, 1e300, 1.7e308))
    )
    if kind == "ramp":
        levels *= np.linspace(0.1, 5, max(shape[-1], 1))[: shape[-1]] if shape else 1
    elif kind == "spots":
        levels[random.random(shape) < _one_of(random, (0.01, 0.1, 0.6))] = odd
    elif kind == "band":
        levels[: int(random.integers(1, 20))] = odd
    elif kind == "columns":
        levels[..., ::2] = odd
    elif kind == "wild":
        levels = 10.0 ** random.uniform(*_one_of(random, ((-300, 300), (-3, 20), (0, 3))), shape)
    elif kind == "zeros":
        levels[random.random(shape) < 0.7] = 0
    elif kind == "mild":
        levels *= random.uniform(0.5, 2, shape)
    if random.random() < 0.08:
        levels[random.random(shape) < 0.1] = _one_of(random, (math.nan, math.inf, -1.0))
    if random.random() < 0.1:
        levels = levels.astype(_one_of(random, ("f4", "f2", ">f8", "g")))
    return np.ma.array(levels, mask=levels == odd) if random.random() < 0.05 else levels


def _sigma_of(random: Random, shape: _Shape) -> Any:
    kind = random.random()
    if kind < 0.4:
        return _level(random)
    if kind < 0.5:
        axis = shape.options.get("channel_axis")
        count = 1
        if isinstance(axis, int) and -len(shape.shape) <= axis < len(shape.shape):
            count = shape.shape[axis]
        levels = [_level(random) for _ in range(count)]
        if random.random() < 0.2:
            levels[0] = _one_of(random, (0, 1e-320, 1e299, math.nan, -1))
        return levels if random.random() < 0.5 else np.array(levels)
    if kind < 0.95:
        return _sigma_map(random, shape.lacking(random))
    return _anything(random)


class _Model:
    """A noise model from outside the package."""

    def __init__(self, random: Random) -> None:
        self.level = _mostly(random, 1.0, 0.6)
        self.black_level = 0.0
        self.factor = float(_one_of(random, (1.0, 2.0, 1e-300, 1e300, math.nan)))

    def stabilise(self, image: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(image, float) / self.factor

    def variance(self, truth: Any, level: Any) -> Any:
        return np.broadcast_to(np.asarray(level) ** 2, np.shape(truth))

    def restore(self, estimate: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(estimate, float) * self.factor


def _noise_model(random: Random, shape: _Shape) -> Any:
    if random.random() < 0.3:
        return _correlated(random, _sigma_of(random, shape))
    kind = random.random()
    if kind < 0.4:
        return nlridge.GaussianNoise(_sigma_of(random, shape))
    if kind < 0.9:
        return nlridge.PoissonGaussianNoise(
            _mostly(random, _one_of(random, (0.1, 1, 2.5, 30, 1e-200, 1e200, 1e-20)), 0.95),
            _mostly(random, _one_of(random, (0, 1, 10, 1e-300, 1e90)), 0.95),
            _mostly(random, _one_of(random, (0, 0, 5, 100, -3, 1e250)), 0.95),
        )
    return _Model(random) if kind < 0.95 else _anything(random)


def _correlated(random: Random, level: Any) -> Any:
    make = _one_of(
        random,
        (
            lambda: nlridge.CorrelatedNoise.from_kernel(level, random.normal(size=(3, 4))),
            lambda: nlridge.CorrelatedNoise.from_kernel(level, random.normal(size=(3, 5, 5))),
            lambda: nlridge.CorrelatedNoise.lines(level, axis=1, white=random.random()),
            lambda: nlridge.CorrelatedNoise.waves(level, period=(9.0, np.inf)),
            lambda: nlridge.CorrelatedNoise.from_spectrum(random.random((30, 33))),
            lambda: nlridge.CorrelatedNoise(level, _anything(random)),
            lambda: nlridge.CurveNoise([0, 50, 200], [1, 9, 3]),
        ),
    )
    return make()


def _about_noise(random: Random, shape: _Shape) -> dict[str, Any]:
    kind = random.random()
    if kind < 0.65:
        return {"sigma": _sigma_of(random, shape)}
    if kind < 0.8:
        return {"noise": _noise_model(random, shape)}
    if kind < 0.85:
        return {"noise": _one_of(random, KINDS)}
    return {} if kind < 0.98 else {"sigma": 10, "noise": nlridge.GaussianNoise(10)}


def _step(random: Random) -> Any:
    patch = int(random.integers(1, 9))
    return nlridge.Step(
        _mostly(random, patch, 0.98),
        _mostly(random, int(random.integers(1, 25)), 0.98),
        stride=_mostly(random, int(random.integers(1, patch + 1)), 0.98),
        window=_mostly(random, int(random.integers(2, 12)) * 2 + 1, 0.98),
        chroma_group_size=_one_of(random, (None, None, 1, 9, 30)),
    )


def _by_mean(Y: Any, X: Any, noise: Any) -> Any:
    weights = Y[..., 0, :] * 0 + 1
    return Y.mean(axis=-1, keepdims=True) + 0 * Y, weights


_FORMULAS: tuple[Callable[..., Any], ...] = (
    _by_mean,
    _by_mean,
    lambda Y, X, noise: (X, Y[..., 0, :] * 0 + 1),
    lambda Y, X, noise: (np.maximum(Y, 0), Y[..., 0, :] * 0 + 1),
    lambda Y, X, noise: (Y + math.inf, Y[..., 0, :] + math.nan),
    lambda Y, X, noise: (Y * 1e300, Y[..., 0, :] * 0),
    lambda Y, X, noise: Y,
    lambda Y, X, noise: (Y, Y),
    lambda Y, X, noise: (Y,),
    lambda Y, X, noise: None,
    lambda Y, X, noise: ("a", [1]),
)  # fmt: skip


def _custom_recipe(random: Random | None = None) -> nlridge.Recipe:
    """A recipe whose family is from outside the package."""
    formula = _by_mean if random is None else _one_of(random, _FORMULAS)

    class Custom(nlridge.Family):
        pilot = refine = nlridge.Estimator(formula)

    return nlridge.Recipe(
        Custom(),
        nlridge.Step(3, 4, 2, 9),
        nlridge.Step(3, 4, 2, 9),
    )


def _family(random: Random) -> Any:
    kind = random.random()
    share = 0.95
    if kind < 0.3:
        return Ridge(
            noisier=_mostly(random, 0.05, share),
            tolerance=_mostly(random, _one_of(random, (0.0, 2.0)), share),
        )
    if kind < 0.5:
        return TwoSided(penalty=_mostly(random, 0.4, share))
    if kind < 0.7:
        return Bayes(noisier=_mostly(random, 0.1, share))
    if kind < 0.97:
        return BM3D(threshold=_mostly(random, 2.7, share))
    return _anything(random)


def _recipe(random: Random) -> Any:
    if random.random() < 0.15:
        return _custom_recipe(random)
    rounds = nlridge.Rounds(
        _mostly(random, int(random.integers(1, 4)), 0.98),
        _mostly(random, float(_one_of(random, (0, 0.5, 1))), 0.98),
        _mostly(random, float(_one_of(random, (0, 0.3, 1))), 0.98),
    )
    coarse = None
    if random.random() < 0.3:
        coarse = nlridge.CoarseScale(
            _mostly(random, nlridge.recipe("fast", _level(random)), 0.98),
            _mostly(random, int(random.integers(1, 4)), 0.98),
            _mostly(random, int(random.integers(1, 11)), 0.98),
        )
    return nlridge.Recipe(
        _family(random),
        _mostly(random, _step(random), 0.98),
        _one_of(random, (None, _step(random))),
        _mostly(random, rounds, 0.98),
        _mostly(random, coarse, 0.98),
    )


def _method(random: Random) -> Any:
    kind = random.random()
    if kind < 0.65:
        weights = {"fast": 6, "standard": 4, "best": 1, "nl-ridge": 2, "nl-bayes": 2, "bm3d": 3}
        names = [name for name, weight in weights.items() for _ in range(weight)]
        return _one_of(random, names)
    return _recipe(random) if kind < 0.97 else _anything(random)


def _common(random: Random, shape: _Shape) -> dict[str, Any]:
    """Options of all functions that denoise."""
    options: dict[str, Any] = {"workers": _mostly(random, 1), **_about_noise(random, shape)}
    if random.random() < 0.8:
        options["method"] = _method(random)
    if random.random() < 0.2:
        options["strength"] = _mostly(random, _one_of(random, (0.01, 0.5, 2, 100)), 0.8)
    if random.random() < 0.2:
        options["colour"] = _mostly(random, _one_of(random, (0.01, 0.5, 2, 100)), 0.8)
    if random.random() < 0.2:
        options["data_range"] = _mostly(random, _one_of(random, (1, 255, 1e-200, 1e200)), 0.8)
    if random.random() < 0.2:
        options["mask"] = _mask(random, shape)
    if random.random() < 0.05:
        # True would show a progress bar on stderr.
        wrong = _mostly(random, None, 0.7)
        is_right = wrong is None or wrong is True or callable(wrong)
        options["progress"] = (lambda done, total: None) if is_right else wrong
    return options


def _mask(random: Random, shape: _Shape) -> Any:
    if random.random() < 0.05:
        return _anything(random)
    mask = random.random(shape.lacking(random)) < _one_of(random, (0, 0.01, 0.3, 0.95, 1))
    return mask if random.random() < 0.9 else mask.tolist()


# Calls, and what must hold of their results.


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
    shape = _Shape(random, may_be_stack=True)
    image, options = _image(random, shape.shape), {**shape.options, **_common(random, shape)}
    if "depth_axis" in options and random.random() < 0.5:
        options["spacing"] = _mostly(random, _one_of(random, ((1, 1, 1), (3, 1, 1), [1e-9, 1, 1])))
    for name in ("out", "tile", "client", "time_axis", "spacing"):
        if random.random() < 0.005:
            options[name] = _anything(random)
    if "out" in options and isinstance(options["out"], str | bytes):
        options["out"] = "a.xyz"
    result = _performed(nlridge.denoise, image, **options)
    _check(image, result)
    if random.random() < 0.15 and options["workers"] == 1 and not isinstance(image, torch.Tensor):
        again = nlridge.denoise(image, **{**options, "workers": 2})
        assert np.array_equal(again, result, equal_nan=True), "one and two threads differ"


def _details(random: Random, folder: Path) -> None:
    shape = _Shape(random, may_be_stack=False)
    image, options = _image(random, shape.shape), {**shape.options, **_common(random, shape)}
    details = _performed(nlridge.denoise_with_details, image, **options)
    assert str(details.noise)
    for name in ("image", "pilot", "residual"):
        _check(image, getattr(details, name), name)


def _quality(random: Random, folder: Path) -> None:
    shape = _Shape(random, may_be_stack=False)
    image, options = _image(random, shape.shape), {**shape.options, **_common(random, shape)}
    if random.random() < 0.3:
        options["peak"] = _mostly(random, _one_of(random, (1, 255, 1e-299, 1e299)), 0.8)
    if random.random() < 0.2:
        options["probes"] = _mostly(random, 2, 0.7)
        if options["probes"] in (10, 25, 255):  # which would take long
            options["probes"] = 3
    quality = _performed(nlridge.estimate_quality, image, **options)
    for name in ("noisy_psnr", "psnr", "standard_error", "gain"):
        assert not math.isnan(getattr(quality, name)), f"{name} is NaN"
    assert quality.standard_error >= 0
    assert quality.standard_error < math.inf


def _estimating(random: Random) -> tuple[Any, dict[str, Any]]:
    shape = _Shape(random, may_be_stack=False)
    options = shape.options
    if random.random() < 0.2:
        options = {**options, "mask": _mask(random, shape)}
    return _image(random, shape.shape), options


def _sigma(random: Random, folder: Path) -> None:
    image, options = _estimating(random)
    sigma = _performed(nlridge.estimate_sigma, image, **options)
    assert np.all(np.isfinite(sigma)), "sigma is not finite"
    assert np.all(np.asarray(sigma) >= 0), "sigma is negative"


def _noise(random: Random, folder: Path) -> None:
    image, options = _estimating(random)
    if random.random() < 0.3:
        options["kind"] = _mostly(random, _one_of(random, KINDS), 0.9)
    noise = _performed(nlridge.estimate_noise, image, **options)
    assert str(noise)
    assert np.all(np.isfinite(np.asarray(noise.level, float))), "the noise is not finite"


def _settings(random: Random, folder: Path) -> None:
    """Recipes, steps and noise models, without an image."""
    shape = _Shape(random, may_be_stack=True)
    kind = random.integers(5)
    if kind == 0:
        _performed(
            nlridge.recipe,
            _method(random),
            *(_anything(random) for _ in range(random.integers(1, 3))),
        )
    elif kind == 1:
        nlridge.Step(*(_mostly(random, 3, 0.7) for _ in range(random.integers(1, 6))))
    elif kind == 2:
        model = _noise_model(random, shape)
        assert str(model) or not model, "a model has no description"
        if isinstance(model, nlridge.GaussianNoise | nlridge.PoissonGaussianNoise):
            assert model == copy.deepcopy(model), "a model differs from itself"
            assert hash(model) == hash(copy.deepcopy(model)), "the hash of a model changes"
    elif kind == 3:
        recipe = _recipe(random)
        assert recipe == replace(recipe), "a recipe differs from itself"
    else:
        model = nlridge.PoissonGaussianNoise(
            *(_anything(random) for _ in range(random.integers(1, 4)))
        )
        values = np.array([0.0, 1.0, 1e5])
        assert np.isfinite(model.restore(model.stabilise(values))).all()


def _module(random: Random, folder: Path) -> None:
    """The module for PyTorch."""
    module = NLRidge(
        _method(random),
        data_range=_mostly(random, 255.0, 0.9),
        strength=_mostly(random, 1.0, 0.9),
        max_memory=_mostly(random, None, 0.9),
    )
    shape = tuple(
        int(n) for n in (random.integers(1, 3), random.integers(1, 4), *random.integers(1, 20, 2))
    )
    if random.random() < 0.03:
        shape = shape[1:]
    dtype = _one_of(random, (torch.float32, torch.float64, torch.float16, torch.bfloat16))
    x = torch.tensor(_values(random, shape)).to(dtype)
    if random.random() < 0.03:
        x = _anything(random)
    kind = random.random()
    sigma: Any = _level(random)
    if kind < 0.2:
        sigma = torch.tensor([_level(random) for _ in range(shape[0])])
    elif kind < 0.5:
        sigma = torch.tensor(np.array(_sigma_map(random, shape), np.float64))
    elif kind < 0.55:
        sigma = _anything(random)
    if isinstance(x, torch.Tensor) and x.is_floating_point() and random.random() < 0.2:
        x.requires_grad_()
    result = _performed(module, x, sigma)
    assert (result.shape, result.dtype) == (x.shape, x.dtype), "the result is of another kind"
    assert bool(result.isfinite().all()), "the result is not finite"


def _on_disk(random: Random, folder: Path) -> None:
    """An image in tiles, whose result is the same to the bit."""
    shape = _Shape(random, may_be_stack=True)
    image = _as(_one_of(random, ("f4", "f8", "u1", "u2", "f2")), _values(random, shape.shape))
    options = {
        **shape.options,
        "sigma": _level(random),
        "method": _one_of(random, ("fast", "standard", "bm3d")),
    }
    if random.random() < 0.4:
        options["sigma"] = _sigma_map(random, shape.lacking(random))
    if random.random() < 0.4:
        options["mask"] = _mask(random, shape)
    out = str(folder / _one_of(random, ("a.npy", "a.zarr")))
    tiled = _performed(
        nlridge.denoise, image, out=out, tile=_mostly(random, 64), workers=1, **options
    )
    whole = nlridge.denoise(image, workers=1, **options)
    assert np.array_equal(np.asarray(tiled[...]), whole, equal_nan=True), "tiles differ"


_SHARES_OF_CALLS = {
    _denoise: 0.42,
    _details: 0.12,
    _quality: 0.08,
    _sigma: 0.09,
    _noise: 0.09,
    _settings: 0.1,
    _module: 0.06,
    _on_disk: 0.04,
}
