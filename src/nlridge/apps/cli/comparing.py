"""The command `compare`."""

import json
import math
from argparse import Namespace
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...checks import checked_positive
from ...files import Picture
from ...files.apart import read_apart
from ...files.orientation import upright
from ..jobs.axes import axes_of, notes_on_axes
from ..jobs.paths import is_zarr_name
from ..jobs.tiled import DiskPlanes
from .printing import report_note, sentence_on

_ROWS = 512  # rows read at a time to compute the range of an image


def compare(options: Namespace) -> int:
    """Print how much two files differ."""
    axes = axes_of(options.channel_axis, options.stack_axis)
    names = [Path(name) for name in (options.first, options.second)]
    on_disk = any(map(is_zarr_name, names))
    planes: list[Any] = []
    for name in names:
        try:
            if on_disk:
                planes.append(DiskPlanes(name, axes))
                notes = planes[-1].notes
            else:
                picture = read_apart(name, axes, options.dataset)
                planes.append(_planes(upright(picture)))
                notes = notes_on_axes(axes, (layer.axes for layer in picture.layers))
        except (ValueError, OSError) as error:
            raise ValueError(sentence_on(name, error)) from None
        for note in notes:
            report_note(f"{name}: {note}")
    a, b = planes
    if a.shape != b.shape:
        raise ValueError(f"images have shapes {a.shape} and {b.shape}; expected the same shape")
    peak = _peak(a) if options.peak is None else checked_positive("peak", options.peak)
    result = difference(a, b, peak)
    if options.json:
        values = {
            name: value if math.isfinite(value) else None for name, value in asdict(result).items()
        }
        print(json.dumps({"a": options.first, "b": options.second, "peak": peak, **values}))
        return 0
    print(f"PSNR                {result.psnr:.2f} dB (for a peak of {peak:g})")
    print(f"SSIM                {result.ssim:.4f}")
    print(f"RMSE                {result.rmse:.4g}")
    print(f"largest difference  {result.largest:.4g}")
    return 0


def _planes(picture: Picture) -> Any:
    """Return all pixels of a picture, with height and width last."""
    if len(picture.layers) > 1:
        raise ValueError("the file holds images of several shapes; expected a single shape")
    layer = picture.layers[0]
    return np.moveaxis(layer.pixels, [layer.axes.index(axis) for axis in "YX"], (-2, -1))


def _peak(planes: Any) -> float:
    """Return the largest value of an integer type, or the range of the values of floats."""
    if planes.dtype.kind in "ui":
        return float(np.iinfo(planes.dtype).max)
    low, high = math.inf, -math.inf
    for plane in np.ndindex(*planes.shape[:-2]):
        for top in range(0, planes.shape[-2], _ROWS):
            index = (*plane, slice(top, top + _ROWS))
            rows = planes[index].astype(np.float64)
            low = min(low, float(rows.min(initial=math.inf, where=np.isfinite(rows))))
            high = max(high, float(rows.max(initial=-math.inf, where=np.isfinite(rows))))
    return high - low if high >= low else 1.0


Array = npt.NDArray[np.float64]

_PIXELS = 2**22  # pixels of a plane that are processed at a time


@dataclass(frozen=True)
class Difference:
    """The measures that `nlridge compare` prints."""

    psnr: float
    """Peak signal-to-noise ratio in dB; infinite if the images are equal."""
    ssim: float
    """Structural similarity, 1 if the images are equal."""
    rmse: float
    """Root mean square difference, in the units of the images."""
    largest: float
    """Largest absolute difference between two pixels."""


def difference(a: Any, b: Any, peak: float) -> Difference:
    """Compare two arrays of shape (..., height, width), whose values span a range of `peak`.

    Either may be an array on disk, of shape (planes, height, width); only some rows of a plane are read at a time.
    Pixels that are not finite in both images are ignored. The SSIM is NaN if there are any.
    """
    planes = [x.reshape(-1, *x.shape[-2:]) if isinstance(x, np.ndarray) else x for x in (a, b)]
    _, height, width = planes[0].shape
    window = _window(height, width)
    at_once = max(64, _PIXELS // width)
    count, squares, largest, similarities = 0, 0.0, 0.0, []
    for plane in range(len(planes[0])):
        for top in range(0, height, at_once):
            rows = slice(top, min(top + at_once + len(window) - 1, height))
            x, y = (np.asarray(image[plane, rows], np.float64) for image in planes)
            error = np.abs(x[:at_once] - y[:at_once])
            finite = np.isfinite(error)
            error = error[finite]
            count += error.size
            squares += float(np.sum(error**2))
            largest = max(largest, float(error.max(initial=0)))
            if len(x) >= len(window):
                similarities.append(
                    _ssim(x, y, peak, window) if finite.all() else np.array([np.nan])
                )
    if not count:
        raise ValueError("images have no pixels that are finite in both; expected at least one")
    rmse = float(np.sqrt(squares / count))
    psnr = float("inf") if rmse == 0 or peak == 0 else 20 * float(np.log10(peak / rmse))
    ssim = sum(float(s.sum()) for s in similarities) / sum(s.size for s in similarities)
    return Difference(psnr, ssim, rmse, largest)


def _window(height: int, width: int) -> Array:
    """Return a Gaussian window of 11 pixels, or fewer for a small image, with a standard deviation of 1.5."""
    size = min(11, *(n if n % 2 else n - 1 for n in (height, width)))
    window = np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * 1.5**2))
    normalised: Array = window / window.sum()
    return normalised


def _ssim(x: Array, y: Array, peak: float, window: Array) -> Array:
    """Return the similarity at each position of the window (Wang et al., IEEE TIP 2004)."""
    c1, c2 = (0.01 * peak) ** 2, (0.03 * peak) ** 2

    def smooth(image: Array) -> Array:
        for axis in (-1, -2):
            parts = np.lib.stride_tricks.sliding_window_view(image, len(window), axis=axis)
            image = parts @ window
        return image

    mean_x, mean_y = smooth(x), smooth(y)
    var_x, var_y = smooth(x * x) - mean_x**2, smooth(y * y) - mean_y**2
    covariance = smooth(x * y) - mean_x * mean_y
    brightness = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    similarity: Array = brightness * (2 * covariance + c2) / (var_x + var_y + c2)
    return similarity
