"""The way of a frame from pixels to denoised planes and back, for all that compute images in parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import RunPass, denoised
from ..algorithm.inputs import PlaneNoise
from ..engines.grid import Window
from ..planning.channels import Planes, select_channels
from ..planning.explained import or_unchanged
from ..planning.levels import REACH, Bounds, bounded_levels
from ..planning.missing import union
from ..planning.outliers import reach_of, repaired
from ..planning.photons import denoised_in_runs
from ..planning.pixels import counts_of, renewed, restored, stabilised, with_estimate
from ..planning.plan import Plan
from .frames import PlannedFrame, SourcePart, part_of
from .lazy import Image
from .scales import Around, ImagesInParts, Part, extended, same

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def denoised_image(
    planned: PlannedFrame, sources: Sequence[Any], parts: ImagesInParts, run_pass: RunPass
) -> Any:
    """Denoise a frame; returns an image of (channels, height, width).

    `sources` are the image, its masks, and its map of noise levels, if it has any (see `Source.frames`).
    """
    plan = planned.plan
    images = [denoised_planes(planned, planes, sources, parts, run_pass) for planes in plan.planes]
    # Pixels without outliers are needed only if a share of them is left.
    reach = reach_of(plan) if plan.share < 1 else 0
    around: Around = partial(extended, by=reach) if reach else same
    inputs = [*((source, around) for source in sources), *((image, same) for image in images)]
    restore = partial(_restored_part, plan, planned.bounds, planned.levels, len(sources))
    return parts.computed(plan.shape, restore, *inputs)


def denoised_planes(
    planned: PlannedFrame,
    planes: Planes,
    sources: Sequence[Any],
    parts: ImagesInParts,
    run_pass: RunPass,
) -> Any:
    """Denoise the planes of channels that are denoised jointly; `sources` are as for `denoised_image`."""
    plan, bounds = planned.plan, planned.bounds
    _, height, width = plan.shape
    count = len(planes.channels)
    reach = max(reach_of(plan), REACH if bounds else 0)
    around = partial(extended, by=reach) if reach else same

    def computed(count: int, function: Callable[..., Any]) -> Any:
        part = partial(_from_sources, partial(function, plan, bounds, planned.levels, planes))
        inputs = [(source, around) for source in sources]
        return parts.computed((count, height, width), part, *inputs)

    noise, renew = plan.plane_noise(planes, planned.levels), None
    if bounds:
        variance = computed(count if len(bounds) > 1 else 1, _variance_part)
        noise = replace(noise, variance=variance)
    if plan.runs:
        return _denoised_in_runs(planned, planes, computed, noise, parts, run_pass)
    if planned.may_have_gaps:
        with_gaps = computed(count, _channels_part)
        noisy = parts.computed(
            with_gaps.shape, partial(_planes_part, planes), (parts.filled(with_gaps), same)
        )

        def renew(pilot: Any) -> Any:
            """Return the noisy image of the second step."""
            inputs = (with_gaps, same), (pilot, same)
            return parts.computed(with_gaps.shape, partial(_renewed_part, planes), *inputs)

    else:
        noisy = computed(count, _noisy_part)
    *_, result = denoised(
        noisy, noise, plan.recipe, run_pass, plan.tuning, renewed=renew, scales=parts
    )
    return result


def _denoised_in_runs(
    planned: PlannedFrame,
    planes: Planes,
    computed: Callable[..., Any],
    noise: PlaneNoise,
    parts: ImagesInParts,
    run_pass: RunPass,
) -> Any:
    """Denoise the planes of an image of few photons."""
    plan, renew = planned.plan, None
    counts = with_gaps = computed(len(planes.channels), _counts_part)
    if planned.may_have_gaps:
        counts = parts.filled(with_gaps)

        def renew(estimate: Any) -> Any:
            return parts.each(_with_estimate, with_gaps, estimate)

    *_, result = denoised_in_runs(
        counts,
        planes,
        noise,
        plan.runs,
        run_pass,
        plan.tuning,
        each=parts.each,
        scales=parts,
        renewed=renew,
    )
    return result


def _with_estimate(with_gaps: Image, estimate: Image) -> Image:
    return with_estimate(with_gaps, np.isnan(with_gaps), estimate)


def _variance_part(
    plan: Plan, bounds: Sequence[Bounds], typical: Array, planes: Planes, part: SourcePart
) -> Any:
    """Compute the variance of the noise in the planes for some pixels and those around them."""
    assert part.levels is not None
    levels = bounded_levels(part.levels, part.missing, bounds, len(part.pixels)).all
    return plan.plane_noise(planes, levels).variance


def _without_outliers(
    plan: Plan, bounds: Sequence[Bounds], typical: Array, part: SourcePart
) -> tuple[Any, Mask | None]:
    """Some pixels without outliers, and which of them are unreliable."""
    pixels, missing, levels = part
    unreliable = None
    if levels is not None:
        bounded = bounded_levels(levels, missing, bounds, len(pixels))
        typical, unreliable = bounded.all, bounded.unreliable
    return repaired(plan, pixels, missing, typical).pixels, unreliable


def _channels_part(
    plan: Plan, bounds: Sequence[Bounds], typical: Array, planes: Planes, part: SourcePart
) -> Any:
    """Compute the stabilised channels for some pixels; those to be filled in are NaN."""
    missing = part.missing
    pixels, unreliable = _without_outliers(plan, bounds, typical, part)
    filled = union(missing, unreliable, pixels.shape)
    channels = stabilised(plan, planes.channels, pixels, missing, filled)
    return select_channels(channels, planes.channels)


def _counts_part(
    plan: Plan, bounds: Sequence[Bounds], typical: Array, planes: Planes, part: SourcePart
) -> Any:
    """Compute the channels of the planes in photons for some pixels; those to be filled in are NaN."""
    pixels, _ = _without_outliers(plan, bounds, typical, part)
    return counts_of(plan, planes.channels, pixels, part.missing)


def _noisy_part(
    plan: Plan, bounds: Sequence[Bounds], typical: Array, planes: Planes, part: SourcePart
) -> Any:
    """Compute the noisy planes for some pixels."""
    return planes.product(_channels_part(plan, bounds, typical, planes, part))


def _from_sources(function: Callable[[SourcePart], Image], window: Window, *sources: Part) -> Image:
    """Compute a part of an image from pixels and those around them."""
    held = sources[0].window
    part = function(part_of(held.rows, [source.pixels for source in sources]))
    return Part(held, part).cut(window).pixels


def _planes_part(planes: Planes, window: Window, channels: Part) -> Image:
    """Compute a part of planes from channels without gaps."""
    return planes.product(channels.pixels)


def _renewed_part(planes: Planes, window: Window, channels: Part, pilot: Part) -> Image:
    """Compute a part of planes in which gaps take their values from the pilot."""
    return renewed(planes, channels.pixels, np.isnan(channels.pixels), pilot.pixels)


def _restored_part(
    plan: Plan,
    bounds: Sequence[Bounds],
    typical: Array,
    count: int,
    window: Window,
    *parts: Part,
) -> Any:
    """Compute a part of the result; the first `count` parts are those of the sources."""
    held = parts[0].window
    part = part_of(held.rows, [source.pixels for source in parts[:count]])
    pixels, missing = part.pixels, part.missing
    if plan.share < 1:
        pixels = Part(held, _without_outliers(plan, bounds, typical, part)[0]).cut(window).pixels
        missing = None if missing is None else Part(held, missing).cut(window).pixels
    result = restored(plan, pixels, [image.pixels for image in parts[count:]], missing)
    if reach_of(plan) or bounds:  # which pixels were replaced is not known here
        return result
    return or_unchanged(plan, pixels, result, missing)
