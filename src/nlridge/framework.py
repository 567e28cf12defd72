"""The two-step algorithm: section 2 of the paper, whatever the family.

Images are arrays of (planes, height, width): one plane if gray, and otherwise brightness first and colours
after it, which have little to do with each other (see `channels`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .families import Estimator, Family
from .recipes import Recipe, Step

Image = npt.NDArray[np.float32]


class RunStep(Protocol):
    """What an engine does: match on the guide, denoise each group, average the patches back."""

    def __call__(
        self,
        noisy: Image,
        guide: Image,
        estimator: Estimator,
        settings: Step,
        variance: float | Image,
        *,
        bands: Sequence[range],
        matched: int,
    ) -> Image: ...


def two_steps(
    noisy: Image,
    variance: float | Image,
    recipe: Recipe,
    run: RunStep,
    *,
    strength: float = 1.0,
    renewed: Callable[[Image], Image] | None = None,
) -> Iterator[Image]:
    """Denoise with Θ from the noisy image alone, then with the result in place of the truth.

    Yields the pilot and the result (the pilot alone if the recipe has no second step).  Similar patches
    are first sought in the brightness alone, since colours are mostly noise, then in all planes of the
    pilot.

    `strength` counts the noise as stronger or weaker, but the first step never as stronger: the minimiser
    of SURE would turn what it takes for too much noise into its negative.  Where pixels are missing from
    the noisy image, and were filled in for the first step, `renewed` gives the noisy image for the second
    from the pilot.
    """
    family, bands = recipe.family, bands_of(len(noisy), recipe.family)
    weaker = min(strength, 1.0) ** 2 * variance
    pilot = run(noisy, noisy, family.pilot, recipe.first, weaker, bands=bands, matched=1)
    yield pilot
    if recipe.second is None or family.refine is None:
        return
    if renewed is not None:
        noisy = renewed(pilot)
    variance = strength**2 * variance
    yield run(noisy, pilot, family.refine, recipe.second, variance, bands=bands, matched=len(noisy))


def bands_of(planes: int, family: Family) -> list[range]:
    """Which planes share one Θ: the first has its own, and the others go in pairs if the family can stack them."""
    step = 2 if family.stacks_planes else 1
    return [range(1), *(range(k, min(k + step, planes)) for k in range(1, planes, step))]
