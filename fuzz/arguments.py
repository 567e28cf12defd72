"""Random arguments of all types, shapes and sizes, most of them valid or nearly so."""

import contextlib
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch

import nlridge
from nlridge.core.families import BM3D, Bayes, Ridge, TwoSided

Random = np.random.Generator

KINDS = ("auto", "gaussian", "poisson", "correlated")

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


def one_of(random: Random, things: Any) -> Any:
    return things[random.integers(len(things))]


def anything(random: Random) -> Any:
    return one_of(random, _NUMBERS if random.random() < 0.6 else _THINGS)


def mostly(random: Random, value: Any, share: float = 0.97) -> Any:
    """The value, or now and then anything at all."""
    return value if random.random() < share else anything(random)


def _side(random: Random) -> int:
    limits = ((1, 4), (4, 20), (15, 40), (30, 81))
    return int(random.integers(*limits[random.choice(4, p=[0.15, 0.35, 0.35, 0.15])]))


class Shape:
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
            name = one_of(random, ("time_axis", "time_axis", "depth_axis"))
            self.options[name] = self.options.pop("stack_axis")
        if random.random() < 0.3:
            self.options = {name: axis - len(shape) for name, axis in self.options.items()}
        if random.random() < 0.02:
            self.options[
                one_of(random, ("channel_axis", "stack_axis")) if may_be_stack else "channel_axis"
            ] = anything(random)
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


def values_of(random: Random, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The pixels of an image, as floats."""
    kind = one_of(
        random,
        ("noise", "noise", "ramp", "ramp", "constant", "counts", "steps", "outliers", "wild"),
    )
    sigma = float(one_of(random, (0.1, 1, 10, 10, 30)))
    if kind == "constant":
        values = np.full(shape, float(one_of(random, (0, 1, 100, -5, 1e-310, 1e30, 1e299))))
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
            there = random.random(shape) < one_of(random, (0.001, 0.05, 0.5))
            values[there] = one_of(
                random, (1e4, 1e8, 1e12, 1e15, 1e30, -1e30, 1e38, 1e200, 1e300, 1e307)
            )
    if random.random() < 0.25:
        values = values * float(
            one_of(
                random,
                (1e-300, 1e-200, 1e-45, 1e-38, 1e-5, 255, 1e10, 1e36, 1e150, 1e200, 1e290, 1e306),
            )
        )
    if random.random() < 0.15:
        values[random.random(shape) < one_of(random, (0.01, 0.3, 0.9, 1.0))] = math.nan
    if random.random() < 0.02:
        values[random.random(shape) < 0.05] = one_of(random, (math.inf, -math.inf))
    return values


def of_type(dtype: Any, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
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
        return np.ma.array(image, mask=random.random(image.shape) < one_of(random, (0, 0.1, 1)))
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


def image_of(random: Random, shape: tuple[int, ...]) -> Any:
    if random.random() < 0.01:
        return anything(random)
    dtype = one_of(random, _DTYPES if random.random() < 0.98 else _ODD_DTYPES)
    values = values_of(random, shape)
    if dtype in _ODD_DTYPES:
        values = np.nan_to_num(values).clip(-1e3, 1e3)
    if dtype == "M8[s]":
        values = values.astype("i8")
    if dtype == "V4":
        return np.zeros(shape, "V4")
    return _laid_out(random, of_type(dtype, values))


def level_of(random: Random) -> float:
    return float(one_of(random, (0.5, 3, 10, 10, 10, 25, 60, 300))) * (
        1.0 if random.random() < 0.8 else 10.0 ** random.uniform(-300, 290)
    )


def sigma_map(random: Random, shape: tuple[int, ...]) -> Any:
    kind = one_of(random, ("same", "ramp", "spots", "band", "columns", "wild", "zeros", "mild"))
    level = level_of(random)
    levels = np.full(shape, level)
    odd = float(
        one_of(random, (0, 1e-320, 1e-5, 50, 1e3, 1e5, 1e10, 1e30, 1e38, 1e160, 1e300, 1.7e308))
    )
    if kind == "ramp":
        levels *= np.linspace(0.1, 5, max(shape[-1], 1))[: shape[-1]] if shape else 1
    elif kind == "spots":
        levels[random.random(shape) < one_of(random, (0.01, 0.1, 0.6))] = odd
    elif kind == "band":
        levels[: int(random.integers(1, 20))] = odd
    elif kind == "columns":
        levels[..., ::2] = odd
    elif kind == "wild":
        levels = 10.0 ** random.uniform(*one_of(random, ((-300, 300), (-3, 20), (0, 3))), shape)
    elif kind == "zeros":
        levels[random.random(shape) < 0.7] = 0
    elif kind == "mild":
        levels *= random.uniform(0.5, 2, shape)
    if random.random() < 0.08:
        levels[random.random(shape) < 0.1] = one_of(random, (math.nan, math.inf, -1.0))
    if random.random() < 0.1:
        levels = levels.astype(one_of(random, ("f4", "f2", ">f8", "g")))
    return np.ma.array(levels, mask=levels == odd) if random.random() < 0.05 else levels


def _sigma_of(random: Random, shape: Shape) -> Any:
    kind = random.random()
    if kind < 0.4:
        return level_of(random)
    if kind < 0.5:
        axis = shape.options.get("channel_axis")
        count = 1
        if isinstance(axis, int) and -len(shape.shape) <= axis < len(shape.shape):
            count = shape.shape[axis]
        levels = [level_of(random) for _ in range(count)]
        if random.random() < 0.2:
            levels[0] = one_of(random, (0, 1e-320, 1e299, math.nan, -1))
        return levels if random.random() < 0.5 else np.array(levels)
    if kind < 0.95:
        return sigma_map(random, shape.lacking(random))
    return anything(random)


class _Model:
    """A noise model from outside the package."""

    def __init__(self, random: Random) -> None:
        self.level = mostly(random, 1.0, 0.6)
        self.black_level = 0.0
        self.factor = float(one_of(random, (1.0, 2.0, 1e-300, 1e300, math.nan)))

    def stabilise(self, image: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(image, float) / self.factor

    def variance(self, truth: Any, level: Any) -> Any:
        return np.broadcast_to(np.asarray(level) ** 2, np.shape(truth))

    def restore(self, estimate: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(estimate, float) * self.factor


def noise_model(random: Random, shape: Shape) -> Any:
    if random.random() < 0.3:
        return _correlated(random, _sigma_of(random, shape))
    kind = random.random()
    if kind < 0.4:
        return nlridge.GaussianNoise(_sigma_of(random, shape))
    if kind < 0.9:
        return nlridge.PoissonGaussianNoise(
            mostly(random, one_of(random, (0.1, 1, 2.5, 30, 1e-200, 1e200, 1e-20)), 0.95),
            mostly(random, one_of(random, (0, 1, 10, 1e-300, 1e90)), 0.95),
            mostly(random, one_of(random, (0, 0, 5, 100, -3, 1e250)), 0.95),
        )
    return _Model(random) if kind < 0.95 else anything(random)


def _correlated(random: Random, level: Any) -> Any:
    make = one_of(
        random,
        (
            lambda: nlridge.CorrelatedNoise.from_kernel(level, random.normal(size=(3, 4))),
            lambda: nlridge.CorrelatedNoise.from_kernel(level, random.normal(size=(3, 5, 5))),
            lambda: nlridge.CorrelatedNoise.lines(level, axis=1, white=random.random()),
            lambda: nlridge.CorrelatedNoise.waves(level, period=(9.0, np.inf)),
            lambda: nlridge.CorrelatedNoise.from_spectrum(random.random((30, 33))),
            lambda: nlridge.CorrelatedNoise(level, anything(random)),
            lambda: nlridge.CurveNoise([0, 50, 200], [1, 9, 3]),
        ),
    )
    return make()


def _about_noise(random: Random, shape: Shape) -> dict[str, Any]:
    kind = random.random()
    if kind < 0.65:
        return {"sigma": _sigma_of(random, shape)}
    if kind < 0.8:
        return {"noise": noise_model(random, shape)}
    if kind < 0.85:
        return {"noise": one_of(random, KINDS)}
    return {} if kind < 0.98 else {"sigma": 10, "noise": nlridge.GaussianNoise(10)}


def _step(random: Random) -> Any:
    patch = int(random.integers(1, 9))
    return nlridge.Step(
        mostly(random, patch, 0.98),
        mostly(random, int(random.integers(1, 25)), 0.98),
        stride=mostly(random, int(random.integers(1, patch + 1)), 0.98),
        window=mostly(random, int(random.integers(2, 12)) * 2 + 1, 0.98),
        chroma_group_size=one_of(random, (None, None, 1, 9, 30)),
    )


def _by_mean(Y: Any, X: Any, noise: Any) -> Any:
    weights = Y[..., 0, :] * 0 + 1
    return Y.mean(axis=-1, keepdims=True) + 0 * Y, weights


def _huge(Y: Any, X: Any, noise: Any) -> Any:
    with np.errstate(over="ignore"):  # the package has no part in it
        return Y * 1e300, Y[..., 0, :] * 0


_FORMULAS: tuple[Callable[..., Any], ...] = (
    _by_mean,
    _by_mean,
    lambda Y, X, noise: (X, Y[..., 0, :] * 0 + 1),
    lambda Y, X, noise: (np.maximum(Y, 0), Y[..., 0, :] * 0 + 1),
    lambda Y, X, noise: (Y + math.inf, Y[..., 0, :] + math.nan),
    _huge,
    lambda Y, X, noise: Y,
    lambda Y, X, noise: (Y, Y),
    lambda Y, X, noise: (Y,),
    lambda Y, X, noise: None,
    lambda Y, X, noise: ("a", [1]),
)  # fmt: skip


def custom_recipe(random: Random | None = None) -> nlridge.Recipe:
    """A recipe whose family is from outside the package."""
    formula = _by_mean if random is None else one_of(random, _FORMULAS)

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
            noisier=mostly(random, 0.05, share),
            tolerance=mostly(random, one_of(random, (0.0, 2.0)), share),
        )
    if kind < 0.5:
        return TwoSided(penalty=mostly(random, 0.4, share))
    if kind < 0.7:
        return Bayes(noisier=mostly(random, 0.1, share))
    if kind < 0.97:
        return BM3D(threshold=mostly(random, 2.7, share))
    return anything(random)


def recipe_of(random: Random) -> Any:
    if random.random() < 0.15:
        return custom_recipe(random)
    rounds = nlridge.Rounds(
        mostly(random, int(random.integers(1, 4)), 0.98),
        mostly(random, float(one_of(random, (0, 0.5, 1))), 0.98),
        mostly(random, float(one_of(random, (0, 0.3, 1))), 0.98),
    )
    coarse = None
    if random.random() < 0.3:
        coarse = nlridge.CoarseScale(
            mostly(random, nlridge.recipe("fast", level_of(random)), 0.98),
            mostly(random, int(random.integers(1, 4)), 0.98),
            mostly(random, int(random.integers(1, 11)), 0.98),
        )
    return nlridge.Recipe(
        _family(random),
        mostly(random, _step(random), 0.98),
        one_of(random, (None, _step(random))),
        mostly(random, rounds, 0.98),
        mostly(random, coarse, 0.98),
    )


def method_of(random: Random) -> Any:
    kind = random.random()
    if kind < 0.65:
        weights = {"fast": 6, "standard": 4, "best": 1, "nl-ridge": 2, "nl-bayes": 2, "bm3d": 3}
        names = [name for name, weight in weights.items() for _ in range(weight)]
        return one_of(random, names)
    return recipe_of(random) if kind < 0.97 else anything(random)


def common_options(random: Random, shape: Shape) -> dict[str, Any]:
    """Options of all functions that denoise."""
    options: dict[str, Any] = {"workers": mostly(random, 1), **_about_noise(random, shape)}
    if random.random() < 0.8:
        options["method"] = method_of(random)
    if random.random() < 0.2:
        options["strength"] = mostly(random, one_of(random, (0.01, 0.5, 2, 100)), 0.8)
    if random.random() < 0.2:
        options["color"] = mostly(random, one_of(random, (0.01, 0.5, 2, 100)), 0.8)
    if random.random() < 0.2:
        options["data_range"] = mostly(random, one_of(random, (1, 255, 1e-200, 1e200)), 0.8)
    if random.random() < 0.2:
        options["mask"] = mask_of(random, shape)
    if random.random() < 0.05:
        # True would show a progress bar on stderr.
        wrong = mostly(random, None, 0.7)
        is_right = wrong is None or wrong is True or callable(wrong)
        options["progress"] = (lambda done, total: None) if is_right else wrong
    return options


def mask_of(random: Random, shape: Shape) -> Any:
    if random.random() < 0.05:
        return anything(random)
    mask = random.random(shape.lacking(random)) < one_of(random, (0, 0.01, 0.3, 0.95, 1))
    return mask if random.random() < 0.9 else mask.tolist()
