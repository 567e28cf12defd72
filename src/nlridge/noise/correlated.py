"""Noise that is correlated from pixel to pixel, on top of any other noise model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import checked_whole, number
from ..errors import ArgumentError, ArgumentTypeError, shown
from ..types import Array, Pixels
from . import Level, Noise
from .gaussian import GaussianNoise

# A correlation below this counts as 0.
_NEGLIGIBLE = 1e-3
# Noise is taken to be independent beyond this distance, in pixels.
_LONGEST_DISTANCE = 127


@dataclass(frozen=True, init=False, repr=False, eq=False)
class CorrelatedNoise:
    """Noise that is correlated from pixel to pixel, such as that of photographs after demosaicing and resizing.

    Parameters
    ----------
    noise : float, sequence of floats, array, GaussianNoise or PoissonGaussianNoise
        The level of the noise, as for `GaussianNoise`, or a noise model that describes how the level depends on the
        signal.
    correlation : array of shape (height, width)
        The autocorrelation of the noise, with odd sides and the distance 0 in the middle, where it is 1. Beyond the
        array it is 0. An additional first axis gives one for each channel, whose noise is independent of the others;
        with two additional axes, ``correlation[i, j]`` is the correlation of the noise of channel i with that of
        channel j.
    share : float, default 1.0
        Fraction of the noise to remove, from 0 to 1; the rest stays in the image. `estimate_noise` sets it below 1 if
        the noise may also be texture. A strength above 1 increases it: the reciprocal of the share, or 3, removes all of
        the noise.

    See Also
    --------
    CorrelatedNoise.from_kernel : Noise that was white before a filter.
    CorrelatedNoise.from_spectrum : Noise with a given power spectrum.
    CorrelatedNoise.lines : Stripes, such as those of scanners.
    CorrelatedNoise.waves : Periodic patterns.
    estimate_noise : Estimates the noise of an image.

    Notes
    -----
    The noise is stationary, apart from its level: the correlation is the same everywhere.

    Examples
    --------
    Noise whose neighbours have a correlation of 0.5:

    >>> import numpy as np
    >>> import nlridge
    >>> print(nlridge.CorrelatedNoise(8, [[0.25, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 0.25]]))
    Gaussian noise with a standard deviation of 8, correlated over about 2 pixels
    """

    noise: Noise
    correlation: Array
    share: float

    def __init__(self, noise: Any, correlation: npt.ArrayLike, share: float = 1.0) -> None:
        object.__setattr__(self, "noise", _checked_noise(noise))
        object.__setattr__(self, "correlation", _checked_correlation(correlation))
        if not 0 <= number("share", share) <= 1:
            raise ArgumentError("share", share, "a number from 0 to 1")
        object.__setattr__(self, "share", float(share))

    @classmethod
    def from_kernel(cls, noise: Any, kernel: npt.ArrayLike) -> "CorrelatedNoise":
        """Return the noise that white noise becomes when it is convolved with a kernel.

        Parameters
        ----------
        noise : float, sequence of floats, array or noise model
            The level of the noise after the convolution, as for `CorrelatedNoise`.
        kernel : array of shape (height, width)
            The kernel, of any scale. An additional first axis gives one for each channel.

        Returns
        -------
        CorrelatedNoise
            The noise model.

        Examples
        --------
        >>> import nlridge
        >>> noise = nlridge.CorrelatedNoise.from_kernel(8, [[1, 2, 1]])
        >>> noise.correlation.round(2)
        array([[0.17, 0.67, 1.  , 0.67, 0.17]])
        """
        filters = _finite("kernel", kernel, (2, 3))
        shape = tuple(2 * length - 1 for length in filters.shape[-2:])
        if max(shape) > 8 * _LONGEST_DISTANCE:
            raise ArgumentError(
                "kernel",
                filters.shape,
                f"at most {4 * _LONGEST_DISTANCE} pixels along an axis",
                "has shape {value}",
            )
        powers = np.abs(np.fft.fft2(filters, shape)) ** 2
        if not np.all(powers.sum(axis=(-2, -1)) > 0):
            raise ArgumentError("kernel", kernel, "at least one other number", "is 0")
        return cls(noise, _from_powers(powers))

    @classmethod
    def from_spectrum(cls, spectrum: npt.ArrayLike, noise: Any = None) -> "CorrelatedNoise":
        """Return noise with a given power spectrum.

        Parameters
        ----------
        spectrum : array of shape (height, width)
            The expected value of ``abs(fft2(noise))**2`` for noise of this shape, like `sigma_psd` of the `bm3d`
            package. An additional first axis gives one for each channel.
        noise : float, sequence of floats, array or noise model, optional
            The level of the noise, as for `CorrelatedNoise`. By default, it follows from the spectrum.

        Returns
        -------
        CorrelatedNoise
            The noise model.

        Examples
        --------
        >>> import numpy as np
        >>> import nlridge
        >>> spectrum = np.full((64, 64), 5.0**2 * 64 * 64)
        >>> spectrum[32] *= 9
        >>> print(nlridge.CorrelatedNoise.from_spectrum(spectrum))
        Gaussian noise with a standard deviation of 5.303, correlated over about 32 x 1 pixels
        """
        powers = _finite("spectrum", spectrum, (2, 3))
        if np.any(powers < 0) or not np.all(powers.sum(axis=(-2, -1)) > 0):
            raise ArgumentError(
                "spectrum",
                spectrum,
                "the mean of abs(fft2(noise))**2",
                "has negative values, or none but 0",
            )
        if noise is None:
            noise = np.sqrt(powers.mean(axis=(-2, -1)) / (powers.shape[-1] * powers.shape[-2]))
        return cls(noise, _from_powers(powers))

    @classmethod
    def lines(
        cls, noise: Any, *, axis: int = 1, length: int = 2 * _LONGEST_DISTANCE, white: float = 0.0
    ) -> "CorrelatedNoise":
        """Return noise that forms stripes, such as that of scanners, scanning microscopes and light sheets.

        Parameters
        ----------
        noise : float, sequence of floats, array or noise model
            The level of the noise as a whole, as for `CorrelatedNoise`.
        axis : int, default 1
            Axis along which the stripes run: 1 if they are horizontal, 0 if they are vertical.
        length : int, optional
            Length of the stripes in pixels. By default, they are as long as the image.
        white : float, default 0.0
            Share of the variance that is due to white noise.

        Returns
        -------
        CorrelatedNoise
            The noise model.

        Examples
        --------
        >>> import nlridge
        >>> print(nlridge.CorrelatedNoise.lines(8, length=20))
        Gaussian noise with a standard deviation of 8, correlated over about 1 x 18 pixels
        """
        if axis not in (0, 1):
            raise ArgumentError("axis", axis, "0 or 1")
        length = checked_whole("length", length, 1)
        distance = np.abs(np.arange(-_LONGEST_DISTANCE, _LONGEST_DISTANCE + 1))
        # Stripes that are as long as the image do not end.
        stripe = (
            np.maximum(1 - distance / length, 0)
            if length < 2 * _LONGEST_DISTANCE
            else 1.0 + 0 * distance
        )
        return cls(noise, with_white(stripe[None] if axis == 1 else stripe[:, None], white))

    @classmethod
    def waves(
        cls, noise: Any, *, period: tuple[float, float], white: float = 0.0
    ) -> "CorrelatedNoise":
        """Return noise that consists of waves of one period, such as electrical interference.

        Parameters
        ----------
        noise : float, sequence of floats, array or noise model
            The level of the noise as a whole, as for `CorrelatedNoise`.
        period : tuple of two floats
            The period along the height and along the width of the image, in pixels; ``numpy.inf`` along an axis
            along which the waves do not change.
        white : float, default 0.0
            Share of the variance that is due to white noise.

        Returns
        -------
        CorrelatedNoise
            The noise model.

        Examples
        --------
        >>> import numpy as np
        >>> import nlridge
        >>> noise = nlridge.CorrelatedNoise.waves(8, period=(np.inf, 4), white=0.2)
        >>> row = noise.correlation[127]  # through the middle
        >>> row[len(row) // 2 :][:5].round(2)
        array([ 1. ,  0. , -0.8, -0. ,  0.8])
        """
        try:
            with np.errstate(divide="ignore"):
                cycles = 1 / np.array(period, np.float64)
        except (TypeError, ValueError):
            cycles = np.empty(0)
        if cycles.shape != (2,) or not np.all(np.abs(cycles) <= 0.5) or not cycles.any():
            raise ArgumentError("period", period, "two numbers of at least 2, not both infinite")
        y, x = np.mgrid[
            -_LONGEST_DISTANCE : _LONGEST_DISTANCE + 1, -_LONGEST_DISTANCE : _LONGEST_DISTANCE + 1
        ]
        return cls(noise, with_white(np.cos(2 * np.pi * (y * cycles[0] + x * cycles[1])), white))

    def __repr__(self) -> str:
        shape = self.correlation.shape
        share = "" if self.share == 1 else f", share={self.share:.4g}"
        return f"CorrelatedNoise({self.noise!r}, correlation=an array of shape {shape}{share})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, CorrelatedNoise)
            and self.noise == other.noise
            and np.array_equal(self.correlation, other.correlation)
            and self.share == other.share
        )

    def __hash__(self) -> int:
        return hash((CorrelatedNoise, self.noise, self.correlation.tobytes(), self.share))

    def __str__(self) -> str:
        height, width = self.lengths
        extent = f"{height}" if height == width else f"{height} x {width}"
        pixels = "pixel" if height == width == 1 else "pixels"
        share = "" if self.share == 1 else f", of which {self.share:.0%} is to be removed"
        return f"{self.noise}, correlated over about {extent} {pixels}{share}"

    @property
    def lengths(self) -> tuple[int, int]:
        """The number of pixels along the height and the width over which the noise is clearly correlated."""
        strongest = np.abs(self.correlation).max(axis=tuple(range(self.correlation.ndim - 2)))
        height, width = (length // 2 for length in strongest.shape)
        return tuple(
            1 + int(np.flatnonzero(values >= 0.1)[-1])
            for values in (strongest[height:, width], strongest[height, width:])
        )  # type: ignore[return-value]

    @property
    def black_level(self) -> float:
        return self.noise.black_level

    @property
    def level(self) -> Level:
        return self.noise.level

    def stabilise(self, image: Pixels) -> Array:
        return self.noise.stabilise(image)

    def variance(self, truth: Array, level: Array) -> Array:
        return self.noise.variance(truth, level)

    def restore(self, estimate: Pixels) -> Array:
        return self.noise.restore(estimate)


def correlation_between(noise: Noise, channels: int) -> Array | None:
    """The correlation of the noise of all channels, (channels, channels, height, width); None for white noise."""
    correlation = getattr(noise, "correlation", None)
    if correlation is None:
        return None
    if correlation.ndim > 2 and len(correlation) != channels:
        raise ArgumentError(
            "correlation",
            len(correlation),
            f"one for all, or {channels}",
            "is that of {value} channels",
        )
    if correlation.ndim == 4:
        return np.asarray(correlation)
    between = np.zeros((channels, channels, *correlation.shape[-2:]))
    between[np.arange(channels), np.arange(channels)] = correlation
    return between


def _checked_noise(noise: Any) -> Noise:
    if isinstance(noise, CorrelatedNoise):
        raise ArgumentTypeError("noise", noise, "noise that is not correlated yet")
    if isinstance(noise, Noise) and not isinstance(noise, type):
        return noise
    try:
        return GaussianNoise(noise)
    except ArgumentError as error:
        raise error.about("noise") from None


def _finite(name: str, values: npt.ArrayLike, dimensions: tuple[int, ...]) -> Array:
    try:
        given = np.asarray(values)
        if given.dtype.kind not in "uifO":  # text and truth values are not numbers
            raise TypeError
        array = given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentTypeError(name, values, "an array of numbers") from None
    if array.ndim not in dimensions or array.size == 0:
        raise ArgumentError(
            name,
            array.shape,
            "(height, width), with a first axis for channels if they differ",
            "has shape {value}",
        )
    if not np.all(np.abs(array) < 1e100):
        raise ArgumentError(name, values, "finite numbers", "has values that are not finite")
    return array


def _checked_correlation(correlation: npt.ArrayLike) -> Array:
    array = _finite("correlation", correlation, (2, 3, 4))
    if not all(length % 2 for length in array.shape[-2:]):
        raise ArgumentError(
            "correlation",
            array.shape,
            "an odd height and width, with the distance 0 in the middle",
            "has shape {value}",
        )
    if array.ndim == 4 and array.shape[0] != array.shape[1]:
        raise ArgumentError(
            "correlation", array.shape, "(channels, channels, height, width)", "has shape {value}"
        )
    middle = array[..., array.shape[-2] // 2, array.shape[-1] // 2]
    own = np.diagonal(middle) if array.ndim == 4 else middle
    if not np.allclose(own, 1, atol=1e-6):
        raise ArgumentError("correlation", own, "1", f"is {shown(own)} in the middle")
    if array.ndim == 4 and np.linalg.eigvalsh(middle)[0] < -1e-6:
        raise ArgumentError(
            "correlation",
            middle,
            "a positive semidefinite matrix",
            f"of the channels is {shown(middle)} in the middle",
        )
    opposite = array[..., ::-1, ::-1]
    if not np.allclose(array, opposite.swapaxes(0, 1) if array.ndim == 4 else opposite, atol=1e-6):
        raise ArgumentError(
            "correlation",
            correlation,
            "the same at (dy, dx) and (-dy, -dx)",
            "differs for opposite distances",
        )
    if np.abs(array).max() > 1 + 1e-6:
        raise ArgumentError(
            "correlation", np.abs(array).max(), "at most 1", f"is up to {np.abs(array).max():.4g}"
        )
    array = _cropped(array)
    array.flags.writeable = False
    return array


def _cropped(correlation: Array) -> Array:
    """The correlation without margins where it is negligible."""
    strongest = np.abs(correlation).max(axis=tuple(range(correlation.ndim - 2)))
    cut = []
    for axis in (0, 1):
        middle = strongest.shape[axis] // 2
        along = strongest.max(axis=1 - axis)
        reach = min(int(np.flatnonzero(along >= _NEGLIGIBLE)[-1]) - middle, _LONGEST_DISTANCE)
        cut.append(slice(middle - reach, middle + reach + 1))
    cropped: Array = correlation[..., cut[0], cut[1]].copy()
    return cropped


def _from_powers(powers: Array) -> Array:
    """The autocorrelation of noise with the given power spectra; its sides are odd, with the distance 0 in the middle."""
    correlation = np.fft.ifft2(powers).real
    correlation /= correlation[..., :1, :1]
    height, width = (min((length - 1) // 2, _LONGEST_DISTANCE) for length in correlation.shape[-2:])
    rows, columns = np.arange(-height, height + 1), np.arange(-width, width + 1)
    centred = correlation[..., rows[:, None], columns]
    # Rounding errors in the spectrum make the correlation slightly asymmetric.
    symmetric: Array = (centred + centred[..., ::-1, ::-1]) / 2
    return symmetric


def with_white(correlation: Array, share: float) -> Array:
    """The correlation of the sum of noise and white noise, which has the given share of the variance.

    Between channels, the white noise is correlated like the noise itself.
    """
    if not 0 <= number("white", share) < 1:
        raise ArgumentError("white", share, "a number from 0 to less than 1")
    mixed: Array = (1 - share) * correlation
    middle = ..., mixed.shape[-2] // 2, mixed.shape[-1] // 2
    mixed[middle] = correlation[middle]
    return mixed
