"""Seconds of our methods in two versions of the package: the one being worked on, and that of another commit.

Each version runs in its own process, with its own kernels. The two take turns on the same images, so that load on the
machine slows down both alike, and ratios remain.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import numpy as np

from .images import with_noise
from .progress import shown

METHODS = ("fast", "standard", "best")
SLOWER = 1.05  # a larger ratio is reported

HERE = Path(__file__).resolve().parent.parent


def compare(revision, images, sigmas, repeat):
    """Print the ratios of times, now to before, and return the names of the cases that have become slower.

    `images` are {name: image}; those with three axes are color images. Each case runs `repeat` times.
    """
    slower = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        check_out(revision, folder / "before")
        versions = [
            stack.enter_context(Version(checkout, folder / f"kernels-{name}"))
            for name, checkout in (("before", folder / "before"), ("now", HERE))
        ]
        print(
            f"\n{revision} and the working tree, {repeat} turns: median seconds; median ratio of the times of a turn, "
            "elapsed and of the processor\n"
        )
        print("| case | before | now | ratio | processor |\n|---|---|---|---|---|")
        for name, image in images.items():
            for sigma in sigmas:
                file = folder / "noisy.npy"
                np.save(file, with_noise(image, sigma, 0))
                for method in METHODS:
                    case = f"{method}, {name}, sigma {sigma:g}"
                    turns = _turns(versions, file, sigma, method, repeat, case)
                    before, now = np.median(turns[..., 0], axis=0)
                    ratios = np.median(turns[:, 1] / turns[:, 0], axis=0)
                    verdict = " slower" if max(ratios) > SLOWER else ""
                    print(
                        f"| {case} | {before:.3f} | {now:.3f} | {ratios[0]:.2f}{verdict} | {ratios[1]:.2f} |",
                        flush=True,
                    )
                    if verdict:
                        slower.append(case)
    return slower


def _turns(versions, file, sigma, method, repeat, case):
    """Times as (turns, versions, elapsed and processor); the version that begins alternates."""
    times = np.empty((repeat, 2, 2))
    for version in versions:  # compile and load
        version.seconds(file, sigma, method)
    for turn in shown(range(repeat), case):
        for k in (0, 1) if turn % 2 == 0 else (1, 0):
            times[turn, k] = versions[k].seconds(file, sigma, method)
    return times


class Version:
    """A process that imports one version of the package, and denoises on demand."""

    def __init__(self, checkout, kernels):
        environment = {
            **os.environ,
            "PYTHONPATH": str(checkout / "src"),
            "NUMBA_CACHE_DIR": str(kernels),
        }
        self._result = kernels.with_suffix(".npy")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(checkout), str(self._result)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.__exit__(*error)

    def seconds(self, file, sigma, method):
        """Denoise an image, or estimate its "noise"; returns the time that passed, and that of the processor."""
        print(method, sigma, file, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("one of the two versions has failed; see its message above")
        return [float(part) for part in answer.split()]

    def result(self):
        """The image, or the level of the noise, that was computed last."""
        return np.load(self._result)


# Not a module of the package's: the other commit may not have it.
_SERVE = """
import sys, time
import numpy as np
import nlridge

assert nlridge.__file__.startswith(sys.argv[1]), nlridge.__file__
for line in sys.stdin:
    method, sigma, file = line.rstrip("\\n").split(" ", 2)
    noisy = np.load(file)
    axis = -1 if noisy.ndim == 3 else None
    elapsed, processor = time.perf_counter(), time.process_time()
    if method == "noise":
        result = nlridge.estimate_noise(noisy, channel_axis=axis, kind="gaussian").sigma
    else:
        result = nlridge.denoise(noisy, float(sigma), method=method, data_range=255, channel_axis=axis)
    elapsed, processor = time.perf_counter() - elapsed, time.process_time() - processor
    np.save(sys.argv[2], result)
    print(elapsed, processor, flush=True)
"""


def check_out(revision, folder):
    """Write the files of a commit to a folder."""
    command = ["git", "-C", str(HERE), "archive", "--format=tar", revision, "src"]
    archive = subprocess.run(command, capture_output=True)
    if archive.returncode:
        raise SystemExit(f"--against {revision}: {archive.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
