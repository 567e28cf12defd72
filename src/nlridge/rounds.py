"""What a step is told that works on an image from which some of the noise has been taken already."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Partly(NamedTuple):
    """Where the noise of an image came from, and how much of it is to stay."""

    original: npt.NDArray[np.float32]
    """The image with all of its noise."""
    keep: float
    """The share of the noise that is to be left in."""
