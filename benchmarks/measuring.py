"""PSNR, seconds and memory of methods on images: each is measured once, and saved to a CSV file.

A line is written as soon as it is measured, so that an interrupted measurement can be resumed.  Lines of other versions
of the package's sources are kept, but ignored.
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
    """A digest of the package's sources."""
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
    saved, sources = _read(path), _digest()
    cases = list(_cases(sources, sets, sigmas, options.seeds))
    with path.open("a", newline="", encoding="utf-8") as file:
        for key, seed, image in shown(cases, f"{len(methods)} methods on images"):
            noisy = None
            for method in methods:
                row = saved.get((*key, method))
                if row is None:
                    if noisy is None:
                        noisy = with_noise(image, key[3], seed, key[4])
                    row = Row(*key, method, *_measure(method, noisy, key[3], image))
                    csv.writer(file).writerow(row)
                    file.flush()
                yield row


def _cases(sources, sets, sigmas, turns):
    for turn in range(turns):
        for name, images in sets.items():
            for sigma in sigmas:
                for seed, file, image in images:
                    yield (sources, name, file, float(sigma), turn), seed, image


_warm = set()


def _measure(method, noisy, sigma, image):
    call = denoiser(method)
    trains = hasattr(call, "earlier_seconds")
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


def _digest():
    package = Path(nlridge.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:10]
