"""How kernels are compiled: the decorators that they carry, and what is said about it."""

import io
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from logging import getLogger
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

import numba
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile

F = TypeVar("F", bound=Callable[..., Any])

# Sums are never rearranged, nor are operations fused that are not written so.  Parts that several kernels are made of
# exist in several copies of one name, and the linker takes any of them: all have to give the same bits.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"nnan", "ninf"}, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile `function` for this CPU when it is first called, and keep the result on disk.

    Kernels release the GIL, trust their arguments, and must not see NaN (fastmath).  They are few,
    and written with loops rather than array expressions, since a user waits for each to be compiled.
    """
    dispatcher = numba.njit(**_OPTIONS)(function)
    _kernels.add(dispatcher)
    if os.path.exists(function.__code__.co_filename):  # or it is typed in, and cannot be kept
        try:
            dispatcher._cache = _Cache(function)
        except RuntimeError:  # Numba found no folder that it may write its cache to
            _say_that_nothing_is_kept()
    return dispatcher


class _CacheFile(IndexDataCacheFile):
    """A file of the cache that ends in its own digest: damaged, it counts as absent and is compiled again.

    Numba would stop at a file that is cut short, and run machine code that is not what it was.
    """

    @contextmanager
    def _open_for_write(self, path):
        whole = io.BytesIO()
        yield whole
        with super()._open_for_write(path) as file:
            file.write(whole.getvalue() + sha256(whole.getvalue()).digest())

    def _load_index(self):
        return super()._load_index() if _is_intact(self._index_path) else {}

    def _load_data(self, name):
        if not _is_intact(self._data_path(name)):
            raise OSError  # which Numba takes as absent
        return super()._load_data(name)


class _Cache(FunctionCache):
    """Numba's cache of a function, in files that are checked."""

    def __init__(self, function):
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFile(self._cache_path, self._impl.filename_base, stamp)

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError:  # a full disk is no reason to stop
            _say_that_nothing_is_kept()


def _is_intact(path):
    try:
        data = Path(path).read_bytes()
    except OSError:
        return False
    return sha256(data[:-32]).digest() == data[-32:]


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
    """Call `announce` once if a kernel has to be compiled rather than read from disk; by default it is logged."""
    once = cache(announce)
    _announcers.append(once)
    try:
        yield
    finally:
        _announcers.remove(once)


@cache
def _log() -> None:
    # A log, not a warning: there is nothing that the caller could change, and where warnings are errors it would
    # be one in the first process only.
    getLogger("nlridge").warning(
        "nlridge is compiling for this CPU, which takes a few seconds, once"
    )


class _Listener(event.Listener):
    def on_start(self, event):
        if event.data["dispatcher"] in _kernels:  # not what others compile
            _announcers[-1]()

    def on_end(self, event):
        pass


def _say_that_nothing_is_kept() -> None:
    if not _said:
        _said.append(True)
        warnings.warn(
            "nlridge found no folder for its compiled kernels and compiles again in each process; "
            "set NUMBA_CACHE_DIR to a writable folder to avoid this",
            RuntimeWarning,
            stacklevel=2,
        )


_said: list[bool] = []
_lock = threading.Lock()
_kernels: WeakSet[Any] = WeakSet()
_announcers: list[Callable[[], None]] = [_log]
event.register("numba:compile", _Listener())
