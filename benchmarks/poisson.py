"""Images of few photons: PSNR of each method for counts of a given peak, with the noise known and estimated."""

import time

import numpy as np

import nlridge

from .images import image_sets
from .progress import shown


def add_arguments(parser):
    parser.add_argument(
        "--peaks",
        type=float,
        nargs="+",
        default=[0.5, 1, 2, 5, 20],
        help="photons of the brightest pixel (default: %(default)s)",
    )


def run(options):
    for name, images in image_sets(options.data, options.sets, options.part).items():
        print(f"\nPSNR relative to the peak (dB), Poisson noise, {name}, {len(images)} images\n")
        peaks = " | ".join(f"peak {peak:g}" for peak in options.peaks)
        print(f"| method | noise | {peaks} | seconds |")
        print("|---|---|" + "---|" * (len(options.peaks) + 1))
        for method in nlridge.method_names():
            for noise in (nlridge.PoissonGaussianNoise(1.0), None):
                _row(images, method, noise, options.peaks)


def _row(images, method, noise, peaks):
    kind = "estimated" if noise is None else "known"
    values, start = [], time.perf_counter()
    for peak in peaks:
        errors = []
        for seed, _, image in shown(images, f"{method}, {kind}, peak {peak:g}"):
            clean = image * (peak / image.max())
            counts = np.random.default_rng(seed).poisson(clean)
            result = nlridge.denoise(counts, noise=noise, method=method)
            errors.append(10 * np.log10(peak**2 / np.mean((result - clean) ** 2)))
        values.append(f"{np.mean(errors):.2f}")
    seconds = (time.perf_counter() - start) / (len(peaks) * len(images))
    print(f"| {method} | {kind} | {' | '.join(values)} | {seconds:.2f} |", flush=True)
