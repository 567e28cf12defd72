"""Arrays of NumPy and tensors of PyTorch: what a formula needs of both, and they do under different names.

PyTorch is never imported here: where there is a tensor, it has been already.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating[Any]]


def is_tensor(thing: Any) -> bool:
    """Whether this is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def is_dask(image: Any) -> bool:
    """Whether an image is a Dask array, without importing Dask."""
    return type(image).__module__.partition(".")[0] == "dask"


def library(array: Any) -> Any:
    """NumPy or PyTorch, whichever the array is of."""
    return sys.modules["torch"] if is_tensor(array) else np


def like(values: Any, array: Array) -> Array:
    """Numbers as an array of the library, the type and the device of another."""
    if not is_tensor(array):
        return np.asarray(values)
    if isinstance(values, int | float):
        return array.new_full((), values)  # type: ignore[attr-defined]
    return sent(values, array).to(array.dtype)


def sent(values: Any, array: Any) -> Any:
    """An array as it is, or as a tensor on the device of another, whose other work is not waited for."""
    if not is_tensor(array):
        return values
    return library(array).as_tensor(values).to(array.device, non_blocking=True)


def spread(values: float | Array, array: Array) -> Array:
    """A number, or what broadcasts against an array, in the array's shape."""
    return library(array).broadcast_to(like(values, array), array.shape)


def identity(size: int, array: Array) -> Array:
    """The identity matrix, of the library, the type and the device of an array."""
    if is_tensor(array):
        return library(array).eye(size, dtype=array.dtype, device=array.device)
    return np.eye(size)


def inverse(matrix: Array) -> Array:
    """A⁻¹, for symmetric and positive definite A.

    On tensors by Cholesky's factor L, as L'⁻¹L⁻¹, and NaN where float32 does not see that A is positive: to
    raise an error there, the device would have to be waited for.
    """
    if not is_tensor(matrix):
        return np.linalg.inv(matrix)
    linalg, where = library(matrix).linalg, library(matrix).where
    factor, failed = linalg.cholesky_ex(matrix)
    found = linalg.solve_triangular(factor, identity(matrix.shape[-1], matrix), upper=False)
    return found.mT @ where(failed[..., None, None] == 0, found, np.nan)


def entries(array: Array, places: npt.NDArray[np.intp], axis: int) -> Array:
    """The entries at these places along an axis; `places` has as many dimensions as the array."""
    if is_tensor(array):
        return library(array).take_along_dim(array, places, axis)
    return np.take_along_axis(array, places, axis)


def all_known(truths: npt.NDArray[np.bool_]) -> bool:
    """Whether all are true, as far as that can be seen at once.

    A GPU works on while Python goes ahead; to ask it would be to wait for it.
    """
    if is_tensor(truths):
        return truths.device.type == "cpu" and bool(truths.numpy().all())  # type: ignore[attr-defined]
    return bool(truths.all())


def precision(array: Array) -> float:
    """The relative precision of the array's numbers."""
    return float(library(array).finfo(array.dtype).eps)
