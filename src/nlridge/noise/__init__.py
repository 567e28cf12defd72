"""What the noise is: one file a model, behind one interface; and how to find out."""

from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]


class Noise(Protocol):
    """A noise model: a transform after which the noise is white, Gaussian and of one level.

    `str()` says in plain words what it is, in the image's own units.
    """

    @property
    def level(self) -> float:
        """Standard deviation of the noise after `stabilise`."""

    def stabilise(self, image: npt.NDArray[Any]) -> Array:
        """The image with noise that is the same everywhere."""

    def restore(self, estimate: npt.NDArray[Any]) -> Array:
        """An estimate of the stabilised image, in the image's own units again."""
