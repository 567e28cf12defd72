"""Families of local denoisers.

A family says how the patches of a group are combined, and nothing else: one estimator for each of
the two steps, each written as a formula and as a compiled kernel.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.floating[Any]]
Estimate: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True)
class Estimator:
    """How the groups of one step are denoised.

    Parameters
    ----------
    formula
        formula(Y, X, variance) takes noisy groups Y and guide groups X, arrays of shape (..., n, m)
        whose columns are patches, and the variance of the noise. It gives the denoised groups and
        the weight of each patch, of shape (..., m).
    kernel
        The same for one group in compiled form, with the signature
        kernel(Y, X, denoised, weights, n, m, variance, parameters). Groups are as
        `nlridge.patches.groups` lays them out; Y and X may be the same array, and neither may be
        written to.
    parameters
        Numbers that the kernel takes.
    """

    formula: Callable[..., Estimate]
    kernel: Callable[..., None]
    parameters: tuple[float, ...] = ()


@dataclass(frozen=True)
class Family:
    """A family f_Θ: how Θ is found in the first step (from SURE) and in the second (from the pilot)."""

    name: str
    pilot: Estimator
    refine: Estimator
