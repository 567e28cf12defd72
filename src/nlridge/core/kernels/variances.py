"""The variance of the noise in kernels: one number for all pixels, or one for each, laid out as the group."""

import numpy as np

from .compile import part
from .linalg import padded
from .simd import LANES, load, splat, store, total


@part
def patch_variance(variance, j, n):
    """The mean variance of the noise over the n pixels of patch j."""
    if len(variance) == 1:
        return variance[0]
    first = j * padded(n)
    whole = first + n // LANES * LANES
    s = splat(np.float32(0))
    for k in range(first, whole, LANES):
        s = s + load(variance, k)
    sum_of_all = total(s)
    for k in range(whole, first + n):
        sum_of_all += variance[k]
    return sum_of_all / np.float32(n)


@part
def patch_scales(u, variance, n, m):
    """Write to u the factors that give m patches equal noise, padded with zeros to whole vectors.

    Returns the variance of the noise of all patches after the multiplication, and u'u.
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
    """Write to q the factors that give the n pixels equal noise on average over m patches, padded with zeros.

    Returns the variance of the noise of all pixels after the multiplication.
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
