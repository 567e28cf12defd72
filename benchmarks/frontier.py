"""Quality against time, as a plot: methods of this package and others measured in the same run, and published values.

Seconds are for 512 x 512 pixels; PSNR is the mean over Set12 (or scikit-image's images).  Networks that are trained on
each image are not timed again: their seconds are those of the measurement of PSNR, in proportion to the pixels.
Published values are drawn as lines, since times measured on other machines are not comparable.  The figures are saved
beside the picture, from which --redraw draws it again.
"""

import csv
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .images import image_sets, with_noise
from .measuring import is_trained, measured
from .methods import denoiser
from .progress import shown
from .published import SET12
from .speed import images_of_512, methods

_GRAY = "#6b7280"
# Offsets of labels from their points, so that none hides another.
_BESIDE = {
    "nl-ridge": (9, -4),
    "nl-bayes": (9, 2),
    "bm3d": (-44, -17),
    "bm3d package": (-44, -18),
}


def add_arguments(parser):
    parser.add_argument(
        "--frontier-sigma",
        type=float,
        default=25,
        help="noise level of the plot of quality against time (default: %(default)s)",
    )
    parser.add_argument(
        "--frontier-methods",
        nargs="+",
        help="methods of that plot, as described in benchmarks/methods.py (default: all of the package, and other packages)",
    )
    parser.add_argument(
        "--picture",
        type=Path,
        default=Path("frontier.png"),
        help="file for that plot (default: %(default)s)",
    )
    parser.add_argument(
        "--redraw", action="store_true", help="draw that plot from the figures saved beside it"
    )


class Point(NamedTuple):
    """A method in the plot."""

    method: str
    seconds: float
    psnr: float
    images: int


def run(options):
    sigma, saved = options.frontier_sigma, options.picture.with_suffix(".csv")
    points = _read(saved) if options.redraw else _measured(options)
    if not options.redraw:
        with saved.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([Point._fields, *points])
    print(f"\nsigma {sigma:g}: seconds for 512 x 512, mean PSNR, number of images")
    for point in points:
        print(f"  {point.method:22s} {point.seconds:8.3f} s {point.psnr:7.2f} dB {point.images:4d}")
    whole = options.data and options.part is None
    _draw(points, sigma, SET12.get(sigma, {}) if whole else {}, options.picture)
    print(f"  {options.picture}, {saved}", flush=True)


def _read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Point(method, float(seconds), float(psnr), int(images))
            for method, seconds, psnr, images in list(csv.reader(file))[1:]
        ]


def _measured(options):
    sigma = options.frontier_sigma
    names = options.frontier_methods or list(methods(skip_slow=False))
    seconds = _seconds(names, images_of_512(options)[0], sigma)
    sets = image_sets(options.data, ["set12"] if options.data else None, options.part)
    pixels = {file: image.size for images in sets.values() for _, file, image in images}
    rows = {name: [] for name in names}
    for row in measured(options, names, [sigma], sets):
        rows[row.method].append(row)
    points = []
    for name, mine in rows.items():
        trained = 512**2 * np.mean([row.seconds / pixels[row.image] for row in mine])
        quality = round(float(np.mean([row.psnr for row in mine])), 3)
        points.append(Point(name, round(float(seconds.get(name, trained)), 4), quality, len(mine)))
    return points


def _seconds(names, image, sigma):
    """The shortest time of each method that is not trained on the image, measured in turn."""
    noisy = with_noise(image[1], sigma, image[0])
    calls = {name: denoiser(name) for name in names}
    calls = {name: call for name, call in calls.items() if not is_trained(call)}
    shortest = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call(noisy[:64, :64], sigma)
    for turn in range(3):
        for name, call in shown(calls.items(), f"seconds, turn {turn + 1} of 3"):
            start = time.perf_counter()
            call(noisy, sigma)
            shortest[name] = min(shortest[name], time.perf_counter() - start)
    return shortest


def _draw(points, sigma, published, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    import nlridge

    ours = nlridge.method_names()
    seconds = {point.method: point.seconds for point in points}
    quality = {point.method: point.psnr for point in points}
    figure, axes = plt.subplots(figsize=(8, 5), dpi=130)
    best, frontier = -np.inf, []
    for name in sorted(seconds, key=seconds.get):
        if quality[name] > best:
            best = quality[name]
            frontier.append(name)
    axes.plot(
        [seconds[name] for name in frontier], [quality[name] for name in frontier], color="#2563eb", alpha=0.35, lw=2
    )  # fmt: skip
    for name in seconds:
        mine = name in ours
        axes.plot(seconds[name], quality[name], "o", ms=9, color="#2563eb" if mine else "#f59e0b")
        axes.annotate(
            f'"{name}"' if mine else name.split(",")[0].replace("_", " "),
            (seconds[name], quality[name]),
            xytext=_BESIDE.get(name, (7, 6)),
            textcoords="offset points",
            fontweight="bold" if mine else None,
        )
    for name, value in published.items():
        axes.axhline(value, color=_GRAY, ls="--", lw=1)
        axes.annotate(name, (1, value), xycoords=("axes fraction", "data"), xytext=(-4, 3),
                      textcoords="offset points", ha="right", color=_GRAY)  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(min(seconds.values()) / 1.6, max(seconds.values()) * 2.2)
    axes.set_xlabel("seconds for 512 × 512 pixels, two cores, one run")
    number = max(point.images for point in points)
    axes.set_ylabel(f"mean PSNR of {number} images, sigma {sigma:g} (dB)")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
