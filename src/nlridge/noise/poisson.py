"""Noise that grows with the signal: the shot noise of photons, and the read noise of the electronics."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..checks import number
from ..errors import ArgumentError
from ..types import Array, Pixels
from .unbiased import NODES, WEIGHTS

# The inverse transform is tabulated for up to _TABULATED photons, at _POINTS values.
_TABULATED, _POINTS = 64.0, 96
_ITERATIONS = 4  # enough to converge


@dataclass(frozen=True)
class PoissonGaussianNoise:
    """Poisson noise and Gaussian read noise, as in the images of a camera.

    A pixel with the noise-free value x has the variance gain (x - black_level) + read_noise².

    Parameters
    ----------
    gain : float
        The amount that one photon, or whatever is counted, adds to the value of a pixel.
    read_noise : float, optional
        Standard deviation of the noise of a pixel that receives no light.
    black_level : float, optional
        The value of a pixel that receives no light.

    See Also
    --------
    GaussianNoise : Noise that does not depend on the signal.
    estimate_noise : Estimates the noise of an image.

    Notes
    -----
    The generalised Anscombe transform makes the variance of the noise the same everywhere. The result is transformed
    back by the exact unbiased inverse [1]_, so that means over areas stay the same. With read noise, a dark area may
    therefore have pixels that are slightly darker than the black level.

    Below about six photons per pixel, `denoise` runs several times, each time on a blend of the image and the previous
    result [2]_.

    References
    ----------
    .. [1] M. Mäkitalo and A. Foi, "Optimal inversion of the generalized Anscombe transformation for
       Poisson-Gaussian noise", IEEE Transactions on Image Processing 22(1), 2013.
    .. [2] L. Azzari and A. Foi, "Variance stabilization for noisy+estimate combination in iterative Poisson
       denoising", IEEE Signal Processing Letters 23(8), 2016.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> noise = nlridge.PoissonGaussianNoise(gain=2.0, read_noise=3.0, black_level=100.0)
    >>> print(noise)
    Poisson noise with a gain of 2 above a black level of 100, and read-out noise of 3
    >>> counts = np.random.default_rng(0).poisson(50.0, (64, 64))
    >>> image = 100 + 2.0 * counts + np.random.default_rng(1).normal(0, 3.0, counts.shape)
    >>> bool(abs(nlridge.denoise(image, noise=noise).mean() - 200) < 1)
    True
    """

    gain: float
    read_noise: float = 0.0
    black_level: float = 0.0

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("gain", "read_noise", "black_level")}
        for name, value in given.items():
            object.__setattr__(self, name, number(name, value))
        if not 1e-300 < self.gain < 1e300:
            raise ArgumentError("gain", given["gain"], "a positive number")
        if not 0 <= self.read_noise < 1e300:
            raise ArgumentError("read_noise", given["read_noise"], "a non-negative number")
        if not -1e300 < self.black_level < 1e300:
            raise ArgumentError("black_level", given["black_level"], "a finite number")
        if self.read_noise / self.gain > 1e100:  # its square must not overflow
            raise ArgumentError(
                "read_noise",
                self.read_noise,
                f"at most 1e100 times the gain, {self.gain:g}",
                f"is {self.read_noise:g}",
            )

    def __str__(self) -> str:
        words = f"Poisson noise with a gain of {self.gain:.4g}"
        if self.black_level:
            words += f" above a black level of {self.black_level:.4g}"
        if self.read_noise:
            words += f", and read-out noise of {self.read_noise:.4g}"
        return words

    @property
    def level(self) -> float:
        return 1.0

    @property
    def _darkest(self) -> float:
        """The constant under the root of the Anscombe transform: 3/8 plus the variance of the read noise in counts."""
        return 3 / 8 + (self.read_noise / self.gain) ** 2

    def photons(self, image: Pixels) -> Array:
        """The number of photons that would give each pixel its value if there were no read noise."""
        with np.errstate(over="ignore"):
            counts = (image.astype(np.float64) - self.black_level) / self.gain
        return np.minimum(counts, 1e300)

    def weakened(self, factor: float) -> "PoissonGaussianNoise":
        """The noise, with its standard deviation multiplied by a factor at the same signal."""
        return PoissonGaussianNoise(
            self.gain * factor**2, self.read_noise * factor, self.black_level
        )

    def stabilise(self, image: Pixels) -> Array:
        stabilised: Array = 2 * np.sqrt(np.maximum(self.photons(image) + self._darkest, 0))
        return stabilised

    def variance(self, truth: Array, level: Array) -> Array:
        signal: Array = np.maximum(truth - self.black_level, 0)
        return self.gain * signal + self.read_noise**2

    def blended(self, share: float) -> "PoissonGaussianNoise":
        """The noise of a blend of the image, in this share, and an estimate without noise."""
        weak = self.weakened(share)
        return BlendedNoise(weak.gain, weak.read_noise, weak.black_level, share)

    def restore(self, estimate: Pixels) -> Array:
        """The unbiased inverse of `stabilise`; without read noise, no pixel is darker than the black level."""
        return self._restored(estimate, 1.0)

    def draws(self) -> tuple[Array, Array]:
        """Pixels with noise, and the probability of each; see `Sampled`."""
        _, counts, chances = _draws(self.read_noise / self.gain, 1.0)
        with np.errstate(over="ignore"):
            return self.gain * counts + self.black_level, chances

    def expected(self, truth: Pixels) -> Array:
        """The mean of stabilised pixels whose noise-free values are given: the inverse of `restore`."""
        return self._expected(truth, 1.0)

    def _restored(self, estimate: Pixels, share: float) -> Array:
        read = self.read_noise / self.gain
        v = np.clip(estimate.astype(np.float64), 0, 1e100)
        counts = v**2 / 4 - _offset(read) + _correction(v, read, share)
        return self.gain * (counts if read else np.maximum(counts, 0)) + self.black_level

    def _expected(self, truth: Pixels, share: float) -> Array:
        read, counts = self.read_noise / self.gain, self.photons(truth)
        means, corrections = _table(read, share)
        tabulated = means**2 / 4 - _offset(read) + corrections
        v = np.interp(counts, tabulated, means)
        beyond = (counts < tabulated[0]) | (counts > tabulated[-1])
        for _ in range(_ITERATIONS if beyond.any() else 0):
            far = 2 * np.sqrt(np.maximum(counts + _offset(read) - _correction(v, read, share), 0))
            v = np.where(beyond, far, v)
        return v


@dataclass(frozen=True)
class BlendedNoise(PoissonGaussianNoise):
    """The noise of a blend of an image and an estimate of it; see `PoissonGaussianNoise.blended`.

    Gain and read noise are those of the blend. It has the variance of an image of more photons, but not its skewness.
    """

    share: float = 1.0

    def restore(self, estimate: Pixels) -> Array:
        return self._restored(estimate, self.share)

    def expected(self, truth: Pixels) -> Array:
        return self._expected(truth, self.share)


def _offset(read: float) -> float:
    return 1 / 8 + read**2


def _correction(v: Array, read: float, share: float) -> Array:
    """The excess of the exact inverse, in counts, over v² / 4 - 1 / 8 - read²; it falls off as 1 / v."""
    means, corrections = _table(read, share)
    fading: Array = means[-1] / np.maximum(v, means[-1])
    return np.interp(v, means, corrections) * fading


@lru_cache(maxsize=64)
def _table(read: float, share: float) -> tuple[Array, Array]:
    """The means of stabilised pixels, and the `_correction` for each.

    `read` is the read noise in counts. Each photon counts as 1 / share; the rest of the counts has no noise.
    """
    counts, values, chances = _draws(read, share)
    stable = 2 * np.sqrt(np.maximum(values + 3 / 8 + read**2, 0))
    means = np.sum(chances * stable, axis=1)
    return means, counts - (means**2 / 4 - _offset(read))


def _draws(read: float, share: float) -> tuple[Array, Array, Array]:
    """Numbers of photons up to _TABULATED; for each, counts with noise, and the probability of each of these."""
    counts = _TABULATED * np.linspace(0, 1, _POINTS) ** 2
    photons = counts * share**2
    most = int(photons[-1] + 10 * math.sqrt(photons[-1]) + 20)
    k = np.arange(most + 1)
    logarithms = np.concatenate([[0.0], np.cumsum(np.log(k[1:]))])
    with np.errstate(divide="ignore", invalid="ignore"):
        exponents = np.where(k == 0, 0.0, k * np.log(photons)[:, None])
    chances = np.exp(exponents - photons[:, None] - logarithms)
    values = k / share + ((1 - share) * counts)[:, None]
    if read:
        values = (values[:, :, None] + read * NODES).reshape(_POINTS, -1)
        chances = (chances[:, :, None] * WEIGHTS).reshape(_POINTS, -1)
    return counts, values, chances
