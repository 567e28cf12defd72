"""The two steps of section 2 of the paper, for any family, and their extension to rounds and scales.

Images are arrays of (planes, height, width). A gray image has one plane; a colour image has its brightness in the first
plane, and colour differences, which are nearly uncorrelated with it, in the others (see `planning.channels`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from . import pyramid
from .filtering import Filters, clear_frequencies, filters_of
from .inputs import Image, PartialDenoising, PlaneNoise, StepInputs
from .passes import Pass, passes_of
from .settings import Recipe, Rounds
from .tuning import DEFAULT, Tuning


class RunPass(Protocol):
    """A function of an engine that runs one pass: match on `inputs.similar`, denoise each group, average the patches.

    Returns the result, and the same with some of the noise left in it if `inputs.partly` asks for that. The engine
    stores the groups that it finds in `groups`, and does not search for those that are already there.
    """

    def __call__(
        self, inputs: StepInputs, step: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[Image, Image]: ...


class Pyramid(Protocol):
    """The filters of the module `pyramid`, which other kinds of images may implement in their own way."""

    def coarser(self, image: Image) -> Image: ...

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise: ...

    def with_coarse(self, image: Image, coarse: Image, level: int, most: Any) -> Image: ...

    def filtered(self, image: Image, taps: npt.NDArray[np.float32]) -> Image: ...


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
    """Yield the pilot and the result of a recipe.

    If a short filter makes the noise white, the filtered image is denoised, and the changes are filtered back.

    If the recipe has a coarse scale, an image of half the size is denoised first. It has half the noise, so that its
    broad structures are better preserved, and replaces those of the pilot and of the result.

    The parameters are those of `two_steps`; `scales` provides the functions of the module `pyramid`.
    """
    filters = filters_of(noise.correlation)
    if filters is not None and recipe.prefilter:
        yield from _denoised_by_filter(
            noisy, noise, filters, recipe, run, tuning, renewed=renewed, scales=scales
        )
        return
    frequencies = clear_frequencies(noise.correlation) if filters is None else None

    def clear(image: Image) -> Image:
        if frequencies is None:
            return image
        return scales.filtered(image, frequencies.compare[: len(image)])

    def regained(result: Image, noisy: Image) -> Image:
        if frequencies is None:
            return result
        return result + scales.filtered(noisy - result, frequencies.regain)

    corrected: Callable[[Image, int], Image] = _unchanged
    if recipe.coarse is not None:
        small, small_noise = scales.coarser(noisy), scales.coarser_noise(noise)
        *_, coarse = denoised(small, small_noise, recipe.coarse.recipe, run, tuning, scales=scales)
        most = 3 * small_noise.level

        def corrected(image: Image, level: int) -> Image:
            return scales.with_coarse(image, coarse, level, most)

    yield from two_steps(
        noisy,
        noise,
        recipe,
        run,
        tuning,
        renewed=renewed,
        corrected=corrected,
        clear=clear,
        regained=regained,
    )


def _unchanged(image: Image, *_: Any) -> Image:
    return image


def _denoised_by_filter(
    noisy: Image,
    noise: PlaneNoise,
    filters: Filters,
    recipe: Recipe,
    run: RunPass,
    tuning: Tuning,
    *,
    renewed: Callable[[Image], Image] | None,
    scales: Pyramid,
) -> Iterator[Image]:
    """`denoised` for noise that a filter makes white."""
    white = scales.filtered(noisy, filters.whiten)

    def back(image: Image) -> Image:
        return noisy + scales.filtered(image - white, filters.colour)

    renewed_white = None
    if renewed is not None:

        def renewed_white(pilot: Image) -> Image:
            return scales.filtered(renewed(back(pilot)), filters.whiten)

    white_noise = PlaneNoise(noise.variance)
    for image in denoised(
        white, white_noise, recipe, run, tuning, renewed=renewed_white, scales=scales
    ):
        yield back(image)


def two_steps(
    noisy: Image,
    noise: PlaneNoise,
    recipe: Recipe,
    run: RunPass,
    tuning: Tuning = DEFAULT,
    *,
    renewed: Callable[[Image], Image] | None = None,
    corrected: Callable[[Image, int], Image] = _unchanged,
    clear: Callable[[Image], Image] = _unchanged,
    regained: Callable[[Image, Image], Image] = _unchanged,
) -> Iterator[Image]:
    """Denoise with Θ from the noisy image alone, then with the result, the pilot, in place of the true image.

    Yields the pilot and the result, or the pilot alone if the recipe has no second step. Similar patches are searched
    for in the brightness alone in the first step, since colours are mostly noise, and in all planes of the pilot in
    the second.

    Parameters
    ----------
    tuning
        Its `strength`, and `colour_strength` for the differences of colours, treat the noise as stronger or weaker. In
        the first step they count as at most 1: with a variance that is too large, the minimiser of SURE would invert
        the sign of weak structures.
    renewed
        Returns the noisy image of the second step for a pilot: missing pixels, which were filled in from their
        neighbours for the first step, take their values from the pilot.
    corrected
        Returns the pilot, or the result, with its structures from a level of the pyramid on taken from a coarser image.
    clear
        Returns the image in which similar patches are searched for, without the frequencies at which there is noise.
    regained
        Returns a result with what it has lost of the noisy image at the frequencies at which there is hardly any noise.
    """
    first, *second = passes_of(recipe)
    weaker = noise.treated(min(tuning.strength, 1.0), min(tuning.colour_strength, 1.0))
    pilot, _ = run(
        StepInputs(noisy, guide=noisy, similar=clear(noisy[:1]), noise=weaker, tuning=tuning), first
    )
    if recipe.coarse is not None:
        pilot = corrected(pilot, recipe.coarse.pilot_level)
    if not second:
        pilot = regained(pilot, noisy)
    yield pilot
    if not second:
        return
    if renewed is not None:
        noisy = renewed(pilot)
    noise = noise.treated(tuning.strength, tuning.colour_strength)
    inputs = StepInputs(noisy, guide=pilot, similar=clear(pilot), noise=noise, tuning=tuning)
    if len(second) == 1:
        result = run(inputs, second[0])[0]
    else:
        result = in_rounds(inputs, second, recipe.rounds, run, clear)
    if recipe.coarse is not None:
        result = corrected(result, recipe.coarse.result_level)
    yield regained(result, noisy)


def in_rounds(
    inputs: StepInputs,
    passes: Sequence[Pass],
    rounds: Rounds,
    run: RunPass,
    clear: Callable[[Image], Image] = _unchanged,
) -> Image:
    """The second step in several rounds, each of which removes some of the noise.

    A round passes a better guide, and an image with less noise, on to the next. It denoises as the second step does,
    but leaves a share of the noise in the image; the last round leaves none. How much noise the patches of a round
    still have is estimated for each group. Two consecutive rounds share their groups.
    """
    noisy = partly = inputs.noisy
    result = inputs.guide
    groups: dict[Any, Any] = {}
    for k, step in enumerate(passes):
        if k % 2 == 0:
            groups = {}
        keep = rounds.keep * (1 - (k + 1) / len(passes))
        keep = keep if keep > 1e-6 else 0.0  # kernels cannot resolve a smaller share
        similar = partly + rounds.blend * (result - partly)
        inputs = replace(
            inputs,
            noisy=partly,
            guide=result,
            similar=clear(similar),
            partly=PartialDenoising(noisy, keep),
        )
        result, partly = run(inputs, step, groups)
    return result
