"""A coarser image, and how what is known of it helps the finer one: an orthonormal wavelet, local and exact.

The coarse image is the low-pass band of Daubechies' least asymmetric wavelet of eight moments: white noise
stays white in it, at half the level, and where it is put back, everything finer is left alone.  Filters are
16 pixels long, so that a part of an image knows nothing of another that is far away.
"""

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.float32]

# The low-pass filter "sym8"; its square norm is 1, and its sum √2.
_FILTER = np.array(
    [
        -0.0033824159510061256, -0.0005421323317911481, 0.03169508781149298, 0.007607487324917605,
        -0.1432942383508097, -0.061273359067658524, 0.4813596512583722, 0.7771857517005235,
        0.3644418948353314, -0.05194583810770904, -0.027219029917056003, 0.049137179673607506,
        0.003808752013890615, -0.01495225833704823, -0.0003029205147213668, 0.0018899503327594609,
    ]
)  # fmt: skip
_REACH = len(_FILTER)


def coarser(image: Image) -> Image:
    """The image of (planes, height, width) at half the size, with the same brightness and half the noise."""
    for axis in (-1, -2):
        image = _analysed(image, axis)
    return (image / 2).astype(np.float32)


def coarser_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """That of the coarser image."""
    height, width = shape
    return -(-height // 2), -(-width // 2)


def coarser_variance(variance: float | Image) -> float | Image:
    """That of the noise of the coarser image."""
    if not isinstance(variance, np.ndarray):
        return variance / 4
    for axis in (-1, -2):
        variance = _analysed(variance, axis, _FILTER**2)
    return (variance / 4).astype(np.float32)


def with_coarse(image: Image, coarse: Image, level: int) -> Image:
    """The image with its low-pass band of a level (1: half the size, 2: a quarter, ...) taken from a coarse one.

    `coarse` is of half the size.
    """
    change = coarse - coarser(image)
    sizes = []
    for _ in range(level - 1):
        sizes.append(change.shape[-2:])
        change = coarser(change)
    for size in reversed(sizes):
        change = _finer(change, size)
    return image + _finer(change, image.shape[-2:])


def _finer(coarse: Image, size: tuple[int, ...]) -> Image:
    """The image of the given size that has this coarse one and nothing that is finer."""
    image = 2 * coarse
    for axis in (-2, -1):
        image = _synthesised(image, axis, size[axis])
    return image.astype(np.float32)


def _analysed(image: Image, axis: int, taps: npt.NDArray[np.float64] = _FILTER) -> Image:
    """Low-pass filtered along an axis, and every other pixel of it; the image goes on mirrored."""
    length = image.shape[axis]
    half = -(-length // 2)
    found = np.zeros(
        (*image.shape[:-1], half) if axis == -1 else (image.shape[0], half, image.shape[2]),
        np.float32,
    )
    for k, tap in enumerate(taps):
        places = _mirrored(2 * np.arange(half) + k - _REACH // 2 + 1, length)
        found += np.float32(tap) * image.take(places, axis=axis)
    return found


def _synthesised(image: Image, axis: int, length: int) -> Image:
    """The transpose of `_analysed`: each pixel spread by the filter."""
    half = image.shape[axis]
    shape = list(image.shape)
    shape[axis] = length
    found = np.zeros(shape, np.float32)
    place = np.arange(length)
    for k, tap in enumerate(_FILTER):
        source = place - k + _REACH // 2 - 1
        even = source % 2 == 0
        here = np.flatnonzero(even)
        from_ = _mirrored_halves(source[even] // 2, half)
        part = np.float32(tap) * image.take(from_, axis=axis)
        if axis == -1:
            found[..., here] += part
        else:
            found[..., here, :] += part
    return found


def _mirrored(places: npt.NDArray[np.intp], length: int) -> npt.NDArray[np.intp]:
    """Places beyond the ends of an axis, turned back: ... 1 0 | 0 1 2 ... n-1 | n-1 n-2 ..."""
    places = places % (2 * length)
    return np.where(places < length, places, 2 * length - 1 - places)


def _mirrored_halves(places: npt.NDArray[np.intp], half: int) -> npt.NDArray[np.intp]:
    return np.clip(places, 0, half - 1)
