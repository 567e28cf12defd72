"""Noise whose standard deviation is any curve of the signal, such as that of a photograph after its tone curve."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..checks import number
from ..errors import ArgumentError, ArgumentTypeError
from ..types import Array, Pixels
from .unbiased import NODES, WEIGHTS, Table, correction_table

_POINTS = 16  # points of each piece of a curve at which means are computed
_BEYOND = 6.0  # standard deviations up to which they are computed beyond the ends of the curve


@dataclass(frozen=True, init=False)
class CurveNoise:
    """Gaussian noise whose standard deviation depends on the value of the pixel.

    The tone curve of a camera amplifies the noise of dark areas and reduces that of bright ones. The variance is therefore
    not a linear function of the signal, as it is for `PoissonGaussianNoise`.

    Parameters
    ----------
    values : sequence of floats
        Values of pixels, increasing, in the units of the image.
    sigmas : sequence of floats
        The standard deviation of the noise at each of these values. It is interpolated linearly between them, and
        constant beyond the first and the last.
    level : float or sequence of floats, default 1.0
        Factor on the standard deviations, or one factor for each channel.

    See Also
    --------
    PoissonGaussianNoise : Noise whose variance grows linearly with the signal.
    estimate_noise : Estimates the noise of an image.

    Notes
    -----
    The integral of dv / sigma(v) makes the standard deviation of the noise 1 everywhere, as long as sigma changes little
    over the width of the noise. It is computed in closed form, and so is its inverse. The mean of transformed noise is too
    dark where sigma grows with the signal, and too bright where it falls. The inverse corrects for it, so that means over
    areas stay the same.

    Examples
    --------
    >>> from nlridge.noise.curve import CurveNoise
    >>> noise = CurveNoise([0, 64, 255], [2, 6, 3])
    >>> print(noise)
    noise of a camera with a standard deviation of 2 to 6, depending on the brightness
    """

    values: tuple[float, ...]
    sigmas: tuple[float, ...]
    level: float | tuple[float, ...]

    def __init__(
        self,
        values: Sequence[float] | Pixels,
        sigmas: Sequence[float] | Pixels,
        level: float | Sequence[float] | Pixels = 1.0,
    ) -> None:
        object.__setattr__(self, "values", _numbers("values", values))
        object.__setattr__(self, "sigmas", _numbers("sigmas", sigmas))
        several = isinstance(level, (Sequence, np.ndarray))
        levels = _numbers("level", level) if several else (number("level", level),)
        object.__setattr__(self, "level", levels if several else levels[0])
        if len(self.values) != len(self.sigmas):
            raise ArgumentError(
                "sigmas",
                len(self.sigmas),
                f"{len(self.values)}, as many as values",
                "has {value} numbers",
            )
        if not (np.all(np.abs(self.values) < 1e300) and np.all(np.diff(self.values) > 0)):
            raise ArgumentError("values", values, "increasing, finite numbers")
        if not all(1e-300 < sigma < 1e300 for sigma in self.sigmas):
            raise ArgumentError("sigmas", sigmas, "positive numbers")
        if not all(0 <= factor < 1e100 for factor in levels):
            raise ArgumentError("level", level, "a non-negative number, or one for each channel")

    def __str__(self) -> str:
        low, high = (
            f"{end(self.sigmas) * end(np.atleast_1d(self.level)):.3g}" for end in (min, max)
        )
        if low == high:
            return f"noise of a camera with a standard deviation of {low}"
        return (
            f"noise of a camera with a standard deviation of {low} to {high}, depending on the "
            "brightness"
        )

    @property
    def black_level(self) -> float:
        return 0.0

    def sigma_at(self, values: Array) -> Array:
        """The standard deviation of the noise of pixels of the given values, for a level of 1."""
        return np.interp(values, self.values, self.sigmas)

    def stabilise(self, image: Pixels) -> Array:
        v, sigma, slope, integral = self._pieces()
        a = image.astype(np.float64)
        k = np.clip(np.searchsorted(v, a, side="right") - 1, 0, len(v) - 1)
        with np.errstate(over="ignore"):
            offset = np.clip((a - v[k]) / sigma[k], -1e300, 1e300)
        return integral[k] + offset * _ratio(np.log1p, slope[k] * offset)

    def variance(self, truth: Array, level: Array) -> Array:
        return (level * self.sigma_at(truth)) ** 2

    def restore(self, estimate: Pixels) -> Array:
        correction: Array = np.interp(estimate, *self._corrections)
        return self._inverse(estimate) + correction

    def draws(self) -> tuple[Array, Array]:
        """Pixels with noise, and the probability of each; see `Sampled`."""
        v, sigma, *_ = self._pieces()
        ends = v[0] - _BEYOND * sigma[0], v[-1] + _BEYOND * sigma[-1]
        places = np.arange(_POINTS * (len(v) + 1) + 1) / _POINTS
        truths = np.interp(places, np.arange(len(v) + 2), [ends[0], *v, ends[1]])
        pixels = truths[:, None] + self.sigma_at(truths)[:, None] * NODES
        return pixels, np.broadcast_to(WEIGHTS, pixels.shape)

    @cached_property
    def _corrections(self) -> Table:
        return correction_table(self.draws(), self.stabilise, self._inverse)

    def _inverse(self, estimate: Pixels) -> Array:
        """The inverse of `stabilise` for pixels without noise."""
        v, sigma, slope, integral = self._pieces()
        a = estimate.astype(np.float64)
        k = np.clip(np.searchsorted(integral, a, side="right") - 1, 0, len(v) - 1)
        offset = a - integral[k]
        return v[k] + sigma[k] * offset * _ratio(np.expm1, slope[k] * offset)

    def _pieces(self) -> tuple[Array, Array, Array, Array]:
        """The start of each linear piece of the curve, its sigma and slope, and the integral of dv / sigma up to there.

        The first and the last piece are constant and infinite; the first is taken to start one sigma below the first
        value.
        """
        v = np.array([self.values[0] - self.sigmas[0], *self.values])
        sigma = np.array([self.sigmas[0], *self.sigmas])
        slope = np.append(np.diff(sigma) / np.diff(v), 0.0)
        width = np.diff(v) / sigma[:-1]
        width *= _ratio(np.log1p, slope[:-1] * width)
        return v, sigma, slope, np.append(0.0, np.cumsum(width))


def scaled(noise: CurveNoise, factor: float) -> CurveNoise:
    """The noise with another level."""
    return CurveNoise(noise.values, factor * np.array(noise.sigmas), noise.level)


def _numbers(name: str, given: object) -> tuple[float, ...]:
    try:
        numbers = np.asarray(given)
        if numbers.dtype.kind not in "uif" or numbers.ndim != 1 or not numbers.size:
            raise TypeError
    except (TypeError, ValueError):
        raise ArgumentTypeError(name, given, "a sequence of numbers") from None
    # Adding 0.0 removes negative zeros, which hash differently.
    return tuple((numbers.astype(np.float64) + 0.0).tolist())


def _ratio(function: np.ufunc, x: Array) -> Array:
    """function(x) / x, which tends to 1 at 0."""
    near = np.abs(x) < 1e-8
    safe = np.where(near, 1.0, x)
    ratio: Array = np.where(near, 1.0, function(safe) / safe)
    return ratio
