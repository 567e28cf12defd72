"""Estimate the noise of an image: white or correlated, growing with the signal or not."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import denoised
from ..engines import cpu
from ..noise import Noise
from ..noise.camera import CorrelatedEstimate, Denoise, correlated_noise_of
from ..noise.correlated import CorrelatedNoise, correlation_between, with_white
from ..noise.curve import CurveNoise
from ..noise.estimation import Channel, changing_channels, channels_of, in_units, noise_of
from ..noise.gaussian import GaussianNoise
from .doubts import doubt_about_rest
from .options import Options
from .outliers import outliers
from .pixels import restored, stabilised
from .plan import REMOVES_ALL, Facts, covariance_of, plan_for

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_MOST = 0.5  # share of doubted noise from which on what is left of it is hardly visible


class Estimate(NamedTuple):
    """The noise of an image."""

    noise: Noise
    doubt: str = ""
    """Why noise is probably left if the image is denoised; empty if it is not."""


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
    return estimate_of(pixels, missing, kind, workers).noise


def estimate_of(
    pixels: npt.NDArray[Any],
    missing: Mask | None,
    kind: str = "auto",
    workers: int = 1,
    strength: float = 1.0,
) -> Estimate:
    """Estimate the noise of an image of (channels, height, width) that is to be removed with some strength.

    Channels that are constant, or nearly so, have no noise and say nothing about that of the others.
    """
    changing = changing_channels(pixels, missing)
    if changing.all() or not changing.any():
        return _without_outliers(pixels, missing, kind, workers, strength)
    some = None if missing is None else missing[changing]
    noise, doubt = _without_outliers(pixels[changing], some, kind, workers, strength)
    return Estimate(_of_all_channels(noise, changing), doubt)


def _without_outliers(pixels: npt.NDArray[Any], missing: Mask | None, *options: Any) -> Estimate:
    """`_estimate_of` for the pixels that are no outliers."""
    estimate = _estimate_of(pixels, missing, *options)
    for _ in range(_AGAIN):
        levels = np.asarray(estimate.noise.level, np.float64).reshape(-1, 1, 1)
        found = outliers(pixels, missing, estimate.noise, levels)
        if len(found) <= _SHARE_OF_OUTLIERS * pixels.size:
            break
        without: Mask = np.zeros(pixels.shape, bool) if missing is None else missing.copy()
        without[tuple(found.T)] = True
        estimate = _estimate_of(pixels, without, *options)
    return estimate


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


def _estimate_of(
    pixels: npt.NDArray[Any], missing: Mask | None, kind: str, workers: int, strength: float
) -> Estimate:
    """`estimate_of` for channels that all change.

    What may be noise or texture is removed in part, so little that it is not visible, unless there clearly is white noise
    as well. In this case it is left, and becomes part of the noise with a strength above 1.
    """
    channels, doubted = channels_of(pixels, missing, workers), None
    if kind in ("auto", "correlated"):
        scaled, unit = in_units(channels)
        trial = partial(_trial, workers)
        doubted = _correlated(scaled, trial)
        if doubted is not None and (doubted.sure or kind == "correlated"):
            return Estimate(_in_units_of_image(doubted, doubted.base, unit))
        if kind == "correlated":
            raise ValueError(
                "image has no correlated noise (the kind 'correlated'), or too few pixels to measure it; "
                "expected the kind 'auto', 'gaussian' or 'poisson'"
            )
    white = noise_of(channels, kind, workers)
    if doubted is None or doubted.regular or not isinstance(white, GaussianNoise):
        return Estimate(white)
    base = doubted.base if doubted.likely else doubted.cautious
    noise = _in_units_of_image(doubted, base, unit)
    if not doubted.likely and np.max(white.level) > unit * doubted.invisible:
        return Estimate(white if strength <= 1 else _together(white, noise, strength))
    # It may as well be texture. If so, removing a share of it is not visible.
    share = doubted.invisible_share(base, trial)
    doubt = doubt_about_rest(noise) if doubted.likely and share < _MOST else ""
    return Estimate(CorrelatedNoise(noise.noise, noise.correlation, share), doubt)


def _correlated(channels: list[Channel], trial: Denoise) -> CorrelatedEstimate | None:
    return correlated_noise_of(
        [channel.pixels for channel in channels],
        [channel.excluded for channel in channels],
        [channel.excluded & ~channel.not_dark for channel in channels],
        trial,
    )


def _in_units_of_image(
    estimate: CorrelatedEstimate, base: CurveNoise, unit: float
) -> CorrelatedNoise:
    values, sigmas = (unit * np.array(x) for x in (base.values, base.sigmas))
    return CorrelatedNoise(CurveNoise(values, sigmas), with_white(estimate.correlation, _WHITE))


def _together(white: GaussianNoise, doubted: CorrelatedNoise, strength: float) -> CorrelatedNoise:
    """White noise, and as much of doubted noise that all of it is removed with a strength of REMOVES_ALL.

    The levels will be multiplied by the strength.
    """
    share = min((strength - 1) / (REMOVES_ALL - 1), 1.0) / strength
    base = doubted.noise
    assert isinstance(base, CurveNoise)
    sigmas = np.array(base.sigmas)
    channels, _, height, width = doubted.correlation.shape
    covariance = share**2 * doubted.correlation
    own = np.arange(channels), np.arange(channels), height // 2, width // 2
    covariance[own] += np.square(np.broadcast_to(white.level, channels) / np.median(sigmas))
    levels = np.sqrt(covariance[own])
    typical = float(np.sqrt(np.mean(levels**2)))
    correlation = covariance / np.multiply.outer(levels, levels)[:, :, None, None]
    return CorrelatedNoise(CurveNoise(base.values, typical * sigmas), correlation)


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
