"""Coarser images, and putting a denoised coarse image back into a finer one, by an orthonormal wavelet.

The coarse image consists of the low-pass coefficients of Daubechies' least asymmetric wavelet with eight vanishing
moments: white noise stays white in it, at half the level, and putting it back does not change the finer structures.
The filter is 16 pixels long, so that distant parts of an image do not affect each other. Images are extended by
mirroring, and near their borders these properties hold only approximately: the first row and column of the coarse
image have up to three quarters more noise.

Images are arrays or tensors whose last two axes are height and width. Arrays are computed by kernels, in bands: `each` is
`map`, or a function like it that uses several threads.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...types import Array, Floats, Image
from ..arrays import Each, as_array_like, do_all, is_tensor, library, to_device_of
from ..kernels.halving import halve_columns, halve_rows, upsample_columns, upsample_rows
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
    finer = _finer(change, image.shape[-2:], each)
    if not _is_compiled(image):
        return image + finer
    finer += image
    return finer


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
    if _is_compiled(image):
        shape = list(image.shape)
        shape[axis] = half
        shares = np.array([tap / sum(taps) for tap in taps], np.float32)
        return _in_bands(halve_rows if axis == -2 else halve_columns, image, shares, shape, each)
    first = 1 - len(taps) // 2
    places = np.arange(first, 2 * half + first + len(taps) - 2) % (2 * length)
    places = np.minimum(places, 2 * length - 1 - places)
    every_other, *sides = (
        to_device_of(image, chosen)
        for chosen in (np.arange(0, length, 2), places[::2], places[1::2])
    )
    # Arithmetic on adjacent pixels in memory is several times as fast as on every other pixel.
    pixels = image[_along(axis, every_other)]
    halves = [image[_along(axis, side)] for side in sides]
    change = library(image).zeros_like(pixels)
    for k, tap in enumerate(taps):
        shifted = slice(k // 2, k // 2 + pixels.shape[axis])
        difference = halves[k % 2][_along(axis, shifted)] - pixels
        difference *= tap / sum(taps)
        change += difference
    change += pixels
    return change


def _synthesised(image: Image, axis: int, length: int, each: Each) -> Image:
    """The transpose of `_halved`, up to a factor: upsample by the filter along an axis, to the given length."""
    if _is_compiled(image):
        shape = list(image.shape)
        shape[axis] = length
        kernel = upsample_rows if axis == -2 else upsample_columns
        return _in_bands(kernel, image, np.array(_FILTER, np.float32), shape, each)
    half, reach = image.shape[axis], len(_FILTER) // 4
    places = to_device_of(image, np.clip(np.arange(-reach, half + reach), 0, half - 1))
    wide = image[_along(axis, places)]
    parts = [wide[_along(axis, slice(k, k + half))] for k in range(2 * reach, -1, -1)]
    even, odd = _combined(parts[1:], _FILTER[1::2]), _combined(parts[:-1], _FILTER[::2])
    shape = list(even.shape)
    shape[axis] = 2 * half
    upsampled = library(image).stack([even, odd], axis).reshape(shape)
    return upsampled[_along(axis, slice(length))]


def _is_compiled(image: Image) -> bool:
    """Whether kernels compute the same as formulas, bit for bit."""
    return not is_tensor(image) and image.dtype == np.float32 and image.ndim == 3


def _in_bands(
    kernel: Callable[..., None], image: Image, taps: Floats, shape: Sequence[int], each: Each
) -> Image:
    """The result of a kernel, computed in bands of rows."""
    result = np.empty(shape, np.float32)
    image = np.ascontiguousarray(image)
    count = max(_BAND // max(result[:, 0].size, 1), 1)
    count += count % 2  # pairs of rows are upsampled together

    def compute(top: int) -> None:
        kernel(image, taps, top, min(top + count, shape[1]), result)

    do_all(each(compute, range(0, shape[1], count)))
    return result


def _along(axis: int, places: Any) -> tuple[Any, ...]:
    """The index of some places along the last axis, or along the one before it."""
    return (..., places) if axis == -1 else (..., places, slice(None))


def _combined(images: Sequence[Image], taps: Sequence[float]) -> Image:
    """The sum of some images, each multiplied by its tap."""
    total = taps[0] * images[0]
    for tap, image in zip(taps[1:], images[1:], strict=True):
        total += tap * image
    return total
