"""The range of an image's values without its noise."""

from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[Any]
Array = npt.NDArray[np.float64]


def known_ends(
    dtype: np.dtype[Any], black_level: float, data_range: float | None
) -> list[tuple[float, float]] | None:
    """The darkest and the brightest value if they are given, or follow from the type; otherwise None."""
    if data_range is not None:
        return [(black_level, black_level + data_range)]
    return [(0.0, 255.0)] if dtype == np.uint8 else None


def typical_ends(
    channel: Pixels, missing: npt.NDArray[np.bool_] | None = None
) -> tuple[float, float]:
    """The darkest and the brightest value of a channel, the default of `data_range` of `denoise`.

    0 and 255 for uint8. Otherwise they are measured on means over small blocks, since noise and hot pixels widen the
    range of single pixels.
    """
    known = known_ends(channel.dtype, 0.0, None)
    return (
        known[0] if known else ends_of(*masked_means(channel, missing, block_shape(channel.shape)))
    )


def block_shape(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of the blocks over which pixels are averaged; at least four fit along each axis if possible."""
    height, width = (min(8, max(1, length // 4)) for length in shape)
    return height, width


def block_means(channel: Pixels, block: tuple[int, int]) -> Array:
    """The means over the blocks that lie within the channel."""
    height, width = block
    rows, columns = channel.shape[0] // height, channel.shape[1] // width
    blocks = channel[: rows * height, : columns * width].reshape(rows, height, columns, width)
    means: Array = blocks.mean(axis=(1, 3), dtype=np.float64)
    return means


def masked_means(
    channel: Pixels, missing: npt.NDArray[np.bool_] | None, block: tuple[int, int]
) -> tuple[Array, Array | float]:
    """The means over blocks with 0 in place of missing pixels, and the share of missing pixels in each block."""
    if missing is None:
        return block_means(channel, block), 0.0
    zeroed = np.where(missing, channel.dtype.type(0), channel)
    return block_means(zeroed, block), block_means(missing, block)


def ends_of(means: Array, missing: Array | float = 0.0) -> tuple[float, float]:
    """The 0.1 and 99.9 percentiles of means over blocks, from the results of `masked_means`.

    Missing pixels count as the mean of the others.
    """
    present = float(np.sum(1 - np.broadcast_to(missing, means.shape)))
    if present > 0:
        means = means + missing * np.sum(means / present)
    low, high = np.percentile(means, [0.1, 99.9])
    return float(low), float(high)
