"""How good a result is, without knowing the truth: Stein's unbiased risk estimate for the whole algorithm."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.settings import Recipe
from ..checks import checked_positive, checked_whole
from ..noise import Noise
from ..planning.levels import levels_of, usable_levels
from ..progress import Progress
from .arguments import checked_image, missing_pixels
from .denoising import Denoised, denoise, denoise_with_details

_STEP = 0.05  # of the perturbation, in units of the noise: smaller ones meet the jumps of matching
_UNSURE = (
    0.03  # relative error of a variance that was estimated from the image (see `estimate_sigma`)
)


@dataclass(frozen=True, eq=False)
class Quality:
    """An estimate of how good a denoised image is."""

    noisy_psnr: float
    """PSNR of the noisy image in dB, from its noise alone; infinite if it has none."""
    psnr: float
    """PSNR of the denoised image in dB."""
    standard_error: float
    """Of `psnr`, in dB."""
    denoised: Denoised
    """The image that it is about, as from `denoise_with_details`."""

    @property
    def gain(self) -> float:
        """What denoising brought, in dB."""
        return 0.0 if math.isinf(self.noisy_psnr) else self.psnr - self.noisy_psnr


def estimate_quality(
    image: npt.ArrayLike,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | None = None,
    strength: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    data_range: float | None = None,
    peak: float | None = None,
    probes: int = 1,
    workers: int | None = None,
    progress: Progress = False,
) -> Quality:
    """Denoise an image and estimate how far the result is from the truth, which is not known.

    Parameters
    ----------
    image, sigma, noise, strength, method, mask, channel_axis, data_range, workers, progress
        As for `denoise`.
    peak : float, optional
        What PSNR counts as the largest value; by default that of the type for integers, and the largest
        value of the denoised image for floats. The gain does not depend on it.
    probes : int
        How often the image is denoised again, slightly perturbed. More of them make the estimate steadier.

    Returns
    -------
    Quality
        PSNR of the noisy and of the denoised image, the gain, the standard error, and the result itself.

    Notes
    -----
    Monte-Carlo SURE [1]_: ‖f(y) - y‖² - Σ V + 2 Σ V ∂f/∂y, where V is the variance of each pixel and the last
    term is found from the change of f under a small random perturbation of y. It takes for granted that the
    noise is what it is said to be: if the noise was estimated, an error of 1 % in sigma is part of the
    standard error. That error is large where hardly any noise is left, in small or flat images: what SURE
    cannot know is how strong the noise happens to be in this one image.

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
    >>> found = nlridge.estimate_quality(noisy, sigma=20, peak=255)
    >>> truth = 10 * np.log10(255**2 / np.mean((found.denoised.image - clean)**2))
    >>> bool(abs(found.psnr - truth) < 4 * found.standard_error)
    True
    """
    probes = checked_whole("probes", probes, 1, 1000)
    if peak is not None:
        peak = checked_positive("peak", peak)
    options: dict[str, Any] = {
        "strength": strength,
        "mask": mask,
        "channel_axis": channel_axis,
        "workers": workers,
    }
    found = denoise_with_details(
        image,
        sigma,
        noise=noise,
        method=method,
        data_range=data_range,
        progress=progress,
        **options,
    )
    known = sigma is not None or noise is not None
    return quality_of(image, found, known=known, peak=peak, probes=probes, **options)


def quality_of(
    image: npt.ArrayLike,
    found: Denoised,
    *,
    known: bool,
    peak: float | None = None,
    probes: int = 1,
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    **options: Any,
) -> Quality:
    """`estimate_quality` for an image that has been denoised already, with the same options.

    `known` says whether its noise was given, or found out.
    """
    frames, masked, layout = checked_image(
        image, mask, channel_axis=channel_axis, may_be_stack=False
    )
    missing = missing_pixels(frames[0], None if masked is None else masked[0])
    levels = levels_of(found.noise, layout)
    result = layout.frames(found.image).astype(np.float64)[0]
    there = np.ones(result.shape, bool) if missing is None else ~missing
    hopeless = usable_levels(levels[0], missing, frames[0]).unknown
    if hopeless is not None:
        there &= ~hopeless
    result = np.where(there, result, 0.0)
    with np.errstate(over="ignore"):
        variance = np.where(there, found.noise.variance(result, levels[0]), 0.0)
    if not variance.any():
        return Quality(math.inf, math.inf, 0.0, found)
    if not 1e-140 < variance.max() < 1e140:  # its square is computed with
        raise ValueError(
            f"noise has a variance of up to {variance.max():.4g}; expected 1e-140 to 1e140"
        )
    spread = np.sqrt(variance)
    divergence = np.zeros(result.shape)
    for probe in range(probes):
        step = _STEP * spread * np.random.default_rng(probe).choice([-1.0, 1.0], size=result.shape)
        again = denoise(
            layout.like_image((frames[0] + step)[None]),
            noise=found.noise,
            method=found.recipe,
            mask=mask,
            channel_axis=channel_axis,
            **options,
        )
        change = np.clip(np.where(there, layout.frames(again)[0], 0.0) - result, -1e140, 1e140)
        divergence += np.where(there, step * change, 0.0) / (_STEP**2 * probes)

    count = int(np.count_nonzero(there))
    # The result of a model that has nothing to do with the image may be anything: its square is to be finite.
    residual = np.clip(result - np.where(there, frames[0], 0.0), -1e140, 1e140)
    risk = float(np.sum(residual**2 - variance + 2 * divergence)) / count
    noise = float(np.sum(variance)) / count
    error = math.hypot(
        math.sqrt(2 * float(np.sum(variance**2))) / count,
        2 * _error_of_sum(divergence) / count,
        0.0 if known else _UNSURE * noise,
    )
    risk = max(risk, error / 2)
    top = _peak(frames.dtype, result[there]) if peak is None else peak
    return Quality(
        noisy_psnr=20 * math.log10(top) - 10 * math.log10(noise),
        psnr=20 * math.log10(top) - 10 * math.log10(risk),
        standard_error=10 / math.log(10) * error / risk,
        denoised=found,
    )


def _error_of_sum(values: npt.NDArray[np.float64]) -> float:
    """The standard error of the sum of a noisy image, from the sums of its blocks of 16 x 16."""
    height, width = values.shape[1:]
    rows, columns = max(height // 16, 1), max(width // 16, 1)
    parts = [
        np.array_split(part, columns, axis=-1) for part in np.array_split(values, rows, axis=-2)
    ]
    sums = np.array([part.sum() for row in parts for part in row])
    return float(sums.std() * math.sqrt(len(sums)))


def _peak(dtype: np.dtype[Any], result: npt.NDArray[Any]) -> float:
    if dtype.kind in "ui":
        return float(np.iinfo(dtype).max)
    return float(np.abs(result).max()) or 1.0
