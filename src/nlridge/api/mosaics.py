"""Mosaics, the raw images of cameras: `denoise` and `denoise_with_details` with `mosaic`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import shown
from ..noise import Noise
from ..planning.mosaic import Mosaic, checked_mosaic, mostly, repair
from ..planning.options import checked_noise
from ..planning.plan import float_type
from .estimating import mosaic_noise

Pixels = npt.NDArray[Any]


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

    @property
    def channel_axis(self) -> int:
        """The axis of the planes."""
        return self.pixels.ndim - 3

    def mask(self, mask: Any) -> Pixels | None:
        """Return the missing pixels of the planes, from those of the mosaic."""
        if mask is None:
            return None
        if np.shape(mask) not in (self.image.shape[-2:], self.image.shape):
            raise ValueError(
                f"mask has shape {np.shape(mask)}; expected that of the image, {self.image.shape}"
            )
        return self.mosaic.planes(np.asarray(mask))

    def joined(self, planes: Pixels, image: Pixels) -> Pixels:
        """Return the mosaic of denoised planes; saturated areas are those of the image before."""
        planes = planes + self.mosaic.black_levels.astype(planes.dtype)
        noisy = self.mosaic.planes(image)
        saturated = self.mosaic.saturated(noisy)
        if saturated is not None:
            np.copyto(planes, noisy, where=mostly(saturated), casting="unsafe")
        return self.mosaic.joined(planes, image.shape)


def mosaic_planes(
    image: Any, mosaic: Any, sigma: Any, noise: Any, together: int | None = None
) -> MosaicPlanes:
    """Check a mosaic and return its planes; `together` is the axis of frames that belong together, if any."""
    mosaic = checked_mosaic(mosaic)
    pixels = np.asarray(image)
    dimensions = 2 if together is None else 3
    if pixels.ndim != dimensions or min(pixels.shape[-2:], default=0) < 2:
        raise ValueError(
            f"image has shape {pixels.shape}; expected {dimensions} dimensions, of at least two rows and columns, "
            "for a mosaic"
        )
    if pixels.dtype.kind not in "uif":
        raise TypeError(f"image has dtype {pixels.dtype}; expected integers or floats")
    if together not in (None, 0, -3):
        raise ValueError(f"time_axis is {shown(together)}; expected 0 for frames of a mosaic")
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
    frames = planes.reshape(-1, *planes.shape[-3:])
    defects = sum(repair(frame, model) for frame in frames if np.isfinite(frame).all())
    return MosaicPlanes(mosaic, pixels, planes, model, given, defects)


def _of_planes(mosaic: Mosaic, sigma: Any, shape: tuple[int, ...]) -> Any:
    """A map of the level of the noise of a mosaic, as that of its planes; a number as it is."""
    if sigma is None or np.ndim(sigma) < 2:
        return sigma
    if np.shape(sigma) != shape:
        raise ValueError(f"sigma has shape {np.shape(sigma)}; expected a number or {shape}")
    return mosaic.planes(np.asarray(sigma))
