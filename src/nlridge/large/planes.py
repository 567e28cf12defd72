"""The way of a frame from pixels to denoised planes, for all that compute images in bands of rows."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..algorithm.framework import RunPass, denoised
from ..planning.channels import Planes, select_channels
from ..planning.levels import REACH, Bounds, bounded_levels
from ..planning.missing import union
from ..planning.pixels import renewed, stabilised
from ..planning.plan import Plan
from .frames import PlannedFrame, part_of
from .lazy import Image
from .scales import BandScales, Needed, Part, same_rows, slice_within


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
    plan = planned.plan
    _, height, width = plan.shape
    shape = (len(planes.channels), height, width)
    around = partial(_rows_around, height, REACH if planned.bounds else 0)
    inputs: list[Needed] = [(source, around) for source in sources]
    noise, renew = plan.plane_noise(planes, planned.levels), None
    if planned.bounds:
        of_noise = (shape[0] if len(planned.bounds) > 1 else 1, height, width)
        variance = bands.computed(
            of_noise, partial(_variance_part, plan, planned.bounds, planes), *inputs
        )
        noise = replace(noise, variance=variance)
    channels = bands.computed(shape, partial(_channels_part, plan, planned.bounds, planes), *inputs)
    noisy = channels
    if planned.may_have_gaps:
        noisy = bands.filled(channels)

        def renew(pilot: Any) -> Any:
            """Return the noisy image of the second step."""
            gaps_and_pilot = (channels, same_rows), (pilot, same_rows)
            return bands.computed(shape, partial(_renewed_part, planes), *gaps_and_pilot)

    if len(planes.channels) > 1:
        noisy = bands.computed(shape, partial(_planes_part, planes), (noisy, same_rows))
    *_, result = denoised(
        noisy, noise, plan.recipe, run_pass, plan.tuning, renewed=renew, scales=bands
    )
    return result


def _rows_around(height: int, reach: int, rows: range) -> range:
    return range(max(rows.start - reach, 0), min(rows.stop + reach, height))


def _variance_part(
    plan: Plan, bounds: Sequence[Bounds], planes: Planes, rows: range, *sources: Part
) -> Image:
    """Compute some rows of the variance of the noise in the planes."""
    available = sources[0].rows
    pixels, missing, levels = part_of(available, [source.pixels for source in sources])
    assert levels is not None
    bounded = bounded_levels(levels, missing, bounds, len(pixels)).all
    variance: Any = plan.plane_noise(planes, bounded).variance
    return np.asarray(variance)[:, slice_within(rows, available)]


def _channels_part(
    plan: Plan, bounds: Sequence[Bounds], planes: Planes, rows: range, *sources: Part
) -> Image:
    """Compute some rows of the stabilised channels; pixels to be filled in are NaN."""
    available = sources[0].rows
    pixels, missing, levels = part_of(available, [source.pixels for source in sources])
    unreliable = None
    if levels is not None:
        unreliable = bounded_levels(levels, missing, bounds, len(pixels)).unreliable
    inside = np.s_[:, slice_within(rows, available)]
    missing, filled = (
        None if mask is None else mask[inside]
        for mask in (missing, union(missing, unreliable, pixels.shape))
    )
    channels = stabilised(plan, planes.channels, pixels[inside], missing, filled)
    return select_channels(channels, planes.channels)


def _planes_part(planes: Planes, rows: range, channels: Part) -> Image:
    return planes.product(channels.pixels)


def _renewed_part(planes: Planes, rows: range, channels: Part, pilot: Part) -> Image:
    return renewed(planes, channels.pixels, np.isnan(channels.pixels), pilot.pixels)
