"""How far two images are apart."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """What `nlridge compare` prints."""

    psnr: float
    """Peak signal-to-noise ratio in dB; infinite if the images are equal."""
    ssim: float
    """Structural similarity, 1 if the images are equal."""
    rmse: float
    """Root of the mean squared difference, in the images' units."""
    largest: float
    """The largest difference of a pixel."""


def difference(a: npt.NDArray[Any], b: npt.NDArray[Any], peak: float) -> Difference:
    """The difference of two arrays of (..., height, width), whose values span a range of `peak`.

    Pixels that are NaN in either do not count; the SSIM is NaN if there are any.
    """
    x, y = a.astype(np.float64), b.astype(np.float64)
    there = np.isfinite(x) & np.isfinite(y)
    if not there.any():
        raise ValueError(
            "the images have no pixel in common that is a number; expected one at least"
        )
    error = np.abs(x[there] - y[there])
    rmse = float(np.sqrt(np.mean(error**2)))
    psnr = float("inf") if rmse == 0 or peak == 0 else 20 * float(np.log10(peak / rmse))
    ssim = _ssim(x, y, peak) if there.all() else float("nan")
    return Difference(psnr, ssim, rmse, float(error.max()))


def _ssim(x: Array, y: Array, peak: float) -> float:
    """Wang et al., IEEE TIP 2004: a Gaussian window of 11 x 11 pixels with a standard deviation of 1.5."""
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2
    size = min(11, *(n if n % 2 else n - 1 for n in x.shape[-2:]))
    window = np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * 1.5**2))
    window /= window.sum()

    def smooth(image: Array) -> Array:
        for axis in (-1, -2):
            parts = np.lib.stride_tricks.sliding_window_view(image, size, axis=axis)
            image = parts @ window
        return image

    mean_x, mean_y = smooth(x), smooth(y)
    var_x, var_y = smooth(x * x) - mean_x**2, smooth(y * y) - mean_y**2
    both = smooth(x * y) - mean_x * mean_y
    brightness = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    return float(np.mean(brightness * (2 * both + c2) / (var_x + var_y + c2)))
