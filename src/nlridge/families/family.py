"""What a family of local denoisers is: one estimator for each of the two steps, and what it is told about the noise."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy.typing as npt

from ..arrays import Array, is_tensor, spread
from ..checks import number, shown

Estimate: TypeAlias = tuple[Array, Array]
"""Denoised groups, and the weight of each of their patches."""


@dataclass(frozen=True, eq=False)
class GroupNoise:
    """The noise of groups of patches.

    Parameters
    ----------
    variance : float or array of the shape of the groups
        Variance of the noise: the same for all pixels, or one value for each.
    """

    variance: float | Array

    @property
    def is_uniform(self) -> bool:
        """Whether all pixels of a group have the same variance."""
        variance = self.variance
        return isinstance(variance, float | int) or variance.shape[-2:] in ((), (1, 1))

    def in_pixels(self, Y: Array) -> Array:
        """The variance of each pixel, in the shape of Y."""
        return spread(self.variance, Y)

    def in_patches(self, Y: Array) -> Array:
        """The diagonal D of N = E[W'W]: the variances of the pixels of each patch, summed; n σ² if all are σ²."""
        return self.in_pixels(Y).sum(axis=-2)


@dataclass(frozen=True)
class Estimator:
    """How the groups of one step are denoised.

    Parameters
    ----------
    formula
        ``formula(Y, X, noise)`` takes noisy groups Y and guide groups X, arrays of shape (..., n, m)
        whose columns are patches, and their `GroupNoise`. Arrays are tensors if the images are tensors.
        It returns the denoised groups and the weight of each patch, of shape (..., m). Weights are
        positive; the best choice is one over the variance that is left in the patch.
    kernel
        The same for one group in compiled form, with the signature
        ``kernel(Y, X, denoised, weights, n, m, variance, parameters)``. Groups are laid out as in
        `nlridge.patches.groups`; Y and X may be the same array, and neither may be written to.
        `variance` holds one number for all pixels, or one for each, laid out as Y. The first n
        numbers of each patch of `denoised` count; anything written beyond them must be finite. Without a
        kernel the formula is used, which is slower.
    parameters
        ``parameters(n, m)`` returns the numbers that the kernel takes for groups of m patches of n pixels.

    Examples
    --------
    Every patch of a group becomes their mean:

    >>> import numpy as np
    >>> import nlridge
    >>> def mean(Y, X, noise):
    ...     same = np.ones(Y.shape)
    ...     return Y.mean(axis=-1, keepdims=True) * same, same[..., 0, :]
    >>> denoised, weights = nlridge.Estimator(mean).formula(np.array([[1.0, 3.0]]), None, None)
    >>> denoised
    array([[2., 2.]])
    """

    formula: Callable[..., Estimate]
    kernel: Callable[..., None] | None = None
    parameters: Callable[[int, int], npt.ArrayLike] = lambda n, m: ()


@dataclass(frozen=True)
class Family:
    """A family f_Θ of local denoisers: how Θ is chosen in the first step, from SURE, and in the second, from the pilot.

    Derive a class from it and set `pilot`, and `refine` if there is a second step. A family with options is
    a frozen dataclass whose fields they are, so that families can be compared, printed and pickled.

    Examples
    --------
    A family with one step and without a kernel:

    >>> import numpy as np
    >>> import nlridge
    >>> def mean(Y, X, noise):
    ...     same = np.ones(Y.shape)
    ...     return Y.mean(axis=-1, keepdims=True) * same, same[..., 0, :]
    >>> class Mean(nlridge.Family):
    ...     pilot = nlridge.Estimator(mean)
    >>> recipe = nlridge.Recipe(Mean(), nlridge.Step(patch_size=5, group_size=16))
    >>> image = np.random.default_rng(0).normal(0, 10, (40, 40))
    >>> bool(np.std(nlridge.denoise(image, sigma=10, method=recipe)) < 5)
    True
    """

    stacks_planes: ClassVar[bool] = False
    """Whether the patches of two planes of a colour image may form one column of a group, n being twice p²."""
    refine: ClassVar[Any] = None

    @property
    def pilot(self) -> Estimator:
        """The estimator of the first step."""
        raise NotImplementedError(f"{type(self).__name__} has no pilot; expected an Estimator")


def applied(formula: Callable[..., Estimate], Y: Array, X: Array, noise: GroupNoise) -> Estimate:
    """What a formula gives, if it is a pair, as it has to be."""
    found = _of_tensors(formula, Y, X, noise) if is_tensor(Y) else formula(Y, X, noise)
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
    """The share of noise by which step 1 is made noisier: at least 1e-4, or flat areas would have no solution."""
    return max(noisier, 1e-4)


def expect_not_negative(name: str, value: float) -> None:
    """Refuse an option of a family that is not a number of reasonable size."""
    size = number(name, value)
    if not size >= 0:
        raise ValueError(f"{name} is {shown(value)}; expected a number that is not negative")
    if size > 1e12:  # kernels square it
        raise ValueError(f"{name} is {shown(value)}; expected at most 1e12")


def constant(*numbers: float) -> Callable[[int, int], Sequence[float]]:
    """Parameters of a kernel that depend neither on n nor on m."""
    return lambda n, m: numbers
