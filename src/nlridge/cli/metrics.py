"""How far two images are apart."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_PIXELS = 2**22  # of a plane at a time


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


def difference(a: Any, b: Any, peak: float) -> Difference:
    """The difference of two arrays of (..., height, width), whose values span a range of `peak`.

    Either may be an array on disk, of (planes, height, width), since some rows of a plane are read at a time.
    Pixels that are NaN in either do not count; the SSIM is NaN if there are any.
    """
    planes = [x.reshape(-1, *x.shape[-2:]) if isinstance(x, np.ndarray) else x for x in (a, b)]
    _, height, width = planes[0].shape
    window = _window(height, width)
    at_once = max(64, _PIXELS // width)
    count, squares, largest, similar = 0, 0.0, 0.0, []
    for plane in range(len(planes[0])):
        for top in range(0, height, at_once):
            rows = slice(top, min(top + at_once + len(window) - 1, height))
            x, y = (np.asarray(some[plane, rows], np.float64) for some in planes)
            error = np.abs(x[:at_once] - y[:at_once])
            there = np.isfinite(error)
            error = error[there]
            count += error.size
            squares += float(np.sum(error**2))
            largest = max(largest, float(error.max(initial=0)))
            if len(x) >= len(window):
                similar.append(_ssim(x, y, peak, window) if there.all() else np.array([np.nan]))
    if not count:
        raise ValueError(
            "the images have no pixel in common that is a number; expected one at least"
        )
    rmse = float(np.sqrt(squares / count))
    psnr = float("inf") if rmse == 0 or peak == 0 else 20 * float(np.log10(peak / rmse))
    ssim = sum(float(some.sum()) for some in similar) / sum(some.size for some in similar)
    return Difference(psnr, ssim, rmse, largest)


def _window(height: int, width: int) -> Array:
    """A Gaussian window of 11 pixels, or fewer in a small image, with a standard deviation of 1.5."""
    size = min(11, *(n if n % 2 else n - 1 for n in (height, width)))
    window = np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * 1.5**2))
    found: Array = window / window.sum()
    return found


def _ssim(x: Array, y: Array, peak: float, window: Array) -> Array:
    """Wang et al., IEEE TIP 2004: the similarity in each place of the window."""
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2

    def smooth(image: Array) -> Array:
        for axis in (-1, -2):
            parts = np.lib.stride_tricks.sliding_window_view(image, len(window), axis=axis)
            image = parts @ window
        return image

    mean_x, mean_y = smooth(x), smooth(y)
    var_x, var_y = smooth(x * x) - mean_x**2, smooth(y * y) - mean_y**2
    both = smooth(x * y) - mean_x * mean_y
    brightness = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    found: Array = brightness * (2 * both + c2) / (var_x + var_y + c2)
    return found
