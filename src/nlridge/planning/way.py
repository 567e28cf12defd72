"""The one way from pixels to denoised pixels, whatever kind of images they are.

Pixels become planes of stabilised noise, the algorithm runs on these, and its results become pixels again. The kind of
images decides where that happens: in memory, in a stream of frames, in files, in tasks of Dask, or on tensors.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import mul, truediv
from typing import Any

from ..core.algorithm.framework import denoised
from ..core.algorithm.images import Images
from ..core.algorithm.inputs import Image, PlaneNoise
from ..types import Array
from .channels import Planes
from .levels import Bounds
from .photons import denoised_in_runs
from .pixels import (
    counts_of,
    filled_from_pilot,
    restored,
    similar_of,
    stable_channels,
    stable_planes,
    variance_of,
    with_estimate,
)
from .plan import Plan


@dataclass(frozen=True, eq=False)
class Planned:
    """The plan for an image, or for frames that belong together, and the facts that its run depends on."""

    plan: Plan
    levels: Array
    """Levels of the stabilised noise, of shape (channels or 1, 1, 1); the typical ones if they vary."""
    level_planes: int | None = None
    """The number of planes of the maps of levels: 0 if there are no maps, but the levels of frames differ; None if all
    pixels of a channel have the same level."""
    may_have_gaps: bool = True
    """Whether some pixels may have to be filled in."""
    bounds: tuple[Bounds, ...] = ()
    """For an image that is computed in parts: the bounds of its map of levels; none if there is no map."""
    has_similar: bool = False
    """Whether similar patches are searched for in another image."""


def denoised_image(planned: Planned, source: Any, images: Images) -> Image:
    """Denoise the pixels of a source; returns them in the units of the image.

    The `source` takes the place of `NoisyPixels` for this kind of images.
    """
    *_, last = _steps(planned, source, images)
    return images.each(restored, source, *last, shape=planned.plan.shape)


def denoised_steps(planned: Planned, source: Any, images: Images) -> Iterator[Image]:
    """Yield the pilot and the result of `denoised_image`; one image if there is one step, or no noise to remove."""
    for step in _steps(planned, source, images):
        yield images.each(restored, source, *step, shape=planned.plan.shape)


def _steps(planned: Planned, source: Any, images: Images) -> Iterable[tuple[Image, ...]]:
    """The planes of each step: one image for each set of channels that are denoised jointly."""
    plane_sets = planned.plan.planes
    steps = [denoised_planes(planned, planes, source, images) for planes in plane_sets]
    return zip(*steps, strict=True) if steps else [()]


def denoised_planes(
    planned: Planned, planes: Planes, source: Any, images: Images
) -> Iterator[Image]:
    """Yield the pilot and the result for channels that are denoised jointly, as stabilised planes."""
    plan = planned.plan
    shape = (len(planes.channels), *plan.shape[1:])
    noise = _noise(planned, planes, source, images)

    def read(function: Callable[..., Image]) -> Image:
        return images.each(partial(function, planes), source, shape=shape)

    if plan.runs:
        counts = with_gaps = read(counts_of)
        fill = None
        if planned.may_have_gaps:
            counts = images.filled(with_gaps)
            fill = partial(images.each, with_estimate, with_gaps)
        yield from denoised_in_runs(
            counts, planes, noise, plan.runs, images, plan.tuning, fill_from_estimate=fill
        )
        return
    if not planned.may_have_gaps:
        noisy, fill = read(stable_planes), None
    else:
        channels = read(stable_channels)
        noisy = images.each(planes.product, images.filled(channels))
        fill = partial(images.each, partial(filled_from_pilot, planes), channels)
    steady_images, noisy, gain = images.steadied(noisy, source)
    similar = None
    if planned.has_similar:  # motion shows best in it
        similar = images.each(similar_of, source, shape=(1, *plan.shape[1:]))
        steady_images, similar, _ = images.steadied(similar, source)
    images = steady_images
    if gain is None:
        yield from denoised(
            noisy, noise, plan.recipe, images, plan.tuning, fill_from_pilot=fill, similar=similar
        )
        return
    noise = replace(noise, variance=images.each(_divided_twice, noise.variance, gain))
    fill_steady = None if fill is None else partial(_filled_steady, images, fill, gain)
    for step in denoised(
        noisy, noise, plan.recipe, images, plan.tuning, fill_from_pilot=fill_steady, similar=similar
    ):
        yield images.each(mul, step, gain)


def _noise(planned: Planned, planes: Planes, source: Any, images: Images) -> PlaneNoise:
    """The noise of the planes."""
    plan = planned.plan
    noise = plan.plane_noise(planes, planned.levels)
    if planned.level_planes is None:
        return noise
    count, size = planned.level_planes, plan.shape[1:]
    shape = (1 if count == 1 else len(planes.channels), *size) if count else (1, 1, 1)
    variance = images.each(partial(variance_of, planes), source, shape=shape)
    return replace(noise, variance=variance)


def _divided_twice(variance: Image, gain: Any) -> Image:
    return variance / gain**2


def _filled_steady(
    images: Images, fill: Callable[[Image], Image], gain: Image, pilot: Image
) -> Image:
    """The noisy image of the second step, from a pilot that was divided by the gain."""
    return images.each(truediv, fill(images.each(mul, pilot, gain)), gain)
