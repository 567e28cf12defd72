"""How kernels are compiled: the decorators, the cache on disk, and the messages to the user."""

import gc
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from logging import getLogger
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numba

from ...errors import ArgumentTypeError
from .target import TARGET, has_vectors

if numba.config.DISABLE_JIT:
    raise ImportError(
        "kernels cannot be compiled while NUMBA_DISABLE_JIT is set; unset it to use nlridge"
    )

try:
    from . import numba_internals
except (ImportError, AttributeError, TypeError):
    numba_internals = None  # type: ignore[assignment]
    getLogger("nlridge").warning(
        "nlridge does not know the internals of Numba %s and does without them; "
        "compiling, and the start of each process, take longer",
        numba.__version__,
    )

F = TypeVar("F", bound=Callable[..., Any])

# The compiler may neither reorder sums nor fuse operations: a part that several kernels call exists in several copies
# under one name, of which the linker picks any, so that all copies have to return the same bits.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"nnan", "ninf"}, "error_model": "numpy"}


def kernel(function: F) -> F:
    """Compile a function for this CPU when it is first called, and cache the machine code on disk.

    A decorator for functions that Python calls. Kernels release the GIL, do not check their arguments, and must not
    see NaN or infinity (fastmath). Write them with loops rather than array expressions, which take much longer to
    compile.

    Parameters
    ----------
    function : callable
        A function in the subset of Python that Numba supports. It is cached only if it is defined in a file.

    Returns
    -------
    callable
        The compiled function.

    See Also
    --------
    part : For functions that only kernels call.

    Examples
    --------
    >>> import numpy as np
    >>> from nlridge.core.kernels import kernel
    >>> @kernel
    ... def double(values):
    ...     for k in range(len(values)):
    ...         values[k] *= 2
    >>> values = np.array([1.0, 2.0], np.float32)
    >>> double(values)
    >>> values
    array([2., 4.], dtype=float32)
    """
    is_cached = os.path.exists(function.__code__.co_filename)
    if is_cached:
        try:
            dispatcher = _cached(function)
        except RuntimeError:  # Numba found no writable folder for its cache
            is_cached = False
            _warn_that_nothing_is_cached()
    if not is_cached:
        dispatcher = numba.njit(**_OPTIONS)(function)
    _kernels[dispatcher] = is_cached
    return dispatcher


def _cached(function: F) -> F:
    if numba_internals is None:
        return numba.njit(cache=True, **_OPTIONS)(function)
    dispatcher = numba.njit(**_OPTIONS)(function)
    numba_internals.keep_on_disk(
        dispatcher, _is_own(function), prepare, _warn_that_nothing_is_cached
    )
    return dispatcher


def part(function: F) -> F:
    """Compile a function as a part of the kernels that call it.

    A decorator for functions that are called by kernels only; Python cannot call them.

    Parameters
    ----------
    function : callable
        A function in the subset of Python that Numba supports.

    Returns
    -------
    callable
        The function for use in kernels.

    See Also
    --------
    kernel : For functions that Python calls.
    """
    options = _OPTIONS
    if numba_internals is not None:
        options = dict(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)
        if _is_own(function):
            options["pipeline_class"] = numba_internals.PartCompiler
    return numba.njit(**options)(function)


def _is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in this package, and so neither calls Python nor any of Numba's libraries."""
    return function.__module__.startswith(__name__.partition(".")[0] + ".")


def before_kernels(preparation: Callable[[], None]) -> None:
    """Call a function once, before the first kernel is loaded from disk or calls `prepare` while it is compiled."""
    if numba_internals is None:
        preparation()  # Numba does not tell when it loads a kernel
    else:
        _preparations.append(preparation)


def prepare() -> None:
    """Call the functions that are to be called before kernels; Numba's lock makes other threads wait."""
    while _preparations:
        _preparations.pop()()


def compiled(function: F, signature: Any) -> F:
    """Compile a kernel for one signature, or load it from disk, and prevent its compilation for any other.

    Such a kernel can be passed to another kernel, or take one as an argument, without either being
    compiled again for the other.
    """
    if not hasattr(function, "overloads"):
        raise ArgumentTypeError(
            "kernel", function, "a function decorated with nlridge.kernels.kernel"
        )
    with _lock:
        if signature.args not in function.overloads:
            function.compile(signature)  # type: ignore[attr-defined]
            function.disable_compile()  # type: ignore[attr-defined]
    return function


@contextmanager
def announcing(announce: Callable[[str], object]) -> Iterator[None]:
    """Call `announce`, once, if a kernel has to be compiled rather than loaded from disk.

    It receives a few words that say so, and whether what is compiled is kept for other processes. Outside this context,
    a message is logged.
    """
    once = _once(announce)
    _announcers.append(once)
    try:
        yield
    finally:
        _announcers.remove(once)


def _once(announce: Callable[[str], object]) -> Callable[[str], None]:
    """A function that calls `announce` the first time only, whatever the words."""
    left = [announce]

    def announce_once(words: str) -> None:
        if left:
            left.pop()(words)

    return announce_once


# Logged rather than issued as warnings: the caller cannot avoid it, and where warnings are errors, only the first
# process would fail.


@_once
def _log(words: str) -> None:
    getLogger("nlridge").warning("nlridge is %s; this takes about ten seconds", words)


@cache
def _log_if_slow() -> None:
    if not has_vectors(*TARGET):
        getLogger("nlridge").warning(
            "nlridge finds no vector instructions on this CPU, and takes several times as long as on one that has them"
        )


def _start_compiling(dispatcher: Any) -> None:
    """Announce that a kernel is compiled, and pause the garbage collector, which takes a tenth of the time."""
    if dispatcher in _kernels:  # not a function of another package
        is_kept = _kernels[dispatcher] and not _warnings_given
        _announcers[-1]("compiling for this CPU" + is_kept * ", once")
        _log_if_slow()
        _resume.append(gc.isenabled())
        gc.disable()


def _end_compiling(dispatcher: Any) -> None:
    if dispatcher in _kernels and _resume.pop():
        gc.enable()


def _warn_that_nothing_is_cached() -> None:
    if not _warnings_given:
        _warnings_given.append(True)
        warnings.warn(
            "nlridge cannot save its compiled kernels and compiles them again in each process; "
            "set NUMBA_CACHE_DIR to a writable folder to avoid this",
            RuntimeWarning,
            stacklevel=2,
        )


_preparations: list[Callable[[], None]] = []
_warnings_given: list[bool] = []
_lock = threading.Lock()
_kernels: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()  # whether each is cached
_announcers: list[Callable[[str], None]] = [_log]
_resume: list[
    bool
] = []  # whether to resume garbage collection after each kernel; one thread compiles at a time
if numba_internals is not None:
    numba_internals.when_compiling(_start_compiling, _end_compiling)
