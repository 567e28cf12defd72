"""Estimated PSNR of a denoised image: Stein's unbiased risk estimate (SURE) for the whole algorithm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..checks import checked_positive, checked_whole
from ..errors import ArgumentError
from ..noise.correlated import correlation_between
from ..noise.drawing import draw
from ..planning.doubts import ROUNDING
from ..planning.levels import usable_levels
from ..planning.options import Options
from ..planning.pixels import NoisyPixels
from ..progress import Progress
from ..types import Array, Pixels
from .details import Denoised
from .in_memory import denoise_frame, frame_for

# Size of the perturbation, in units of the noise. A smaller one is dominated by changes of the matching.
_STEP = 0.05
# Relative error of a variance that was estimated from the image (see `estimate_sigma`).
_VARIANCE_ERROR = 0.03
_LARGEST_ERROR = 5.0  # dB; an estimate with a larger standard error is useless


@dataclass(frozen=True, eq=False)
class Quality:
    """Estimated quality of a denoised image."""

    noisy_psnr: float
    """PSNR of the noisy image in dB, computed from its noise; infinite without noise."""
    psnr: float
    """Estimated PSNR of the denoised image in dB."""
    standard_error: float
    """Standard error of `psnr`, in dB."""
    doubt: str
    """Why the estimate is unreliable, in a few words; empty if it is reliable."""
    denoised: Denoised
    """The denoised image and its details, as returned by `denoise_with_details`."""

    @property
    def gain(self) -> float:
        """Improvement in PSNR, in dB."""
        return 0.0 if math.isinf(self.noisy_psnr) else self.psnr - self.noisy_psnr

    def describe_gain(self) -> str:
        """Describe the gain, or say why it is unknown."""
        if self.doubt:
            return f"{'unknown' if self.denoised.residual.any() else 'none'}: {self.doubt}"
        condition = "" if self.denoised.noise_given else ", if the noise estimate is right"
        return f"{self.gain:+.1f} ± {self.standard_error:.1f} dB{condition}"


def checked_peak_and_probes(peak: Any, probes: Any) -> tuple[float | None, int]:
    probes = checked_whole("probes", probes, 1, 1000)
    return None if peak is None else checked_positive("peak", peak), probes


class Risk(NamedTuple):
    """The sums over the valid pixels of an image from which its quality is estimated."""

    pixels: int
    power: float
    """The variance of the noise."""
    risk: float
    """The estimated squared error of the result."""
    errors: tuple[float, float]
    """Standard errors of the risk: due to the noise of this one image, and due to the probes."""
    largest: float
    """The largest absolute value of the result."""
    removed: bool
    """Whether anything was removed."""


def risk_of(
    frame: NoisyPixels,
    levels: Array | None,
    denoised: Pixels,
    options: Options,
    workers: int,
    progress: Sequence[Progress],
) -> Risk:
    """Estimate the risk of a denoised image.

    `levels` broadcast against the image; None if the noise was estimated. `options` have the noise and the recipe of the
    image. Each of `progress` is for one probe.
    """
    noise, pixels, missing = options.noise, frame.pixels, frame.missing
    assert noise is not None
    if levels is None:
        levels = np.reshape(np.asarray(noise.level, np.float64), (-1, 1, 1))
    result = denoised.astype(np.float64)
    valid = np.ones(result.shape, bool) if missing is None else ~missing
    unknown = usable_levels(levels, missing, pixels).unknown
    if unknown is not None:
        valid &= ~unknown
    result = np.where(valid, result, 0.0)
    with np.errstate(over="ignore"):
        variance = np.where(valid, noise.variance(result, levels), 0.0)
    count = int(np.count_nonzero(valid))
    # With a noise model that does not fit the image the result may be huge: keep its square finite.
    residual = np.clip(result - np.where(valid, pixels, 0.0), -1e140, 1e140)
    largest = float(np.abs(result[valid]).max(initial=0.0))
    if not variance.any():
        squares = float(np.sum(residual**2))
        return Risk(count, 0.0, squares, (0.0, 0.0), largest, bool(residual.any()))
    # The variance is squared below.
    if not 1e-140 < variance.max() < 1e140:
        raise ArgumentError(
            "noise",
            variance.max(),
            "1e-140 to 1e140",
            f"has a variance of up to {variance.max():.4g}",
        )
    spread = np.sqrt(variance)
    correlation = correlation_between(noise, len(result))
    divergence = np.zeros(result.shape)
    for probe, report in enumerate(progress):
        step = _STEP * spread * _probe(correlation, result.shape, probe)
        probed = frame_for(pixels + step, missing, levels, options, workers)
        perturbed = denoise_frame(probed, workers, report)
        change = np.clip(np.where(valid, perturbed, 0.0) - result, -1e140, 1e140)
        divergence += np.where(valid, step * change, 0.0) / (_STEP**2 * len(progress))
    power = float(np.sum(variance))
    errors = (
        _error_of_power(variance, correlation),
        2 * _error_of_sum(divergence, getattr(noise, "lengths", (1, 1))),
    )
    risk = float(np.sum(residual**2 - variance + 2 * divergence))
    return Risk(count, power, risk, errors, largest, bool(residual.any()))


def quality_from(
    risks: Sequence[Risk], details: Denoised, dtype: np.dtype[Any], peak: float | None
) -> Quality:
    """Return the quality of one or several images of some type, from their risks; by default, `dtype` decides the peak."""
    if not any(risk.power for risk in risks):
        return Quality(math.inf, math.inf, 0.0, "there was no noise to remove", details)
    count = sum(risk.pixels for risk in risks)
    noise_power = sum(risk.power for risk in risks) / count
    # The noise of each image was estimated on its own.
    estimates = [] if details.noise_given else [_VARIANCE_ERROR * (r.power / count) for r in risks]
    error = math.hypot(*(error / count for risk in risks for error in risk.errors), *estimates)
    risk = max(sum(risk.risk for risk in risks) / count, error / 2)
    top = peak or _peak(dtype, max(risk.largest for risk in risks))
    quality = Quality(
        noisy_psnr=20 * math.log10(top) - 10 * math.log10(noise_power),
        psnr=20 * math.log10(top) - 10 * math.log10(risk),
        standard_error=10 / math.log(10) * error / risk,
        doubt="",
        denoised=details,
    )
    removed = any(risk.removed for risk in risks)
    is_whole = dtype.kind in "ui"
    return replace(quality, doubt=_doubt(quality, removed, math.sqrt(noise_power), is_whole))


def _doubt(quality: Quality, removed: bool, level: float, whole: bool) -> str:
    """Why the estimate is unreliable; empty if it is reliable. `whole` is whether the image consists of whole numbers."""
    if not removed:
        return "nothing was removed"
    if quality.standard_error > _LARGEST_ERROR:
        return "too little noise is left to estimate it"
    if quality.denoised.noise_given:
        return ""
    if whole and level < ROUNDING:
        return "the estimated noise is below the rounding error of the pixels"
    if quality.gain < -2 * quality.standard_error:
        return "more was removed than the estimated noise explains"
    return ""


def _probe(correlation: Array | None, shape: tuple[int, int, int], seed: int) -> Array:
    """A random image with the correlation of the noise, of mean 0 and variance 1."""
    if correlation is None:
        return np.random.default_rng(seed).choice([-1.0, 1.0], size=shape)
    return draw(correlation, shape, seed)


def _error_of_power(variance: Array, correlation: Array | None) -> float:
    """The standard deviation of the sum of the squares of the noise: the root of 2 tr(Σ²) for a covariance Σ."""
    if correlation is None:
        return math.sqrt(2 * float(np.sum(variance**2)))
    products = np.einsum("iyx,jyx->ij", variance, variance)
    return math.sqrt(2 * float(np.sum(products * np.sum(correlation**2, axis=(2, 3)))))


def _error_of_sum(values: Array, lengths: tuple[int, int]) -> float:
    """Estimate the standard error of the sum over an image from the sums over blocks.

    They have 16 x 16 pixels, or twice the lengths over which the noise is correlated, up to half of the image.
    """
    rows, columns = (
        max(side // max(16, min(2 * length, side // 2)), 1)
        for side, length in zip(values.shape[1:], lengths, strict=True)
    )
    parts = [
        np.array_split(part, columns, axis=-1) for part in np.array_split(values, rows, axis=-2)
    ]
    sums = np.array([part.sum() for row in parts for part in row])
    return float(sums.std() * math.sqrt(len(sums)))


def _peak(dtype: np.dtype[Any], largest: float) -> float:
    if dtype.kind in "ui":
        return float(np.iinfo(dtype).max)
    return largest or 1.0
