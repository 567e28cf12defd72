"""Estimate the noise of an image: white or correlated, growing with the signal or not."""

from functools import partial
from typing import NamedTuple

import numpy as np

from ..core.algorithm.tuning import Tuning
from ..errors import ArgumentError
from ..images.array import Arrays
from ..noise import Noise
from ..noise.camera import CorrelatedEstimate, correlated_noise_of
from ..noise.correlated import CorrelatedNoise, correlation_between, with_white
from ..noise.curve import CurveNoise
from ..noise.estimation import Channel, changing_channels, channels_of, in_units, noise_of
from ..noise.gaussian import GaussianNoise
from ..noise.trial import Denoise
from ..types import Array, Mask, Pixels, Positions
from .doubts import doubt_about_rest, doubt_about_texture, warn_about
from .levels import Levels
from .options import Options
from .outliers import outliers, variance_of_weak_outliers
from .pixels import NoisyPixels
from .plan import REMOVES_ALL, Facts, covariance_of, plan_for
from .way import Planned, denoised_image

_AS_IT_IS = Tuning(outliers=False)  # for trial runs
_MOSTLY_REMOVED = 0.5  # share of doubted noise; if more is removed, the rest is hardly visible
# All of what is probably noise is removed. What is less probable than this is texture, unless it is not visible.
_NOISE, _TEXTURE = 0.5, 0.2
_CERTAIN = 0.7  # if noise is less probable than this, a warning says so


class Estimate(NamedTuple):
    """The noise of an image."""

    noise: Noise
    doubt: str = ""
    """Why noise may be left, or texture removed, if the image is denoised; empty if neither is likely."""
    outliers: Positions | None = None
    """The outliers of the image in which it was estimated; None if they are not known for this noise."""


# If outliers are a larger share of the pixels, the noise is estimated again without them, at most _REPETITIONS times.
_SHARE_OF_OUTLIERS = 1e-4
_REPETITIONS = 2
# At least this share of the variance of correlated noise is white noise. Otherwise, where the measured spectrum has hardly
# any power, deviations from it, such as the tails of real noise, would remain as black and white specks.
_WHITE_SHARE = 0.02


def estimated_noise(
    pixels: Pixels, missing: Mask | None, kind: str = "auto", workers: int = 1
) -> Noise:
    """Estimate the noise of an image of (channels, height, width), and warn if some of it would be left."""
    noise, doubt, _ = estimate_of(pixels, missing, kind, workers)
    warn_about(doubt)
    return noise


def estimate_of(
    pixels: Pixels,
    missing: Mask | None,
    kind: str = "auto",
    workers: int = 1,
    strength: float = 1.0,
) -> Estimate:
    """Estimate the noise of an image of (channels, height, width) that is to be removed with some strength.

    Channels that are constant, or nearly so, have no noise, and are ignored.
    """
    changing = changing_channels(pixels, missing)
    if changing.all() or not changing.any():
        return _without_outliers(pixels, missing, kind, workers, strength)
    some = None if missing is None else missing[changing]
    noise, doubt, _ = _without_outliers(pixels[changing], some, kind, workers, strength)
    return Estimate(_of_all_channels(noise, changing), doubt)


def _without_outliers(
    pixels: Pixels, missing: Mask | None, kind: str, workers: int, strength: float
) -> Estimate:
    """`_estimate_of` for the pixels that are not outliers; those too weak to be found are part of white noise."""
    options = kind, workers, strength
    estimate, weak = _estimate_of(pixels, missing, *options), 0.0
    for _ in range(_REPETITIONS):
        levels = np.asarray(estimate.noise.level, np.float64).reshape(-1, 1, 1)
        found = outliers(pixels, missing, estimate.noise, levels, workers)
        if len(found) <= _SHARE_OF_OUTLIERS * pixels.size:
            estimate = estimate._replace(outliers=found)
            break
        without: Mask = np.zeros(pixels.shape, bool) if missing is None else missing.copy()
        without[tuple(found.T)] = True
        estimate = _estimate_of(pixels, without, *options)
        weak = variance_of_weak_outliers(pixels, found, levels)
    if weak == 0 or not isinstance(estimate.noise, GaussianNoise):
        return estimate
    return Estimate(
        GaussianNoise(np.sqrt(1 + weak) * np.asarray(estimate.noise.sigma)), estimate.doubt
    )


def _of_all_channels(noise: Noise, changing: Mask) -> Noise:
    """The noise of all channels, from that of the channels that are not constant."""
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
    base = noise.noise
    if isinstance(base, CurveNoise) and isinstance(base.level, tuple):
        levels = np.ones(len(changing))
        levels[changing] = base.level
        base = CurveNoise(base.values, base.sigmas, levels)
    return CorrelatedNoise(base, correlation, noise.share)


def _estimate_of(
    pixels: Pixels, missing: Mask | None, kind: str, workers: int, strength: float
) -> Estimate:
    """`estimate_of` for channels none of which is constant.

    What is more likely texture is left alone if there is white noise, and becomes part of the noise with a strength above
    1. Otherwise, only a part of it is removed, too little to be visible.
    """
    channels, doubted = channels_of(pixels, missing, workers), None
    if kind in ("auto", "correlated"):
        trial = partial(trial_run, workers)
        doubted, unit = correlated_in(channels, trial)
        if doubted is not None and (doubted.probability >= _NOISE or kind == "correlated"):
            certain = doubted.probability >= _CERTAIN or kind == "correlated"
            doubt = "" if certain else doubt_about_texture(1 - doubted.probability)
            return Estimate(in_units_of_image(doubted, doubted.base, unit), doubt)
        if kind == "correlated":
            raise ArgumentError(
                "image",
                None,
                "the kind 'auto', 'gaussian' or 'poisson'",
                found="has no correlated noise (the kind 'correlated'), or too few pixels to measure it",
            )
    white = noise_of(channels, kind, workers)
    if doubted is None or doubted.regular or not isinstance(white, GaussianNoise):
        return Estimate(white)
    possible = doubted.probability >= _TEXTURE
    base = doubted.base if possible else doubted.cautious
    noise = in_units_of_image(doubted, base, unit)
    doubt = doubt_about_rest(noise, 1 - doubted.probability) if possible else ""
    if np.max(white.level) > unit * doubted.invisible:
        return Estimate(white if strength <= 1 else _together(white, noise, strength), doubt)
    # If it is texture, removing this share of it is not visible.
    share = doubted.invisible_share(base, trial)
    left = share < _MOSTLY_REMOVED
    return Estimate(CorrelatedNoise(noise.noise, noise.correlation, share), doubt if left else "")


def correlated_in(
    channels: list[Channel], trial: Denoise
) -> tuple[CorrelatedEstimate | None, float]:
    """The correlated noise of an image, divided by a unit, and the unit."""
    scaled, unit = in_units(channels)
    found = correlated_noise_of(
        [channel.pixels for channel in scaled],
        [channel.excluded for channel in scaled],
        [channel.excluded & ~channel.not_dark for channel in scaled],
        trial,
    )
    return found, unit


def in_units_of_image(
    estimate: CorrelatedEstimate, base: CurveNoise, unit: float
) -> CorrelatedNoise:
    values, sigmas = (unit * np.array(x) for x in (base.values, base.sigmas))
    return CorrelatedNoise(
        CurveNoise(values, sigmas, base.level), with_white(estimate.correlation, _WHITE_SHARE)
    )


def _together(white: GaussianNoise, doubted: CorrelatedNoise, strength: float) -> CorrelatedNoise:
    """White noise, and so much of the doubted noise that all of it is removed with a strength of REMOVES_ALL.

    The levels will be multiplied by the strength.
    """
    share = min((strength - 1) / (REMOVES_ALL - 1) / strength, 1 / REMOVES_ALL)
    base = doubted.noise
    assert isinstance(base, CurveNoise)
    channels, _, height, width = doubted.correlation.shape
    own_levels = share * np.median(base.sigmas) * np.broadcast_to(base.level, channels)
    covariance = np.multiply.outer(own_levels, own_levels)[:, :, None, None] * doubted.correlation
    own = np.arange(channels), np.arange(channels), height // 2, width // 2
    covariance[own] += np.square(np.broadcast_to(white.level, channels))
    levels = np.sqrt(covariance[own])
    correlation = covariance / np.multiply.outer(levels, levels)[:, :, None, None]
    return CorrelatedNoise(levels, correlation)


def trial_run(workers: int, image: Array, base: CurveNoise, correlation: Array) -> Array:
    """Denoise a small image quickly."""
    channels, height, width = image.shape
    noise, typical = CorrelatedNoise(base, correlation), np.ones(channels)
    covariance = covariance_of(noise, typical, image.reshape(channels, -1))
    facts = Facts(noise, typical, [(float(image.min()), float(image.max()))], covariance)
    plan = plan_for((channels, height, width), facts, Options(method="fast", tuning=_AS_IT_IS))
    levels = np.ones((1, 1, 1))
    noisy = NoisyPixels(plan, image, None, Levels(levels, typical, None))
    planned = Planned(plan, levels, may_have_gaps=False)
    result = denoised_image(planned, noisy, Arrays(workers))
    return np.asarray(result, np.float64)
