"""The first call: compilation on a new machine, and the first result of a new process with compiled kernels.

Each measurement is the time of a whole process, from its start to its end.
"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from .results import record

_CALL = (
    "import numpy as np, nlridge; "
    "nlridge.denoise(np.random.default_rng(0).random((256, 256)), .1, data_range=1, method={method!r})"
)


def add_arguments(parser):
    parser.add_argument(
        "--first-methods",
        nargs="+",
        default=["fast", "standard", "best"],
        help="methods to call (default: %(default)s)",
    )


def run(options):
    print(
        "\nwhole processes that denoise 256 x 256 pixels: seconds, elapsed and of the processor\n"
    )
    _print("python alone", "pass")
    _print("import numpy", "import numpy")
    _print("import nlridge", "import nlridge")
    for method in options.first_methods:
        call = _CALL.format(method=method)
        with tempfile.TemporaryDirectory() as kernels:
            for state, turns in (("to be compiled", 1), ("on disk", 5)):
                seconds = _print(f"{method}, kernels {state}", call, kernels, turns)
                record(options, "first", {method: {state: round(float(seconds), 3)}})


def _print(name, program, kernels="", turns=5):
    elapsed, processor = np.min([_seconds(program, kernels) for _ in range(turns)], axis=0)
    print(f"  {name:36} {elapsed:6.2f} {processor:6.2f}", flush=True)
    return elapsed


def _seconds(program, kernels):
    environment = {**os.environ, "NUMBA_CACHE_DIR": kernels}
    start, before = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, stderr=subprocess.DEVNULL
    )
    after = os.times()
    processor = sum(after[2:4]) - sum(before[2:4])  # of children
    return time.perf_counter() - start, processor
