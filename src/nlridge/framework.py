"""The algorithm: the two steps of section 2 of the paper, whatever the family; and beyond the paper, rounds and scales.

Images are arrays of (planes, height, width): one plane if gray, and otherwise brightness first and colours
after it, which have little to do with each other (see `channels`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .families import Estimator, Family
from .pyramid import coarser, coarser_variance, with_coarse
from .recipes import Recipe, Step
from .rounds import Partly

Image = npt.NDArray[np.float32]


class RunStep(Protocol):
    """What an engine does: match on `similar`, denoise each group, average the patches back.

    Gives the result, and the same with some of the noise left in it if `partly` says so.
    """

    def __call__(
        self,
        noisy: Image,
        guide: Image,
        estimator: Estimator,
        settings: Step,
        variance: float | Image,
        *,
        similar: Image,
        bands: Sequence[range],
        partly: Partly | None = None,
    ) -> tuple[Image, Image]: ...


def denoised(
    noisy: Image,
    variance: float | Image,
    recipe: Recipe,
    run: RunStep,
    *,
    strength: float = 1.0,
    renewed: Callable[[Image], Image] | None = None,
) -> Iterator[Image]:
    """The pilot and the result, with the help of an image of half the size if the recipe says so."""
    if recipe.coarse is None:
        yield from two_steps(noisy, variance, recipe, run, strength=strength, renewed=renewed)
        return
    scale = recipe.coarse
    *_, help = denoised(
        coarser(noisy), coarser_variance(variance), scale.recipe, run, strength=strength
    )
    steps = two_steps(
        noisy,
        variance,
        recipe,
        run,
        strength=strength,
        renewed=renewed,
        mended=lambda pilot: with_coarse(pilot, help, scale.pilot_level),
    )
    yield next(steps)
    for result in steps:
        yield with_coarse(result, help, scale.result_level)


def two_steps(
    noisy: Image,
    variance: float | Image,
    recipe: Recipe,
    run: RunStep,
    *,
    strength: float = 1.0,
    renewed: Callable[[Image], Image] | None = None,
    mended: Callable[[Image], Image] | None = None,
) -> Iterator[Image]:
    """Denoise with Θ from the noisy image alone, then with the result in place of the truth.

    Yields the pilot and the result (the pilot alone if the recipe has no second step).  Similar patches
    are first sought in the brightness alone, since colours are mostly noise, then in all planes of the
    pilot.

    The second step may go on in rounds: each takes a part of the noise only, and starts from the result of
    the one before.

    `strength` counts the noise as stronger or weaker, but the first step never as stronger: the minimiser
    of SURE would turn what it takes for too much noise into its negative.  Where pixels are missing from
    the noisy image, and were filled in for the first step, `renewed` gives the noisy image for the second
    from the pilot.
    """
    family, bands = recipe.family, bands_of(len(noisy), recipe.family)
    weaker = min(strength, 1.0) ** 2 * variance
    pilot, _ = run(noisy, noisy, family.pilot, recipe.first, weaker, similar=noisy[:1], bands=bands)
    if mended is not None:
        pilot = mended(pilot)
    yield pilot
    if recipe.second is None or family.refine is None:
        return
    if renewed is not None:
        noisy = renewed(pilot)
    variance = strength**2 * variance
    rounds = recipe.rounds
    result, partly = pilot, noisy
    for k in range(rounds.count):
        keep = rounds.start * (1 - (k + 1) / rounds.count)
        similar = result if rounds.blend == 1 else partly + rounds.blend * (result - partly)
        result, partly = run(
            partly,
            result,
            family.refine,
            recipe.second,
            variance,
            similar=similar,
            bands=bands,
            partly=Partly(noisy, keep) if rounds.count > 1 else None,
        )
    yield result


def bands_of(planes: int, family: Family) -> list[range]:
    """Which planes share one Θ: the first has its own, and the others go in pairs if the family can stack them."""
    step = 2 if family.stacks_planes else 1
    return [range(1), *(range(k, min(k + step, planes)) for k in range(1, planes, step))]
