"""The two-step algorithm: section 2 of the paper, whatever the family."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .families import Estimator
from .recipes import Recipe, Step

Image = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


class RunStep(Protocol):
    """What an engine does: match on the guide, denoise each group, average the patches back."""

    def __call__(
        self, noisy: Image, guide: Image, estimator: Estimator, settings: Step, sigma: float
    ) -> Image: ...


def two_steps(
    noisy: Image,
    sigma: float,
    recipe: Recipe,
    run: RunStep,
    *,
    strength: float = 1.0,
    missing: Mask | None = None,
) -> Iterator[Image]:
    """Denoise with Θ from the noisy image alone, then with the result in place of the truth.

    Yields the pilot and the result (the pilot alone if the recipe has no second step).  `strength` counts
    the noise as stronger or weaker, but the first step never as stronger: the minimiser of SURE would
    turn what it takes for too much noise into its negative.  Pixels that are missing from the noisy image, and were filled in for the first step, are the
    pilot's in the second.
    """
    pilot = run(noisy, noisy, recipe.family.pilot, recipe.first, min(strength, 1.0) * sigma)
    yield pilot
    if recipe.second is None or recipe.family.refine is None:
        return
    if missing is not None:
        noisy = np.where(missing, pilot, noisy)
    yield run(noisy, pilot, recipe.family.refine, recipe.second, strength * sigma)
