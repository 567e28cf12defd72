"""Seeded cases that try to break the package: `python -m fuzz`.

A generator is a module of this package with a function `run(seed, folder)`, which builds a case from
`np.random.default_rng(seed)` alone and performs it; it may leave files in the folder.  What it raises is judged by
`fuzz.harness`: a generator asserts what must hold, and lets the errors of the package through.  If it has a function
`warm_up()`, that is called before the first case, and must start no threads.
"""

import os

# Libraries read this when they are imported.  A process that has started threads cannot be forked safely.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
