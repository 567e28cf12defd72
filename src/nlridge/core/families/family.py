"""The base class of families, their estimators for the two steps, and the noise that estimators receive."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from ...checks import number
from ...errors import ArgumentError
from ...types import Array, Floats
from ..arrays import broadcast_like, is_tensor

Estimate: TypeAlias = tuple[Array, Array]
"""The denoised groups, and the weights of their patches."""


@dataclass(frozen=True, eq=False)
class GroupNoise:
    """The noise of groups of patches, as estimators receive it.

    Parameters
    ----------
    variance : float or array of the shape of the groups
        Variance of the noise: one value for all pixels, or one for each.
    is_whitened : bool, optional
        Whether the noise of the image is correlated, and the groups have been whitened.

    Examples
    --------
    Two patches of three pixels each, the second with four times the variance of the first:

    >>> import numpy as np
    >>> from nlridge.core.families import GroupNoise
    >>> Y = np.zeros((3, 2))
    >>> noise = GroupNoise(np.broadcast_to([1.0, 4.0], Y.shape))
    >>> noise.is_uniform
    False
    >>> noise.in_patches(Y)
    array([ 3., 12.])
    """

    variance: float | Array
    is_whitened: bool = False

    @property
    def is_uniform(self) -> bool:
        """Whether all pixels of a group have the same variance."""
        variance = self.variance
        return isinstance(variance, float | int) or variance.shape[-2:] in ((), (1, 1))

    def in_pixels(self, Y: Array) -> Array:
        """The variance of each pixel, with the shape of the groups Y."""
        return broadcast_like(self.variance, Y)

    def in_patches(self, Y: Array) -> Array:
        """The diagonal D of N = E[W'W]: the sum of the variances of the pixels of each patch, n σ² if all are σ²."""
        return self.in_pixels(Y).sum(axis=-2)


@dataclass(frozen=True)
class Estimator:
    """How one step denoises its groups.

    Parameters
    ----------
    formula : callable
        ``formula(Y, X, noise)`` takes noisy groups Y and guide groups X, arrays of shape (..., n, m)
        whose columns are patches, and their `GroupNoise`. The arrays are tensors if the images are tensors.
        It returns the denoised groups and the weights of their patches, an array of shape (..., m). Weights must
        be positive; the best choice is the inverse of the variance that remains in the patch.
    kernel : callable, optional
        The formula for one group in compiled form: a function decorated by `nlridge.kernels.kernel`, with the
        signature ``kernel(Y, X, denoised, weights, n, m, variance, parameters)``. Groups are laid out as in
        `nlridge.core.patches.groups`; Y and X may be the same array, and must not be modified.
        `variance` holds one number for all pixels, or one for each, laid out as Y. Only the first n
        numbers of each patch of `denoised` are used; anything written beyond them must be finite. Without a
        kernel, the formula is used, which is slower.
    parameters : callable, optional
        ``parameters(n, m)`` returns the numbers that are passed to the kernel as `parameters` for groups of m
        patches of n pixels. There are none by default.
    window : callable, optional
        ``window(p)`` returns p positive numbers: the weights, in the average of overlapping patches, of the pixels
        along each side of a patch of p x p pixels. All weights are equal by default.
    correlated_kernel : callable, optional
        The formula for a group with correlated noise in compiled form, where that is faster than whitening the group,
        calling `kernel`, and inverting the whitening. Its signature is
        ``kernel(Y, X, denoised, weights, n, m, variance, parameters, scales, whiten, color, T)``. `variance` holds one
        number, and the factors `scales` give all patches this variance. `whiten` whitens the pixels of a patch, and
        `color` is its inverse. T is the covariance of the patches for a variance of 1, and may be overwritten. Rows
        are padded to whole vectors.

    Examples
    --------
    Replace every patch of a group by the mean of the group:

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
    window: Callable[[int], npt.ArrayLike] | None = None
    correlated_kernel: Callable[..., None] | None = None

    def pixel_weights(self, patch: int) -> Floats:
        """The weights of the pixels along a side of a patch: an array of `patch` numbers."""
        if self.window is None:
            return np.ones(patch, np.float32)
        weights = np.asarray(self.window(patch), np.float32)
        if weights.shape != (patch,) or not (np.isfinite(weights) & (weights > 0)).all():
            raise ValueError(
                f"window({patch}) is {self.window(patch)!r}; expected {patch} positive numbers"
            )
        return weights


@dataclass(frozen=True)
class Family:
    """Base class of the families f_Θ of local denoisers.

    A family defines how the patches of a group are combined, and how Θ is chosen in each step. To add one, derive a
    class and set `pilot`, the `Estimator` of the first step, and `refine`, that of the second step, if it has one.
    Make a family with options a frozen dataclass with the options as its fields, so that families can be compared,
    printed and pickled.

    Attributes
    ----------
    pilot : Estimator
        Denoises the groups of the first step, in which Θ depends on the noisy groups alone.
    refine : Estimator or None
        Denoises the groups of the second step, in which the pilot takes the place of the unknown image. None, the
        default, if the family has only one step.
    stacks_planes : bool
        Whether two planes of a color image may share one group, their patches stacked in columns of twice as many
        pixels. False by default.

    See Also
    --------
    nlridge.core.families.Ridge, nlridge.core.families.Bayes, nlridge.core.families.BM3D, nlridge.core.families.TwoSided

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
    refine: ClassVar[Any] = None

    @property
    def pilot(self) -> Estimator:
        """The estimator of the first step."""
        raise NotImplementedError(f"{type(self).__name__} has no pilot; expected an Estimator")


def evaluate(formula: Callable[..., Estimate], Y: Array, X: Array, noise: GroupNoise) -> Estimate:
    """Call a formula, and check that it returns the denoised groups and the weights of their patches."""
    result = _evaluate_on_tensors(formula, Y, X, noise) if is_tensor(Y) else formula(Y, X, noise)
    if not (isinstance(result, tuple | list) and len(result) == 2):
        if isinstance(result, tuple | list):
            what = f"{len(result)} values"
        else:
            what = type(result).__name__
            what = {"ndarray": "an array", "Tensor": "a tensor", "NoneType": "None"}.get(what, what)
        raise TypeError(f"the formula returned {what}; expected (denoised, weights)")
    estimate, weights = result
    if is_tensor(Y):
        if not (is_tensor(estimate) and is_tensor(weights)):
            raise TypeError(
                f"the formula returned {type(estimate).__name__} and {type(weights).__name__}; "
                "expected tensors for tensors"
            )
    else:
        estimate, weights = np.asarray(estimate), np.asarray(weights)
        if any(array.dtype.kind not in "uif" for array in (estimate, weights)):
            raise TypeError(
                f"the formula returned arrays of {estimate.dtype} and {weights.dtype}; expected numbers"
            )
    expected = tuple(Y.shape), (*Y.shape[:-2], Y.shape[-1])
    if (tuple(estimate.shape), tuple(weights.shape)) != expected:
        raise ValueError(
            f"the formula returned {'tensors' if is_tensor(Y) else 'arrays'} of shapes "
            f"{tuple(estimate.shape)} and {tuple(weights.shape)}; expected {expected[0]} and {expected[1]}"
        )
    return estimate, weights


def _evaluate_on_tensors(formula: Callable[..., Estimate], *arguments: Any) -> Estimate:
    """Call a formula, and explain the errors and warnings of NumPy functions that are given tensors."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*__array_wrap__")
            return formula(*arguments)
    except (Warning, TypeError, RuntimeError) as error:
        if not any(hint in str(error) for hint in ("__array_wrap__", "numpy()", "to numpy")):
            raise
        raise TypeError(
            "the formula called a NumPy function with a tensor; expected operators and methods that "
            "arrays and tensors have in common"
        ) from error


def squared_norm(matrix: Array) -> Array:
    """|A|², the squared Frobenius norm of each matrix."""
    return (matrix**2).sum(axis=(-2, -1))


def well_conditioned(noisier: float) -> float:
    """`noisier`, or 1e-4 if that is larger: with less, the matrix to invert would be singular in flat areas."""
    return max(noisier, 1e-4)


def expect_non_negative(name: str, value: float) -> None:
    """Raise an error unless an option of a family is a number from 0 to 1e12."""
    size = number(name, value)
    if not size >= 0:
        raise ArgumentError(name, value, "a non-negative number")
    if size > 1e12:  # kernels square it
        raise ArgumentError(name, value, "at most 1e12")


def expect_kaiser(value: float) -> None:
    """Raise an error unless the option `kaiser` of a family is a number from 0 to 20."""
    expect_non_negative("kaiser", value)
    if value > 20:  # the weights of the corners must not vanish
        raise ArgumentError("kaiser", value, "at most 20")


def kaiser_window(beta: float) -> Callable[[int], npt.ArrayLike] | None:
    """The `Estimator.window` for the option `kaiser` of a family."""
    return partial(np.kaiser, beta=beta) if beta else None


def constant(*numbers: float) -> Callable[[int, int], Sequence[float]]:
    """The `parameters` of an `Estimator` whose kernel takes the same numbers for all n and m."""
    return lambda n, m: numbers
