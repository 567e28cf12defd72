"""Images of a calibrated camera, such as an sCMOS, whose pixels have their own offset, gain and read-out noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.algorithm.filling import blurred, fill
from ..errors import ArgumentError, ArgumentTypeError
from ..noise import Noise
from ..noise.gaussian import GaussianNoise
from ..noise.poisson import PoissonGaussianNoise
from ..types import Array, Mask, Pixels

_BLURS = 3  # number of blurs to estimate the brightness around a pixel


@dataclass(frozen=True, eq=False)
class Calibration:
    """The offset, gain and read noise of each pixel of a camera, in the units of the image.

    Parameters
    ----------
    offset : array of shape (height, width), optional
        The value of each pixel without light.
    gain : array of shape (height, width), optional
        The amount that one photon adds to the value of each pixel.
    sigma : float or array of shape (height, width), optional
        The standard deviation of the read-out noise.

    See Also
    --------
    PoissonGaussianNoise : The noise of a camera whose pixels are all alike.

    Notes
    -----
    A pixel is defective if its offset or sigma is not finite, or its gain not positive. It takes the mean of its
    neighbours.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> rng = np.random.default_rng(0)
    >>> shape = 64, 64
    >>> offset, gain, sigma = rng.normal(100, 5, shape), rng.normal(2, 0.1, shape), rng.gamma(4, 1, shape)
    >>> image = offset + gain * rng.poisson(50, shape) + rng.normal(0, sigma)
    >>> camera = nlridge.Calibration(offset, gain, sigma)
    >>> equal = camera.equalised(image)
    >>> clean = nlridge.denoise(equal, noise=camera.noise_in(equal))
    >>> bool(abs(clean.mean() - 200) < 2)
    True
    """

    offset: Any = None
    gain: Any = None
    sigma: Any = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("offset", "gain", "sigma")}
        for name, values in given.items():
            if values is not None:
                object.__setattr__(self, name, _checked_map(name, values))
        maps = [values for values in (self.offset, self.gain, self.sigma) if np.ndim(values)]
        if not maps:
            raise ValueError("no map is given; expected an offset, a gain or a sigma of each pixel")
        shapes = {values.shape for values in maps}
        if len(shapes) > 1:
            raise ValueError(f"maps have the shapes {sorted(shapes)}; expected the same for all")

    @property
    def shape(self) -> tuple[int, ...]:
        """The height and width of the maps."""
        return self._good.shape

    @property
    def notes(self) -> list[str]:
        """Sentences on what an equalised image has lost."""
        words = []
        if self.offset is not None:
            words.append(f"offset {self._typical(self.offset):.4g}")
        if self.gain is not None:
            words.append(f"gain {self._typical(self.gain):.4g}")
        return [f"all pixels now have the same {' and '.join(words)} (medians of the maps)"] if words else []  # fmt: skip

    @property
    def _good(self) -> Mask:
        """The pixels that are not defective."""
        valid = [np.isfinite(values) for values in (self.offset, self.sigma) if values is not None]
        if self.gain is not None:
            valid.append(np.isfinite(self.gain) & (self.gain > 0))
        return np.asarray(np.logical_and.reduce(np.broadcast_arrays(*valid)), bool)

    def expect_size(self, size: tuple[int, ...]) -> None:
        """Check that the maps have the height and width of an image."""
        if size != self.shape:
            raise ValueError(
                f"maps have the shape {self.shape}; expected {size}, the height and width of the image"
            )

    def _checked(self, image: npt.ArrayLike, axes: str) -> Pixels:
        pixels = np.asarray(image)
        if pixels.dtype.kind not in "uif":
            raise ArgumentTypeError("image", image, "an array of numbers")
        if len(axes) != pixels.ndim or [a for a in axes if a in "YX"] != ["Y", "X"]:
            raise ArgumentError(
                "axes",
                axes,
                f"a letter for each of the {pixels.ndim} axes of the image, Y before X",
            )
        self.expect_size(tuple(pixels.shape[axes.index(axis)] for axis in "YX"))
        return pixels

    def _typical(self, values: Any) -> float:
        good = self._good
        return float(np.median(np.broadcast_to(values, good.shape)[good])) if good.any() else 1.0

    def equalised(self, image: Pixels, axes: str = "YX") -> Pixels:
        """Convert an image to that of a camera whose pixels all have the median offset and gain of this one.

        Parameters
        ----------
        image : array
            The image as it comes from the camera.
        axes : str, default "YX"
            A letter for each axis of the image; Y and X are its height and width, in this order.

        Returns
        -------
        array
            Floating-point numbers. Defective pixels have the mean of their neighbours.

        Examples
        --------
        >>> import numpy as np
        >>> import nlridge
        >>> camera = nlridge.Calibration(offset=np.array([[98.0, 100.0, 103.0]]))
        >>> camera.equalised(np.array([[118.0, 120.0, 123.0]]))
        array([[120., 120., 120.]])
        """
        image = self._checked(image, axes)
        result = image.astype(np.promote_types(image.dtype, np.float32))
        if self.offset is not None:
            result = result - _spread(self.offset, axes)
        if self.gain is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                result = result * (self._typical(self.gain) / _spread(self.gain, axes))
        if self.offset is not None:
            result = result + self._typical(self.offset)
        if not self._good.all():
            planes = np.moveaxis(result, [axes.index(axis) for axis in "YX"], (-2, -1))
            for number in np.ndindex(*planes.shape[:-2]):
                plane = np.where(self._good, planes[number], np.nan).astype(np.float32)
                planes[number] = np.where(self._good, planes[number], fill(plane))
        return result.astype(np.promote_types(image.dtype, np.float32))

    def noise_in(self, image: Pixels, axes: str = "YX") -> Noise | None:
        """Return the noise in an image that was equalised.

        Parameters
        ----------
        image : array
            The result of `equalised`.
        axes : str, default "YX"
            As for `equalised`.

        Returns
        -------
        noise model or None
            What `denoise` takes as ``noise``. None without a sigma: `denoise` then estimates the noise.

        Examples
        --------
        >>> import numpy as np
        >>> import nlridge
        >>> camera = nlridge.Calibration(gain=np.full((2, 2), 2.5), sigma=4)
        >>> print(camera.noise_in(np.full((2, 2), 50.0)))
        Poisson noise with a gain of 2.5, and read-out noise of 4
        """
        image = self._checked(image, axes)
        if self.sigma is None:
            return None
        gain = 1.0 if self.gain is None else self._typical(self.gain)
        with np.errstate(divide="ignore", invalid="ignore"):
            sigma = self.sigma * (1.0 if self.gain is None else gain / self.gain)
        typical = self._typical(sigma)
        sigma = _spread(np.where(self._good, sigma, typical), axes)
        if self.gain is None:
            return GaussianNoise(np.broadcast_to(sigma, image.shape))
        black = 0.0 if self.offset is None else self._typical(self.offset)
        camera = PoissonGaussianNoise(gain, typical, black)
        if np.all(sigma == typical):
            return camera
        # The transform is that of the typical pixel: after it, other pixels have more noise, or less.
        photons = np.maximum(_brightness(image, axes) - black, 0) * gain
        ratio = np.sqrt((photons + sigma**2) / np.maximum(photons + typical**2, 1e-300))
        return CalibratedNoise(camera, ratio, (float(sigma.min()), float(sigma.max())))


@dataclass(frozen=True, eq=False)
class CalibratedNoise:
    """Poisson noise, and read-out noise that differs from pixel to pixel."""

    camera: PoissonGaussianNoise
    """The noise of a typical pixel."""
    level: Array
    """The standard deviation of the noise of each pixel, relative to that of a typical pixel of the same brightness."""
    ends: tuple[float, float]
    """The smallest and the largest standard deviation of the read-out noise."""

    def __str__(self) -> str:
        low, high = (f"{end:.4g}" for end in self.ends)
        return f"{self.camera} (from {low} to {high})"

    @property
    def black_level(self) -> float:
        return self.camera.black_level

    def stabilise(self, image: Pixels) -> Array:
        return self.camera.stabilise(image)

    def variance(self, truth: Array, level: Array) -> Array:
        return level**2 * self.camera.variance(truth, level)

    def restore(self, estimate: Pixels) -> Array:
        return self.camera.restore(estimate)

    def draws(self) -> tuple[Array, Array]:
        """Pixels with noise, and the probability of each; see `nlridge.noise.unbiased.Sampled`."""
        return self.camera.draws()


def _checked_map(name: str, values: Any) -> Array:
    """A map of (height, width); sigma may be one number."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "uif":
            raise TypeError
    except (TypeError, ValueError):
        raise ArgumentTypeError(name, values, "an array of numbers") from None
    if array.ndim != 2 and not (name == "sigma" and array.ndim == 0):
        raise ArgumentError(name, array.shape, "(height, width)", "has shape {value}")
    return array.astype(np.float64)


def _spread(values: Any, axes: str) -> Array:
    """A map of (height, width) with an axis of length 1 for each other axis; a number is returned as it is."""
    array = np.asarray(values, np.float64)
    others = tuple(k for k, axis in enumerate(axes) if axis not in "YX")
    return np.expand_dims(array, others) if array.ndim else array


def _brightness(image: Pixels, axes: str) -> Array:
    """The mean around each pixel."""
    planes = np.moveaxis(image, [axes.index(axis) for axis in "YX"], (-2, -1))
    means = np.empty(planes.shape, np.float64)
    weight = np.ones(planes.shape[-2:], np.float32)
    for _ in range(_BLURS):
        weight = blurred(weight)
    for number in np.ndindex(*planes.shape[:-2]):
        plane = np.nan_to_num(planes[number].astype(np.float32))
        for _ in range(_BLURS):
            plane = blurred(plane)
        means[number] = plane / weight
    return np.moveaxis(means, (-2, -1), [axes.index(axis) for axis in "YX"])
