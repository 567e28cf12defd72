"""How much faster two workers are than one, and the most that the machine allows.

Two cores of a machine may share a physical core, its frequency or its memory, so that even two processes that know
nothing of each other take longer together than each alone. The bound is the throughput of two such processes, with one
worker each, relative to one alone. All measurements take turns.
"""

import time
from multiprocessing import get_context

import numpy as np

import nlridge

from .images import color, with_noise
from .progress import shown
from .results import record
from .speed import images_of_512


def add_arguments(parser):
    parser.add_argument(
        "--workers-sigma", type=float, default=25, help="noise level (default: %(default)s)"
    )
    parser.add_argument(
        "--workers-methods",
        nargs="+",
        default=["fast", "standard", "best"],
        help="methods to compare (default: %(default)s)",
    )
    parser.add_argument(
        "--workers-sides",
        type=int,
        nargs="+",
        default=[512, 256],
        help="sides of the images in pixels (default: %(default)s)",
    )


def run(options):
    sigma, gray = options.workers_sigma, images_of_512(options)[0][1]
    print(
        f"\nsigma {sigma:g}, {options.repeat} turns: median seconds with one worker; speed with two workers, and of two "
        "processes with one worker each, relative to that, as median (minimum to maximum)\n"
    )
    print("| case | seconds | two workers | two processes |\n|---|---|---|---|")
    with _Process() as first, _Process() as second:
        for side in options.workers_sides:
            part = gray[:side, :side].astype(np.float32)
            channels = np.stack([part, 0.8 * part + 20, 0.6 * part + 60], axis=-1)
            for kind, image in (("gray", part), ("color", channels)):
                noisy, bounds = with_noise(image, sigma, 0), []
                place = f"{side} × {side} {kind}"
                for method in options.workers_methods:
                    case = f"{method}, {kind}, {side} x {side}"
                    speed, bound = _print(
                        case, first, second, noisy, (sigma, method), options.repeat
                    )
                    bounds.append(bound)
                    record(options, "workers", {f"{method}, two workers": {place: speed}})
                ends = {"least": min(bounds), "largest": max(bounds)}
                record(
                    options,
                    "workers",
                    {f"two processes, {end}": {place: value} for end, value in ends.items()},
                )


def _print(case, first, second, noisy, settings, repeat):
    """Measure a case, and return the median speeds of two workers and of two processes."""
    times = []
    for process in (first, second):  # compile and load
        process.start(noisy, *settings, 1)
        process.seconds()
    for _ in shown(range(repeat), case):
        first.start(noisy, *settings, 1)
        alone = first.seconds()
        first.start(noisy, *settings, 2)
        together = first.seconds()
        for process in (first, second):
            process.start(noisy, *settings, 1)
        times.append((alone, together, (first.seconds() + second.seconds()) / 2))
    alone, together, each = np.transpose(times)
    print(
        f"| {case} | {np.median(alone):.3f} | {_summary(alone / together)} | {_summary(2 * alone / each)} |",
        flush=True,
    )
    return tuple(round(float(np.median(r)), 3) for r in (alone / together, 2 * alone / each))


def _summary(ratios):
    return f"{np.median(ratios):.2f} ({ratios.min():.2f} to {ratios.max():.2f})"


class _Process:
    """A process that denoises an image on demand, again and again for at least a second."""

    def __init__(self):
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._connection.send(None)
        self._process.join()

    def start(self, noisy, sigma, method, workers):
        """Begin to denoise an image."""
        self._connection.send((noisy, sigma, method, workers))

    def seconds(self):
        """Wait for the end; returns the seconds for one image."""
        return self._connection.recv()


def _serve(connection):
    while (task := connection.recv()) is not None:
        noisy, sigma, method, workers = task
        start, count = time.perf_counter(), 0
        while count == 0 or time.perf_counter() < start + 1:
            nlridge.denoise(
                noisy,
                sigma,
                method=method,
                data_range=255,
                channel_axis=color(noisy),
                workers=workers,
            )
            count += 1
        connection.send((time.perf_counter() - start) / count)
