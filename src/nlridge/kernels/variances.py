"""The variance of the noise as kernels get it: one number for all pixels, or one for each, laid out as the group."""

import numpy as np

from .compile import part
from .linalg import padded
from .simd import LANES, load, splat, store


@part
def patch_variance(variance, j, n):
    """The variance of the noise in patch j, as a mean over its n pixels."""
    if len(variance) == 1:
        return variance[0]
    first = j * padded(n)
    total = np.float32(0)
    for k in range(first, first + n):
        total += variance[k]
    return total / np.float32(n)


@part
def patch_scales(u, variance, n, m):
    """u: what m patches are multiplied by for equal noise, and zeros up to a whole vector.

    Returns the variance of the noise that all of them then have, and u'u.
    """
    for j in range(m, padded(m)):
        u[j] = 0
    if len(variance) == 1:
        for j in range(m):
            u[j] = 1
        return variance[0], np.float32(m)
    typical = np.float32(0)
    for j in range(m):
        u[j] = patch_variance(variance, j, n)
        typical += u[j]
    typical /= np.float32(m)
    squared_norm = np.float32(0)
    for j in range(m):
        squared = typical / u[j]
        squared_norm += squared
        u[j] = np.sqrt(squared)
    return typical, squared_norm


@part
def pixel_scales(q, variance, n, m):
    """q: what the n pixels of all patches are multiplied by for equal noise on average, then zeros.

    Returns the variance of the noise that all of them then have.
    """
    size = padded(n)
    if len(variance) == 1:
        for k in range(size):
            q[k] = k < n
        return variance[0]
    for k in range(0, size, LANES):
        s = splat(np.float32(0))
        for j in range(m):
            s = s + load(variance, j * size + k)
        store(q, k, s)
    typical = np.float32(0)
    for k in range(n):
        typical += q[k]
    typical /= np.float32(n)
    for k in range(n):
        q[k] = np.sqrt(typical / q[k])
    for k in range(n, size):
        q[k] = 0
    return typical / np.float32(m)
