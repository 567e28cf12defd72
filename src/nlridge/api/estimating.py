"""`estimate_sigma`, `estimate_noise` and `estimate_quality`."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..errors import ArgumentError
from ..noise import Noise
from ..noise.estimation import sigma_of
from ..noise.raw import raw_noise_of
from ..planning.blind import estimated_noise
from ..planning.elsewhere import explained
from ..planning.mosaic import Mosaic, checked_mosaic
from ..planning.options import checked_kind
from ..progress import Progress
from ..types import Pixels
from .arguments import (
    checked_image,
    checked_progress,
    checked_workers,
    expect_none,
    expect_pixels,
    missing_pixels,
)
from .prepared import Given, prepared_image
from .quality import Quality, checked_peak_and_probes


@explained
def estimate_sigma(
    image: npt.ArrayLike, *, mask: npt.ArrayLike | None = None, channel_axis: int | None = None
) -> float | npt.NDArray[np.float64]:
    """Estimate the standard deviation of white Gaussian noise from a single image.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The noisy image, with a third axis if `channel_axis` is given. NaN pixels are ignored.
    mask : array_like of bool, optional
        Pixels to ignore, marked True. It has the shape of the image, or omits the channel axis.
    channel_axis : int, optional
        Axis of the channels. By default, the image has no channel axis.

    Returns
    -------
    float or ndarray
        The estimate, in the units of the image; one for each channel if `channel_axis` is given. It is
        close to 0 for an image without noise.

    See Also
    --------
    estimate_noise : Also detect signal-dependent and correlated noise.

    Notes
    -----
    In patches with little texture, all but a few directions contain only noise, so the smallest
    eigenvalues of their covariance matrix equal the variance of the noise [1]_. Patches are selected in
    ascending order of the energy of their gradients, up to the energy expected of pure noise. The bias
    caused by this selection and by the finite number of patches is known for pure noise, and corrected.
    Saturated pixels (many pixels at the smallest or the largest value) are ignored.

    The time is that of a few passes over the image, plus some hundredths of a second that do not depend on
    its size.

    References
    ----------
    .. [1] X. Liu, M. Tanaka and M. Okutomi, "Single-image noise level estimation for blind denoising",
       IEEE Transactions on Image Processing 22(12), 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> image = np.tile(np.linspace(0, 200, 128), (128, 1))
    >>> noisy = image + np.random.default_rng(0).normal(0, 8, image.shape)
    >>> bool(abs(nlridge.estimate_sigma(noisy) - 8) < 0.5)
    True
    """
    frames, masked, _ = checked_image(image, mask, channel_axis=channel_axis, may_be_stack=False)
    missing = missing_pixels(frames[0], None if masked is None else masked[0])
    masks = [None] * len(frames[0]) if missing is None else missing
    sigmas = [sigma_of(*channel) for channel in zip(frames[0], masks, strict=True)]
    return sigmas[0] if channel_axis is None else np.array(sigmas)


@explained
def estimate_noise(
    image: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    mosaic: Mosaic | str | None = None,
    channel_axis: int | None = None,
    kind: str = "auto",
) -> Noise:
    """Estimate the noise in an image: Gaussian, signal-dependent or correlated.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The noisy image, with a third axis if `channel_axis` is given. NaN pixels are ignored.
    mask : array_like of bool, optional
        Pixels to ignore, marked True. It has the shape of the image, or omits the channel axis.
    mosaic : Mosaic or str, optional
        Bayer pattern of a raw image, as in `denoise`. The noise above the black level is estimated from its
        four planes together, as signal-dependent noise if a dependence is visible.
    channel_axis : int, optional
        Axis of the channels. By default, the image has no channel axis.
    kind : {"auto", "gaussian", "poisson", "correlated"}, default "auto"
        Kind of noise to estimate: white noise with the same level everywhere ("gaussian"), noise that
        grows with the signal ("poisson"), noise that is correlated from pixel to pixel ("correlated"), or
        whichever of them fits the image ("auto").

    Returns
    -------
    GaussianNoise, PoissonGaussianNoise or CorrelatedNoise
        The noise model, with its parameters in the units of the image; `print` describes it.

    See Also
    --------
    estimate_sigma : Estimate only the standard deviation of Gaussian noise.

    Notes
    -----
    The variance is estimated as in `estimate_sigma`, separately for patches of different brightness, and
    fitted by a line. With ``kind="auto"`` the noise is taken to be Gaussian if the line rises by less
    than half from the dark end to the bright end, or by less than three standard errors, or if patches
    with little texture have less noise than the line predicts.

    If most of the image is dark, or if the noise grows and there is little texture, the line is fitted to
    the second differences in small blocks, which need fewer pixels of each brightness. In a dark image the
    variance has to rise by a factor of three.

    Correlated noise is measured in flat blocks: its level as a function of the brightness, and its
    correlation. The level is then chosen so that, in trial runs on a part of the image, the result and the
    residual are least similar. With ``kind="auto"``, noise that may also be texture has a `share` below 1:
    only this fraction of it is removed, too little to be visible. A warning says so if it probably is noise.
    Faint stars and other spots are not noise: they are one-sided, and stronger where there is more structure.

    Noise that grows with the signal is assumed to do so equally in all channels. Gaussian noise has one
    level for all channels if their levels differ by less than 15 %, and otherwise one for each. Channels
    that are constant, of which at most 1 % of the pixels differ, or that are a mask have no noise.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> image = np.tile(np.linspace(10, 200, 256), (256, 1))
    >>> counts = np.random.default_rng(0).poisson(image)
    >>> noise = nlridge.estimate_noise(counts)
    >>> bool(0.8 < noise.gain < 1.2)
    True
    """
    kind = checked_kind("kind", kind)
    if mosaic is not None:
        expect_none("for a mosaic", mask=mask, channel_axis=channel_axis)
        mosaic = checked_mosaic(mosaic)
        expect_pixels(image)
        pixels = np.asarray(image)
        if pixels.ndim != 2 or min(pixels.shape) < 2 or pixels.dtype.kind not in "uif":
            raise ArgumentError(
                "image",
                pixels.shape,
                "numbers in two dimensions, for a mosaic",
                f"has shape {pixels.shape} and dtype {pixels.dtype}",
            )
        planes = mosaic.planes(pixels)
        return mosaic_noise(planes - mosaic.black_levels, mosaic.saturated(planes), kind)
    frames, masked, _ = checked_image(image, mask, channel_axis=channel_axis, may_be_stack=False)
    missing = missing_pixels(frames[0], None if masked is None else masked[0])
    return estimated_noise(frames[0], missing, kind, checked_workers(None))


@explained
def estimate_quality(
    image: npt.ArrayLike,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    data_range: float | None = None,
    peak: float | None = None,
    probes: int = 1,
    workers: int | None = None,
    progress: Progress = False,
) -> Quality:
    """Denoise an image and estimate the PSNR of the result without knowing the clean image.

    Parameters
    ----------
    image, sigma, noise, strength, color, method, mask, channel_axis, stack_axis, data_range, workers, progress
        As in `denoise`. The image must not be a Dask array.
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
        doubt if the estimate is unreliable, and the denoised image itself. For a stack, the PSNR is that of
        the mean squared error over all images.

    See Also
    --------
    prepare : Measure an image once; its method `quality` compares methods and strengths.

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
    peak, probes = checked_peak_and_probes(peak, probes)
    progress = checked_progress(progress)
    given = Given(image, sigma, noise, mask, channel_axis, stack_axis)
    tuning = Tuning(strength, color, mask is not False)
    prepared = prepared_image(given, method, data_range, tuning, workers)
    return prepared.quality(peak, probes, progress=progress)


def mosaic_noise(planes: Pixels, saturated: Any, kind: str = "auto") -> Noise:
    """Estimate the noise of the planes of a mosaic, without its black level; `saturated` pixels are ignored."""
    mask = None if saturated is None or saturated.all() else saturated
    missing = missing_pixels(planes, mask)
    if kind == "auto":
        return raw_noise_of(planes, missing)
    return estimated_noise(planes, missing, kind, checked_workers(None))
