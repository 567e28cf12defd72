"""Memory and large images.

Each measurement runs in a new process.
"""

import json
import os
import subprocess
import sys


def add_arguments(parser):
    parser.add_argument(
        "--large",
        type=int,
        default=8192,
        help="side of the large image in pixels (default: %(default)s)",
    )


def run(options):
    print(
        "\npeak memory in addition to that of an idle process with compiled kernels; time per pixel"
    )
    for side in (512, options.large):
        costs = json.loads(_run(_MEMORY.format(side=side), dict(os.environ)))
        print(
            f"  {side} x {side}: {costs['growth']:.0f} MB, peak {costs['peak']:.0f} MB, "
            f"{costs['seconds']:.2f} s, {1e9 * costs['seconds'] / side**2:.0f} ns per pixel"
        )


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


def _run(program, environment):
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout
