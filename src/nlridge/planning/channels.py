"""Transform the channels of an image into nearly uncorrelated planes.

If channels are correlated, as in a color image, the first plane is what they have in common, the brightness, and the
others are color differences, which have less structure. Uncorrelated channels, such as two stains in microscopy, are
denoised separately.
"""

from typing import NamedTuple

import numpy as np

from ..core.arrays import as_array_like, is_tensor, library
from ..types import Array, Image

# Brightness and two color differences; orthonormal, so that white noise stays white.
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])

_RELATED_CORRELATION = 0.4  # channels with at least this correlation are denoised together


class Planes(NamedTuple):
    """A set of channels of an image, and the linear transform from them to as many planes."""

    channels: list[int]
    matrix: Array
    """One row for each plane; one matrix for each image of a batch, if they differ.

    If the noise of the channels is independent, and the same in units of its level, so is the noise of the planes.
    """

    def of(self, image: Image) -> Image:
        """The planes of an image that has all channels."""
        return self.product(select_channels(image, self.channels))

    def product(self, channels: Image) -> Image:
        """The planes of an image that has only the channels of this set."""
        return _product(self.matrix, channels)

    def back(self, planes: Image) -> Image:
        """The channels of this set, from the planes."""
        return _product(np.linalg.inv(self.matrix), planes)

    def variance(self, variances: Image) -> float | Image:
        """The variance of the noise in the planes, from that in all channels, which broadcasts against the image.

        Returns a number if it is the same everywhere, and one plane if it is the same in all planes.
        """
        if len(variances) > 1:  # the noise of the channels is independent, so that variances add up
            variances = _product(self.matrix**2, select_channels(variances, self.channels))
        if variances.shape[1:] == (1, 1) and np.ptp(variances) <= 1e-5 * variances.max():
            return float(variances[0, 0, 0])
        return variances

    def correlation(self, between: Array, levels: Array) -> Array:
        """The autocovariance of the noise of each plane, in units of its variance if channels were independent.

        `between` is the correlation of the noise of all channels, (channels, channels, height, width), and `levels`
        are their noise levels.
        """
        matrix = self.matrix if self.matrix.ndim == 2 else self.matrix[0]  # of a batch of images
        mixing = np.asarray(matrix * levels[self.channels], np.float64)
        own = between[np.ix_(self.channels, self.channels)]
        power = np.square(mixing).sum(axis=1)
        covariance: Array = np.einsum("pi,ijyx,pj->pyx", mixing, own, mixing)
        covariance /= power[:, None, None]
        return covariance


def select_channels(image: Image, channels: list[int]) -> Image:
    """Some channels of an image, as a view if they are adjacent."""
    first, last = channels[0], channels[-1]
    return image[first : last + 1] if last - first + 1 == len(channels) else image[channels]


def _product(matrix: Array, image: Image) -> Image:
    if np.array_equal(matrix, [[1.0]]):
        return image
    if is_tensor(image):  # of (channels, batch, height, width)
        formula = "pc,cbhw->pbhw" if matrix.ndim == 2 else "bpc,cbhw->pbhw"
        product: Image = library(image).einsum(formula, as_array_like(matrix, image), image)
        return product
    # Term by term rather than by BLAS, so that a pixel has the same bits in whatever part of the image it is computed.
    planes = np.zeros(image.shape, np.float32)
    for row, plane in zip(matrix.astype(np.float32), planes, strict=True):
        for factor, channel in zip(row, image, strict=True):
            plane += factor * channel
    return planes


def planes_of(
    covariance: Array, sigmas: Array, scales: Array, between: Array | None = None
) -> list[Planes]:
    """Divide the channels of an image into sets of related channels, each with its transform to planes.

    `covariance` is that of the channels in units of their noise, and `sigmas` are their noise levels. Channels without
    noise are left out. Planes are computed from the channels multiplied by `scales`. `between` is the correlation of
    the noise of the channels, if it is not white.

    In units of the noise, all channels have the same noise, and any rotation preserves that. The rotation is `OPPONENT`
    for three channels of the same level, such as red, green and blue, and otherwise the one to their principal
    components.
    """
    noisy = np.flatnonzero(sigmas)
    if len(noisy) == 0:
        return []
    sets = []
    noise: Array = np.eye(len(sigmas))
    if between is not None:
        noise = between[..., between.shape[2] // 2, between.shape[3] // 2]
    for indices in _related((covariance - noise)[np.ix_(noisy, noisy)]):
        channels = noisy[indices].tolist()
        levels = (sigmas * scales)[channels]
        if len(channels) == 1:
            rotation = np.eye(1)
        elif len(channels) == 3 and np.ptp(sigmas[channels]) <= 1e-6 * sigmas[channels].max():
            rotation = OPPONENT
        else:
            _, vectors = np.linalg.eigh(covariance[np.ix_(channels, channels)])
            rotation = vectors.T[::-1]
        sets.append(Planes(channels, rotation * (levels.max() / levels)))
    return sets


def _related(signal: Array) -> list[list[int]]:
    """The sets of channels that are connected by correlations, from the covariance of the signal without the noise."""
    strength = np.sqrt(np.maximum(np.diag(signal), 0))
    products = np.outer(strength, strength)
    reach = (np.abs(signal) >= _RELATED_CORRELATION * products) & (products > 0)
    np.fill_diagonal(reach, True)
    for _ in range(len(signal).bit_length()):
        reach = reach @ reach
    return [list(row) for row in sorted({tuple(np.flatnonzero(row).tolist()) for row in reach})]
