"""Mosaics, the raw images of cameras, as images of four channels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.algorithm.tuning import Tuning
from ..errors import ArgumentError, ArgumentTypeError
from ..noise import Noise
from ..noise.gaussian import GaussianNoise
from ..noise.poisson import PoissonGaussianNoise
from ..planning.mosaic import Mosaic, checked_mosaic, mostly, repair
from ..planning.options import checked_noise
from ..planning.plan import float_type
from ..types import Pixels
from .arguments import expect_pixels
from .estimating import mosaic_noise


@dataclass(frozen=True, eq=False)
class MosaicPlanes:
    """A mosaic, or frames of mosaics along the first axis, as an image of four channels."""

    mosaic: Mosaic
    image: Pixels
    """The mosaic as it was given."""
    pixels: Pixels
    """The planes, (..., 4, height, width), without the black level and without defective pixels."""
    noise: Noise | str
    """The noise of the planes, given or estimated; its kind if there seems to be none."""
    noise_given: bool
    defects: int
    """The number of defective pixels that were replaced."""
    margin: int = 0
    """The number of rows and columns around the mosaic that the planes have in addition."""

    @property
    def channel_axis(self) -> int:
        """The axis of the planes."""
        return self.pixels.ndim - 3

    def mask(self, mask: Any) -> Pixels | None:
        """Return the missing pixels of the planes, from those of the mosaic."""
        if mask is None:
            return None
        if np.shape(mask) not in (self.image.shape[-2:], self.image.shape):
            raise ArgumentError(
                "mask",
                np.shape(mask),
                f"that of the image, {self.image.shape}",
                "has shape {value}",
            )
        return self.mosaic.planes(_extended(np.asarray(mask), self.margin))

    def parts(self, method: Any, strength: float) -> list["MosaicPlanes"]:
        """Return these planes, and those of the mosaic extended by a row and a column on each side.

        Patches of planes begin at every other row and column of the mosaic; those of the extended one begin in between.
        The mean of both results is better, but takes twice the time. "fast" does not use it, nor do bursts, whose frames
        complement each other.
        """
        white = (GaussianNoise, PoissonGaussianNoise)
        even = isinstance(self.noise, white) and np.ndim(self.noise.level) == 0
        if self.image.ndim > 2 or not even or strength == 0 or method == "fast":
            return [self]
        mosaic = self.mosaic.extended
        whole = _extended(self.mosaic.joined(self.pixels, self.image.shape), 1)
        return [self, replace(self, mosaic=mosaic, pixels=mosaic.planes(whole), margin=1)]

    def joined(self, planes: Pixels, shape: tuple[int, ...]) -> Pixels:
        """Return the mosaic of denoised planes."""
        *frames, height, width = shape
        added = 2 * self.margin
        whole = self.mosaic.joined(
            planes + self.mosaic.black_levels.astype(planes.dtype),
            (*frames, height + added, width + added),
        )
        inner = slice(self.margin, -self.margin or None)
        return whole[..., inner, inner]


def mean_of_parts(
    parts: Sequence[MosaicPlanes], denoised: Sequence[Pixels], image: Pixels
) -> Pixels:
    """Return the mosaic from the denoised planes of its parts; saturated areas are those of the original image."""
    mosaics = [
        part.joined(planes, image.shape) for part, planes in zip(parts, denoised, strict=True)
    ]
    mean: Pixels = sum(mosaics[1:], mosaics[0]) / mosaics[0].dtype.type(len(mosaics))
    mosaic = parts[0].mosaic
    saturated = mosaic.saturated(mosaic.planes(image))
    if saturated is not None:
        where = mosaic.joined(mostly(saturated), image.shape)
        np.copyto(mean, image, where=where, casting="unsafe")
    return mean


def mosaic_planes(
    image: Any, mosaic: Any, sigma: Any, noise: Any, tuning: Tuning, together: int | None = None
) -> MosaicPlanes:
    """Check a mosaic and return its planes; `together` is the axis of frames that belong together, if any.

    Defective pixels are replaced, unless the strength is 0 or outliers are to be kept.
    """
    mosaic = checked_mosaic(mosaic)
    expect_pixels(image)
    pixels = np.asarray(image)
    dimensions = 2 if together is None else 3
    if pixels.ndim != dimensions or min(pixels.shape[-2:], default=0) < 2:
        raise ArgumentError(
            "image",
            pixels.shape,
            f"{dimensions} dimensions, of at least two rows and columns, for a mosaic",
            "has shape {value}",
        )
    if pixels.dtype.kind not in "uif":
        raise ArgumentTypeError("image", pixels.dtype, "integers or floats", "has dtype {value}")
    if together not in (None, 0, -3):
        raise ArgumentError("time_axis", together, "0 for frames of a mosaic")
    planes = mosaic.planes(pixels)
    saturated = mosaic.saturated(planes)
    planes = planes.astype(float_type(pixels.dtype)) - mosaic.black_levels.astype(
        float_type(pixels.dtype)
    )
    model = checked_noise(_of_planes(mosaic, sigma, pixels.shape), noise)
    given = model is not None
    middle = () if together is None else (len(planes) // 2,)
    if model is None:
        mask = None if saturated is None else saturated[middle]
        model = mosaic_noise(planes[middle], mask, noise or "auto")
    if not np.any(np.asarray(model.level) > 0):
        return MosaicPlanes(mosaic, pixels, planes, "gaussian", given, 0)
    if tuning.strength == 0 or not tuning.outliers:
        return MosaicPlanes(mosaic, pixels, planes, model, given, 0)
    frames = planes.reshape(-1, *planes.shape[-3:])
    defects = sum(repair(frame, model) for frame in frames if np.isfinite(frame).all())
    return MosaicPlanes(mosaic, pixels, planes, model, given, defects)


def _of_planes(mosaic: Mosaic, sigma: Any, shape: tuple[int, ...]) -> Any:
    """Convert a map of the noise level of a mosaic to one of its planes; a number is returned as it is."""
    if sigma is None or np.ndim(sigma) < 2:
        return sigma
    if np.shape(sigma) != shape:
        raise ArgumentError("sigma", np.shape(sigma), f"a number or {shape}", "has shape {value}")
    return mosaic.planes(np.asarray(sigma))


def _extended(mosaic: Pixels, margin: int) -> Pixels:
    """A mosaic, or frames of them, with more rows and columns on all sides, by mirroring."""
    if margin == 0:
        return mosaic
    return np.pad(mosaic, [(0, 0)] * (mosaic.ndim - 2) + [(margin, margin)] * 2, "reflect")
