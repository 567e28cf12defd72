"""Gaussian noise that does not depend on the image."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import shown
from . import Array, Level


@dataclass(frozen=True, init=False, repr=False, eq=False)
class GaussianNoise:
    """Gaussian noise that is independent from pixel to pixel, whatever the image.

    Parameters
    ----------
    sigma : float, sequence of floats or array
        Its standard deviation, in the image's own units: a number, one for each channel, or a map of the
        image's shape (without the axis of channels, or of the stack, if it is the same for all of them).

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

    def __init__(self, sigma: float | Sequence[float] | npt.NDArray[Any]) -> None:
        try:
            with np.errstate(over="ignore"):  # of larger floats
                levels = np.array(sigma, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(
                f"sigma is {shown(sigma)}; expected a number or an array of numbers"
            ) from None
        found: Level = float(levels) if levels.ndim == 0 else levels
        if levels.ndim < 2:
            if not np.all((levels >= 0) & (levels < 1e300)):
                expected = "a number that is" if levels.ndim == 0 else "numbers that are"
                raise ValueError(
                    f"sigma is {shown(sigma)}; expected {expected} not negative and below 1e300"
                )
            if levels.ndim == 1:
                found = tuple(levels.tolist())
        else:
            wrong = np.count_nonzero(levels < 0)
            if wrong:
                raise ValueError(f"sigma is negative in {wrong} pixels; expected 0 or more")
            levels.flags.writeable = False
        object.__setattr__(self, "sigma", found)

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
        seen = self.sigma[np.isfinite(self.sigma)]
        if not seen.size:
            return f"Gaussian noise of which nothing is known in {self.sigma.size} pixels"
        return (
            f"Gaussian noise with a standard deviation between {seen.min():.4g} and {seen.max():.4g} "
            f"(median {np.median(seen):.4g})"
        )

    @property
    def black_level(self) -> float:
        return 0.0

    @property
    def level(self) -> Level:
        return self.sigma

    def stabilise(self, image: npt.NDArray[Any]) -> Array:
        return image.astype(np.float64, copy=False)

    def variance(self, truth: Array, level: Array) -> Array:
        return np.broadcast_to(level**2, truth.shape)

    def restore(self, estimate: npt.NDArray[Any]) -> Array:
        return estimate.astype(np.float64, copy=False)
