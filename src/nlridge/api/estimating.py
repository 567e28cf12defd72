"""The public functions that find out what noise an image has."""

import numpy as np
import numpy.typing as npt

from ..checks import shown
from ..noise import Noise
from ..noise.estimation import noise_of, sigma_of
from .arguments import checked_image, missing_pixels


def estimate_sigma(
    image: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
) -> float | npt.NDArray[np.float64]:
    """The standard deviation of white Gaussian noise in an image, found from the image alone.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The noisy image. Pixels that are NaN do not count.
    mask : array_like of bool of the same shape, optional
        True for pixels that do not count. It may lack the axis of channels.
    channel_axis : int, optional
        The axis of channels, if the image has three dimensions.

    Returns
    -------
    float, or ndarray of one for each channel
        The estimate, in the image's own units; near 0 for an image without noise.

    Notes
    -----
    Patches with little texture are noise in all directions but a few, so that the smallest eigenvalues
    of their covariance matrix are the variance of the noise [1]_. Here patches are taken in the order
    of the energy of their differences, until that energy is as high as in a patch of pure noise. What
    the choice of calm patches and their limited number take from the eigenvalues is known for pure
    noise, and made good. Saturated pixels (the extreme values, where they are many) do not count.

    Takes some hundredths of a second whatever the size of the image, beyond a few passes over its pixels.

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
    gone = [None] * len(frames[0]) if missing is None else missing
    found = [sigma_of(*channel) for channel in zip(frames[0], gone, strict=True)]
    return found[0] if channel_axis is None else np.array(found)


def estimate_noise(
    image: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    kind: str = "auto",
) -> Noise:
    """What noise an image has: Gaussian, or growing with the signal.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The noisy image. Pixels that are NaN do not count.
    mask : array_like of bool of the same shape, optional
        True for pixels that do not count. It may lack the axis of channels.
    channel_axis : int, optional
        The axis of channels, if the image has three dimensions.
    kind : {"auto", "gaussian", "poisson"}
        Whether the noise grows with the signal: to be found out, or settled beforehand.

    Returns
    -------
    GaussianNoise or PoissonGaussianNoise
        The model with its parameters, in the image's own units; `print` says what it is.

    Notes
    -----
    As in `estimate_sigma`, but for the patches of each of some steps of brightness; the variances are
    fitted by a line. If the line rises by less than half from the dark to the bright end, or by less than
    three times its error, or if calm patches have less noise than the line says, the noise counts as Gaussian.

    Noise that grows with the signal is taken to do so alike in all channels. Gaussian noise has one level
    for all channels if they differ by less than 15 %, and one for each otherwise.

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
    if not isinstance(kind, str) or kind not in ("auto", "gaussian", "poisson"):
        raise ValueError(f"kind is {shown(kind)}; expected 'auto', 'gaussian' or 'poisson'")
    frames, masked, _ = checked_image(image, mask, channel_axis=channel_axis, may_be_stack=False)
    missing = missing_pixels(frames[0], None if masked is None else masked[0])
    return noise_of(frames[0], missing, kind)
