"""PSNR, seconds and memory of methods on images: each measured once, and kept in a CSV file.

A line is written as soon as it is measured, so that a measurement goes on where it stopped.  Lines of other versions of
the package's sources are left alone, and do not count.
"""

import csv
import ctypes
import hashlib
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import nlridge

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
    """0 for the noise of the figures, more for other draws."""
    method: str
    psnr: float
    seconds: float
    megabytes: float
    """Peak of the memory that the call took; NaN where the system does not tell."""

    @property
    def key(self):
        return self[:6]


def add_arguments(parser):
    parser.add_argument("--results", type=Path, default=Path("results"), help="a folder for what is found")  # fmt: skip
    parser.add_argument("--sets", nargs="+", help="folders in DATA (default: all gray ones)")
    parser.add_argument("--part", help="a slice of each set: 1::2 for the even-numbered files")
    parser.add_argument("--seeds", type=int, default=1, help="draws of the noise for each image")


def measured(options, methods, sigmas, sets):
    """Yields a row for each image, sigma, draw of the noise and method."""
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / "images.csv"
    kept, sources = _read(path), _digest()
    jobs = list(_jobs(sources, sets, sigmas, options.seeds))
    with path.open("a", newline="", encoding="utf-8") as file:
        for key, seed, image in shown(jobs, f"{len(methods)} methods on images"):
            noisy = None
            for method in methods:
                row = kept.get((*key, method))
                if row is None:
                    if noisy is None:
                        noisy = with_noise(image, key[3], seed, key[4])
                    row = Row(*key, method, *_measure(method, noisy, key[3], image))
                    csv.writer(file).writerow(row)
                    file.flush()
                yield row


def _jobs(sources, sets, sigmas, turns):
    for turn in range(turns):
        for name, images in sets.items():
            for sigma in sigmas:
                for seed, file, image in images:
                    yield (sources, name, file, float(sigma), turn), seed, image


_warm = set()


def _measure(method, noisy, sigma, image):
    call = denoiser(method)
    if method not in _warm:  # compile and load
        call(noisy[:64, :64], sigma)
        _warm.add(method)
    before = _forget_the_peak()
    start = time.perf_counter()
    clean = call(noisy, sigma)
    seconds = time.perf_counter() - start
    megabytes = _peak() - before
    quality = psnr(clean, image, clipped=method != "noisy")
    return round(quality, 4), round(seconds, 4), round(megabytes, 1)


def _forget_the_peak():
    """The memory that the process has now, in MB, which is its peak from now on; Linux alone can do that."""
    try:
        ctypes.CDLL(None).malloc_trim(0)  # what was freed before shall not hide what is taken
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
    """{key: row} of a file; a line that was cut off is left out."""
    if not path.exists():
        path.write_text(",".join(Row._fields) + "\n", encoding="utf-8")
    found = {}
    for cells in csv.reader(path.read_text(encoding="utf-8").splitlines()[1:]):
        if len(cells) == len(Row._fields):
            row = Row(*cells[:3], float(cells[3]), int(cells[4]), cells[5], *map(float, cells[6:]))
            found[row.key] = row
    return found


def _digest():
    package = Path(nlridge.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:10]
