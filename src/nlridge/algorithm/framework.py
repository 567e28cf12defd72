"""The algorithm: the two steps of section 2 of the paper, whatever the family; and beyond it, rounds and scales.

Images are arrays of (planes, height, width): one plane if gray, and otherwise brightness first and colours
after it, which have little to do with each other (see `planning.channels`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from . import pyramid
from .inputs import Image, Partly, PlaneNoise, StepInputs
from .passes import Pass, passes_of
from .settings import Recipe, Rounds
from .tuning import DEFAULT, Tuning


class RunPass(Protocol):
    """What an engine does: match on `inputs.similar`, denoise each group, average the patches back.

    Returns the result, and the same with some of the noise left in it if `inputs.partly` asks for that. `groups`
    is what an engine remembers of one round for the next: groups that are in it are not searched for again.
    """

    def __call__(
        self, inputs: StepInputs, step: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[Image, Image]: ...


class Pyramid(Protocol):
    """How an image and a coarser one go together: the module `pyramid`, or the same for other kinds of images."""

    def coarser(self, image: Image) -> Image: ...

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise: ...

    def with_coarse(self, image: Image, coarse: Image, level: int, most: Any) -> Image: ...


def denoised(
    noisy: Image,
    noise: PlaneNoise,
    recipe: Recipe,
    run: RunPass,
    tuning: Tuning = DEFAULT,
    *,
    renewed: Callable[[Image], Image] | None = None,
    scales: Pyramid = pyramid,
) -> Iterator[Image]:
    """The pilot and the result, with the help of an image of half the size if the recipe says so.

    The coarse image has half the noise: broad structures are easier to see in it.
    """
    scale = recipe.coarse
    if scale is None:
        yield from two_steps(noisy, noise, recipe, run, tuning, renewed=renewed)
        return
    small, small_noise = scales.coarser(noisy), scales.coarser_noise(noise)
    *_, coarse = denoised(small, small_noise, scale.recipe, run, tuning, scales=scales)
    most = 3 * small_noise.level

    def helped(pilot: Image) -> Image:
        return scales.with_coarse(pilot, coarse, scale.pilot_level, most)

    steps = two_steps(noisy, noise, recipe, run, tuning, renewed=renewed, helped=helped)
    yield next(steps)
    for result in steps:
        yield scales.with_coarse(result, coarse, scale.result_level, most)


def two_steps(
    noisy: Image,
    noise: PlaneNoise,
    recipe: Recipe,
    run: RunPass,
    tuning: Tuning = DEFAULT,
    *,
    renewed: Callable[[Image], Image] | None = None,
    helped: Callable[[Image], Image] | None = None,
) -> Iterator[Image]:
    """Denoise with Θ from the noisy image alone, then with the result in place of the truth.

    Yields the pilot and the result (the pilot alone if the recipe has no second step).  Similar patches
    are first searched for in the brightness alone, since colours are mostly noise, then in all planes of the
    pilot.

    `tuning.strength` counts the noise as stronger or weaker, but the first step never as stronger: the minimiser
    of SURE would turn what it takes for too much noise into its negative.  Where pixels are missing from
    the noisy image, and were filled in for the first step, `renewed` returns the noisy image for the second
    from the pilot.  `helped` is what a coarser image makes of the pilot.
    """
    first, *second = passes_of(recipe)
    weaker = noise.scaled(min(tuning.strength, 1.0) ** 2)
    pilot, _ = run(
        StepInputs(noisy, guide=noisy, similar=noisy[:1], noise=weaker, tuning=tuning), first
    )
    if helped is not None:
        pilot = helped(pilot)
    yield pilot
    if renewed is not None:
        noisy = renewed(pilot)
    noise = noise.scaled(tuning.strength**2)
    inputs = StepInputs(noisy, guide=pilot, similar=pilot, noise=noise, tuning=tuning)
    if len(second) == 1:
        yield run(inputs, second[0])[0]
    elif second:
        yield in_rounds(inputs, second, recipe.rounds, run)


def in_rounds(inputs: StepInputs, passes: Sequence[Pass], rounds: Rounds, run: RunPass) -> Image:
    """The second step, some of the noise at a time.

    Each round gives a better guide, and an image with less noise, to the next: patches are combined as in the
    second step, and then some of the noise that they had is left in them, until the last round leaves none.
    How much they had is estimated group by group.  Groups serve two rounds.
    """
    noisy = partly = inputs.noisy
    result = inputs.guide
    groups: dict[Any, Any] = {}
    for k, step in enumerate(passes):
        if k % 2 == 0:
            groups = {}
        keep = rounds.keep * (1 - (k + 1) / len(passes))
        keep = keep if keep > 1e-6 else 0.0  # kernels resolve no less
        similar = partly + rounds.blend * (result - partly)
        inputs = replace(
            inputs, noisy=partly, guide=result, similar=similar, partly=Partly(noisy, keep)
        )
        result, partly = run(inputs, step, groups)
    return result
