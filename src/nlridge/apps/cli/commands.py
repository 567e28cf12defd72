"""The commands of the command line: each takes the options and returns the exit code."""

import math
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from tqdm import tqdm

from ... import denoise as denoise_image
from ... import kernels, method_names
from ...files import broken_plugins
from ..options import METHODS
from .comparing import compare
from .denoising import denoise
from .estimating import noise
from .printing import report_note


def run(options: Namespace) -> int:
    """Run the command named in the options; returns its exit code."""
    commands = {f.__name__: f for f in (denoise, noise, compare, methods, demo, studio)}
    if not (getattr(options, "quiet", False) or options.command == "methods"):
        for sentence in broken_plugins():
            report_note(sentence)
    with _announce_compilation(getattr(options, "quiet", False)):
        return commands[options.command](options)


def methods(options: Namespace) -> int:
    """Print what each method is for, and how fast it is on this machine."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:256, :256]
    noisy = (128 + 60 * np.sin(x / 9) * np.cos(y / 7) + rng.normal(0, 25, x.shape)).astype(
        np.float32
    )
    print("method     megapixels/s  for", flush=True)
    for name in method_names():  # compile before measuring
        denoise_image(noisy[:64, :64], 25.0, method=name, data_range=255)
    for name in method_names():
        best = math.inf
        for _ in range(3):
            start = time.perf_counter()
            denoise_image(noisy, 25.0, method=name, data_range=255)
            best = min(best, time.perf_counter() - start)
        print(f"{name:10s} {noisy.size / best / 1e6:12.2f}  {METHODS[name]}", flush=True)
    print("measured just now on a gray image of 256 x 256 pixels, sigma 25 of 255, all cores")
    return 0


def demo(options: Namespace) -> int:
    """Denoise an image and save it beside the noisy one."""
    from .demo import demonstrate

    print(demonstrate(options.image, options.sigma, options.method, options.output))
    return 0


def studio(options: Namespace) -> int:
    """Show the studio in a browser until Ctrl-C."""
    from ..studio.server import serve

    serve(options.path, options.port, options.address, not options.no_browser)
    return 0


@contextmanager
def _announce_compilation(quiet: bool) -> Iterator[None]:
    def announce(words: str) -> None:
        if not quiet:
            tqdm.write(f"{words} ...", file=sys.stderr)

    with kernels.announcing(announce):
        yield
