"""The two steps of section 2 of the paper, for any family, and their extension to rounds and scales.

Images are arrays of (planes, height, width). A gray image has one plane; a color image has its brightness in the first
plane, and color differences, which are nearly uncorrelated with it, in the others (see `planning.channels`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import add, sub
from typing import Any, TypeAlias

from .filtering import Filters, clear_frequencies, filters_of
from .images import Images
from .inputs import Image, PartialDenoising, PlaneNoise, StepInputs
from .passes import Pass, passes_of
from .settings import Recipe, Rounds
from .tuning import DEFAULT, Tuning

RunPass: TypeAlias = Callable[..., tuple[Image, Image]]
"""`Images.run_pass`"""


def denoised(
    noisy: Image,
    noise: PlaneNoise,
    recipe: Recipe,
    images: Images,
    tuning: Tuning = DEFAULT,
    *,
    fill_from_pilot: Callable[[Image], Image] | None = None,
    similar: Image | None = None,
) -> Iterator[Image]:
    """Yield the pilot and the result of a recipe.

    If a short filter makes the noise white, the filtered image is denoised, and the changes are filtered back.

    If the recipe has a coarse scale, an image of half the size is denoised first. It has half the noise, which
    preserves broad structures better; they replace those of the pilot and of the result.

    The parameters are those of `two_steps`.
    """
    filters = filters_of(noise.correlation)
    if filters is not None and recipe.prefilter:
        yield from _denoised_by_filter(
            noisy,
            noise,
            filters,
            recipe,
            images,
            tuning,
            fill_from_pilot=fill_from_pilot,
            similar=similar,
        )
        return
    frequencies = clear_frequencies(noise.correlation) if filters is None else None

    def for_matching(image: Image) -> Image:
        if frequencies is None:
            return image
        return images.filtered(image, frequencies.compare[: len(image)])

    def restore_clear(result: Image, noisy: Image) -> Image:
        if frequencies is None:
            return result
        return result + images.filtered(noisy - result, frequencies.restore)

    insert_coarse: Callable[[Image, int], Image] = _unchanged
    if recipe.coarse is not None:
        small, small_noise = images.coarser(noisy), images.coarser_noise(noise)
        small_similar = None if similar is None else images.coarser(similar)
        *_, coarse = denoised(
            small, small_noise, recipe.coarse.recipe, images, tuning, similar=small_similar
        )
        most = 3 * small_noise.level

        def insert_coarse(image: Image, level: int) -> Image:
            return images.with_coarse(image, coarse, level, most)

    yield from two_steps(
        noisy,
        noise,
        recipe,
        images.run_pass,
        tuning,
        fill_from_pilot=fill_from_pilot,
        insert_coarse=insert_coarse,
        for_matching=for_matching,
        restore_clear=restore_clear,
        similar=similar,
    )


def _unchanged(image: Image, *_: Any) -> Image:
    return image


def _denoised_by_filter(
    noisy: Image,
    noise: PlaneNoise,
    filters: Filters,
    recipe: Recipe,
    images: Images,
    tuning: Tuning,
    *,
    fill_from_pilot: Callable[[Image], Image] | None,
    similar: Image | None,
) -> Iterator[Image]:
    """`denoised` for noise that a filter makes white."""
    white = images.filtered(noisy, filters.whiten)

    def back(image: Image) -> Image:
        change = images.filtered(images.each(sub, image, white), filters.color)
        return images.each(add, noisy, change)

    fill_white = None
    if fill_from_pilot is not None:

        def fill_white(pilot: Image) -> Image:
            return images.filtered(fill_from_pilot(back(pilot)), filters.whiten)

    white_noise = PlaneNoise(noise.variance)
    for image in denoised(
        white, white_noise, recipe, images, tuning, fill_from_pilot=fill_white, similar=similar
    ):
        yield back(image)


def two_steps(
    noisy: Image,
    noise: PlaneNoise,
    recipe: Recipe,
    run: RunPass,
    tuning: Tuning = DEFAULT,
    *,
    fill_from_pilot: Callable[[Image], Image] | None = None,
    insert_coarse: Callable[[Image, int], Image] = _unchanged,
    for_matching: Callable[[Image], Image] = _unchanged,
    restore_clear: Callable[[Image, Image], Image] = _unchanged,
    similar: Image | None = None,
) -> Iterator[Image]:
    """Denoise with Θ from the noisy image alone, then again with that result, the pilot, in place of the true image.

    Yields the pilot and the result, or the pilot alone if the recipe has no second step. The first step searches for
    similar patches in the brightness alone, since the colors are mostly noise, and the second in all planes of the
    pilot.

    Parameters
    ----------
    tuning
        Its `strength`, and its `color_strength` for the color differences, treat the noise as stronger or weaker
        than it is. In the first step they count as at most 1: with too large a variance, the minimiser of SURE would
        invert the sign of weak structures.
    fill_from_pilot
        Returns the noisy image of the second step for a pilot: missing pixels, which were filled in from their
        neighbours for the first step, take their values from the pilot.
    insert_coarse
        Replaces the structures of the pilot, or of the result, from a level of the pyramid on by those of a coarser
        image.
    for_matching
        Returns the image in which similar patches are searched for: without the frequencies that contain noise.
    restore_clear
        Gives a result back what it has lost of the noisy image at the frequencies that contain hardly any noise.
    similar
        An image of one plane in which similar patches are searched for in both steps, instead of the noisy image and the
        pilot.
    """
    first, *second = passes_of(recipe)
    weaker = noise.treated(min(tuning.strength, 1.0), min(tuning.color_strength, 1.0))
    pilot, _ = run(
        StepInputs(
            noisy,
            guide=noisy,
            similar=for_matching(noisy[:1]) if similar is None else similar,
            noise=weaker,
            tuning=tuning,
        ),
        first,
    )
    if recipe.coarse is not None:
        pilot = insert_coarse(pilot, recipe.coarse.pilot_level)
    if not second:
        pilot = restore_clear(pilot, noisy)
    yield pilot
    if not second:
        return
    if fill_from_pilot is not None:
        noisy = fill_from_pilot(pilot)
    noise = noise.treated(tuning.strength, tuning.color_strength)
    inputs = StepInputs(
        noisy,
        guide=pilot,
        similar=for_matching(pilot) if similar is None else similar,
        noise=noise,
        tuning=tuning,
    )
    if len(second) == 1:
        result = run(inputs, second[0])[0]
    else:
        result = in_rounds(inputs, second, recipe.rounds, run, for_matching, similar)
    if recipe.coarse is not None:
        result = insert_coarse(result, recipe.coarse.result_level)
    yield restore_clear(result, noisy)


def in_rounds(
    inputs: StepInputs,
    passes: Sequence[Pass],
    rounds: Rounds,
    run: RunPass,
    for_matching: Callable[[Image], Image] = _unchanged,
    similar: Image | None = None,
) -> Image:
    """The second step in several rounds, each of which removes some of the noise.

    Each round passes a better guide, and an image with less noise, to the next. It denoises like the second step, but
    leaves a share of the noise in the image; the last round leaves none. The noise that remains in the patches is
    estimated for each group. Two consecutive rounds share their groups.
    """
    noisy = partly = inputs.noisy
    result = inputs.guide
    groups: dict[Any, Any] = {}
    for k, pass_ in enumerate(passes):
        if k % 2 == 0:
            groups = {}
        keep = rounds.keep * (1 - (k + 1) / len(passes))
        keep = keep if keep > 1e-6 else 0.0  # kernels cannot resolve a smaller share
        compared = similar
        if compared is None:
            mixed = partly + rounds.blend * (result - partly) if rounds.blend > 0 else partly
            compared = for_matching(mixed)
        inputs = replace(
            inputs,
            noisy=partly,
            guide=result,
            similar=compared,
            partly=PartialDenoising(noisy, keep),
        )
        result, partly = run(inputs, pass_, groups)
    return result
