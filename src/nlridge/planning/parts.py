"""Images that are computed in parts: their source of pixels, with masks and a map of noise levels, and regions of them."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..core.engines.grid import Window
from ..core.engines.reuse import Kept
from ..images.lazy import ReadableImage
from ..images.parts import SourceInParts
from ..images.region import Demands
from ..progress import Progress, progress_reporter
from ..types import Array, Mask, Pixels
from .explained import or_unchanged
from .levels import REACH, Bounds, Levels, bounded_levels
from .missing import missing_pixels, union
from .outliers import reach_of
from .pixels import NoisyPixels
from .plan import Plan
from .way import Planned, denoised_image


class SourcePart(NamedTuple):
    """Some rows of an image."""

    pixels: Pixels
    missing: Mask | None
    levels: Array | None


def part_of(rows: range, arrays: Sequence[Pixels]) -> SourcePart:
    """Some rows of an image, from those of the image, of masks, and of a map of levels, in this order.

    Raises an error if pixels are infinite or too large.
    """
    pixels, *others = arrays
    masked = levels = None
    for other in others:
        if other.dtype == bool:
            masked = union(masked, other, pixels.shape)
        else:
            levels = other.astype(np.float64, copy=False)
    missing = missing_pixels(pixels, masked, f" in rows {rows.start} to {rows.stop - 1}")
    return SourcePart(pixels, missing, levels)


def planned_parts(
    plan: Plan, levels: Array, bounds: tuple[Bounds, ...], *, may_have_gaps: bool
) -> Planned:
    """The plan for an image, with the levels of its noise: the typical ones if there is a map, which has bounds."""
    return Planned(plan, levels, len(bounds) if bounds else None, may_have_gaps, bounds)


def source_of(planned: Planned, images: Sequence[Any]) -> SourceInParts:
    """The source of pixels; `images` are the image, its masks, and its map of levels, if it has any."""
    reach = max(reach_of(planned.plan), REACH if planned.bounds else 0)
    noisy = partial(_noisy_part, planned.plan, planned.levels, planned.bounds)
    return SourceInParts(images, noisy, reach, planned.plan.shape)


def can_be_judged(planned: Planned) -> bool:
    """Whether a part alone shows if more was removed than the noise explains."""
    return not reach_of(planned.plan) and not planned.bounds


def _noisy_part(
    plan: Plan, typical: Array, bounds: Sequence[Bounds], rows: range, arrays: Sequence[Pixels]
) -> NoisyPixels:
    """Some pixels, as they are read."""
    pixels, missing, levels = part_of(rows, arrays)
    if levels is None:
        known = Levels(typical, np.broadcast_to(typical[:, 0, 0], len(pixels)), None)
        return NoisyPixels(plan, pixels, missing, known)
    bounded = partial(bounded_levels, levels, missing, bounds, len(pixels))
    return NoisyPixels(plan, pixels, missing, bounded)


def denoised_region(
    planned: Planned,
    images: Sequence[ReadableImage],
    window: Window,
    workers: int,
    progress: Progress,
    kept: Kept | None = None,
) -> Pixels:
    """Return a part of the denoised image, as (channels, rows, columns).

    `images` are the image, its masks and its map of levels, if it has any. An exception that `progress` raises ends the
    work at once. Work that was `kept` from an earlier call is reused.
    """
    demands = Demands(kept)
    source = source_of(planned, [demands.source(image) for image in images])
    result = denoised_image(planned, source, demands)
    if can_be_judged(planned):
        result = demands.each(or_unchanged, source, result)
    demands.demand(result, window)
    with progress_reporter(progress, demands.blocks(), "block") as tick:
        return demands.compute(result, workers, tick)
