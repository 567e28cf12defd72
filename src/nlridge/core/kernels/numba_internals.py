"""Private parts of Numba, which make first calls and new processes faster. No other file uses any.

They may change with any version of Numba. Importing this file therefore fails unless they are as expected, and kernels
are then compiled without them.
"""

import io
from collections.abc import Callable
from contextlib import contextmanager, suppress
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Any

import numba

# Numba imports this module when a kernel is first passed to another one: in one thread, while another may be iterating
# over the types that the module adds to.
import numba.experimental.function_type
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys

# The cache on disk.


def keep_on_disk(
    dispatcher: Any,
    is_simple: bool,
    before_loading: Callable[[], None],
    on_failure: Callable[[], None],
) -> None:
    """Keep what a dispatcher compiles in Numba's cache, with checksums.

    Parameters
    ----------
    dispatcher : numba.core.dispatcher.Dispatcher
        A compiled function that is defined in a file.
    is_simple : bool
        Whether its machine code needs none of Numba's libraries.
    before_loading, on_failure : callable
        Called before machine code is loaded, and if it cannot be saved.

    Raises
    ------
    RuntimeError
        If there is no writable folder.
    """
    dispatcher._cache = _Cache(dispatcher.py_func, is_simple, before_loading, on_failure)


class _Cache(FunctionCache):
    def __init__(self, function, is_simple, before_loading, on_failure):
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        # Cached code names its module, which differs if a file is run as a script and imported as well.
        name = f"{function.__module__}-{self._impl.filename_base}"
        self._cache_file = _CacheFile(self._cache_path, name, stamp)
        self._is_simple = is_simple
        self._before_loading, self._on_failure = before_loading, on_failure

    def load_overload(self, sig, target_context):
        if self._is_simple:
            # Numba would import all that it can compile: a third of a second. All that is needed are the functions
            # that allocate memory.
            rtsys.initialize(target_context)
        else:
            target_context.refresh()
        self._before_loading()
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def save_overload(self, sig, data):
        try:
            super().save_overload(sig, data)
        except OSError:  # such as a full disk: denoising works without a cache
            self._on_failure()


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


def _is_intact(path):
    try:
        data = Path(path).read_bytes()
    except OSError:
        return False
    return sha256(data[:-32]).digest() == data[-32:]


# Parts of kernels.


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


class PartCompiler(Compiler):
    """Numba's compiler, with a `_PartLibrary` for what it compiles."""

    def __init__(self, typing_context, target_context, library, *options):
        library = _PartLibrary(target_context.codegen(), "part")
        super().__init__(typing_context, target_context, library, *options)


# What Numba is doing.


class _Listener(event.Listener):
    def __init__(self, on_start, on_end):
        self._on_start, self._on_end = on_start, on_end

    def on_start(self, event):
        self._on_start(event.data["dispatcher"])

    def on_end(self, event):
        self._on_end(event.data["dispatcher"])


def when_compiling(on_start: Callable[[Any], None], on_end: Callable[[Any], None]) -> None:
    """Call functions with each dispatcher that Numba compiles, before and after it does so."""
    event.register("numba:compile", _Listener(on_start, on_end))


# The guard.

# What is called or overridden above, and the number of its arguments.
_EXPECTED: dict[Any, dict[str, int]] = {
    FunctionCache: {
        "__init__": 2,
        "load_overload": 3,
        "save_overload": 3,
        "_load_overload": 3,
        "_guard_against_spurious_io_errors": 1,
    },
    IndexDataCacheFile: {
        "__init__": 4,
        "_open_for_write": 2,
        "_load_index": 1,
        "_load_data": 2,
        "_data_path": 2,
    },
    rtsys: {"initialize": 1},
    JITCodeLibrary: {
        "__init__": 3,
        "get_pointer_to_function": 2,
        "_optimize_final_module": 1,
        "_finalize_final_module": 1,
        "_finalize_dynamic_globals": 1,
        "_ensure_finalized": 1,
    },
    Compiler: {"__init__": 8},
    event.Listener: {"on_start": 2, "on_end": 2},
    event: {"register": 2},
}


def _check() -> None:
    """Raise an AttributeError or a TypeError if something has changed."""
    for owner, methods in _EXPECTED.items():
        for name, count in methods.items():
            signature(getattr(owner, name)).bind(*range(count))
    for owner, name in (
        (JITCodeLibrary, "_finalized"),
        (JITCodeLibrary, "codegen"),
        (numba.njit(_check), "_cache"),
    ):
        getattr(owner, name)
    with suppress(RuntimeError):  # no folder is writable
        _ = _Cache(_check, True, lambda: None, lambda: None)._cache_file._index_path


_check()
