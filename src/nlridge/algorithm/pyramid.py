"""A coarser image, and how what is known of it helps the finer one: an orthonormal wavelet, local and exact.

The coarse image is the low-pass band of Daubechies' least asymmetric wavelet of eight moments: white noise
stays white in it, at half the level, and where it is put back, everything finer is left alone.  Filters are
16 pixels long, so that a part of an image knows nothing of another that is far away.  Next to the ends of an
image, which goes on mirrored, all this holds less well: there is up to three quarters more noise in the first
row and column of the coarse image.

Images are arrays or tensors whose last two axes are height and width.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..arrays import library, sent
from .inputs import PlaneNoise

Image = npt.NDArray[np.float32]

# The low-pass filter "sym8"; its square norm is 1, and its sum √2.
_FILTER = (
    -0.0033824159510061256, -0.0005421323317911481, 0.03169508781149298, 0.007607487324917605,
    -0.1432942383508097, -0.061273359067658524, 0.4813596512583722, 0.7771857517005235,
    0.3644418948353314, -0.05194583810770904, -0.027219029917056003, 0.049137179673607506,
    0.003808752013890615, -0.01495225833704823, -0.0003029205147213668, 0.0018899503327594609,
)  # fmt: skip


def coarser(image: Image) -> Image:
    """The image at half the size, with the same brightness and half the noise."""
    return _halved(_halved(image).mT).mT


def coarser_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """That of the coarser image."""
    height, width = shape
    return -(-height // 2), -(-width // 2)


def coarser_noise(noise: PlaneNoise) -> PlaneNoise:
    """The noise of the coarser image."""
    variance = noise.variance
    if isinstance(variance, float | int):
        return PlaneNoise(variance / 4)
    squares = tuple(tap**2 for tap in _FILTER)
    return PlaneNoise(_halved(_halved(variance, squares).mT, squares).mT / 4)


def with_coarse(
    image: Image, coarse: Image, level: int, most: float | Image = float("inf")
) -> Image:
    """The image with its low-pass band of a level (1: half the size, 2: a quarter, ...) taken from a coarse one.

    `coarse` is of half the size.  Where it differs by more than `most`, the difference is no matter of noise (a
    hot pixel, say), and is not spread.
    """
    change = (coarse - coarser(image)).clip(-most, most)
    sizes = []
    for _ in range(level - 1):
        sizes.append(change.shape[-2:])
        change = coarser(change)
    for size in reversed(sizes):
        change = _finer(change, size)
    return image + _finer(change, image.shape[-2:])


def _finer(coarse: Image, size: tuple[int, ...]) -> Image:
    """The image of the given size that has this coarse one and nothing that is finer."""
    height, width = size
    return _synthesised(_synthesised(2 * coarse.mT, height).mT, width)


def _halved(image: Image, taps: Sequence[float] = _FILTER) -> Image:
    """The mean of each other pixel of a row and of those around it, weighted by the taps; the image goes on mirrored.

    As a sum of differences from the pixel itself: those of a bright image would lose digits.
    """
    length = image.shape[-1]
    half = -(-length // 2)
    first = 1 - len(taps) // 2
    places = np.arange(first, 2 * half + first + len(taps) - 2) % (2 * length)
    wide = image[..., sent(np.minimum(places, 2 * length - 1 - places), image)]
    pixels = image[..., ::2]
    found = library(image).zeros_like(pixels)
    for k, tap in enumerate(taps):
        found += tap / sum(taps) * (wide[..., k : k + 2 * half - 1 : 2] - pixels)
    return pixels + found


def _synthesised(image: Image, length: int) -> Image:
    """The transpose of `_halved`, but for a factor: each pixel of a row spread by the filter, up to the given length."""
    half, reach = image.shape[-1], len(_FILTER) // 4
    wide = image[..., sent(np.clip(np.arange(-reach, half + reach), 0, half - 1), image)]
    places = [slice(k, k + half) for k in range(2 * reach, -1, -1)]
    even, odd = (
        _combined(wide, _FILTER[1::2], places[1:]),
        _combined(wide, _FILTER[::2], places[:-1]),
    )
    both = library(image).stack([even, odd], -1)
    return both.reshape(*image.shape[:-1], 2 * half)[..., :length]


def _combined(rows: Image, taps: Sequence[float], places: Sequence[slice]) -> Image:
    """The sum of the parts of all rows at some places, each times its tap."""
    found = taps[0] * rows[..., places[0]]
    for tap, place in zip(taps[1:], places[1:], strict=True):
        found += tap * rows[..., place]
    return found
