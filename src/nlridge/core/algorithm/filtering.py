"""Correlated noise that a short filter makes white.

The filter is applied once to the whole image; in the filtered image the noise of any two pixels, and so of any two
patches, is independent. The changes that denoising makes there are filtered back and added to the image: the image
itself is never filtered, so the two filters need not be exact inverses of each other.

The noise of photographs is of this kind. Stripes and waves are not: no short filter tells them from the image, and
`families.whitening` handles them group by group. But they have hardly any power at most frequencies. Similar patches are
found by these frequencies alone, and any change that denoising makes to them is undone, since a patch is too small to
separate them from the frequencies of the noise.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...types import Array, Floats, Positions
from ..arrays import Each, do_all, is_tensor, library, to_device_of
from ..kernels.compile import kernel
from ..kernels.simd import LANES, fma, load, splat, store
from .inputs import Image

# Filters have 2 REACH + 1 rows and columns, or 2 _LONG_REACH + 1 if they resolve frequencies more finely than a patch.
REACH = 8
_LONG_REACH = 32
# The power spectrum is raised to at least this share of its mean, which limits how much a filter amplifies.
_POWER_FLOOR = 0.02
# Noise counts as white if no two pixels are correlated more strongly after filtering.
_WHITE_CORRELATION = 0.3
# Frequencies are clear if the noise has less than this share of its mean power there.
_CLEAR_POWER = 0.01
# The mean power of the signal that denoising removes from the groups, as a share of that of the noise.
_LOST_POWER = 0.05
_VECTORS = 4  # computed at a time
_BAND = 64  # rows that are filtered at a time


class Filters(NamedTuple):
    """The taps of the filters of each plane, (planes, 2 REACH + 1, 2 REACH + 1)."""

    whiten: Floats
    """Makes the noise white, with a variance of 1, except at the frequencies at which there is hardly any noise."""
    color: Floats
    """Gives white noise the correlation of the noise."""


def filters_of(correlation: Array | None) -> Filters | None:
    """The filters for noise with the given autocovariances, (planes, 2 a + 1, 2 b + 1).

    None if the noise is white already, or if a short filter does not make it white.
    """
    if correlation is None:
        return None
    planes = [_plane_filters(plane) for plane in correlation]
    if any(left > _WHITE_CORRELATION for _, _, left in planes):
        return None
    whiten, color, _ = zip(*planes, strict=True)
    return Filters(np.array(whiten, np.float32), np.array(color, np.float32))


class ClearFrequencies(NamedTuple):
    """The taps of filters, for each plane, that pass the frequencies at which there is hardly any noise."""

    compare: Floats
    """Short filters, for the image in which similar patches are searched for."""
    restore: Floats
    """Wiener filters of what has been removed from the image: they remove the noise from it, and leave the signal."""


def clear_frequencies(correlation: Array | None) -> ClearFrequencies | None:
    """The filters for noise with the given autocovariances. None for white noise."""
    if correlation is None:
        return None
    compare, restore = [], []
    for plane in correlation:
        # A filter does not resolve the spectrum of noise that is correlated further than it reaches.
        ends = [_window(np.arange(length) - length // 2, _LONG_REACH) for length in plane.shape]
        compare.append(_taps(_pass_below(_CLEAR_POWER, plane)))
        restore.append(_taps(_pass_below(_LOST_POWER, plane * np.outer(*ends)), _LONG_REACH))
    return ClearFrequencies(np.array(compare, np.float32), np.array(restore, np.float32))


def is_narrow(correlation: Array | None) -> bool:
    """Whether the noise of each plane has hardly any power at most frequencies."""
    return correlation is not None and all(
        np.mean(_pass_below(_LOST_POWER, plane) > 0.5) > 0.5 for plane in correlation
    )


def _pass_below(share: float, correlation: Array) -> Array:
    """The response to each frequency: 1/2 where the noise has `share` of its mean power, more where it has less."""
    side = 2 * (max(correlation.shape) + 2 * _LONG_REACH)
    power = np.maximum(np.fft.fft2(_on_grid(correlation, side)).real, 0)
    return share / (share + power / power.mean())


def _plane_filters(correlation: Array) -> tuple[Array, Array, float]:
    """The filters for a plane, and the largest correlation between two pixels that the first one leaves."""
    side = 2 * (max(correlation.shape) + 2 * REACH)  # so that nothing wraps around
    power = np.fft.fft2(_on_grid(correlation, side)).real
    raised = np.sqrt(np.maximum(power, _POWER_FLOOR * power.mean()))
    whiten, color = _taps(1 / raised), _taps(raised)
    response = np.fft.fft2(_on_grid(whiten, side)).real
    left = np.fft.ifft2(np.maximum(power, 0) * response**2).real
    return whiten, color, float(np.abs(left.reshape(-1)[1:]).max() / left[0, 0])


def _taps(response: Array, reach: int = REACH) -> Array:
    """The taps of a filter with about the given response to each frequency."""
    steps = np.arange(-reach, reach + 1)
    window = _window(steps, reach)
    taps: Array = np.fft.ifft2(response).real[steps[:, None], steps]
    return taps * np.outer(window, window)


def _window(steps: Positions, reach: int) -> Array:
    """Factors that taper the taps; taps that are cut off would leave ripples in the spectrum."""
    beyond = np.clip(2 * np.abs(steps) / (reach + 1) - 1, 0, 1)
    factors: Array = np.cos(np.pi / 2 * beyond) ** 2
    return factors


def _on_grid(values: Array, side: int) -> Array:
    """The values on a periodic grid, with their centre at the origin."""
    grid = np.zeros((side, side))
    rows, columns = (np.arange(length) - length // 2 for length in values.shape)
    grid[rows[:, None], columns] = values
    return grid


def filtered(image: Image, taps: Floats, each: Each = map) -> Image:
    """Convolve each plane with its taps, which are symmetric; the image is extended by mirroring.

    `each` computes bands of rows: `map`, or a function like it that uses several threads.
    """
    if is_tensor(image):
        return _filtered_tensor(image, taps)
    reach, (height, width) = reach_of(taps), image.shape[1:]
    places = np.pad(np.arange(height), reach, "symmetric")

    def rows_of(plane: int, rows: slice) -> Image:
        return np.pad(image[plane, places[rows]], ((0, 0), (reach, reach)), "symmetric")

    return _convolved(rows_of, height, width, taps, each)


def reach_of(taps: Floats) -> int:
    """The number of pixels that a filter extends to each side."""
    return taps.shape[-1] // 2


def convolved(image: Floats, taps: Floats, each: Each = map) -> Image:
    """Convolve each plane of an image that has a margin as wide as the reach of the taps; the result has none."""
    margins = 2 * reach_of(taps)
    height, width = (length - margins for length in image.shape[1:])
    return _convolved(lambda plane, rows: image[plane, rows], height, width, taps, each)


def _convolved(
    rows_of: Callable[[int, slice], Image], height: int, width: int, taps: Floats, each: Each
) -> Image:
    """`convolved` for a result of some height and width; `rows_of` returns rows of a plane that has margins."""
    margins, vector = 2 * reach_of(taps), _VECTORS * LANES
    columns = -(-width // vector) * vector
    result = np.empty((len(taps), height, columns), np.float32)

    def convolve_band(place: tuple[int, int]) -> None:
        plane, top = place
        rows = result[plane, top : top + _BAND]
        wide = np.zeros((len(rows) + margins, columns + margins), np.float32)
        wide[:, : width + margins] = rows_of(plane, slice(top, top + len(wide)))
        own = taps[plane].reshape(-1)
        _convolve(wide.reshape(-1), own, margins + 1, rows.reshape(-1), columns)

    places = ((plane, top) for plane in range(len(taps)) for top in range(0, height, _BAND))
    do_all(each(convolve_band, places))
    return result[:, :, :width]


@kernel
def _convolve(image, taps, side, result, columns):
    """Every pixel is summed in the same order, wherever it lies, so that parts of an image have the same bits."""
    row = columns + side - 1
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


def _filtered_tensor(image: Image, taps: Floats) -> Image:
    """`filtered` for tensors of (planes, batch, height, width)."""
    torch = library(image)
    wide, reach = image, reach_of(taps)
    for axis in (-1, -2):
        length = image.shape[axis]
        places = np.arange(-reach, length + reach) % (2 * length)
        places = np.minimum(places, 2 * length - 1 - places)
        wide = wide.index_select(axis, to_device_of(image, places))
    weights = to_device_of(image, taps[:, None]).to(image.dtype)
    batches = torch.nn.functional.conv2d(wide.movedim(0, 1), weights, groups=len(taps))
    return batches.movedim(1, 0)
