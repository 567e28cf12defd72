"""Families of local denoisers.

A family says how the patches of a group are combined, and nothing else: one estimator for each of
the two steps, written as a formula and, to be fast, as a compiled kernel.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from ..arrays import Array, is_tensor
from ..wording import number, shown

Estimate: TypeAlias = tuple[Array, Array]
Variance: TypeAlias = float | Array
"""Of the noise: one number, or one for each pixel of a group."""


def _no_parameters(n: int, m: int) -> Sequence[float]:
    return ()


@dataclass(frozen=True)
class Estimator:
    """How the groups of one step are denoised.

    Parameters
    ----------
    formula
        formula(Y, X, variance) takes noisy groups Y and guide groups X, arrays of shape (..., n, m)
        whose columns are patches, and the variance of the noise: a number, or an array of the shape of
        Y where it differs from pixel to pixel; or tensors of PyTorch instead of arrays, where the images
        are tensors. It gives the denoised groups and the weight of each
        patch, of shape (..., m), which must be positive: best, one over the variance that is left in it.
    kernel
        The same for one group in compiled form, with the signature
        kernel(Y, X, denoised, weights, n, m, variance, parameters). Groups are as
        `nlridge.patches.groups` lays them out; Y and X may be the same array, and neither may be
        written to. `variance` is an array of one number for all pixels, or laid out as Y. Of `denoised` the first n numbers of each patch count; what is written beyond them,
        if anything, must be finite. Without a kernel the formula is run, which takes longer.
    parameters
        parameters(n, m) gives the numbers that the kernel takes for groups of m patches of n pixels.

    Examples
    --------
    All patches of a group become their mean:

    >>> import numpy as np
    >>> import nlridge
    >>> def mean(Y, X, variance):
    ...     same = np.ones(Y.shape)
    ...     return Y.mean(axis=-1, keepdims=True) * same, same[..., 0, :]
    >>> denoised, weights = nlridge.Estimator(mean).formula(np.array([[1.0, 3.0]]), None, 1.0)
    >>> denoised
    array([[2., 2.]])
    """

    formula: Callable[..., Estimate]
    kernel: Callable[..., None] | None = None
    parameters: Callable[[int, int], npt.ArrayLike] = _no_parameters


@dataclass(frozen=True)
class Family:
    """A family f_Θ: how Θ is found in the first step (from SURE) and in the second (from the pilot).

    A family without a second step denoises in one.

    Examples
    --------
    A family of one's own, without a kernel and with one step:

    >>> import numpy as np
    >>> import nlridge
    >>> def mean(Y, X, variance):
    ...     same = np.ones(Y.shape)
    ...     return Y.mean(axis=-1, keepdims=True) * same, same[..., 0, :]
    >>> family = nlridge.Family("mean", nlridge.Estimator(mean))
    >>> recipe = nlridge.Recipe(family, nlridge.Step(patch_size=5, group_size=16))
    >>> noise = np.random.default_rng(0).normal(0, 10, (40, 40))
    >>> bool(np.std(nlridge.denoise(noise, sigma=10, method=recipe)) < 5)
    True
    """

    name: str
    pilot: Estimator
    refine: Estimator | None = None
    stacks_planes: bool = False
    """Whether a patch of two planes of a colour image may be one column of a group, n being twice p²."""


def applied(formula: Callable[..., Estimate], Y: Array, X: Array, variance: Variance) -> Estimate:
    """What a formula gives, if it is a pair, as it has to be."""
    found = _of_tensors(formula, Y, X, variance) if is_tensor(Y) else formula(Y, X, variance)
    if not (isinstance(found, tuple | list) and len(found) == 2):
        what = f"{len(found)} things" if isinstance(found, tuple | list) else type(found).__name__
        what = {"ndarray": "an array", "Tensor": "a tensor", "NoneType": "None"}.get(what, what)
        raise TypeError(f"the formula gave {what}; expected (denoised, weights)")
    return found[0], found[1]


def _of_tensors(formula: Callable[..., Estimate], *groups: Any) -> Estimate:
    """NumPy takes tensors at times, and warns; and fails if they are on a device, or need a gradient."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*__array_wrap__")
            return formula(*groups)
    except (Warning, TypeError, RuntimeError) as error:
        if not any(hint in str(error) for hint in ("__array_wrap__", "numpy()", "to numpy")):
            raise
        raise TypeError(
            "the formula called a function of NumPy with a tensor; expected operators and methods that "
            "arrays and tensors have in common"
        ) from error


def squared_norm(matrix: Array) -> Array:
    """|A|², the squared Frobenius norm of each matrix."""
    return (matrix**2).sum(axis=(-2, -1))


def conditioned(noisier: float) -> float:
    """The share of noise that step 1 adds in thought: at least 1e-4, or flat areas had no solution."""
    expect_not_negative("noisier", noisier)
    return max(noisier, 1e-4)


def expect_not_negative(name: str, value: float) -> None:
    """A clear word about a parameter of a family that has to be 0 or more."""
    size = number(name, value)
    if not size >= 0:
        raise ValueError(f"{name} is {shown(value)}; expected a number that is not negative")
    if size > 1e6:  # kernels square it
        raise ValueError(f"{name} is {shown(value)}; expected at most 1e6")
