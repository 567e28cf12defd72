"""The command `compare`."""

import json
import math
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import checked_positive
from ..files import Picture, read
from ..files.orientation import upright
from ..jobs.axes import axes_of, notes_on_axes
from ..jobs.paths import is_zarr_name
from ..jobs.tiled import DiskPlanes
from .metrics import difference
from .printing import report_note, sentence_on

_ROWS = 512  # read at a time to compute the range of an image


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
                picture = read(name, axes, options.dataset)
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
