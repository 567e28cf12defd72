"""How kernels are compiled: the decorators that they carry, and what is said about it."""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numba
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

# Sums are never rearranged, nor are operations fused that are not written so.  Parts that several kernels are made of
# exist in several copies of one name, and the linker takes any of them: all have to give the same bits.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"nnan", "ninf"}, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile `function` for this CPU when it is first called, and keep the result on disk.

    Kernels release the GIL, trust their arguments, and must not see NaN (fastmath).  They are few,
    and written with loops rather than array expressions, since a user waits for each to be compiled.
    """
    if not os.path.exists(
        function.__code__.co_filename
    ):  # typed in somewhere: there is nothing to keep
        return numba.njit(**_OPTIONS)(function)
    try:
        dispatcher = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # Numba found no folder that it may write its cache to
        _say_that_nothing_is_kept()
        dispatcher = numba.njit(**_OPTIONS)(function)
    return dispatcher


def part(function: F) -> F:
    """Compile `function` as a part of the kernels that call it; Python cannot call it."""
    return numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)(function)


def compiled(function: F, signature: Any) -> F:
    """A kernel that exists for one signature only, compiled or read from disk by now.

    Such a kernel can be passed to another kernel, or take one as an argument, without either being
    compiled again for the other.
    """
    if not hasattr(function, "overloads"):
        raise TypeError(
            f"kernel is {function!r}; expected a function with the decorator nlridge.kernels.kernel"
        )
    with _lock:
        if signature.args not in function.overloads:
            function.compile(signature)  # type: ignore[attr-defined]
            function.disable_compile()  # type: ignore[attr-defined]
    return function


@contextmanager
def announcing(announce: Callable[[], None]) -> Iterator[None]:
    """Call `announce` once if anything has to be compiled rather than read from disk."""

    class Listener(event.Listener):
        announced = False

        def on_start(self, event: Any) -> None:
            if not self.announced:
                self.announced = True
                announce()

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield


def _say_that_nothing_is_kept() -> None:
    if not _said:
        _said.append(True)
        warnings.warn(
            "nlridge found no folder for its compiled kernels and compiles anew in each process; "
            "set NUMBA_CACHE_DIR to a writable folder to avoid this",
            RuntimeWarning,
            stacklevel=2,
        )


_said: list[bool] = []
_lock = threading.Lock()
