"""Functions that work on both NumPy arrays and PyTorch tensors, where the two libraries differ.

PyTorch is never imported here: where there is a tensor, it has been imported already.
"""

import sys
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from ..types import Array, Mask, Pixels, Positions

Each: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""The type of `map`, and of functions like it that use several threads."""


def do_all(results: Iterable[None]) -> None:
    """Run an `Each` to its end, for the side effects of its function."""
    for _ in results:
        pass


def is_tensor(value: Any) -> bool:
    """Whether a value is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_dask(image: Any) -> bool:
    """Whether an image is a Dask array; does not import Dask."""
    return type(image).__module__.partition(".")[0] == "dask"


def is_sliceable(image: Any) -> bool:
    """Whether an image is an array that can be read in parts, and so need not be in memory."""
    return all(hasattr(image, name) for name in ("shape", "dtype", "__getitem__"))


def library(array: Any) -> Any:
    """The module that an array belongs to: NumPy or PyTorch."""
    return sys.modules["torch"] if is_tensor(array) else np


def as_array_like(values: Any, array: Array) -> Array:
    """Convert `values` to an array, or to a tensor with the dtype and device of `array` if that is a tensor."""
    if not is_tensor(array):
        return np.asarray(values)
    if isinstance(values, int | float):
        return array.new_full((), values)  # type: ignore[attr-defined]
    return to_device_of(array, values).to(array.dtype)


def to_device_of(array: Any, values: Any) -> Any:
    """Move `values` to the device of `array` if that is a tensor, without waiting for the device."""
    if not is_tensor(array):
        return values
    return library(array).as_tensor(values).to(array.device, non_blocking=True)


def broadcast_like(values: float | Array, array: Array) -> Array:
    """Broadcast a number or an array to the shape of `array`."""
    return library(array).broadcast_to(as_array_like(values, array), array.shape)


def identity(size: int, array: Array) -> Array:
    """The identity matrix, as a tensor with the dtype and device of `array` if that is a tensor."""
    if is_tensor(array):
        return library(array).eye(size, dtype=array.dtype, device=array.device)
    return np.eye(size)


def inverse(matrix: Array) -> Array:
    """A⁻¹, for symmetric and positive definite A.

    For tensors it is L'⁻¹L⁻¹ with the Cholesky factor L, and NaN where the factorisation fails because A is not
    positive definite to within rounding. Raising an error there would mean waiting for the device.
    """
    if not is_tensor(matrix):
        return np.linalg.inv(matrix)
    linalg, where = library(matrix).linalg, library(matrix).where
    factor, failed = linalg.cholesky_ex(matrix)
    inverse_factor = linalg.solve_triangular(
        factor, identity(matrix.shape[-1], matrix), upper=False
    )
    return inverse_factor.mT @ where(failed[..., None, None] == 0, inverse_factor, np.nan)


def lower_factor(matrix: Array) -> tuple[Array, Array]:
    """The Cholesky factor of a symmetric and positive definite matrix, and its inverse."""
    if not is_tensor(matrix):
        factor = np.linalg.cholesky(matrix)
        return factor, np.linalg.inv(factor)
    linalg = library(matrix).linalg
    factor, _ = linalg.cholesky_ex(matrix)
    unit = identity(matrix.shape[-1], matrix)
    return factor, linalg.solve_triangular(factor, unit, upper=False)


def orthonormal_columns(matrix: Array) -> Array:
    """Q of the decomposition A = QR, where Q has orthonormal columns and R is upper triangular.

    GPUs decompose the matrices of a batch one by one, but factorise all of their Gram matrices at once. In double
    precision, two such steps are enough for any A in single precision.
    """
    if not is_tensor(matrix):
        return np.linalg.qr(matrix).Q
    if matrix.device.type == "cpu":  # type: ignore[attr-defined]
        return library(matrix).linalg.qr(matrix).Q
    return by_gram_matrices(matrix)


def by_gram_matrices(matrix: Array) -> Array:
    """`orthonormal_columns` of tensors, by the Cholesky factors of A'A."""
    linalg = library(matrix).linalg
    Q = matrix.double()  # type: ignore[attr-defined]
    for _ in range(2):
        factor, _ = linalg.cholesky_ex(Q.mT @ Q, upper=True)
        Q = linalg.solve_triangular(factor, Q, upper=True, left=False)
    return Q.to(matrix.dtype)


def take_along_axis(array: Array, indices: Positions, axis: int) -> Array:
    """`numpy.take_along_axis`, for arrays and tensors."""
    if is_tensor(array):
        return library(array).take_along_dim(array, indices, axis)
    return np.take_along_axis(array, indices, axis)


def all_without_waiting(conditions: Mask) -> bool:
    """Whether all conditions are known to hold; False for tensors on a GPU.

    A GPU computes while Python runs ahead of it, and reading the conditions would mean waiting for the GPU.
    """
    if is_tensor(conditions):
        return conditions.device.type == "cpu" and bool(conditions.numpy().all())  # type: ignore[attr-defined]
    return bool(conditions.all())


def machine_epsilon(array: Array) -> float:
    """The relative precision of the array's dtype."""
    return float(library(array).finfo(array.dtype).eps)


def applied(function: Callable[[Any], Any], values: Any) -> Any:
    """function(values), pixel by pixel; for a tensor, computed on the host, with a numerical derivative.

    The function takes and returns arrays.
    """
    return _on_host().apply(values, function) if is_tensor(values) else function(values)


_STEP = (
    1e-4  # step of the numerical derivative, relative to the values, or to 1 if they are smaller
)


@cache
def _on_host() -> Any:
    """A differentiable function of PyTorch that calls one of NumPy."""
    torch = sys.modules["torch"]

    class OnHost(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(context: Any, values: Any, function: Any) -> Any:
            context.function = function
            context.save_for_backward(values)
            result = function(values.detach().cpu().double().numpy())
            return torch.as_tensor(result).to(values)

        @staticmethod
        def backward(context: Any, gradient: Any) -> tuple[Any, None]:
            (values,) = context.saved_tensors
            at = values.detach().cpu().double().numpy()
            step = _STEP * np.maximum(np.abs(at), 1.0)
            slope = (context.function(at + step) - context.function(at - step)) / (2 * step)
            return gradient * torch.as_tensor(slope).to(gradient), None

    return OnHost


def block_means(channel: Pixels, block: tuple[int, int]) -> Array:
    """The means over the blocks that lie within a channel."""
    height, width = block
    rows, columns = channel.shape[0] // height, channel.shape[1] // width
    blocks = channel[: rows * height, : columns * width].reshape(rows, height, columns, width)
    means: Array = blocks.mean(axis=(1, 3), dtype=np.float64)
    return means
