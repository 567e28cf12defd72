"""The way of a frame from pixels to denoised planes, for all that compute images in bands of rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..algorithm.framework import RunPass, denoised
from ..algorithm.inputs import PlaneNoise
from ..planning.channels import Planes, select_channels
from ..planning.levels import REACH, Bounds, bounded_levels
from ..planning.missing import union
from ..planning.photons import denoised_in_runs
from ..planning.pixels import counts_of, renewed, stabilised, with_estimate
from ..planning.plan import Plan
from .bands import split_range
from .frames import PlannedFrame, SourcePart, part_of
from .lazy import Image
from .scales import BandScales, Needed, Part, same_rows, slice_within

_COLUMNS = 256  # that are processed at a time, to limit the size of temporary arrays of float64


def denoised_planes(
    planned: PlannedFrame,
    planes: Planes,
    sources: Sequence[Any],
    bands: BandScales,
    run_pass: RunPass,
) -> Any:
    """Denoise the planes of channels that are denoised jointly.

    `sources` are the image, its masks, and its map of noise levels, if it has any (see `Source.frames`).
    """
    plan, bounds = planned.plan, planned.bounds
    _, height, width = plan.shape
    count = len(planes.channels)
    reach = REACH if bounds else 0

    def computed(count: int, function: Callable[..., Any]) -> Any:
        part = partial(_from_sources, partial(function, plan, bounds, planes), count, reach)
        inputs: list[Needed] = [(source, partial(_around, height, reach)) for source in sources]
        return bands.computed((count, height, width), part, *inputs)

    noise, renew = plan.plane_noise(planes, planned.levels), None
    if bounds:
        variance = computed(count if len(bounds) > 1 else 1, _variance_part)
        noise = replace(noise, variance=variance)
    if plan.runs:
        return _denoised_in_runs(planned, planes, computed, noise, bands, run_pass)
    if planned.may_have_gaps:
        with_gaps = computed(count, _channels_part)
        noisy = bands.computed(
            with_gaps.shape, partial(_planes_part, planes), (bands.filled(with_gaps), same_rows)
        )

        def renew(pilot: Any) -> Any:
            """Return the noisy image of the second step."""
            inputs = (with_gaps, same_rows), (pilot, same_rows)
            return bands.computed(with_gaps.shape, partial(_renewed_part, planes), *inputs)

    else:
        noisy = computed(count, _noisy_part)
    *_, result = denoised(
        noisy, noise, plan.recipe, run_pass, plan.tuning, renewed=renew, scales=bands
    )
    return result


def _denoised_in_runs(
    planned: PlannedFrame,
    planes: Planes,
    computed: Callable[..., Any],
    noise: PlaneNoise,
    bands: BandScales,
    run_pass: RunPass,
) -> Any:
    """Denoise the planes of an image of few photons."""
    plan, renew = planned.plan, None
    counts = with_gaps = computed(len(planes.channels), _counts_part)
    if planned.may_have_gaps:
        counts = bands.filled(with_gaps)

        def renew(estimate: Any) -> Any:
            return bands.each(_with_estimate, with_gaps, estimate)

    *_, result = denoised_in_runs(
        counts,
        planes,
        noise,
        plan.runs,
        run_pass,
        plan.tuning,
        each=bands.each,
        scales=bands,
        renewed=renew,
    )
    return result


def _with_estimate(with_gaps: Image, estimate: Image) -> Image:
    return with_estimate(with_gaps, np.isnan(with_gaps), estimate)


def _around(length: int, reach: int, rows: range) -> range:
    return range(max(rows.start - reach, 0), min(rows.stop + reach, length))


def _variance_part(plan: Plan, bounds: Sequence[Bounds], planes: Planes, part: SourcePart) -> Any:
    """Compute the variance of the noise in the planes for some pixels and those around them."""
    assert part.levels is not None
    levels = bounded_levels(part.levels, part.missing, bounds, len(part.pixels)).all
    return plan.plane_noise(planes, levels).variance


def _channels_part(plan: Plan, bounds: Sequence[Bounds], planes: Planes, part: SourcePart) -> Any:
    """Compute the stabilised channels for some pixels; those to be filled in are NaN."""
    pixels, missing, levels = part
    unreliable = None
    if levels is not None:
        unreliable = bounded_levels(levels, missing, bounds, len(pixels)).unreliable
    filled = union(missing, unreliable, pixels.shape)
    channels = stabilised(plan, planes.channels, pixels, missing, filled)
    return select_channels(channels, planes.channels)


def _counts_part(plan: Plan, bounds: Sequence[Bounds], planes: Planes, part: SourcePart) -> Any:
    """Compute the channels of the planes in photons for some pixels; those to be filled in are NaN."""
    pixels, missing, _ = part
    return counts_of(plan, planes.channels, pixels, missing)


def _noisy_part(plan: Plan, bounds: Sequence[Bounds], planes: Planes, part: SourcePart) -> Any:
    """Compute the noisy planes for some pixels."""
    return planes.product(_channels_part(plan, bounds, planes, part))


def _from_sources(
    function: Callable[[SourcePart], Image], planes: int, reach: int, rows: range, *sources: Part
) -> Image:
    """Compute some rows of an image of so many planes, some columns at a time, from pixels and those around them."""
    available, width = sources[0].rows, sources[0].pixels.shape[2]
    result = np.empty((planes, len(rows), width), np.float32)
    for columns in split_range(range(width), _COLUMNS):
        needed = _around(width, reach, columns)
        arrays = [source.pixels[:, :, needed.start : needed.stop] for source in sources]
        part = function(part_of(available, arrays))
        result[:, :, columns.start : columns.stop] = part[
            :, slice_within(rows, available), slice_within(columns, needed)
        ]
    return result


def _planes_part(planes: Planes, rows: range, channels: Part) -> Image:
    """Compute some rows of planes from channels without gaps."""
    return planes.product(channels.pixels)


def _renewed_part(planes: Planes, rows: range, channels: Part, pilot: Part) -> Image:
    """Compute some rows of planes in which gaps take their values from the pilot."""
    return renewed(planes, channels.pixels, np.isnan(channels.pixels), pilot.pixels)
