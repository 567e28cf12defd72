"""How busy a core is with useful multiplications and additions while it denoises a group, one worker.

The peak is that of fused multiply-adds between registers. Operations are counted as in the formulas: neither padding
nor the second half of a symmetric matrix is useful. Times are those of the processor, and the shortest of many turns.
"""

import time

import numpy as np

from nlridge.core.engines.groups import ESTIMATE
from nlridge.core.families import Ridge, TwoSided
from nlridge.core.kernels.compile import compiled, kernel
from nlridge.core.kernels.simd import LANES, fma, load, splat, store

_RANK = 12  # of the groups, and roughly of the factor at the lowest sufficient rank


def add_arguments(parser):
    parser.add_argument(
        "--kernel-turns", type=int, default=60, help="turns for each kernel (default: %(default)s)"
    )


def run(options):
    turns = options.kernel_turns
    peak = (
        24
        * LANES
        * 20_000
        / _shortest(lambda: _multiply_add(np.ones(12 * LANES, np.float32), 20_000), turns)
    )
    print(f"\nfused multiply-add peak of a core: {peak / 1e9:.0f} GFLOP/s, {LANES} lanes\n")
    print(
        "| step | n | m | noise | us a group | GFLOP/s | % of the peak |\n|---|---|---|---|---|---|---|"
    )
    for name, estimator, n, m, work in _kernels():
        for noise in ("same", "map"):
            seconds = _seconds(estimator, n, m, noise == "map", turns)
            rate = work / seconds
            print(
                f"| {name} | {n} | {m} | {noise} | {seconds * 1e6:.1f} | {rate / 1e9:.0f} "
                f"| {100 * rate / peak:.0f} |",
                flush=True,
            )


def _kernels():
    """Name, estimator, n, m and number of operations: a multiply-add counts as two."""
    two_sided = TwoSided().refine
    for n, m in ((36, 48), (36, 56), (36, 64), (36, 80)):
        yield "standard and best, step 2", two_sided, n, m, 7 * n**2 * m + 3 * n**3
    for n, m in ((72, 80), (64, 64)):
        work = 6 * n * m * _RANK + (5 * n + 3 * m) * _RANK**2 + 3 * _RANK**3
        yield "the same, at a low rank", two_sided, n, m, work
    for n, m in ((49, 16), (81, 24)):
        yield "their step 1", TwoSided().pilot, n, m, 3 * n * m**2 + m**3
    yield "nl-ridge, step 2", Ridge().refine, 81, 90, 3 * 81 * 90**2 + 90**3
    work = 6 * 64 * 96 * _RANK + 4 * 96 * _RANK**2
    yield "fast, step 2", Ridge(tolerance=1.5).refine, 64, 96, work


def _seconds(estimator, n, m, uneven, turns):
    """Seconds of the kernel of an estimator for a group of m patches of n pixels."""
    rng = np.random.default_rng(0)
    rows, size = (-(-count // LANES) * LANES for count in (m, n))
    X = np.zeros((rows, size), np.float32)
    X[:m, :n] = 100 + rng.normal(size=(m, _RANK)) @ rng.normal(size=(_RANK, n)) * 10
    Y = X + rng.normal(0, 25, X.shape).astype(np.float32)
    noise = np.full(X.shape if uneven else (1, 1), 625, np.float32)
    noise = noise * rng.uniform(0.5, 2, noise.shape).astype(np.float32) if uneven else noise
    denoised, weights = np.zeros(X.size + LANES, np.float32), np.zeros(rows, np.float32)
    arguments = (
        *(np.append(matrix, np.zeros(LANES, np.float32)) for matrix in (Y, X)),
        denoised,
        weights,
        n,
        m,
        noise.reshape(-1),
        np.array(estimator.parameters(n, m), np.float32),
    )
    estimate = compiled(estimator.kernel, ESTIMATE)
    return _shortest(lambda: _repeat(estimate, arguments, 100), turns) / 100


@kernel
def _repeat(estimate, arguments, times):
    for _ in range(times):
        estimate(*arguments)


@kernel
def _multiply_add(values, times):
    """12 independent chains of fused multiply-adds, more than any core has under way."""
    x, y = splat(np.float32(0.5)), splat(np.float32(0.25))
    a, b, c, d = (
        load(values, 0),
        load(values, LANES),
        load(values, 2 * LANES),
        load(values, 3 * LANES),
    )
    e, f, g, h = (
        load(values, 4 * LANES),
        load(values, 5 * LANES),
        load(values, 6 * LANES),
        load(values, 7 * LANES),
    )
    i, j, k, l = (
        load(values, 8 * LANES),
        load(values, 9 * LANES),
        load(values, 10 * LANES),
        load(values, 11 * LANES),
    )
    for _ in range(times):
        a, b, c, d = fma(a, x, y), fma(b, x, y), fma(c, x, y), fma(d, x, y)
        e, f, g, h = fma(e, x, y), fma(f, x, y), fma(g, x, y), fma(h, x, y)
        i, j, k, l = fma(i, x, y), fma(j, x, y), fma(k, x, y), fma(l, x, y)
    store(values, 0, ((a + b) + (c + d)) + ((e + f) + (g + h)) + ((i + j) + (k + l)))


def _shortest(call, turns):
    call()
    best = np.inf
    for _ in range(turns):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best
