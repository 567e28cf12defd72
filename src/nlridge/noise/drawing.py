"""Noise drawn at random with the correlation of a noise model."""

from typing import Any

import numpy as np

from ..types import Array


def draw(correlation: Array, shape: tuple[int, int, int], seed: int) -> Array:
    """Draw Gaussian noise of variance 1 with a correlation of (channels, channels, height, width).

    ``correlation[i, j]`` at distance d from its middle is the correlation of channel i at p + d with channel j at p.
    """
    # The noise is periodic on a grid. The grid is large enough for its two ends not to be correlated once one is cut off.
    reach = [length // 2 for length in correlation.shape[-2:]]
    grid = tuple(length + more for length, more in zip(shape[1:], reach, strict=True))
    rows, columns = (
        np.arange(-far, far + 1) % length for far, length in zip(reach, grid, strict=True)
    )
    places: Any = (slice(None), slice(None), rows[:, None], columns)
    independent = np.count_nonzero(correlation.any(axis=(2, 3))) == len(correlation)
    if independent:
        correlation = np.einsum("iiyx->iyx", correlation)[:, None]
    periodic = np.zeros((*correlation.shape[:2], *grid))
    np.add.at(periodic, places, correlation)
    spectra = np.moveaxis(np.fft.rfft2(periodic), (0, 1), (2, 3))
    roots = _roots(spectra)
    # A cropped correlation may not belong to any noise; the closest one that does has another variance.
    powers = np.square(np.abs(roots)).sum(axis=-1)
    variances = np.fft.irfft2(np.moveaxis(powers, -1, 0), grid)[:, :1, :1]
    white = np.fft.rfft2(np.random.default_rng(seed).normal(size=(shape[0], *grid)))
    product = "yxcd,cyx->cyx" if independent else "yxcd,dyx->cyx"
    noise = np.fft.irfft2(np.einsum(product, roots, white), grid)
    drawn: Array = noise[:, : shape[1], : shape[2]] / np.sqrt(variances)
    return drawn


def _roots(spectra: Any) -> Any:
    """The square root of each matrix, (..., channels, channels); elementwise for a single column."""
    if spectra.shape[-1] == 1:
        return np.sqrt(np.maximum(spectra.real, 0))
    powers, vectors = np.linalg.eigh(spectra)
    amplitudes = np.sqrt(np.maximum(powers, 0))
    return (vectors * amplitudes[..., None, :]) @ vectors.conj().swapaxes(-2, -1)
