"""The caller's options, checked."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import LARGEST, checked_positive, number
from ..core.algorithm.recipes import method_names
from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import DEFAULT, Tuning
from ..errors import ArgumentError, ArgumentTypeError, shown
from ..kinds import NOISE_KINDS
from ..noise import Noise
from ..noise.gaussian import GaussianNoise


@dataclass(frozen=True)
class Options:
    """The arguments of `denoise` that determine how an image is denoised."""

    noise: Noise | None = None
    """The noise model; None if the noise is to be estimated."""
    kind: str = "auto"
    """The kind of noise to estimate, one of `NOISE_KINDS`."""
    tuning: Tuning = DEFAULT
    method: str | Recipe = "standard"
    data_range: float | None = None
    dtype: np.dtype[Any] | None = None
    """The type of the result; None for floats."""


def checked_options(
    sigma: Any, noise: Any, method: Any, data_range: Any, tuning: Tuning, dtype: Any = None
) -> Options:
    """Check the arguments of `denoise`, and return them as `Options`."""
    model = checked_noise(sigma, noise)
    return Options(
        model,
        noise if model is None and noise is not None else "auto",
        tuning,
        checked_method(method),
        None if data_range is None else checked_positive("data_range", data_range),
        None if dtype is None else checked_dtype(dtype),
    )


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """Return an integer or floating-point type of NumPy in native byte order."""
    try:
        checked: np.dtype[Any] | None = np.dtype(dtype)
    except (TypeError, ValueError):
        checked = None
    if checked is None or checked.kind not in "uif":
        raise ArgumentTypeError(
            "dtype", dtype, "a type of integers or floats, such as numpy.uint8 or image.dtype"
        )
    return checked.newbyteorder("=")


def checked_kind(name: str, kind: Any) -> str:
    """Return a kind of noise, or raise an error that names the argument."""
    if not isinstance(kind, str) or kind not in NOISE_KINDS:
        *first, last = map(repr, NOISE_KINDS)
        raise ArgumentError(name, kind, f"{', '.join(first)} or {last}")
    return kind


def checked_noise(sigma: Any, noise: Any) -> Noise | None:
    """The noise model, or None if the noise is to be estimated; `sigma` stands for Gaussian noise."""
    if sigma is not None and noise is not None:
        raise ArgumentError(
            "sigma", noise, "at most one of them", f"is given and `noise` is {shown(noise)}"
        )
    if sigma is not None:
        return _checked_sigma(sigma)
    if noise is None:
        return None
    if isinstance(noise, str):
        checked_kind("noise", noise)
        return None
    if isinstance(noise, type) or not isinstance(noise, Noise):
        raise ArgumentTypeError(
            "noise",
            noise,
            "a noise model such as nlridge.GaussianNoise(10), or a kind such as 'poisson'",
        )
    try:
        with np.errstate(over="ignore"):  # of larger floats
            levels = np.asarray(noise.level, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentTypeError(
            "noise", noise.level, "numbers", f"has the level {shown(noise.level)}"
        ) from None
    if not np.any(levels > 0):
        raise ArgumentError("noise", noise, "a positive standard deviation")
    wrong = ~(levels >= 0) if levels.ndim < 2 else levels < 0
    if np.any(wrong) or (levels.ndim < 2 and levels.max() > LARGEST):
        raise ArgumentError("noise", noise, "finite standard deviations")
    _expect_sound(noise)
    return noise


def _expect_sound(noise: Noise) -> None:
    """Refuse a noise model whose members do not return what the protocol promises, by trying them."""
    black = number("noise.black_level", noise.black_level)
    if not abs(black) <= LARGEST:
        raise ArgumentError("noise.black_level", black, "a finite number")
    pixels = black + np.arange(1.0, 7.0).reshape(1, 2, 3)
    results = {
        "stabilise": noise.stabilise(pixels),
        "restore": noise.restore(noise.stabilise(pixels)),
        "variance": noise.variance(pixels, np.ones((1, 1, 1))),
    }
    for name, result in results.items():
        shape = getattr(result, "shape", None)
        if shape != pixels.shape:
            what = type(result).__name__ if shape is None else f"an array of shape {shape}"
            raise TypeError(f"noise.{name} returned {what}; expected an array of the image's shape")
        if result.dtype.kind not in "uif" or not np.isfinite(result).all():
            raise ValueError(f"noise.{name} returned {shown(result)}; expected finite numbers")


def _checked_sigma(sigma: Any) -> GaussianNoise:
    """Gaussian noise with the given standard deviation: a number, one number for each channel, or a map."""
    if np.ma.isMaskedArray(sigma):
        sigma = np.ma.filled(sigma.astype(np.float64), np.nan)
    try:
        levels = np.asarray(sigma)
    except Exception:
        raise ArgumentTypeError("sigma", sigma, "a number or an array of numbers") from None
    if levels.ndim == 0:
        return GaussianNoise(checked_positive("sigma", sigma))
    if levels.dtype.kind not in "uif":
        raise ArgumentTypeError("sigma", levels.dtype, "numbers", "has dtype {value}")
    if levels.size == 0 or not np.any(levels > 0):
        raise ArgumentError(
            "sigma", levels.shape, "at least one", "has shape {value} and no positive value"
        )
    return GaussianNoise(levels if levels.size > 1 else float(levels.reshape(())))


def checked_method(method: Any) -> str | Recipe:
    if isinstance(method, Recipe):
        return method
    if not isinstance(method, str):
        raise ArgumentTypeError("method", method, "the name of a method, or a Recipe")
    if method not in method_names():
        names = ", ".join(map(repr, method_names()))
        raise ArgumentError("method", method, f"one of {names}, or a Recipe")
    return method
