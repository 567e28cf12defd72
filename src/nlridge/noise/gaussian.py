"""Gaussian noise that does not depend on the signal."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ArgumentError, ArgumentTypeError
from ..types import Array, Pixels
from . import Level, Noise


@dataclass(frozen=True, init=False, repr=False, eq=False)
class GaussianNoise:
    """Gaussian noise, independent from pixel to pixel and of the signal.

    Parameters
    ----------
    sigma : float, sequence of floats or array
        The standard deviation of the noise, in the units of the image: a number, one number for each channel, or a
        map of the shape of the image. A map that is the same for all channels, or for all images of a stack, may lack
        that axis.

    See Also
    --------
    PoissonGaussianNoise : Noise that grows with the signal.
    estimate_noise : Estimates the noise of an image.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> print(nlridge.GaussianNoise(12.5))
    Gaussian noise with a standard deviation of 12.5
    >>> print(nlridge.GaussianNoise([10, 8, 12]))
    Gaussian noise with standard deviations of 10, 8 and 12 in the channels
    >>> print(nlridge.GaussianNoise(np.linspace(5, 10, 100).reshape(10, 10)))
    Gaussian noise with a standard deviation between 5 and 10 (median 7.5)
    """

    sigma: Level

    def __init__(self, sigma: float | Sequence[float] | Pixels) -> None:
        try:
            given = np.asarray(sigma)
            if given.dtype.kind not in "uifO":  # text and truth values are not numbers
                raise TypeError
            with np.errstate(over="ignore"):  # casting larger floats
                # Adding 0.0 removes negative zeros, which hash differently.
                levels = given.astype(np.float64) + 0.0
        except (TypeError, ValueError, OverflowError):
            raise ArgumentTypeError("sigma", sigma, "a number or an array of numbers") from None
        level: Level = float(levels) if levels.ndim == 0 else levels
        if levels.ndim < 2:
            if not np.all((levels >= 0) & (levels < 1e300)):
                expected = "a non-negative number" if levels.ndim == 0 else "non-negative numbers"
                raise ArgumentError("sigma", sigma, f"{expected} below 1e300")
            if levels.size == 0:
                raise ArgumentError("sigma", sigma, "at least one number")
            if levels.ndim == 1:
                level = tuple(levels.tolist())
        else:
            negative = np.count_nonzero(levels < 0)
            if negative:
                raise ArgumentError("sigma", negative, "0 or more", "is negative in {value} pixels")
            levels.flags.writeable = False
        object.__setattr__(self, "sigma", level)

    def __repr__(self) -> str:
        if isinstance(self.sigma, np.ndarray):
            return f"GaussianNoise(sigma=a map of shape {self.sigma.shape})"
        return f"GaussianNoise(sigma={self.sigma!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GaussianNoise) and np.array_equal(
            self.sigma, other.sigma, equal_nan=True
        )

    def __hash__(self) -> int:
        return hash((GaussianNoise, np.asarray(self.sigma).tobytes()))

    def __str__(self) -> str:
        if isinstance(self.sigma, float):
            return f"Gaussian noise with a standard deviation of {self.sigma:.4g}"
        if isinstance(self.sigma, tuple):
            *first, last = (f"{sigma:.4g}" for sigma in self.sigma)
            words = f"{', '.join(first)} and {last}" if first else last
            return f"Gaussian noise with standard deviations of {words} in the channels"
        finite = self.sigma[np.isfinite(self.sigma)]
        if not finite.size:
            return (
                f"Gaussian noise with an unknown standard deviation in all {self.sigma.size} pixels"
            )
        low, high = finite.min(), finite.max()
        return (
            f"Gaussian noise with a standard deviation between {low:.4g} and {high:.4g} "
            f"(median {np.median(finite):.4g})"
        )

    @property
    def black_level(self) -> float:
        return 0.0

    @property
    def level(self) -> Level:
        return self.sigma

    def stabilise(self, image: Pixels) -> Array:
        return image.astype(np.float64, copy=False)

    def variance(self, truth: Array, level: Array) -> Array:
        return np.broadcast_to(level**2, truth.shape)

    def restore(self, estimate: Pixels) -> Array:
        return estimate.astype(np.float64, copy=False)


def leaves_units(noise: Noise) -> bool:
    """Whether `stabilise` and `restore` leave an image as it is: for Gaussian noise, correlated or not."""
    return isinstance(getattr(noise, "noise", noise), GaussianNoise)
