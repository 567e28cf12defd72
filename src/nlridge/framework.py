"""The two-step algorithm: section 2 of the paper, whatever the family."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from .families import Estimator
from .recipes import Recipe, Step

Image = npt.NDArray[np.float32]


class RunStep(Protocol):
    """What an engine does: match on the guide, denoise each group, average the patches back."""

    def __call__(
        self, noisy: Image, guide: Image, estimator: Estimator, settings: Step, sigma: float
    ) -> Image: ...


def two_steps(noisy: Image, sigma: float, recipe: Recipe, run: RunStep) -> Image:
    """Denoise with Θ from the noisy image alone, then with the result in place of the truth."""
    pilot = run(noisy, noisy, recipe.family.pilot, recipe.first, sigma)
    if recipe.second is None or recipe.family.refine is None:
        return pilot
    return run(noisy, pilot, recipe.family.refine, recipe.second, sigma)
