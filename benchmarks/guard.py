"""Quality, speed and estimates of the noise, compared with the last tag: an error if any of them has become worse.

Both versions run in processes of their own, in turns, on the same images with the same noise. `--against REV` names
another commit; before the first release, the working tree is compared with the last commit, and a note says so.
"""

import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from skimage import data

import nlridge

from . import against
from .against import SLOWER, Version, check_out
from .images import psnr, with_noise
from .progress import shown

LOSS = 0.01  # dB of the mean PSNR of a method
WORSE = 0.002  # of the mean relative error of estimated levels
_SIGMAS = (10, 25, 50)
_LEVELS = (2, 5, 10, 25, 50)
_TURNS = 4


def add_arguments(parser):
    parser.add_argument(
        "--guard-methods", nargs="+", choices=nlridge.method_names(), help="methods (default: all)"
    )


def run(options):
    start = time.perf_counter()
    revision = options.against or last_tag()
    if revision is None:
        print("there is no release yet: only what is not committed can be found to be worse")
        revision = "HEAD"
    methods = options.guard_methods or list(nlridge.method_names())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        check_out(revision, folder / "before")
        versions = [
            stack.enter_context(Version(checkout, folder / f"kernels-{name}"))
            for name, checkout in (("before", folder / "before"), ("now", against.HERE))
        ]
        images = _images()
        print(f"\n{revision} and the working tree: mean PSNR of {len(images) * len(_SIGMAS)} images; ratio of the least processor times\n")  # fmt: skip
        print("| method | before | now | dB | time |\n|---|---|---|---|---|")
        worse = []
        for method in methods:
            worse += _judged(method, versions, images, folder / "noisy.npy")
        worse += _judged_estimates(versions, images, folder / "noisy.npy")
    print(f"\n{time.perf_counter() - start:.0f} s")
    if worse:
        raise SystemExit(f"worse than {revision}: {'; '.join(worse)}")


def last_tag():
    """The tag of the last release; None if there is none."""
    done = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "--match=v[0-9]*"],
        capture_output=True,
        text=True,
        cwd=against.HERE,
    )
    return done.stdout.strip() if done.returncode == 0 else None


def _images():
    return [
        data.camera()[100:292, 150:342],
        data.coins()[60:252, 20:212],
        data.astronaut()[30:158, 150:278],
    ]


def _judged(method, versions, images, file):
    """Compare a method, print a line, and return what has become worse."""
    quality = np.zeros(2)
    cases = [(image, sigma) for image in images for sigma in _SIGMAS]
    times = np.zeros(2)
    for k, (image, sigma) in enumerate(shown(cases, method)):
        np.save(file, with_noise(image, sigma, k))
        for version in versions:  # compile and load
            version.seconds(file, sigma, method)
        quality += [psnr(version.result(), image) / len(cases) for version in versions]
        least = _least(versions, file, sigma, method, _TURNS)
        if least[1] > SLOWER * least[0]:  # a disturbance must not look like a loss
            least = np.minimum(least, _least(versions, file, sigma, method, 2 * _TURNS))
        times += least
    loss, ratio = quality[0] - quality[1], times[1] / times[0]
    print(f"| {method} | {quality[0]:.3f} | {quality[1]:.3f} | {0.0 - loss:+.4f} | {ratio:.3f} |", flush=True)  # fmt: skip
    return judgement(method, loss, ratio)


def judgement(method, loss, ratio):
    """What is worse about a method that has lost so many dB and takes this multiple of the time."""
    found = []
    if loss > LOSS:
        found.append(f"{method} loses {loss:.3f} dB")
    if ratio > SLOWER:
        found.append(f"{method} takes {ratio - 1:.1%} more time")
    return found


def _least(versions, file, sigma, method, turns):
    """The least processor time of each version in so many turns; the version that begins alternates."""
    least = np.full(2, np.inf)
    for turn in range(turns):
        for k in (0, 1) if turn % 2 == 0 else (1, 0):
            least[k] = min(least[k], versions[k].seconds(file, sigma, method)[1])
    return least


def _judged_estimates(versions, images, file):
    """Compare the mean relative errors of estimated levels of noise."""
    errors = np.zeros(2)
    cases = [(image, level) for image in images for level in _LEVELS]
    for k, (image, level) in enumerate(shown(cases, "noise")):
        np.save(file, with_noise(image, level, 100 + k))
        for j, version in enumerate(versions):
            version.seconds(file, level, "noise")
            errors[j] += np.abs(np.mean(version.result()) / level - 1) / len(cases)
    print(f"\nmean relative error of {len(cases)} estimated levels: {errors[0]:.4f} before, {errors[1]:.4f} now")  # fmt: skip
    more = errors[1] - errors[0]
    return [f"the error of estimated levels grows by {more:.4f}"] if more > WORSE else []
