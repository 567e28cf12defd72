"""A guard against wrong estimates, whatever their cause: those that leave the range of their group are discarded.

Denoised patches are combinations of the patches of a group, and lie between its darkest and its brightest pixel, give or
take some of the noise. An estimate far outside is wrong, due to rounding errors or to the formula of a new family.
"""

import numpy as np

from ...types import Array
from ..arrays import broadcast_like, library
from ..kernels.compile import part
from ..kernels.linalg import padded
from ..kernels.simd import LANES, larger, largest, load, splat, store
from ..kernels.variances import patch_variance
from .family import Estimate

# The number of standard deviations of the noise by which an estimate may leave the range of its group.
_TOLERANCE = 5.0
# The factor on the weight of a patch whose estimate is discarded: others that cover the same pixels count instead.
_DISCARDED_WEIGHT = 1e-6


# The formula.


def without_strays(estimate: Array, weights: Array, Y: Array, variance: float | Array) -> Estimate:
    """The estimates and weights of groups Y; patches whose estimate leaves the range of the group stay as they are."""
    reach = _TOLERANCE * broadcast_like(variance, Y).mean(axis=-2) ** 0.5
    reach = reach[..., None, :]
    where, amin, amax = (getattr(library(Y), name) for name in ("where", "amin", "amax"))
    lowest, highest = amin(Y, (-2, -1))[..., None, None], amax(Y, (-2, -1))[..., None, None]
    within = (estimate >= lowest - reach) & (estimate <= highest + reach)
    used = within.all(axis=-2)
    return where(used[..., None, :], estimate, Y), where(used, weights, _DISCARDED_WEIGHT * weights)


# The kernel.


@part
def discard_strays(denoised, weights, Y, variance, factor, n, m):
    """`without_strays` for one group, in place; the variance of the noise is `factor` times `variance`."""
    size = padded(n)
    whole = n // LANES * LANES
    has_range = False
    lowest = highest = np.float32(0)
    for j in range(m):
        reach = np.float32(_TOLERANCE * _TOLERANCE) * factor * patch_variance(variance, j, n)
        s = splat(np.float32(0))
        for o in range(j * size, j * size + whole, LANES):
            change = load(denoised, o) - load(Y, o)
            s = larger(s, change * change)
        most = largest(s)
        for o in range(j * size + whole, j * size + n):
            change = denoised[o] - Y[o]
            most = max(most, change * change)
        if most <= reach:  # the estimate is close to its own patch, and so to the range
            continue
        if not has_range:
            lowest = highest = Y[0]
            for i in range(m):
                for o in range(i * size, i * size + n):
                    lowest, highest = min(lowest, Y[o]), max(highest, Y[o])
            has_range = True
        reach = np.sqrt(reach)
        strays = False
        for o in range(j * size, j * size + n):
            strays |= denoised[o] < lowest - reach or denoised[o] > highest + reach
        if strays:
            weights[j] *= np.float32(_DISCARDED_WEIGHT)
            for o in range(j * size, j * size + size, LANES):
                store(denoised, o, load(Y, o))
