"""Parts of an image in which its noise is measured: a flat one chosen by the user, or a few squares."""

import numpy as np

from ...errors import ArgumentError
from ...types import Pixels

_SQUARES = 4  # number of squares along an axis, for a first look at an image
_GAP = 8  # pixels between the squares
_SAME_NOISE_RATIO = 1.15  # channels whose levels differ by a smaller factor have the same noise


def deviation_in(planes: Pixels) -> float | list[float]:
    """Return the standard deviation of the noise in a flat part of an image, ignoring a gradient, to four digits.

    `planes` is a rectangle of the image, of shape (channels, height, width). The result is one number for each channel,
    or a single one if their noise is about the same.
    """
    y, x = np.mgrid[: planes.shape[1], : planes.shape[2]]
    plane = np.stack([np.ones(x.size), x.ravel(), y.ravel()], axis=1)
    deviations = []
    for channel in planes:
        values = channel.astype(np.float64).ravel()
        valid = np.isfinite(values)
        if np.count_nonzero(valid) <= 3:
            raise ArgumentError(
                "rectangle", planes.shape, "an area with noise", "has no valid pixels"
            )
        fit, *_ = np.linalg.lstsq(plane[valid], values[valid], rcond=None)
        rest = values[valid] - plane[valid] @ fit
        deviations.append(float(np.sqrt(np.sum(rest**2) / (rest.size - 3))))
    if not max(deviations) > 0:
        raise ArgumentError("rectangle", planes.shape, "an area with noise", "has no noise")
    if max(deviations) < _SAME_NOISE_RATIO * min(deviations):
        deviations = [float(np.sqrt(np.mean(np.square(deviations))))]
    rounded = [float(f"{value:.4g}") for value in deviations]
    return rounded[0] if len(rounded) == 1 else rounded


def squares_of(planes: Pixels, side: int) -> Pixels:
    """Return 16 squares of an image of (channels, height, width) side by side, as floats; a small image as a whole.

    They are evenly spaced from end to end. The gaps between them are missing pixels.
    """
    channels, *size = planes.shape
    if size[0] * size[1] <= (_SQUARES * side) ** 2:
        return planes
    spans = [min(side, length) for length in size]
    counts = [min(_SQUARES, length // span) for length, span in zip(size, spans, strict=True)]
    padded = [count * (span + _GAP) for count, span in zip(counts, spans, strict=True)]
    squares = np.full((channels, *padded), np.nan, np.result_type(planes.dtype, np.float32))
    for place in np.ndindex(*counts):
        source, target = (
            tuple(slice(start, start + span) for start, span in zip(starts, spans, strict=True))
            for starts in (
                [
                    k * (n - s) // max(m - 1, 1)
                    for k, n, s, m in zip(place, size, spans, counts, strict=True)
                ],
                [k * (s + _GAP) for k, s in zip(place, spans, strict=True)],
            )
        )
        squares[:, *target] = planes[:, *source]
    return squares
