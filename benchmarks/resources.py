"""Start-up, compilation, memory, large images, and the utilisation of a core.

Each measurement runs in a new process.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np


def add_arguments(parser):
    parser.add_argument(
        "--large",
        type=int,
        default=8192,
        help="side of the large image in pixels (default: %(default)s)",
    )


def run(options):
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        small = "import numpy as np, nlridge; nlridge.denoise(np.random.rand(256, 256), .1, data_range=1)"
        print("\nstart-up, whole processes")
        print(f"  python alone                          {_seconds('pass', environment):6.2f} s")
        print(
            f"  import nlridge                        {_seconds('import nlridge', environment):6.2f} s"
        )
        print(f"  first call on a machine, 256 x 256    {_seconds(small, environment, 1):6.2f} s")
        print(f"  next process, 256 x 256               {_seconds(small, environment):6.2f} s")
    print(
        "\npeak memory in addition to that of an idle process with compiled kernels; time per pixel"
    )
    for side in (512, options.large):
        costs = json.loads(_run(_MEMORY.format(side=side), dict(os.environ)))
        print(
            f"  {side} x {side}: {costs['growth']:.0f} MB, peak {costs['peak']:.0f} MB, "
            f"{costs['seconds']:.2f} s, {1e9 * costs['seconds'] / side**2:.0f} ns per pixel"
        )
    _busy()


_MEMORY = """
import json, resource, sys, time
import numpy as np, nlridge
scale = 1 / 2**20 if sys.platform == "darwin" else 1 / 2**10
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
nlridge.denoise(np.zeros((64, 64), np.float32), 25, data_range=255)
tile = np.random.default_rng(0).normal(0, 25, (512, 512)).astype(np.float32)
tile += np.add.outer(np.sin(np.arange(512) / 5), np.cos(np.arange(512) / 9)).astype(np.float32) * 60
image = np.tile(tile, ({side} // 512, {side} // 512))
del tile
before, best = peak(), np.inf
for _ in range(5 if {side} == 512 else 1):
    start = time.perf_counter()
    nlridge.denoise(image, 25, data_range=255)
    best = min(best, time.perf_counter() - start)
print(json.dumps(dict(growth=peak() - before, peak=peak(), seconds=best)))
"""


def _busy():
    """Compare the floating-point rate of the estimates of step 2 with the peak of the core."""
    from nlridge.families.ridge import low_rank_kernel, ridge_kernel
    from nlridge.kernels.compile import kernel
    from nlridge.kernels.simd import LANES, product_tile

    tall = 8 if LANES == 16 else 4
    tile = product_tile(tall, 3)

    @kernel
    def peak(C, A, B, turns):
        for _ in range(turns):
            tile(C, 0, 3 * LANES, A, 0, 1, 8, B, 0, 3 * LANES, 64, 0)

    @kernel
    def exact(Y, X, out, weights, n, m, variance, parameters, turns):
        for _ in range(turns):
            ridge_kernel(Y, X, out, weights, n, m, variance, parameters)

    @kernel
    def low_rank(Y, X, out, weights, n, m, variance, parameters, turns):
        for _ in range(turns):
            low_rank_kernel(Y, X, out, weights, n, m, variance, parameters)

    rng = np.random.default_rng(0)
    A, B, C = (rng.normal(size=n).astype(np.float32) for n in (64 * 8, 64 * 3 * LANES, 24 * LANES))
    turns = 1000
    fastest = 2 * tall * 3 * LANES * 64 * turns / _shortest(lambda: peak(C, A, B, turns)) / 1e9
    print(
        f"\nstep-2 estimate of a group on one core; fused multiply-add peak {fastest:.0f} GFLOP/s"
    )
    rank = 12
    for name, function, n, m, parameters, work in (  # a multiply-add counts as two
        ("nl-ridge", exact, 81, 90, (1, 1), lambda n, m: 3 * n * m**2 + m**3),
        ("fast", low_rank, 64, 96, (1.5,), lambda n, m: 6 * n * m * rank + 4 * m * rank**2),
    ):
        Y, X = (
            np.zeros((-(-m // LANES) * LANES, -(-n // LANES) * LANES), np.float32) for _ in "YX"
        )
        X[:m, :n] = 100 + rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n)) * 10
        Y[:m, :n] = X[:m, :n] + rng.normal(0, 25, (m, n))
        out, weights = np.zeros(Y.size + LANES, np.float32), np.zeros(len(Y), np.float32)
        arguments = (n, m, np.array([625], np.float32), np.array(parameters, np.float32), turns)
        seconds = _shortest(
            lambda f=function, y=Y, x=X, o=out, w=weights, a=arguments: f(
                y.ravel(), x.ravel(), o, w, *a
            )
        )
        rate = work(n, m) * turns / seconds / 1e9
        print(
            f"  {name}, n = {n}, m = {m}: {seconds / turns * 1e6:.1f} us, {rate:.0f} GFLOP/s, "
            f"{100 * rate / fastest:.0f} % of the peak"
        )


def _shortest(call):
    call()
    best = np.inf
    for _ in range(7):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def _run(program, environment):
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def _seconds(program, environment, turns=3):
    best = np.inf
    for _ in range(turns):
        start = time.perf_counter()
        _run(program, environment)
        best = min(best, time.perf_counter() - start)
    return best
