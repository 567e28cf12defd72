"""Seconds of each method and of other packages, in one run: all run in turn, several times.

Times are compared within each turn: load on the machine slows down all methods of a turn alike, and ratios remain.
With --against, our methods are compared with those of another commit instead.
"""

import time

import numpy as np

import nlridge

from . import against
from .images import image_sets, psnr, with_noise
from .methods import denoiser, installed_others
from .progress import shown
from .results import record

_ONE_WORKER = "standard, 1 worker"


def add_arguments(parser):
    parser.add_argument(
        "--speed-sigma",
        type=float,
        nargs="+",
        default=[15, 25, 50],
        help="noise levels for the comparison of times (default: %(default)s)",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        default=3,
        help="number of turns for each of three images (default: %(default)s)",
    )
    parser.add_argument("--skip-slow", action="store_true", help="omit the bm3d package")
    parser.add_argument(
        "--against", metavar="REV", help="compare our methods with those of another commit instead"
    )


def run(options):
    images = images_of_512(options)
    if options.against:
        _compare_with(options, images[0][1])
        return
    calls = {**methods(options.skip_slow), _ONE_WORKER: denoiser("standard", workers=1)}
    for call in calls.values():  # compile and load
        call(images[0][1][:64, :64].astype(np.float32), 25.0)
    for sigma in options.speed_sigma:
        seconds, quality = {name: [] for name in calls}, {name: [] for name in calls}
        for seed, image in images:
            noisy = with_noise(image, sigma, seed)
            for turn in range(options.repeat):
                what = f"sigma {sigma:g}, turn {turn + 1} of {options.repeat}"
                for name, call in shown(calls.items(), what):
                    start = time.perf_counter()
                    clean = call(noisy, sigma)
                    seconds[name].append(time.perf_counter() - start)
                    quality[name].append(psnr(clean, image))
        print(
            f"\nsigma {sigma:g}, 512 x 512, {len(images)} images, {options.repeat} turns: median seconds; "
            "time relative to standard, median (minimum to maximum); PSNR\n"
        )
        print("| method | seconds | ratio | dB |\n|---|---|---|---|")
        for name in calls:
            ratios = np.divide(seconds[name], seconds["standard"])
            figures = {
                "seconds": np.median(seconds[name]),
                "median ratio": np.median(ratios),
                "least ratio": ratios.min(),
                "largest ratio": ratios.max(),
            }
            record(
                options,
                "speed",
                {name: {f"{key} at {sigma:g}": round(float(v), 4) for key, v in figures.items()}},
            )
            print(
                f"| {name} | {np.median(seconds[name]):.3f} | {np.median(ratios):.2f} "
                f"({ratios.min():.2f} to {ratios.max():.2f}) | {np.mean(quality[name]):.2f} |",
                flush=True,
            )


def _compare_with(options, gray):
    """Compare two versions on a gray image and on a color image; the exit code says whether one has become slower."""
    color = np.stack([gray, 0.8 * gray + 20, 0.6 * gray + 60], axis=-1)[:256, :384]
    images = {
        "gray 512 x 512": gray,
        "gray 256 x 256": gray[:256, :256],
        "color 256 x 384": color,
    }
    slower = against.compare(options.against, images, options.speed_sigma, options.repeat)
    if slower:
        raise SystemExit(f"slower by more than {against.SLOWER - 1:.0%}: {'; '.join(slower)}")


def images_of_512(options):
    images = [
        (seed, image)
        for members in image_sets(options.data, ["set12"] if options.data else None, None).values()
        for seed, _, image in members
        if image.shape == (512, 512)
    ]
    return images[:3]


def methods(skip_slow):
    """All methods and the other packages that are installed, as functions of a noisy image and sigma."""
    others = installed_others()
    if skip_slow:
        others.pop("bm3d package", None)
    return {name: denoiser(name) for name in nlridge.method_names()} | others
