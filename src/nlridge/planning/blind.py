"""Estimate the noise of an image: white or correlated, growing with the signal or not."""

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import denoised
from ..engines import cpu
from ..noise import Noise
from ..noise.camera import CorrelatedEstimate, correlated_noise_of
from ..noise.correlated import CorrelatedNoise, with_white
from ..noise.curve import CurveNoise
from ..noise.estimation import Channel, channels_of, in_units, noise_of
from ..noise.gaussian import GaussianNoise
from .options import Options
from .outliers import outliers
from .pixels import restored, stabilised
from .plan import Facts, covariance_of, plan_for

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


# If outliers are a larger share of the pixels, the noise is estimated again without them, at most so many times.
_SHARE_OF_OUTLIERS = 1e-4
_AGAIN = 2
# Correlated noise has at least this share of its variance in white noise. Otherwise, whatever deviates from a measured
# spectrum of hardly any power, such as the tails of real noise, is left as black and white specks.
_WHITE = 0.02


def estimated_noise(
    pixels: npt.NDArray[Any], missing: Mask | None, kind: str = "auto", workers: int = 1
) -> Noise:
    """Estimate the noise of an image of (channels, height, width); see `estimate_noise`."""
    noise = _with_outliers(pixels, missing, kind, workers)
    for _ in range(_AGAIN):
        levels = np.asarray(noise.level, np.float64).reshape(-1, 1, 1)
        found = outliers(pixels, missing, noise, levels)
        if len(found) <= _SHARE_OF_OUTLIERS * pixels.size:
            break
        without: Mask = np.zeros(pixels.shape, bool) if missing is None else missing.copy()
        without[tuple(found.T)] = True
        noise = _with_outliers(pixels, without, kind, workers)
    return noise


def _with_outliers(
    pixels: npt.NDArray[Any], missing: Mask | None, kind: str, workers: int
) -> Noise:
    """Estimate the noise of an image as it is."""
    channels, estimate = channels_of(pixels, missing, workers), None
    if kind in ("auto", "correlated"):
        estimate = _correlated(channels, workers)
        if estimate is not None and (estimate.sure or kind == "correlated"):
            return CorrelatedNoise(estimate.base, with_white(estimate.correlation, _WHITE))
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
    correlation = with_white(estimate.correlation, _WHITE)
    return CorrelatedNoise(estimate.base, correlation, estimate.share)


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
