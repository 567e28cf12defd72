"""Blocks of an image, and their cosine transforms, in which noise and image are told apart."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from . import Array

Mask: TypeAlias = npt.NDArray[np.bool_]

SIDE = 16  # of a block: longer than most noise is correlated, and than the blocks of JPEG
LOW = 4  # frequencies below this one, in half periods to a block, are those of the image
FEWEST = 40  # smallest number of calm blocks that is enough
_MOST = 16_000  # largest number of blocks considered
CALM = 0.05  # share of the blocks that are taken to be calm
_UNCLIPPED = 0.2  # share of blocks without clipped pixels below which some are tolerated:
_CLIPPED = 0.1  # at most this share of the pixels of a block


def _cosines() -> Array:
    """The discrete cosine transform, one row for each frequency."""
    k = np.arange(SIDE)
    rows: Array = np.sqrt(2 / SIDE) * np.cos(np.pi * (2 * k + 1) * k[:, None] / (2 * SIDE))
    rows[0] /= np.sqrt(2)
    return rows


COSINES = _cosines()
FREQUENCY = np.hypot(*np.mgrid[:SIDE, :SIDE])
IMAGE = FREQUENCY < LOW - 0.5


def usable_blocks(
    pixels: Sequence[Array], excluded: Sequence[Mask], clipped: Sequence[Mask]
) -> Array:
    """Blocks from all over the image, (channels, blocks, side, side), without excluded pixels and flat ones."""
    if min(pixels[0].shape) < SIDE:
        return np.empty((len(pixels), 0, SIDE, SIDE))
    # An odd stride, so that the blocks of JPEG are met at all positions.
    stride = max(5, math.ceil(math.sqrt(pixels[0].size / _MOST))) | 1

    def blocks_of(plane: npt.NDArray[Any]) -> npt.NDArray[Any]:
        windows = np.lib.stride_tricks.sliding_window_view(plane, (SIDE, SIDE))
        return windows[::stride, ::stride]

    def shares(masks: Iterable[Mask]) -> Array:
        """The share of the pixels of each block that are marked in any channel."""
        marked = np.pad(np.logical_or.reduce(list(masks)), ((1, 0), (1, 0)))
        sums = marked.cumsum(axis=0, dtype=np.int64).cumsum(axis=1)
        rows = sums[SIDE:] - sums[:-SIDE]
        counts = (rows[:, SIDE:] - rows[:, :-SIDE])[::stride, ::stride]
        return np.asarray(counts / SIDE**2)

    usable = shares(excluded) == 0
    if usable.mean() < _UNCLIPPED:
        # The noise of dark areas is clipped all over. Where few pixels are, that hardly changes it.
        others = (a & ~b for a, b in zip(excluded, clipped, strict=True))
        usable = (shares(others) == 0) & (shares(clipped) <= _CLIPPED)
    blocks = np.stack([blocks_of(channel)[usable] for channel in pixels])
    # Flat blocks are a border, or what JPEG made of a dark area. Where most are flat, as in a drawing, there is no noise.
    channel, block = np.nonzero(blocks[..., 0, 0] == blocks[..., -1, -1])
    flat = np.ptp(blocks[channel, block], axis=(1, 2)) == 0
    uneven = np.ones(blocks.shape[1], bool)
    uneven[block[flat]] = False
    return blocks[:, uneven] if 2 * np.count_nonzero(uneven) > uneven.size else blocks[:, :0]


def coefficients_of(blocks: Array, count: int = SIDE) -> Array:
    """The cosine transform of each block, up to a number of frequencies."""
    for _ in range(2):
        # One product of large matrices is much faster than many of small ones.
        product = blocks.reshape(-1, SIDE) @ COSINES[:count].T
        blocks = product.reshape(*blocks.shape[:-1], count).swapaxes(-1, -2)
    return blocks


def energy_of(coefficients: Array, frequencies: Mask) -> Array:
    """The energy of the brightness of each block in the given frequencies, without its mean."""
    rows, columns = coefficients.shape[2:]
    frequencies = (frequencies & (FREQUENCY > 0))[:rows, :columns]
    energy: Array = (coefficients.sum(axis=0)[:, frequencies] ** 2).mean(axis=1)
    return energy


def calmest(energy: Array) -> npt.NDArray[np.intp]:
    """The blocks with the least energy."""
    count = max(int(CALM * len(energy)), min(FEWEST, len(energy)))
    return np.argsort(energy, kind="stable")[:count]


def brightness_first(channels: int) -> Array:
    """An orthonormal basis of the channels, in columns: their mean, and differences."""
    mean_first = np.concatenate([np.ones((channels, 1)), np.eye(channels)[:, 1:]], axis=1)
    basis: Array = np.linalg.qr(mean_first)[0]
    return basis


def covariance_from(spectrum: Array) -> Array:
    """The covariance at each shift of less than a block, from the mean squares of the coefficients of blocks."""
    shifts = np.arange(SIDE)
    # A mean square is the sum over all shifts of the covariance times the autocorrelation of the basis function.
    autocorrelation = [
        (1 if shift == 0 else 2) * (COSINES[:, : SIDE - shift] * COSINES[:, shift:]).sum(axis=1)
        for shift in shifts
    ]
    inverse = np.linalg.inv(np.transpose(autocorrelation))
    # Few pixels of a block are far from each other, so that long shifts are uncertain.
    taper = 0.5 + 0.5 * np.cos(np.pi * shifts / SIDE)
    quadrant: Array = (inverse @ spectrum @ inverse.T) * np.outer(taper, taper)
    distance = np.abs(np.arange(1 - SIDE, SIDE))
    return quadrant[:, :, distance[:, None], distance]
