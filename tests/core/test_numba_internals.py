"""A Numba whose private parts have changed: kernels are compiled without them, and return the same."""

import os
import runpy
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core import caching, codegen, compiler, event, registry

from nlridge.core.kernels import numba_internals
from nlridge.core.kernels.target import TARGET


def test_the_private_parts_of_this_numba_are_known():
    assert callable(runpy.run_path(numba_internals.__file__)["keep_on_disk"])


def nothing(self, *arguments):
    """Instead of a method that sets attributes."""


def takes_more(self, *arguments, another):
    """Instead of a method that takes as many arguments as are expected."""


@pytest.mark.parametrize(
    ("home", "name", "changes"),
    [
        (caching, "IndexDataCacheFile", None),
        (caching.IndexDataCacheFile, "_load_data", None),
        (caching.FunctionCache, "__init__", takes_more),
        (caching.FunctionCache, "_impl_class", nothing),
        (caching.IndexDataCacheFile, "__init__", nothing),
        (codegen.CPUCodeLibrary, "_finalize_dynamic_globals", None),
        (codegen.CodeLibrary, "_finalized", None),
        (compiler.CompilerBase, "__init__", takes_more),
        (event, "register", None),
    ],
)
def test_a_change_of_a_private_part_is_noticed(monkeypatch, home, name, changes):
    if changes is None:
        monkeypatch.delattr(home, name)
    else:
        monkeypatch.setattr(home, name, changes)
    with pytest.raises((ImportError, AttributeError, TypeError)):
        runpy.run_path(numba_internals.__file__)


# The package finds no cache in Numba, which itself still has one.
WITHOUT = """
import sys
import numba.experimental.function_type
theirs, sys.modules["numba.core.caching"] = sys.modules["numba.core.caching"], None
from nlridge.core.kernels import compile
sys.modules["numba.core.caching"] = theirs
"""
PROGRAM = """
import numpy as np, nlridge
y, x = np.mgrid[:40, :50]
noisy = (100 + 50 * np.sin(x / 3) + np.random.default_rng(0).normal(0, 10, x.shape)).astype(np.float32)
clean = nlridge.denoise(noisy, 10, method="fast", data_range=255)
"""


def test_without_private_parts_results_are_the_same(tmp_path):
    """Also those of kernels that Numba's own cache has kept; it is said once in each process."""
    here = {}
    exec(PROGRAM, here)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT + PROGRAM + "print(clean.tobytes().hex())"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        there = np.frombuffer(bytes.fromhex(done.stdout), np.float32)
        np.testing.assert_array_equal(there, here["clean"].ravel())
        assert done.stderr == (
            f"nlridge does not know the internals of Numba {numba.__version__} and does without them; "
            "compiling, and the start of each process, take longer\n"
        )
    assert list(tmp_path.rglob("*.nbc"))


def test_the_target_is_that_of_numba():
    assert registry.cpu_target.target_context.codegen().magic_tuple() == TARGET
