"""White Gaussian noise of one level."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import Array


@dataclass(frozen=True)
class Gaussian:
    """White Gaussian noise: the same everywhere, whatever the image.

    Parameters
    ----------
    sigma : float
        Its standard deviation, in the image's own units.

    Examples
    --------
    >>> import nlridge
    >>> print(nlridge.Gaussian(12.5))
    Gaussian noise with a standard deviation of 12.5
    """

    sigma: float

    def __post_init__(self) -> None:
        if not 0 <= self.sigma < 1e300:
            raise ValueError(f"sigma is {self.sigma!r}; expected a number that is not negative")

    def __str__(self) -> str:
        return f"Gaussian noise with a standard deviation of {self.sigma:.4g}"

    @property
    def level(self) -> float:
        return self.sigma

    def stabilise(self, image: npt.NDArray[Any]) -> Array:
        return image.astype(np.float64, copy=False)

    def restore(self, estimate: npt.NDArray[Any]) -> Array:
        return estimate.astype(np.float64, copy=False)
