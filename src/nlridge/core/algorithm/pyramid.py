"""Coarser images, and putting a denoised coarse image back into a finer one, by an orthonormal wavelet.

The coarse image consists of the low-pass coefficients of Daubechies' least asymmetric wavelet with eight vanishing
moments: white noise stays white in it, at half the level, and putting it back does not change the finer structures.
The filter is 16 pixels long, so that distant parts of an image do not affect each other. Images are extended by
mirroring, and near their borders these properties hold only approximately: the first row and column of the coarse
image have up to three quarters more noise.

Images are arrays or tensors whose last two axes are height and width. `each` computes the bands of an array: `map`, or a
function like it that uses several threads.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...types import Array, Image
from ..arrays import Each, as_array_like, is_tensor, library, to_device_of
from .inputs import PlaneNoise

# The low-pass filter "sym8"; its norm is 1, and its sum √2.
_FILTER = (
    -0.0033824159510061256, -0.0005421323317911481, 0.03169508781149298, 0.007607487324917605,
    -0.1432942383508097, -0.061273359067658524, 0.4813596512583722, 0.7771857517005235,
    0.3644418948353314, -0.05194583810770904, -0.027219029917056003, 0.049137179673607506,
    0.003808752013890615, -0.01495225833704823, -0.0003029205147213668, 0.0018899503327594609,
)  # fmt: skip

_BAND = 2**18  # pixels of a band


def coarser(image: Image, each: Each = map) -> Image:
    """The image at half the size, with the same brightness and half the noise."""
    return _halved(_halved(image, -1, each=each), -2, each=each)


def coarser_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """The shape of the coarser image."""
    height, width = shape
    return -(-height // 2), -(-width // 2)


def coarser_noise(noise: PlaneNoise, each: Each = map) -> PlaneNoise:
    """The noise of the coarser image."""
    variance, correlation = noise.variance, noise.correlation
    if isinstance(variance, float | int):
        variance = variance / 4
    else:
        squares = tuple(tap**2 for tap in _FILTER)
        variance = _halved(_halved(variance, -1, squares, each), -2, squares, each) / 4
    if correlation is not None:
        correlation = np.array([_coarser_correlation(plane) for plane in correlation])
    return PlaneNoise(variance, correlation)


def _coarser_correlation(correlation: Array) -> Array:
    """r'(d) = Σ a(e) r(2 d - e), with the autocorrelation a of the filter, which is 1 at 0 for both axes."""
    overlap = np.correlate(_FILTER, _FILTER, "full")
    for _ in range(2):
        reach, wide = len(correlation) // 2, len(overlap) // 2
        half = (reach + wide) // 2
        distance = 2 * np.arange(-half, half + 1)[:, None] - np.arange(-reach, reach + 1)
        taps = np.where(abs(distance) <= wide, overlap[np.clip(distance + wide, 0, 2 * wide)], 0.0)
        correlation = (taps @ correlation).T
    return correlation


def with_coarse(
    image: Image, coarse: Image, level: int, most: float | Image = float("inf"), each: Each = map
) -> Image:
    """The image, with its low-pass coefficients of a level replaced by those of `coarse`.

    Level 1 has half the size of the image, level 2 a quarter, and so on; `coarse` has half the size. Changes are
    clipped to `most`: larger ones come from something other than noise, such as a hot pixel, and must not spread.
    """
    if not isinstance(most, float):  # one for each plane, or an image
        most = as_array_like(most, image)
        most = most[:, None] if most.ndim < image.ndim else most  # a batch of images
    change = (coarse - coarser(image, each)).clip(-most, most)
    sizes = []
    for _ in range(level - 1):
        sizes.append(change.shape[-2:])
        change = coarser(change, each)
    for size in reversed(sizes):
        change = _finer(change, size, each)
    return image + _finer(change, image.shape[-2:], each)


def _finer(coarse: Image, size: tuple[int, ...], each: Each) -> Image:
    """The image of the given size that contains the coarse one and no finer structures."""
    height, width = size
    return _synthesised(_synthesised(2 * coarse, -2, height, each), -1, width, each)


def _halved(image: Image, axis: int, taps: Sequence[float] = _FILTER, each: Each = map) -> Image:
    """Filter an image, extended by mirroring, along an axis, and keep every other pixel.

    Differences from the central pixel are summed, since sums of bright pixels would lose digits.
    """
    length = image.shape[axis]
    half = -(-length // 2)
    first = 1 - len(taps) // 2
    places = np.arange(first, 2 * half + first + len(taps) - 2) % (2 * length)
    places = np.minimum(places, 2 * length - 1 - places)
    every_other, *sides = (
        to_device_of(image, chosen)
        for chosen in (np.arange(0, length, 2), places[::2], places[1::2])
    )
    zeros_like = library(image).zeros_like

    def filtered_band(image: Image, band: slice) -> Image:
        wide = slice(band.start, band.stop + len(taps) // 2 - 1)
        # Arithmetic on adjacent pixels in memory is several times as fast as on every other pixel.
        pixels = image[_along(axis, every_other[band])]
        halves = [image[_along(axis, side[wide])] for side in sides]
        change = zeros_like(pixels)
        for k, tap in enumerate(taps):
            shifted = slice(k // 2, k // 2 + pixels.shape[axis])
            difference = halves[k % 2][_along(axis, shifted)] - pixels
            difference *= tap / sum(taps)
            change += difference
        change += pixels
        return change

    return _in_bands(filtered_band, image, axis, half, each)


def _synthesised(image: Image, axis: int, length: int, each: Each) -> Image:
    """The transpose of `_halved`, up to a factor: upsample by the filter along an axis, to the given length."""
    half, reach = image.shape[axis], len(_FILTER) // 4
    places = to_device_of(image, np.clip(np.arange(-reach, half + reach), 0, half - 1))
    stack = library(image).stack

    def upsampled_band(image: Image, band: slice) -> Image:
        chosen = places[band.start : band.stop + 2 * reach]
        wide = image[_along(axis, chosen)]
        count = len(chosen) - 2 * reach
        parts = [wide[_along(axis, slice(k, k + count))] for k in range(2 * reach, -1, -1)]
        even, odd = _combined(parts[1:], _FILTER[1::2]), _combined(parts[:-1], _FILTER[::2])
        shape = list(even.shape)
        shape[axis] = 2 * count
        return stack([even, odd], axis).reshape(shape)

    return _in_bands(upsampled_band, image, axis, half, each)[_along(axis, slice(length))]


def _in_bands(
    function: Callable[[Image, slice], Image], image: Image, axis: int, length: int, each: Each
) -> Image:
    """The results of a function for bands of rows, one below the other.

    The function takes an image and a slice of the `length` places along an axis. Bands of arrays are small enough for
    all intermediate results to stay in the cache of a core; a tensor is a single band.
    """
    rows = length if axis == -2 else image.shape[-2]
    count = rows
    if not is_tensor(image):
        count = max(_BAND // max(image[..., 0, :].size, 1), len(_FILTER))

    def computed(top: int) -> Image:
        band = slice(top, min(top + count, rows))
        if axis == -2:
            return function(image, band)
        return function(image[_along(-2, band)], slice(0, length))

    bands = list(each(computed, range(0, rows, count)))
    return bands[0] if len(bands) == 1 else np.concatenate(bands, axis=-2)


def _along(axis: int, places: Any) -> tuple[Any, ...]:
    """The index of some places along the last axis, or along the one before it."""
    return (..., places) if axis == -1 else (..., places, slice(None))


def _combined(images: Sequence[Image], taps: Sequence[float]) -> Image:
    """The sum of some images, each multiplied by its tap."""
    total = taps[0] * images[0]
    for tap, image in zip(taps[1:], images[1:], strict=True):
        total += tap * image
    return total
