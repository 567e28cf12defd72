"""How kernels are compiled: the decorators, the cache on disk, and the messages to the user."""

import gc
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

# Numba imports this module when a kernel is first passed to another one: in one thread, while another may be iterating
# over the types that the module adds to.
import numba.experimental.function_type
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys

from .target import TARGET, has_vectors

if numba.config.DISABLE_JIT:
    raise ImportError(
        "kernels cannot be compiled while NUMBA_DISABLE_JIT is set; unset it to use nlridge"
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
    >>> from nlridge.kernels import kernel
    >>> @kernel
    ... def double(values):
    ...     for k in range(len(values)):
    ...         values[k] *= 2
    >>> values = np.array([1.0, 2.0], np.float32)
    >>> double(values)
    >>> values
    array([2., 4.], dtype=float32)
    """
    dispatcher = numba.njit(**_OPTIONS)(function)
    _kernels.add(dispatcher)
    if os.path.exists(function.__code__.co_filename):
        try:
            dispatcher._cache = _Cache(function)
        except RuntimeError:  # Numba found no writable folder for its cache
            _warn_that_nothing_is_cached()
    return dispatcher


class _CacheFile(IndexDataCacheFile):
    """A file of the cache that ends in its own digest; a damaged file counts as absent, and is compiled again.

    Numba alone would fail on a truncated file, and would run damaged machine code.
    """

    @contextmanager
    def _open_for_write(self, path):
        content = io.BytesIO()
        yield content
        with super()._open_for_write(path) as file:
            file.write(content.getvalue() + sha256(content.getvalue()).digest())

    def _load_index(self):
        return super()._load_index() if _is_intact(self._index_path) else {}

    def _load_data(self, name):
        if not _is_intact(self._data_path(name)):
            raise OSError  # Numba then compiles as if there were no file
        return super()._load_data(name)


class _Cache(FunctionCache):
    """Numba's cache of a function, in files with checksums."""

    def __init__(self, function):
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CacheFile(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig, target_context):
        if _is_own(self._py_func):
            # Numba would import all that it can compile, a third of a second, although our kernels, once they are
            # compiled, need none of it but the functions that allocate memory.
            rtsys.initialize(target_context)
        else:
            target_context.refresh()
        prepare()
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError:  # such as a full disk: denoising works without a cache
            _warn_that_nothing_is_cached()


def _is_intact(path):
    try:
        data = Path(path).read_bytes()
    except OSError:
        return False
    return sha256(data[:-32]).digest() == data[-32:]


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
    options = dict(no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS)
    if _is_own(function):
        options["pipeline_class"] = _PartCompiler
    return numba.njit(**options)(function)


def _is_own(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in this package, and so neither calls Python nor any of Numba's libraries."""
    return function.__module__.startswith(__name__.partition(".")[0] + ".")


class _PartLibrary(JITCodeLibrary):
    """The code of a part, which is optimised in the kernels that it becomes a part of, and not run by itself.

    Numba alone would optimise it and turn it into machine code that nothing calls: a fifth of the time of a first call.
    """

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        return 0  # there is none

    @property
    def codegen(self):
        return self

    def set_env(self, name, env):
        """Do nothing: only calls of Python would need it."""


class _PartCompiler(Compiler):
    """Numba's compiler, with a `_PartLibrary` for what it compiles."""

    def __init__(self, typing_context, target_context, library, *options):
        library = _PartLibrary(target_context.codegen(), "part")
        super().__init__(typing_context, target_context, library, *options)


def before_kernels(preparation: Callable[[], None]) -> None:
    """Call a function once, before the first kernel is loaded from disk or calls `prepare` while it is compiled."""
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
        raise TypeError(
            f"kernel is {function!r}; expected a function decorated with nlridge.kernels.kernel"
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


class _Listener(event.Listener):
    """Announces that a kernel is compiled, and pauses the garbage collector, which takes a tenth of the time."""

    def __init__(self):
        self._resume = []  # whether to resume it after each kernel; Numba compiles in one thread at a time

    def on_start(self, event):
        if event.data["dispatcher"] in _kernels:  # not a function of another package
            kept = isinstance(event.data["dispatcher"]._cache, _Cache) and not _warnings_given
            _announcers[-1]("compiling for this CPU" + kept * ", once")
            _log_if_slow()
            self._resume.append(gc.isenabled())
            gc.disable()

    def on_end(self, event):
        if event.data["dispatcher"] in _kernels and self._resume.pop():
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
_kernels: WeakSet[Any] = WeakSet()
_announcers: list[Callable[[str], None]] = [_log]
event.register("numba:compile", _Listener())
