"""Restore the brightness of photographs, which noise changed before the camera applied its tone curve."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import checked_positive, checked_whole
from ..errors import ArgumentTypeError
from ..noise import Noise
from ..noise.unbiased import NODES, WEIGHTS
from ..planning.plan import float_type
from ..types import Array

# The noise of a pixel without light is that of the photons of this share of the light of a white one.
_DARK = 0.01
_TONES = np.linspace(0, 1, 129) ** 1.5  # more of them where it is dark, and the tone curve is steep
_SAMPLE = 10_000  # pixels of a channel that the noise in linear light is fitted to
_WEAKEST, _STRONGEST = -30.0, 5.0  # logarithms of the variance of noise in linear light
_HALVINGS = 40  # steps of the bisection between them


def restore_brightness(
    image: npt.ArrayLike,
    noise: Noise,
    *,
    data_range: float | None = None,
    channel_axis: int | None = None,
) -> npt.NDArray[np.floating[Any]]:
    """Restore the brightness that noise took from a denoised photograph.

    Noise on the sensor has a mean of zero. The tone curve of the camera compresses bright noise more than dark noise,
    so that noise makes a photograph darker; only black becomes brighter, since nothing is darker than it. `denoise`
    keeps the local means of the noisy photograph. This function turns them into those of a photograph without noise.

    Use it for photographs with strong noise whose tone curve is close to that of sRGB, and if brightness should be that of
    the scene. Do not use it for raw images and measurements, whose values are proportional to light.

    Parameters
    ----------
    image : array_like
        The denoised photograph.
    noise : noise model
        The noise of the photograph before it was denoised, such as `Denoised.noise` or the result of `estimate_noise`.
    data_range : float, optional
        The value of white; black is 0. By default, the largest value of the type of an image of integers.
    channel_axis : int, optional
        Axis of the channels, as for `denoise`.

    Returns
    -------
    ndarray
        The photograph as floats, as `denoise` returns it.

    See Also
    --------
    denoise_with_details : Denoise an image; also returns its noise.

    Notes
    -----
    The model is Gaussian noise in linear light, whose variance is proportional to the light plus 1 % of that of white,
    the tone curve of sRGB, and clipping at black and white. For each channel, the level of the noise in linear light is
    found that leads to the noise of the photograph. The mean of pixels with that noise is tabulated for each
    brightness, and the table is inverted.

    Examples
    --------
    A gray area in strong noise, with the tone curve of sRGB:

    >>> import numpy as np
    >>> import nlridge
    >>> light = 0.05 + np.random.default_rng(0).normal(0, 0.03, (64, 64))
    >>> photo = 255 * (1.055 * np.clip(light, 0.003, 1) ** (1 / 2.4) - 0.055)
    >>> noise = nlridge.GaussianNoise(photo.std())
    >>> clean = nlridge.denoise(photo, noise=noise)
    >>> brighter = nlridge.restore_brightness(clean, noise, data_range=255)
    >>> print(f"{clean.mean():.0f}, restored {brighter.mean():.0f}, without noise 63")
    60, restored 63, without noise 63
    """
    pixels = np.asarray(image)
    if pixels.dtype.kind not in "uif":
        raise TypeError(f"image has dtype {pixels.dtype}; expected integers or floats")
    if isinstance(noise, type) or not isinstance(noise, Noise):
        raise ArgumentTypeError("noise", noise, "a noise model such as nlridge.GaussianNoise(10)")
    white = _white(pixels.dtype, data_range)
    result = pixels.astype(float_type(pixels.dtype))
    channels = result[None]
    if channel_axis is not None:
        axis = checked_whole("channel_axis", channel_axis, -pixels.ndim, pixels.ndim - 1)
        channels = np.moveaxis(result, axis, 0)
    for channel, level in zip(channels, _levels(noise, len(channels)), strict=True):
        valid = channel[np.isfinite(channel)]
        if level == 0 or not valid.size:
            continue
        sample = valid[:: -(-valid.size // _SAMPLE)].astype(np.float64)
        variance = noise.variance(np.clip(sample, 0, white), np.full(sample.shape, level))
        means = _means_for(np.clip(sample / white, 0, 1), float(np.mean(variance)) / white**2)
        tones = np.clip(channel / white, 0, 1)
        channel += white * (np.interp(tones, means, _TONES) - tones)
    return result


def _white(dtype: np.dtype[Any], data_range: float | None) -> float:
    if data_range is not None:
        return checked_positive("data_range", data_range)
    if dtype.kind == "f":
        raise ValueError(
            "data_range is None; expected the value of white for an image of floats, such as 255"
        )
    return float(np.iinfo(dtype).max)


def _levels(noise: Noise, channels: int) -> Iterator[float]:
    """The level of the noise of each channel, whose root mean square it is if there is a map."""
    levels = np.asarray(noise.level, np.float64)
    if levels.ndim > 1:
        yield from [float(np.sqrt(np.nanmean(levels**2)))] * channels
    elif levels.size not in (1, channels):
        raise ValueError(
            f"noise has {levels.size} levels for {channels} channels; expected one level, or channel_axis"
        )
    else:
        yield from np.broadcast_to(levels, channels).tolist()


def _means_for(sample: Array, variance: float) -> Array:
    """The means of pixels whose tones without noise are _TONES, if pixels of a sample have this variance on average."""
    low, high = _WEAKEST, _STRONGEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        means, variances = _with_noise(np.exp(middle))
        if np.mean(np.interp(sample, means, variances)) < variance:
            low = middle
        else:
            high = middle
    return means


def _with_noise(strength: float) -> tuple[Array, Array]:
    """The means and variances of pixels with noise in linear light, whose tones without noise are _TONES."""
    light = _light(_TONES)[:, None]
    pixels = _tone(np.clip(light + np.sqrt(strength * (light + _DARK)) * NODES, 0, 1))
    means: Array = pixels @ WEIGHTS
    return means, (pixels - means[:, None]) ** 2 @ WEIGHTS


def _tone(light: Array) -> Array:
    """The tone curve of sRGB."""
    bright = 1.055 * np.maximum(light, 0.003) ** (1 / 2.4) - 0.055
    return np.where(light <= 0.0031308, 12.92 * light, bright)


def _light(tone: Array) -> Array:
    """The inverse of the tone curve of sRGB."""
    return np.where(tone <= 0.04045, tone / 12.92, ((tone + 0.055) / 1.055) ** 2.4)
