"""A guard that does not depend on the cause: estimates that leave the range of their group are not used.

Denoised patches are combinations of the patches of a group and lie between its darkest and its brightest pixel, give or take
some of the noise. An estimate far outside is wrong, be it by rounding errors or by the formula of a new family.
"""

import numpy as np

from ..arrays import Array, broadcast_like, library
from ..kernels.compile import part
from ..kernels.linalg import padded
from ..kernels.simd import LANES, larger, largest, load, splat, store
from ..kernels.variances import patch_variance
from .family import Estimate

# By how many standard deviations of the noise an estimate may leave the range of its group.
_FEW = 5.0
# The factor on the weight of a patch whose estimate is not used: others that cover the same pixels count instead.
_UNUSED = 1e-6


# The formula.


def without_strays(estimate: Array, weights: Array, Y: Array, variance: float | Array) -> Estimate:
    """Estimates and weights of groups Y, with patches whose estimate leaves the range of the group left as they are."""
    reach = _FEW * broadcast_like(variance, Y).mean(axis=-2) ** 0.5
    reach = reach[..., None, :]
    where, amin, amax = (getattr(library(Y), name) for name in ("where", "amin", "amax"))
    lowest, highest = amin(Y, (-2, -1))[..., None, None], amax(Y, (-2, -1))[..., None, None]
    within = (estimate >= lowest - reach) & (estimate <= highest + reach)
    used = within.all(axis=-2)
    return where(used[..., None, :], estimate, Y), where(used, weights, _UNUSED * weights)


# The kernel.


@part
def leave_strays(denoised, weights, Y, variance, factor, n, m):
    """`without_strays` for one group, in place; `factor` times `variance` is that of all of the noise."""
    size = padded(n)
    whole = n // LANES * LANES
    has_range = False
    lowest = highest = np.float32(0)
    for j in range(m):
        reach = np.float32(_FEW * _FEW) * factor * patch_variance(variance, j, n)
        s = splat(np.float32(0))
        for o in range(j * size, j * size + whole, LANES):
            change = load(denoised, o) - load(Y, o)
            s = larger(s, change * change)
        most = largest(s)
        for o in range(j * size + whole, j * size + n):
            change = denoised[o] - Y[o]
            most = max(most, change * change)
        if most <= reach:  # so is a change to the range
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
            weights[j] *= np.float32(_UNUSED)
            for o in range(j * size, j * size + size, LANES):
                store(denoised, o, load(Y, o))
