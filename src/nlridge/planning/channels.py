"""Channels: colour and more, turned into planes that have little to do with each other.

Where channels show the same things, what they have in common is brightness, the first plane, and the
rest is colour, in which there is less to see.  Channels that show different things (two stains in
microscopy) are denoised apart from each other.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]
Image = npt.NDArray[np.float32]

# Brightness, and red and green against blue: orthonormal, so that white noise stays white.
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])

_RELATED = 0.4  # channels whose correlation is at least this show the same things


class Planes(NamedTuple):
    """How some channels of an image are turned into as many planes."""

    channels: list[int]
    matrix: Array
    """One row a plane.  The noise is the same in all planes, and independent, if it is so in the channels."""

    def of(self, image: Image) -> Image:
        """The planes of an image of all channels."""
        return self.product(taken(image, self.channels))

    def product(self, channels: Image) -> Image:
        """The planes of its own channels."""
        return _product(self.matrix, channels)

    def back(self, planes: Image) -> Image:
        """The channels, from their planes."""
        return _product(np.linalg.inv(self.matrix), planes)

    def variance(self, variances: Image) -> float | Image:
        """That of the noise in the planes, from that in the channels, which broadcasts against the image.

        A number where it is the same everywhere, one plane where it is the same in all.
        """
        if len(variances) > 1:  # the noise of one channel has nothing to do with that of another
            variances = _product(self.matrix**2, taken(variances, self.channels))
        if variances.shape[1:] == (1, 1) and np.ptp(variances) <= 1e-5 * variances.max():
            return float(variances[0, 0, 0])
        return variances


def taken(image: Image, channels: list[int]) -> Image:
    """Some channels; without a copy where that is all of them, or one."""
    first, last = channels[0], channels[-1]
    return image[first : last + 1] if last - first + 1 == len(channels) else image[channels]


def _product(matrix: Array, image: Image) -> Image:
    if np.array_equal(matrix, [[1.0]]):
        return image
    # Term by term, not by BLAS: a pixel is the same to the bit in whatever part of an image it stands.
    found = np.zeros(image.shape, np.float32)
    for row, plane in zip(matrix.astype(np.float32), found, strict=True):
        for factor, channel in zip(row, image, strict=True):
            plane += factor * channel
    return found


def planes_of(covariance: Array, sigmas: Array, scales: Array) -> list[Planes]:
    """How the channels of an image are best denoised: one entry for channels that belong together.

    `covariance` is that of the channels in units of their noise, and `sigmas` the level of the noise of each
    channel; those without noise are left out.  Planes are made of the channels times `scales`.

    In these units the noise of all channels is the same, and stays so under any rotation: for three channels of
    one level, red, green and blue or the like, `OPPONENT`, and otherwise the rotation to their principal
    components.
    """
    noisy = np.flatnonzero(sigmas)
    if len(noisy) == 0:
        return []
    found = []
    for together in _related((covariance - np.eye(len(sigmas)))[np.ix_(noisy, noisy)]):
        together = noisy[together].tolist()
        levels = (sigmas * scales)[together]
        if len(together) == 1:
            rotation = np.eye(1)
        elif len(together) == 3 and np.ptp(sigmas[together]) <= 1e-6 * sigmas[together].max():
            rotation = OPPONENT
        else:
            _, vectors = np.linalg.eigh(covariance[np.ix_(together, together)])
            rotation = vectors.T[::-1]
        found.append(Planes(together, rotation * (levels.max() / levels)))
    return found


def _related(signal: Array) -> list[list[int]]:
    """Sets of channels that are connected by correlations, from the covariance of what is not noise."""
    strength = np.sqrt(np.maximum(np.diag(signal), 0))
    products = np.outer(strength, strength)
    reach = (np.abs(signal) >= _RELATED * products) & (products > 0)
    np.fill_diagonal(reach, True)
    for _ in range(len(signal).bit_length()):
        reach = reach @ reach
    return [list(row) for row in sorted({tuple(np.flatnonzero(row).tolist()) for row in reach})]
