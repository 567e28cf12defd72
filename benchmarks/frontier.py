"""Quality against time, as a plot: methods of this package and others measured in the same run, and published values.

Seconds are those of the processor for 512 x 512 pixels, so that neither other programs nor the number of cores count;
PSNR is the mean over Set12 (or scikit-image's images).  Networks that are trained on each image are not timed again:
their seconds are those of the measurement of PSNR, in proportion to the pixels.  Published values are drawn as lines,
since times measured on other machines are not comparable.  The figures are saved beside the picture, from which --redraw
draws it again.
"""

import csv
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .images import image_sets, with_noise
from .measuring import is_trained, measured
from .methods import denoiser
from .peers.ffmpeg import FILTERS
from .progress import shown
from .published import PEERS, SET12
from .results import record
from .speed import images_of_512, methods

_GRAY = "#6b7280"
# Filters of other programs, and a network that was trained before; those that are not installed are left out.
_PEERS = (
    "bm3dcpu",
    "bm3dcpu,step=4",
    "bm3dcpu,step=3,range=16",
    "vapoursynth_bm3d",
    *(f"ffmpeg,filter={name}" for name in FILTERS),
    "dncnn",
)
_NAMES = PEERS | {"vapoursynth_bm3d": "VapourSynth-BM3D"}
# Offsets of labels from their points, so that none hides another.
_BESIDE = {
    "best": (9, -12),
    "dncnn": (-40, 9),
    "nl-ridge": (9, -4),
    "nl-bayes": (-18, 9),
    "bm3d": (8, -15),
    "bm3d package": (-44, -18),
    "preview": (-74, 1),
    "bm3dcpu,step=4": (6, -14),
    "bm3dcpu,step=3,range=16": (-128, -3),
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
        help="methods of that plot, as described in benchmarks/methods.py (default: all of the package, and others)",
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
        print(f"  {point.method:26s} {point.seconds:8.3f} s {point.psnr:7.2f} dB {point.images:4d}")
    figures = {
        point.method: {
            f"ms at {sigma:g}": round(1e3 * point.seconds, 1),
            f"dB at {sigma:g}": round(point.psnr, 2),
        }
        for point in points
    }
    record(options, "frontier", figures)
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
    names = options.frontier_methods or [*methods(skip_slow=False), *_installed(_PEERS, sigma)]
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


def _installed(names, sigma):
    """Those of some methods that run here."""
    found = []
    for name in names:
        try:
            denoiser(name)(np.full((64, 64), 128, np.float32), sigma)
            found.append(name)
        except (ImportError, FileNotFoundError) as error:
            print(f"{name} is left out: {error}")
    return found


def _seconds(names, image, sigma):
    """The least seconds of the processor of each method that is not trained on the image, measured in turn."""
    noisy = with_noise(image[1], sigma, image[0])
    calls = {name: denoiser(name, workers=1) for name in names}
    calls = {name: call for name, call in calls.items() if not is_trained(call)}
    least = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call(noisy[:64, :64], sigma)
    for turn in range(3):
        for name, call in shown(calls.items(), f"seconds, turn {turn + 1} of 3"):
            # Another program measures itself.
            measure = getattr(call, "processor_seconds", partial(_own_seconds, call))
            least[name] = min(least[name], measure(noisy, sigma))
    return least


def _own_seconds(call, noisy, sigma):
    start = time.process_time()
    call(noisy, sigma)
    return time.process_time() - start


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
            f'"{name}"' if mine else name_in_plot(name),
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
    axes.set_xlabel("seconds of the processor for 512 × 512 pixels, one run")
    number = max(point.images for point in points)
    axes.set_ylabel(f"mean PSNR of {number} images, sigma {sigma:g} (dB)")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)


def name_in_plot(name):
    """The words for a method of others in the plot."""
    method, *options = name.split(",")
    if method == "ffmpeg":
        return f"FFmpeg {options[0].partition('=')[2]}"
    method = _NAMES.get(method, method)
    return " ".join([method, *(option.replace("=", " ") for option in options)])
