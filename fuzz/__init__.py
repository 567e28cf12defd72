"""Seeded cases that try to break the package: ``python -m fuzz``.

A generator is a module with a function ``run(seed, folder)``. It builds a case from ``np.random.default_rng(seed)``
alone, runs it, asserts what must hold of the result, and lets the errors of the package through; it may leave files
in the folder. `fuzz.harness` runs each case in a process of its own and judges how it ended. A function ``warm_up()``,
if there is one, is called once before the first case, and must not start threads.

`fuzz.api` calls the public functions with arguments from `fuzz.arguments`, `fuzz.damaged_files` and
`fuzz.hostile_zarr` read files that are damaged. `fuzz.faults` is a program of its own: it kills a run, or fills the
disk, at every operation on files. So are `fuzz.guided`, which searches for files that break a reader, and `fuzz.stress`,
which keeps the studio, a batch or a cluster under load and faults.
"""

import os

# Libraries read these when they are imported. A process that has started threads cannot be forked safely.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
