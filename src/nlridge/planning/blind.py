"""Estimate the noise of an image: white or correlated, growing with the signal or not."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import denoised
from ..engines import cpu
from ..noise import Noise
from ..noise.camera import CorrelatedEstimate, correlated_noise_of
from ..noise.correlated import CorrelatedNoise, correlation_between
from ..noise.curve import CurveNoise
from ..noise.estimation import Channel, changing_channels, channels_of, in_units, noise_of
from ..noise.gaussian import GaussianNoise
from .options import Options
from .pixels import restored, stabilised
from .plan import Facts, covariance_of, plan_for

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def estimated_noise(
    pixels: npt.NDArray[Any], missing: Mask | None, kind: str = "auto", workers: int = 1
) -> Noise:
    """Estimate the noise of an image of (channels, height, width); see `estimate_noise`.

    Channels that are constant, or nearly so, have no noise and say nothing about that of the others.
    """
    changing = changing_channels(pixels, missing)
    if changing.any() and not changing.all():
        some = None if missing is None else missing[changing]
        return _of_all_channels(_estimated(pixels[changing], some, kind, workers), changing)
    return _estimated(pixels, missing, kind, workers)


def _of_all_channels(noise: Noise, changing: Mask) -> Noise:
    """The noise of all channels, from that of those that change."""
    if isinstance(noise, GaussianNoise):
        sigmas = np.zeros(len(changing))
        sigmas[changing] = noise.sigma
        return GaussianNoise(sigmas)
    if not isinstance(noise, CorrelatedNoise):
        return noise
    between = correlation_between(noise, int(np.count_nonzero(changing)))
    assert between is not None
    correlation = np.zeros((len(changing), len(changing), *between.shape[2:]))
    height, width = between.shape[2:]
    correlation[range(len(changing)), range(len(changing)), height // 2, width // 2] = 1
    correlation[np.ix_(changing, changing)] = between
    return CorrelatedNoise(noise.noise, correlation, noise.share)


def _estimated(pixels: npt.NDArray[Any], missing: Mask | None, kind: str, workers: int) -> Noise:
    channels, estimate = channels_of(pixels, missing, workers), None
    if kind in ("auto", "correlated"):
        estimate = _correlated(channels, workers)
        if estimate is not None and (estimate.sure or kind == "correlated"):
            return CorrelatedNoise(estimate.base, estimate.correlation)
        if kind == "correlated":
            raise ValueError(
                "image has no correlated noise (the kind 'correlated'), or too few pixels to measure it; "
                "expected the kind 'auto', 'gaussian' or 'poisson'"
            )
    white = noise_of(channels, kind, workers)
    if estimate is None or estimate.share == 0 or not isinstance(white, GaussianNoise):
        return white
    if np.max(white.level) > estimate.invisible:
        return white
    # It may as well be texture. If so, removing a share of it is not visible.
    return CorrelatedNoise(estimate.base, estimate.correlation, estimate.share)


def _correlated(channels: list[Channel], workers: int) -> CorrelatedEstimate | None:
    channels, unit = in_units(channels)
    estimate = correlated_noise_of(
        [channel.pixels for channel in channels],
        [channel.excluded for channel in channels],
        [channel.excluded & ~channel.not_dark for channel in channels],
        partial(_trial, workers),
    )
    if estimate is None or unit == 1:
        return estimate
    values, sigmas = (unit * np.array(x) for x in (estimate.base.values, estimate.base.sigmas))
    return estimate._replace(base=CurveNoise(values, sigmas), invisible=unit * estimate.invisible)


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
