"""Estimated PSNR of a denoised image: Stein's unbiased risk estimate (SURE) for the whole algorithm."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.settings import Recipe
from ..algorithm.tuning import Tuning
from ..checks import checked_positive, checked_whole
from ..noise import Array, Noise
from ..noise.correlated import correlation_between
from ..noise.drawing import draw
from ..planning.doubts import ROUNDING
from ..planning.elsewhere import explained
from ..planning.levels import levels_of, usable_levels
from ..planning.options import checked_options
from ..progress import Progress
from .arguments import checked_image, checked_workers, missing_pixels
from .details import Denoised, denoise_with_details
from .in_memory import denoise_frame, frame_for

# Size of the perturbation, in units of the noise. A smaller one is dominated by changes of the matching.
_STEP = 0.05
# Relative error of a variance that was estimated from the image (see `estimate_sigma`).
_VARIANCE_ERROR = 0.03
_MIDDLE = 192  # side of the middle of a large image
_LARGEST_ERROR = 5.0  # dB; an estimate with a larger standard error means nothing


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


@explained
def estimate_quality(
    image: npt.ArrayLike,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    colour: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    data_range: float | None = None,
    peak: float | None = None,
    probes: int = 1,
    workers: int | None = None,
    progress: Progress = False,
) -> Quality:
    """Denoise an image and estimate the PSNR of the result without knowing the clean image.

    Parameters
    ----------
    image, sigma, noise, strength, colour, method, mask, channel_axis, data_range, workers, progress
        As in `denoise`. The image must be an array in memory, and cannot be a stack.
    peak : float, optional
        Peak value in the definition of the PSNR. By default the largest value of the type for integers,
        and the largest value of the denoised image for floats. The gain does not depend on it.
    probes : int, default 1
        Number of times that a slightly perturbed image is denoised again. Each probe takes as long as
        `denoise`; more probes give a more precise estimate.

    Returns
    -------
    Quality
        An object with the PSNR of the noisy and of the denoised image, the gain, the standard error, a
        doubt if the estimate is unreliable, and the denoised image itself.

    Notes
    -----
    The mean squared error is estimated by Monte-Carlo SURE [1]_, as the mean over all pixels of
    (f(y) - y)² - V + 2 V ∂f/∂y. Here y is the noisy image, f the denoiser and V the variance of the
    noise; the derivative follows from the change of f under a small random perturbation of y, which has
    the correlation of the noise.

    The estimate relies on the noise model. If the noise was estimated, the standard error includes an
    uncertainty of 3 % in its variance. The standard error is large where hardly any noise is left, as in
    small or flat images, because SURE does not know the actual noise power of this one image. `doubt`
    says why an estimate is unreliable: nothing was removed, the standard error is above 5 dB, or the
    estimate of the noise does not fit the image, because it is below the rounding error of integers, or
    because the result would be worse than the noisy image.

    References
    ----------
    .. [1] S. Ramani, T. Blu and M. Unser, "Monte-Carlo SURE: a black-box optimization of regularization
       parameters for general denoising algorithms", IEEE Transactions on Image Processing 17(9), 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> clean = np.tile(100 + 50 * np.sin(np.arange(128) / 4), (128, 1))
    >>> noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    >>> quality = nlridge.estimate_quality(noisy, sigma=20, peak=255)
    >>> psnr = 10 * np.log10(255**2 / np.mean((quality.denoised.image - clean)**2))
    >>> bool(abs(quality.psnr - psnr) < 4 * quality.standard_error)
    True
    """
    probes = checked_whole("probes", probes, 1, 1000)
    if peak is not None:
        peak = checked_positive("peak", peak)
    options: dict[str, Any] = {
        "strength": strength,
        "colour": colour,
        "mask": mask,
        "channel_axis": channel_axis,
        "data_range": data_range,
        "workers": workers,
        "progress": progress,
    }
    details = denoise_with_details(
        image,
        sigma,
        noise=noise,
        method=method,
        **options,
    )
    return quality_of(image, details, peak=peak, probes=probes, **options)


def quality_of(
    image: npt.ArrayLike,
    details: Denoised,
    *,
    peak: float | None = None,
    probes: int = 1,
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    strength: float = 1.0,
    colour: float = 1.0,
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Quality:
    """Estimate the quality of an image that has already been denoised with the same options."""
    frames, masked, layout = checked_image(
        image, mask, channel_axis=channel_axis, may_be_stack=False
    )
    missing = missing_pixels(frames[0], None if masked is None else masked[0])
    levels = levels_of(details.noise, layout)
    result = layout.frames(details.image).astype(np.float64)[0]
    valid = np.ones(result.shape, bool) if missing is None else ~missing
    unknown = usable_levels(levels[0], missing, frames[0]).unknown
    if unknown is not None:
        valid &= ~unknown
    result = np.where(valid, result, 0.0)
    with np.errstate(over="ignore"):
        variance = np.where(valid, details.noise.variance(result, levels[0]), 0.0)
    if not variance.any():
        return Quality(math.inf, math.inf, 0.0, "there was no noise to remove", details)
    # The variance is squared below.
    if not 1e-140 < variance.max() < 1e140:
        raise ValueError(
            f"noise has a variance of up to {variance.max():.4g}; expected 1e-140 to 1e140"
        )
    options = checked_options(
        None, details.noise, details.recipe, data_range, Tuning(strength, colour)
    )
    spread = np.sqrt(variance)
    correlation = correlation_between(details.noise, len(result))
    divergence = np.zeros(result.shape)
    for probe in range(probes):
        step = _STEP * spread * _probe(correlation, result.shape, probe)
        threads = checked_workers(workers)
        frame = frame_for(frames[0] + step, missing, levels[0], options, threads)
        perturbed = denoise_frame(frame, threads, progress)
        change = np.clip(np.where(valid, perturbed, 0.0) - result, -1e140, 1e140)
        divergence += np.where(valid, step * change, 0.0) / (_STEP**2 * probes)

    count = int(np.count_nonzero(valid))
    # With a noise model that does not fit the image the result may be huge: keep its square finite.
    residual = np.clip(result - np.where(valid, frames[0], 0.0), -1e140, 1e140)
    risk = float(np.sum(residual**2 - variance + 2 * divergence)) / count
    noise_power = float(np.sum(variance)) / count
    error = math.hypot(
        _error_of_power(variance, correlation) / count,
        2 * _error_of_sum(divergence, getattr(details.noise, "lengths", (1, 1))) / count,
        0.0 if details.noise_given else _VARIANCE_ERROR * noise_power,
    )
    risk = max(risk, error / 2)
    top = _peak(frames.dtype, result[valid]) if peak is None else peak
    quality = Quality(
        noisy_psnr=20 * math.log10(top) - 10 * math.log10(noise_power),
        psnr=20 * math.log10(top) - 10 * math.log10(risk),
        standard_error=10 / math.log(10) * error / risk,
        doubt="",
        denoised=details,
    )
    whole = frames.dtype.kind in "ui"
    return replace(quality, doubt=_doubt(quality, residual, math.sqrt(noise_power), whole))


def quality_of_middle(
    image: npt.NDArray[Any],
    details: Denoised,
    *,
    channel_axis: int | None,
    strength: float,
    colour: float,
    workers: int | None,
) -> tuple[Quality, bool]:
    """Estimate the quality from the middle of a large image, in a fraction of the time; return whether it was large."""
    options: dict[str, Any] = {"strength": strength, "colour": colour, "workers": workers}
    frames, _, layout = checked_image(image, None, channel_axis=channel_axis, may_be_stack=False)
    middle = tuple(_middle(length) for length in frames.shape[2:])
    planes = frames[0][:, *middle]
    missing = missing_pixels(planes, None, may_be_all=True)
    levels = levels_of(details.noise, layout)[0]
    is_map = levels.shape[1:] != (1, 1)
    nothing = not levels.any() or (missing is not None and bool(missing.all()))
    if 2 * planes.size >= frames[0].size or is_map or nothing:  # the middle is denoised twice
        return quality_of(image, details, channel_axis=channel_axis, **options), False
    again = checked_options(None, details.noise, details.recipe, None, Tuning(strength, colour))
    threads = checked_workers(workers)
    result = denoise_frame(frame_for(planes, missing, levels, again, threads), threads, False)
    with np.errstate(invalid="ignore"):
        own = replace(details, image=result, residual=planes - result)
    return quality_of(planes, own, channel_axis=0, **options), True


def _middle(length: int) -> slice:
    start = max(length - _MIDDLE, 0) // 2
    return slice(start, start + _MIDDLE)


def gain_in_words(quality: Quality) -> str:
    """Describe the gain, or why it is unknown."""
    if quality.doubt:
        return f"{'unknown' if quality.denoised.residual.any() else 'none'}: {quality.doubt}"
    condition = "" if quality.denoised.noise_given else ", if the noise estimate is right"
    return f"{quality.gain:+.1f} ± {quality.standard_error:.1f} dB{condition}"


def _doubt(quality: Quality, residual: Array, level: float, whole: bool) -> str:
    """Why the estimate of an image, which may consist of whole numbers, means nothing; empty if it means something."""
    if not residual.any():
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


def _peak(dtype: np.dtype[Any], result: npt.NDArray[Any]) -> float:
    if dtype.kind in "ui":
        return float(np.iinfo(dtype).max)
    return float(np.abs(result).max()) or 1.0
