"""The range of an image's values, with its noise averaged out."""

from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[Any]
Array = npt.NDArray[np.float64]


def typical_ends(channel: Pixels) -> tuple[float, float]:
    """The darkest and the brightest value of a channel (see `data_range` of `denoise`).

    The range of the pixels themselves grows with the noise, and with every hot pixel.
    """
    if channel.dtype == np.uint8:
        return 0.0, 255.0
    return ends_of(block_means(channel, block_shape(channel.shape)))


def block_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of the blocks that the noise is averaged in; there are at least four."""
    height, width = (min(8, max(1, length // 4)) for length in shape)
    return height, width


def block_means(channel: Pixels, block: tuple[int, int]) -> Array:
    """The means of whole blocks."""
    height, width = block
    rows, columns = channel.shape[0] // height, channel.shape[1] // width
    blocks = channel[: rows * height, : columns * width].reshape(rows, height, columns, width)
    means: Array = blocks.mean(axis=(1, 3), dtype=np.float64)
    return means


def ends_of(means: Array) -> tuple[float, float]:
    """The darkest and the brightest of means, without the extreme .1 %."""
    low, high = np.percentile(means, [0.1, 99.9])
    return float(low), float(high)
