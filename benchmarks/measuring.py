"""PSNR, seconds and memory of methods on images: each is measured once, and saved to a CSV file.

A line is written as soon as it is measured, so that an interrupted measurement can be resumed.  Lines of other versions
of the sources are kept, but ignored: those of the package, or of `benchmarks.peers` for a method that does not use it.
"""

import csv
import ctypes
import hashlib
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nlridge

from . import peers
from .images import psnr, with_noise
from .methods import denoiser
from .progress import shown


class Row(NamedTuple):
    """One image denoised once."""

    sources: str
    """A digest of the sources that the method depends on."""
    set: str
    image: str
    sigma: float
    turn: int
    """0 for the noise of the published figures, larger for other draws."""
    method: str
    psnr: float
    seconds: float
    megabytes: float
    """Peak memory of the call; NaN if the system does not report it."""

    @property
    def key(self):
        return self[:6]


def add_arguments(parser):
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder for the results (default: %(default)s)")  # fmt: skip
    parser.add_argument("--sets", nargs="+", help="folders in DATA (default: all with gray images)")
    parser.add_argument(
        "--part", help="slice of each set, such as 1::2 for the even-numbered files"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        help="number of draws of the noise for each image (default: %(default)s)",
    )
    peers.add_arguments(parser)


def measured(options, methods, sigmas, sets):
    """Yield a row for each image, sigma, draw of the noise and method."""
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / "images.csv"
    saved = _read(path)
    digests = {method: _digest(method) for method in methods}
    cases = list(_cases(sets, sigmas, options.seeds))
    with path.open("a", newline="", encoding="utf-8") as file:
        for case, seed, image in shown(cases, f"{len(methods)} methods on images"):
            *_, sigma, turn = case
            noisy = None
            for method in methods:
                row = saved.get((digests[method], *case, method))
                if row is None:
                    if noisy is None:
                        noisy = with_noise(image, sigma, seed, turn)
                    values = _measure(method, noisy, sigma, image)
                    row = Row(digests[method], *case, method, *values)
                    csv.writer(file).writerow(row)
                    file.flush()
                yield row


def _cases(sets, sigmas, turns):
    for turn in range(turns):
        for name, images in sets.items():
            for sigma in sigmas:
                for seed, file, image in images:
                    yield (name, file, float(sigma), turn), seed, image


def is_trained(call):
    """Whether a denoiser is a network that is trained on each image."""
    return hasattr(call, "earlier_seconds")


_warm = set()


def _measure(method, noisy, sigma, image):
    call = denoiser(method)
    trains = is_trained(call)
    if method not in _warm and not trains:  # compile and load
        call(noisy[:64, :64], sigma)
        _warm.add(method)
    before = _reset_peak()
    start = time.perf_counter()
    clean = call(noisy, sigma)
    seconds = time.perf_counter() - start + (call.earlier_seconds if trains else 0)
    megabytes = _peak() - before
    quality = psnr(clean, image, clipped=method != "noisy")
    return round(quality, 4), round(seconds, 4), round(megabytes, 1)


def _reset_peak():
    """Reset the peak memory of the process to its present memory, and return that in MB; works on Linux only."""
    try:
        # Memory that was freed before must not hide memory that is allocated.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError, TypeError):
        return np.nan
    return _peak()


def _peak():
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return np.nan
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10


def _read(path):
    """The rows of a file by key, without a truncated line."""
    if not path.exists():
        path.write_text(",".join(Row._fields) + "\n", encoding="utf-8")
    rows = {}
    for cells in csv.reader(path.read_text(encoding="utf-8").splitlines()[1:]):
        if len(cells) == len(Row._fields):
            row = Row(*cells[:3], float(cells[3]), int(cells[4]), cells[5], *map(float, cells[6:]))
            rows[row.key] = row
    return rows


def _digest(method):
    module = peers if peers.is_independent(method) else nlridge
    digest = hashlib.sha256()
    for file in sorted(Path(module.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:10]
