"""Noise whose standard deviation is any curve of the signal, such as that of a photograph after its tone curve."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import shown
from . import Array

_NODES = 24  # at which the noise is sampled
_POINTS = 16  # of each piece of a curve at which its means are computed
_TAILS = 6.0  # standard deviations, beyond which noise does not reach


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

    See Also
    --------
    PoissonGaussianNoise : Noise whose variance grows linearly with the signal.
    estimate_noise : Estimates the noise of an image.

    Notes
    -----
    The integral of dv / sigma(v) makes the standard deviation of the noise 1 everywhere, as long as sigma changes little
    over the width of the noise. It is computed in closed form, and so is its inverse. Where sigma grows with
    the signal, the mean of transformed noise is too dark: the inverse corrects for it, so that means over areas stay the
    same. Where sigma falls, a tone curve has compressed what is bright. Noise was symmetric before it, which the transform
    undoes: means become those without noise, somewhat brighter than those of the image.

    Examples
    --------
    >>> from nlridge.noise.curve import CurveNoise
    >>> noise = CurveNoise([0, 64, 255], [2, 6, 3])
    >>> print(noise)
    noise of a camera with a standard deviation of 2 to 6, depending on the brightness
    """

    values: tuple[float, ...]
    sigmas: tuple[float, ...]

    def __init__(
        self, values: Sequence[float] | npt.NDArray[Any], sigmas: Sequence[float] | npt.NDArray[Any]
    ) -> None:
        for name, given in (("values", values), ("sigmas", sigmas)):
            try:
                numbers = np.asarray(given)
                if numbers.dtype.kind not in "uif" or numbers.ndim != 1 or not numbers.size:
                    raise TypeError
            except (TypeError, ValueError):
                raise TypeError(
                    f"{name} is {shown(given)}; expected a sequence of numbers"
                ) from None
            # Without negative zeros, which hash differently.
            object.__setattr__(self, name, tuple((numbers.astype(np.float64) + 0.0).tolist()))
        if len(self.values) != len(self.sigmas):
            raise ValueError(
                f"sigmas has {len(self.sigmas)} numbers; expected {len(self.values)}, as many as values"
            )
        if not (np.all(np.abs(self.values) < 1e300) and np.all(np.diff(self.values) > 0)):
            raise ValueError(f"values is {shown(values)}; expected increasing, finite numbers")
        if not all(1e-300 < sigma < 1e300 for sigma in self.sigmas):
            raise ValueError(f"sigmas is {shown(sigmas)}; expected positive numbers")

    def __str__(self) -> str:
        low, high = (f"{end(self.sigmas):.3g}" for end in (min, max))
        if low == high:
            return f"noise of a camera with a standard deviation of {low}"
        return (
            f"noise of a camera with a standard deviation of {low} to {high}, depending on the "
            "brightness"
        )

    @property
    def black_level(self) -> float:
        return 0.0

    @property
    def level(self) -> float:
        return 1.0

    def sigma_at(self, values: Array) -> Array:
        """The standard deviation of the noise of pixels of the given values."""
        return np.interp(values, self.values, self.sigmas)

    def stabilise(self, image: npt.NDArray[Any]) -> Array:
        v, sigma, slope, integral = self._pieces()
        a = image.astype(np.float64)
        k = np.clip(np.searchsorted(v, a, side="right") - 1, 0, len(v) - 1)
        with np.errstate(over="ignore"):
            offset = np.clip((a - v[k]) / sigma[k], -1e300, 1e300)
        return integral[k] + offset * _ratio(np.log1p, slope[k] * offset)

    def variance(self, truth: Array, level: Array) -> Array:
        return self.sigma_at(truth) ** 2

    def restore(self, estimate: npt.NDArray[Any]) -> Array:
        means, corrections = self._corrections
        correction: Array = np.interp(estimate, means, corrections)
        return self._inverse(estimate) + correction

    @cached_property
    def _corrections(self) -> tuple[Array, Array]:
        """Means of stabilised pixels, and what their inverse lacks, where sigma grows, of the values without noise."""
        v, sigma, *_ = self._pieces()
        ends = v[0] - _TAILS * sigma[0], v[-1] + _TAILS * sigma[-1]
        places = np.arange(_POINTS * (len(v) + 1)) / _POINTS
        truths = np.interp(places, np.arange(len(v) + 2), [ends[0], *v, ends[1]])
        nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
        values = truths[:, None] + self.sigma_at(truths)[:, None] * nodes
        means = np.maximum.accumulate(self.stabilise(values) @ (weights / weights.sum()))
        return means, np.maximum(truths - self._inverse(means), 0)

    def _inverse(self, estimate: npt.NDArray[Any]) -> Array:
        """The inverse of `stabilise` for pixels without noise."""
        v, sigma, slope, integral = self._pieces()
        a = estimate.astype(np.float64)
        k = np.clip(np.searchsorted(integral, a, side="right") - 1, 0, len(v) - 1)
        offset = a - integral[k]
        return v[k] + sigma[k] * offset * _ratio(np.expm1, slope[k] * offset)

    def _pieces(self) -> tuple[Array, Array, Array, Array]:
        """Where each linear piece of the curve begins, its sigma and slope, and the integral of dv / sigma up to there.

        The first and the last piece are constant and endless; the first begins below the first value by one sigma.
        """
        v = np.array([self.values[0] - self.sigmas[0], *self.values])
        sigma = np.array([self.sigmas[0], *self.sigmas])
        slope = np.append(np.diff(sigma) / np.diff(v), 0.0)
        width = np.diff(v) / sigma[:-1]
        width *= _ratio(np.log1p, slope[:-1] * width)
        return v, sigma, slope, np.append(0.0, np.cumsum(width))


def _ratio(function: np.ufunc, x: Array) -> Array:
    """function(x) / x, which tends to 1 at 0."""
    near = np.abs(x) < 1e-8
    safe = np.where(near, 1.0, x)
    ratio: Array = np.where(near, 1.0, function(safe) / safe)
    return ratio
