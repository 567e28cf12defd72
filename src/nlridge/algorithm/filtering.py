"""Correlated noise that a short filter makes white.

The filter is applied once to the whole image; in the filtered image the noise of any two pixels, and so of any two
patches, is independent. The changes that denoising makes there are filtered back and added to the image: the image
itself passes no filter, so that it does not matter that the two filters are not quite inverse to each other.

The noise of photographs is of this kind. Stripes and waves are not: no short filter tells them from the image, and
`families.whitening` handles them group by group. But at many frequencies they have hardly any power, and similar
patches are recognised by these.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arrays import is_tensor, library, to_device_of
from ..kernels.compile import kernel
from ..kernels.simd import LANES, fma, load, splat, store
from .inputs import Image

Matrix = npt.NDArray[np.float64]

REACH = 8
"""The filters have 2 REACH + 1 rows and columns."""
# The power spectrum is raised to at least this share of its mean, which bounds how much a filter amplifies.
_LEAST = 0.02
# Noise counts as white if no correlation between two pixels is larger after the filter.
_WHITE = 0.3
# Frequencies are clear if the noise has less than this share of its mean power there.
_CLEAR = 0.01
_VECTORS = 4  # computed at a time


class Filters(NamedTuple):
    """The taps of the filters of each plane, (planes, 2 REACH + 1, 2 REACH + 1)."""

    whiten: npt.NDArray[np.float32]
    """Makes the noise white, with a variance of 1, except at the frequencies at which there is hardly any noise."""
    colour: npt.NDArray[np.float32]
    """Gives white noise the correlation of the noise."""


def filters_of(correlation: Matrix | None) -> Filters | None:
    """The filters for noise with the given autocovariances, (planes, 2 a + 1, 2 b + 1).

    None if the noise is white already, or if a short filter does not make it white.
    """
    if correlation is None:
        return None
    planes = [_plane_filters(plane) for plane in correlation]
    if any(left > _WHITE for _, _, left in planes):
        return None
    whiten, colour, _ = zip(*planes, strict=True)
    return Filters(np.array(whiten, np.float32), np.array(colour, np.float32))


def clear_frequencies(correlation: Matrix | None) -> npt.NDArray[np.float32] | None:
    """The taps of a filter for each plane that keeps the frequencies at which there is hardly any noise.

    None for white noise.
    """
    if correlation is None:
        return None
    taps = []
    for plane in correlation:
        side = 2 * (max(plane.shape) + 2 * REACH)
        power = np.maximum(np.fft.fft2(_on_grid(plane, side)).real, 0)
        taps.append(_taps(_CLEAR / (_CLEAR + power / power.mean())))
    return np.array(taps, np.float32)


def _plane_filters(correlation: Matrix) -> tuple[Matrix, Matrix, float]:
    """The filters for a plane, and the largest correlation of two pixels that is left after the first one."""
    side = 2 * (max(correlation.shape) + 2 * REACH)  # so that nothing wraps around
    power = np.fft.fft2(_on_grid(correlation, side)).real
    raised = np.sqrt(np.maximum(power, _LEAST * power.mean()))
    whiten, colour = _taps(1 / raised), _taps(raised)
    response = np.fft.fft2(_on_grid(whiten, side)).real
    left = np.fft.ifft2(np.maximum(power, 0) * response**2).real
    return whiten, colour, float(np.abs(left.reshape(-1)[1:]).max() / left[0, 0])


def _taps(response: Matrix) -> Matrix:
    """The taps of a filter with about the given response to each frequency."""
    steps = np.arange(-REACH, REACH + 1)
    # The taps end softly, since those that are cut off would leave ripples in the spectrum.
    window = np.cos(np.pi / 2 * np.maximum(2 * np.abs(steps) / (REACH + 1) - 1, 0)) ** 2
    taps: Matrix = np.fft.ifft2(response).real[steps[:, None], steps]
    return taps * np.outer(window, window)


def _on_grid(values: Matrix, side: int) -> Matrix:
    """The values on a periodic grid, with their middle at the origin."""
    grid = np.zeros((side, side))
    rows, columns = (np.arange(length) - length // 2 for length in values.shape)
    grid[rows[:, None], columns] = values
    return grid


def filtered(image: Image, taps: npt.NDArray[np.float32]) -> Image:
    """Convolve each plane with its taps, which are symmetric; the image is extended by mirroring."""
    if is_tensor(image):
        return _filtered_tensor(image, taps)
    return convolved(np.pad(image, ((0, 0), (REACH, REACH), (REACH, REACH)), "symmetric"), taps)


def convolved(image: npt.NDArray[np.float32], taps: npt.NDArray[np.float32]) -> Image:
    """Convolve each plane of an image that has a margin of REACH pixels; the result has none."""
    planes, height, width = image.shape
    vector = _VECTORS * LANES
    columns = -(-(width - 2 * REACH) // vector) * vector
    wide = np.zeros((planes, height, columns + 2 * REACH), np.float32)
    wide[:, :, :width] = image
    result = np.empty((planes, height - 2 * REACH, columns), np.float32)
    for source, kernel_taps, target in zip(wide, taps, result, strict=True):
        _convolve(source.reshape(-1), kernel_taps.reshape(-1), target.reshape(-1), columns)
    return result[:, :, : width - 2 * REACH]


@kernel
def _convolve(image, taps, result, columns):
    """Each pixel is a sum in one order, whatever its place, so that parts of an image have the same bits."""
    row, side = columns + 2 * REACH, 2 * REACH + 1
    for first in range(0, len(result), _VECTORS * LANES):
        corner = first // columns * row + first % columns
        a = b = c = d = splat(np.float32(0))
        for i in range(side):
            for j in range(side):
                o = corner + i * row + j
                tap = splat(taps[i * side + j])
                a = fma(tap, load(image, o), a)
                b = fma(tap, load(image, o + LANES), b)
                c = fma(tap, load(image, o + 2 * LANES), c)
                d = fma(tap, load(image, o + 3 * LANES), d)
        store(result, first, a)
        store(result, first + LANES, b)
        store(result, first + 2 * LANES, c)
        store(result, first + 3 * LANES, d)


def _filtered_tensor(image: Image, taps: npt.NDArray[np.float32]) -> Image:
    """`filtered` for tensors of (planes, batch, height, width)."""
    torch = library(image)
    wide = image
    for axis in (-1, -2):
        length = image.shape[axis]
        places = np.arange(-REACH, length + REACH) % (2 * length)
        places = np.minimum(places, 2 * length - 1 - places)
        wide = wide.index_select(axis, to_device_of(image, places))
    weights = to_device_of(image, taps[:, None]).to(image.dtype)
    batches = torch.nn.functional.conv2d(wide.movedim(0, 1), weights, groups=len(taps))
    return batches.movedim(1, 0)
