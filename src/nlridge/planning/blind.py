"""Estimate the noise of an image: white or correlated, growing with the signal or not."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import denoised
from ..engines import cpu
from ..noise import Noise
from ..noise.camera import CorrelatedEstimate, Denoise, correlated_noise_of
from ..noise.correlated import CorrelatedNoise
from ..noise.curve import CurveNoise
from ..noise.estimation import Channel, channels_of, in_units, noise_of
from ..noise.gaussian import GaussianNoise
from .options import Options
from .pixels import restored, stabilised
from .plan import Facts, covariance_of, plan_for

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def estimated_noise(
    pixels: npt.NDArray[Any], missing: Mask | None, kind: str = "auto", workers: int = 1
) -> Noise:
    """Estimate the noise of an image of (channels, height, width); see `estimate_noise`."""
    channels, doubted = channels_of(pixels, missing, workers), None
    if kind in ("auto", "correlated"):
        scaled, unit = in_units(channels)
        trial = partial(_trial, workers)
        doubted = _correlated(scaled, trial)
        if doubted is not None and (doubted.sure or kind == "correlated"):
            return _in_full(doubted, unit)
        if kind == "correlated":
            raise ValueError(
                "image has no correlated noise (the kind 'correlated'), or too few pixels to measure it; "
                "expected the kind 'auto', 'gaussian' or 'poisson'"
            )
    white = noise_of(channels, kind, workers)
    if doubted is None or doubted.regular or not isinstance(white, GaussianNoise):
        return white
    if np.max(white.level) > unit * doubted.invisible:
        return white
    # It may as well be texture. If so, removing a share of it is not visible.
    noise = _in_full(doubted, unit)
    return CorrelatedNoise(noise.noise, noise.correlation, doubted.invisible_share(trial))


def _correlated(channels: list[Channel], trial: Denoise) -> CorrelatedEstimate | None:
    return correlated_noise_of(
        [channel.pixels for channel in channels],
        [channel.excluded for channel in channels],
        [channel.excluded & ~channel.not_dark for channel in channels],
        trial,
    )


def _in_full(estimate: CorrelatedEstimate, unit: float) -> CorrelatedNoise:
    """All of the noise, in the units of the image."""
    values, sigmas = (unit * np.array(x) for x in (estimate.base.values, estimate.base.sigmas))
    return CorrelatedNoise(CurveNoise(values, sigmas), estimate.correlation)


def _trial(workers: int, image: Array, base: CurveNoise, correlation: Array) -> Array:
    """Denoise a small image quickly."""
    channels, height, width = image.shape
    noise, levels = CorrelatedNoise(base, correlation), np.ones(channels)
    covariance = covariance_of(noise, levels, image.reshape(channels, -1))
    facts = Facts(noise, levels, [(float(image.min()), float(image.max()))], covariance)
    plan = plan_for((channels, height, width), facts, Options(method="fast"))
    noisy = stabilised(plan, range(channels), image)
    run_pass = partial(cpu.run_pass, workers=workers, tick=lambda: None)
    results = []
    for planes in plan.planes:
        plane_noise = plan.plane_noise(planes, np.ones((1, 1, 1)))
        *_, result = denoised(planes.of(noisy), plane_noise, plan.recipe, run_pass)
        results.append(result)
    return restored(plan, image, results).astype(np.float64)
