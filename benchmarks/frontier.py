"""Quality against time, as a plot: every method, other packages measured in the same run, and published values.

Seconds are for 512 x 512 pixels; PSNR is the mean over Set12 (or scikit-image's images).  Published values are drawn
as lines, since times measured on other machines are not comparable.
"""

import time

import numpy as np

from .images import image_sets, psnr, with_noise
from .progress import shown
from .published import SET12
from .speed import images_of_512, methods

_GRAY = "#6b7280"
# Offsets of labels from their points, so that none hides another.
_BESIDE = {
    "nl-ridge": (9, -4),
    "nl-bayes": (-4, -19),
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
        "--picture", default="frontier.png", help="file for that plot (default: %(default)s)"
    )


def run(options):
    sigma = options.frontier_sigma
    calls = methods(skip_slow=False)
    seconds = _seconds(calls, images_of_512(options)[0], sigma)
    sets = image_sets(options.data, ["set12"] if options.data else None, None)
    (images,) = sets.values()
    quality = {
        name: np.mean(
            [
                psnr(call(with_noise(image, sigma, i), sigma), image)
                for i, _, image in shown(images, name)
            ]
        )
        for name, call in calls.items()
    }
    print(f"\nsigma {sigma:g}: seconds for 512 x 512, and mean PSNR of {len(images)} images")
    for name in calls:
        print(f"  {name:22s} {seconds[name]:7.3f} s {quality[name]:7.2f} dB", flush=True)
    _draw(seconds, quality, sigma, SET12.get(sigma, {}) if options.data else {}, options.picture)
    print(f"  {options.picture}")


def _seconds(calls, image, sigma):
    """The shortest time of each method, measured in turn."""
    noisy = with_noise(image[1], sigma, image[0])
    shortest = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call(noisy[:64, :64], sigma)
    for turn in range(3):
        for name, call in shown(calls.items(), f"seconds, turn {turn + 1} of 3"):
            start = time.perf_counter()
            call(noisy, sigma)
            shortest[name] = min(shortest[name], time.perf_counter() - start)
    return shortest


def _draw(seconds, quality, sigma, published, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    import nlridge

    ours = [name for name in nlridge.method_names() if name in seconds]
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
            f'"{name}"' if mine else name,
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
    axes.set_ylabel(f"mean PSNR on Set12, sigma {sigma:g} (dB)" if published else "mean PSNR (dB)")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)
