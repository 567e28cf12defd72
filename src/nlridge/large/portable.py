"""What is sent to other processes: small, and with kernels by their names, so that those kept on disk are used."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from ..families import Estimator
from ..job import Job


class _Portable(Estimator):
    """An estimator whose kernel is pickled as a name: Numba would pickle its code, to be compiled again."""

    def __reduce__(self) -> Any:
        kernel: Any = self.kernel
        return _again, (self.formula, kernel.__module__, kernel.__qualname__, self.parameters)


def _again(formula: Callable[..., Any], home: str, name: str, parameters: Any) -> _Portable:
    return _Portable(formula, getattr(import_module(home), name), parameters)


def portable(estimator: Estimator) -> Estimator:
    """The same estimator; one whose kernel other processes cannot find by its name is left as it is."""
    kernel = estimator.kernel
    if kernel is None or kernel.__module__ == "__main__" or "<" in kernel.__qualname__:
        return estimator
    return _Portable(estimator.formula, kernel, estimator.parameters)


def without_recipe(job: Job) -> Job:
    """A job for the way from pixels to planes and back, which is all that its recipe is not needed for."""
    return replace(job, pixels=np.empty(0), recipe=None)  # type: ignore[arg-type]
