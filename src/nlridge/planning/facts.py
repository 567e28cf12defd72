"""Measure the facts about an image in memory that its plan depends on."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..noise.gaussian import GaussianNoise
from ..noise.poisson import PoissonGaussianNoise
from .blind import estimate_of
from .levels import Levels, usable_levels
from .missing import union
from .options import Options
from .photons import typical_photons
from .plan import SAMPLE, Facts, covariance_of, filled_sample
from .ranges import known_ends, typical_ends

Pixels = npt.NDArray[Any]
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def facts_of(
    pixels: Pixels, missing: Mask | None, levels: Array | None, options: Options, workers: int
) -> tuple[Facts, Levels]:
    """Measure an image of (channels, height, width); returns the levels of its noise as well.

    `levels` are the noise levels, if given, as an array that broadcasts against the image.
    """
    empty: Mask = np.zeros(len(pixels), bool)
    if missing is not None:
        empty = np.asarray(missing.all(axis=(1, 2)))
    noise, doubt = options.noise, ""
    if noise is None or levels is None:
        noise = GaussianNoise(0)
        if not empty.all():
            strength = options.tuning.strength
            noise, doubt = estimate_of(pixels, missing, options.kind, workers, strength)
        levels = np.asarray(noise.level, np.float64).reshape(-1, 1, 1)
    usable = usable_levels(levels, missing, pixels)
    unknown = union(missing, usable.unknown, pixels.shape)
    ends = known_ends(pixels.dtype, noise.black_level, options.data_range)
    if ends is None:
        masks = [None] * len(pixels) if unknown is None else unknown
        ends = [typical_ends(*channel) for channel in zip(pixels, masks, strict=True)]
    # The plan for a single channel depends on it only if photons are counted.
    needed = len(pixels) > 1 or isinstance(noise, PoissonGaussianNoise)
    sample = _sample(pixels, unknown) if needed else pixels[:, :1, 0]
    facts = Facts(
        noise,
        usable.typical,
        ends,
        covariance_of(noise, usable.typical, sample),
        empty,
        typical_photons(noise, sample),
        pixels.dtype,
        1.0 if unknown is None else 1 - float(unknown.mean()),
        doubt,
    )
    return facts, usable


def _sample(pixels: Pixels, missing: Mask | None) -> Pixels:
    """Return a regular sample of the pixels as (channels, count)."""
    step = -(-pixels[0].size // SAMPLE)
    sample = np.stack([channel.reshape(-1)[::step] for channel in pixels])
    if missing is None:
        return sample
    return filled_sample(sample, np.stack([mask.reshape(-1)[::step] for mask in missing]))
