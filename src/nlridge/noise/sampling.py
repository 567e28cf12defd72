"""The level of noise, measured in a flat part of an image that the user points at."""

from typing import Any

import numpy as np
import numpy.typing as npt

_CLOSE = 1.15  # channels whose levels differ by a smaller factor have the same noise


def deviation_in(planes: npt.NDArray[Any]) -> float | list[float]:
    """Return the standard deviation of the noise in a flat part of an image, beside a gradient; to four digits.

    `planes` is a rectangle of the image, of shape (channels, height, width).  Channels have a number each, unless their
    noise is about the same.
    """
    y, x = np.mgrid[: planes.shape[1], : planes.shape[2]]
    plane = np.stack([np.ones(x.size), x.ravel(), y.ravel()], axis=1)
    deviations = []
    for channel in planes:
        values = channel.astype(np.float64).ravel()
        valid = np.isfinite(values)
        if np.count_nonzero(valid) <= 3:
            raise ValueError("rectangle has no valid pixels; expected an area with noise")
        fit, *_ = np.linalg.lstsq(plane[valid], values[valid], rcond=None)
        rest = values[valid] - plane[valid] @ fit
        deviations.append(float(np.sqrt(np.sum(rest**2) / (rest.size - 3))))
    if not max(deviations) > 0:
        raise ValueError("rectangle has no noise; expected an area with noise")
    if max(deviations) < _CLOSE * min(deviations):
        deviations = [float(np.sqrt(np.mean(np.square(deviations))))]
    rounded = [float(f"{value:.4g}") for value in deviations]
    return rounded[0] if len(rounded) == 1 else rounded
