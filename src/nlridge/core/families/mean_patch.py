"""The mean patch of a group: it has little noise, but in smooth images this is nearly all that is left.

Where its guide is flat or changes linearly, all pixels of the mean patch are combined.
"""

from functools import cache
from math import isqrt
from typing import Any

import numpy as np

from ...types import Array
from ..arrays import as_array_like
from ..kernels.compile import part

# A guide of the mean patch with less energy than this share of the noise in the mean patch is more likely smoothed noise
# than structure. A larger share would cost photographs at medium noise, and with half of it, smooth images would lose
# most of what they gain.
SMOOTH = 0.025


def smoother_mean(mean: Array, guide: Array, noise: Array) -> Array:
    """The mean patch, nearer to the closest plane the more its guide resembles one.

    Let a be the energy of what a plane does not explain of the guide, and b a small share of the noise in the mean patch.
    What a plane does not explain of the mean patch is multiplied by a⁴ / (a⁴ + b⁴), which is 1 but for smooth patches:
    guides have lost some structure, and a factor as gradual as that of ridge regression would remove more of it.
    """
    b = SMOOTH / (1 / noise).sum(-2)[..., None, :]
    B = as_array_like(slopes(mean.shape[-2]), mean)
    own, of_guide = (
        # The first pixel is subtracted, so that bright pixels lose no digits.
        change - B @ (B.mT @ change)
        for change in (patch - patch[..., :1, :] for patch in (mean, guide))
    )
    p = b / ((of_guide**2).sum(-2)[..., None, :] + b)
    return mean - p**4 / (p**4 + (1 - p) ** 4) * own


@cache
def slopes(n: int) -> Any:
    """Orthonormal columns, combinations of which are the patches of n pixels that are flat or change linearly.

    If n is not a square, the patch consists of several square planes, which may have different slopes.
    """
    planes = next(k for k in range(1, n + 1) if n % k == 0 and isqrt(n // k) ** 2 == n // k)
    side = isqrt(n // planes)
    across = np.tile(np.arange(side) - (side - 1) / 2, (side, 1))
    directions = [np.ones((side, side)), across, across.T][: 3 if side > 1 else 1]
    columns = np.stack(directions).reshape(len(directions), -1).T
    return np.kron(np.eye(planes), columns / np.linalg.norm(columns, axis=0))


@part
def smooth(mean, guide, n, b, slopes):
    """`smoother_mean`, in place; `slopes` holds the columns of that function, one after the other."""
    first, first_of_guide = mean[0], guide[0]  # subtracted, so that bright pixels lose no digits
    own, of_guide = np.empty(n, np.float32), np.empty(n, np.float32)
    for i in range(n):
        own[i], of_guide[i] = mean[i] - first, guide[i] - first_of_guide
    for o in range(0, len(slopes), n):
        s = s_of_guide = np.float32(0)
        for i in range(n):
            s += slopes[o + i] * own[i]
            s_of_guide += slopes[o + i] * of_guide[i]
        for i in range(n):
            own[i] -= s * slopes[o + i]
            of_guide[i] -= s_of_guide * slopes[o + i]
    a = np.float32(0)
    for i in range(n):
        a += of_guide[i] * of_guide[i]
    p = b / (a + b)
    share = p**4 / (p**4 + (1 - p) ** 4)
    for i in range(n):
        mean[i] -= share * own[i]
