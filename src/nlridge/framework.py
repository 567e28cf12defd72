"""The algorithm: the two steps of section 2 of the paper, whatever the family; and beyond it, rounds and scales.

Images are arrays of (planes, height, width): one plane if gray, and otherwise brightness first and colours
after it, which have little to do with each other (see `channels`).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from . import pyramid
from .families import Estimator, Family
from .recipes import Recipe, Rounds, Step
from .rounds import Partly

Image = npt.NDArray[np.float32]


class RunStep(Protocol):
    """What an engine does: match on `similar`, denoise each group, average the patches back.

    Gives the result, and the same with some of the noise left in it if `partly` says so.  `groups` is what an
    engine remembers of one round for the next: groups that are in it are not sought again.  `shifted` says that
    the reference patches are to stand between their usual places.
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
        groups: dict[Any, Any] | None = None,
        shifted: bool = False,
    ) -> tuple[Image, Image]: ...


class Pyramid(Protocol):
    """How an image and a coarser one go together: the module `pyramid`, or the same for other kinds of images."""

    def coarser(self, image: Image) -> Image: ...

    def coarser_variance(self, variance: float | Image) -> float | Image: ...

    def with_coarse(self, image: Image, coarse: Image, level: int, most: Any) -> Image: ...


def denoised(
    noisy: Image,
    variance: float | Image,
    recipe: Recipe,
    run: RunStep,
    *,
    strength: float = 1.0,
    renewed: Callable[[Image], Image] | None = None,
    scales: Pyramid = pyramid,
) -> Iterator[Image]:
    """The pilot and the result, with the help of an image of half the size if the recipe says so.

    The coarse image has half the noise: what is broad is better seen in it.
    """
    scale = recipe.coarse
    if scale is None:
        yield from two_steps(noisy, variance, recipe, run, strength=strength, renewed=renewed)
        return
    small, small_variance = scales.coarser(noisy), scales.coarser_variance(variance)
    *_, coarse = denoised(
        small, small_variance, scale.recipe, run, strength=strength, scales=scales
    )
    most = 3 * small_variance**0.5

    def helped(pilot: Image) -> Image:
        return scales.with_coarse(pilot, coarse, scale.pilot_level, most)

    steps = two_steps(
        noisy, variance, recipe, run, strength=strength, renewed=renewed, helped=helped
    )
    yield next(steps)
    for result in steps:
        yield scales.with_coarse(result, coarse, scale.result_level, most)


def two_steps(
    noisy: Image,
    variance: float | Image,
    recipe: Recipe,
    run: RunStep,
    *,
    strength: float = 1.0,
    renewed: Callable[[Image], Image] | None = None,
    helped: Callable[[Image], Image] | None = None,
) -> Iterator[Image]:
    """Denoise with Θ from the noisy image alone, then with the result in place of the truth.

    Yields the pilot and the result (the pilot alone if the recipe has no second step).  Similar patches
    are first sought in the brightness alone, since colours are mostly noise, then in all planes of the
    pilot.

    `strength` counts the noise as stronger or weaker, but the first step never as stronger: the minimiser
    of SURE would turn what it takes for too much noise into its negative.  Where pixels are missing from
    the noisy image, and were filled in for the first step, `renewed` gives the noisy image for the second
    from the pilot.  `helped` is what a coarser image makes of the pilot.
    """
    family, bands = recipe.family, bands_of(len(noisy), recipe.family)
    weaker = min(strength, 1.0) ** 2 * variance
    pilot, _ = run(noisy, noisy, family.pilot, recipe.first, weaker, similar=noisy[:1], bands=bands)
    if helped is not None:
        pilot = helped(pilot)
    yield pilot
    if recipe.second is None or family.refine is None:
        return
    if renewed is not None:
        noisy = renewed(pilot)
    refine = partial(
        run,
        estimator=family.refine,
        settings=recipe.second,
        variance=strength**2 * variance,
        bands=bands,
    )
    if recipe.rounds.count > 1:
        yield in_rounds(noisy, pilot, recipe.rounds, refine)
    else:
        yield refine(noisy, pilot, similar=pilot)[0]


def in_rounds(
    noisy: Image, pilot: Image, rounds: Rounds, refine: Callable[..., tuple[Image, Image]]
) -> Image:
    """The second step, some of the noise at a time.

    Each round gives a better guide, and an image with less noise, to the next: patches are combined as in the
    second step, and then some of the noise that they had is left in them, until the last round leaves none.
    How much they had is found out group by group.  Groups hardly change from one round to the next, so that each
    serves two; those of the next two are of other reference patches, between those of the first.
    """
    result, partly = pilot, noisy
    groups: dict[Any, Any] = {}
    for k in range(rounds.count):
        if k % 2 == 0:
            groups = {}
        keep = rounds.keep * (1 - (k + 1) / rounds.count)
        result, partly = refine(
            partly,
            result,
            similar=partly + rounds.blend * (result - partly),
            partly=Partly(noisy, keep if keep > 1e-6 else 0.0),  # kernels resolve no less
            groups=groups,
            shifted=_is_shifted(k),
        )
    return result


def _is_shifted(k: int) -> bool:
    """Of the reference patches of the k-th round."""
    return k // 2 % 2 == 1


def steps_of(
    recipe: Recipe, shape: tuple[int, int]
) -> Iterator[tuple[tuple[int, int], Step, bool]]:
    """What `denoised` will run for an image of (height, width): the shape and the settings of each step, and
    whether its reference patches are shifted."""
    if recipe.coarse is not None:
        yield from steps_of(recipe.coarse.recipe, pyramid.coarser_shape(shape))
    yield shape, recipe.first, False
    if recipe.second is not None:
        for k in range(recipe.rounds.count):
            yield shape, recipe.second, _is_shifted(k)


def bands_of(planes: int, family: Family) -> list[range]:
    """Which planes share one Θ: the first has its own, and the others go in pairs if the family can stack them."""
    step = 2 if family.stacks_planes else 1
    return [range(1), *(range(k, min(k + step, planes)) for k in range(1, planes, step))]
