"""How much denoising changes the sum of an image: star fields, cells and photon counts, with each model of noise."""

from pathlib import Path

import numpy as np

import nlridge
from nlridge.files import read

from .progress import shown

_SIZE = 256
_KINDS = ("gaussian", "poisson", "correlated", "auto")


def add_arguments(parser):
    parser.add_argument(
        "--sums",
        nargs="+",
        choices=SCENES,
        default=list(SCENES),
        help="scenes whose sums are compared (default: all)",
    )
    parser.add_argument(
        "--sum-draws",
        type=int,
        default=1,
        help="how often noise is drawn; with more than one, means and their standard errors (default: 1)",
    )


def run(options):
    print("\nchange of the sum of an image (%); noise that is known or estimated\n")
    print(f"| image | known | {' | '.join(_KINDS)} | estimated (auto) |")
    print("|---|---|" + "---|" * (len(_KINDS) + 1))
    for draws in shown(list(_images(options)), "sums"):
        _row(*zip(*draws, strict=True))


def _row(names, images, noises):
    """Print the changes of the sums of some images of a scene."""
    columns = [_changes(images, noises)]
    found = noises
    for kind in _KINDS:
        try:
            found = [nlridge.estimate_noise(image, kind=kind) for image in images]
            columns.append(_changes(images, found))
        except ValueError:  # the image has no such noise
            columns.append("-")
    print(f"| {names[0]} | {' | '.join(columns)} | {found[0]} |", flush=True)


def _changes(images, noises):
    """The mean change in percent, and its standard error if there are several images."""
    if None in noises:
        return ""
    values = [_change(image, noise) for image, noise in zip(images, noises, strict=True)]
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):+.3f}{error}"


def _change(noisy, noise):
    clean = nlridge.denoise(noisy, noise=noise)
    return 100 * (np.nansum(clean, dtype=float) / np.nansum(noisy, dtype=float) - 1)


def _images(options):
    """Yield the draws of each scene: its name, the noisy image and the noise; that of a file is not known."""
    for scene in options.sums:
        yield from zip(*(SCENES[scene](draw) for draw in range(options.sum_draws)), strict=True)
    file = Path(options.data or "") / "hard" / "spitzer_example_image.fits"
    if file.exists():
        yield [(file.name, np.array(read(file).layers[0].pixels, np.float32), None)]


def star_field(seed, density, width, background=4.0, size=_SIZE):
    """Stars of a given width (the sigma of a Gaussian) per pixel, most of them faint, on a dark sky."""
    rng = np.random.default_rng(seed)
    count = rng.poisson(density * size**2)
    fluxes = np.minimum(2.0 * (1 - rng.random(count)) ** (-1 / 1.2), 2e4)
    y, x = rng.random((2, count)) * size
    rows = np.arange(size)[:, None]
    profiles = [np.exp(-(((rows - at) / width) ** 2) / 2) for at in (y, x)]
    return background + (profiles[0] * fluxes / (2 * np.pi * width**2)) @ profiles[1].T


def cells(seed, peak, size=_SIZE):
    """Round cells with bright spots in them, on a dark background."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    image = np.zeros((size, size))
    for _ in range(24):
        y, x, radius = rng.random() * size, rng.random() * size, 8 + 12 * rng.random()
        distance = np.hypot(rows - y, columns - x)
        inside = 1 / (1 + np.exp(distance - radius))
        spots = np.prod([np.sin((axis - at) / 3) for axis, at in ((rows, y), (columns, x))], axis=0)
        image = np.maximum(image, inside * (0.3 + 0.7 * rng.random()) * (1 + 0.3 * spots))
    return peak * (0.03 + image)


def _with_each_noise(name, clean, *seed):
    """Yield an image with white, growing and correlated noise."""
    rng = np.random.default_rng(seed)
    sigma = 0.1 * float(clean.mean())
    white = rng.normal(0, sigma, clean.shape)
    yield f"{name}, gaussian", clean + white, nlridge.GaussianNoise(sigma)
    counts = rng.poisson(clean)
    yield f"{name}, poisson", counts, nlridge.PoissonGaussianNoise(1.0)
    both = nlridge.PoissonGaussianNoise(1.0, 2.0)
    yield f"{name}, poisson-gaussian", counts + rng.normal(0, 2.0, clean.shape), both
    kernel = np.outer(*2 * [[1, 2, 1]])
    shifted = (kernel[i, j] * np.roll(white, (i, j), (0, 1)) for i, j in np.ndindex(3, 3))
    noise = sum(shifted) / np.linalg.norm(kernel)
    yield f"{name}, correlated", clean + noise, nlridge.CorrelatedNoise.from_kernel(sigma, kernel)


def _other(draw):
    """What is appended to the seed of the first draw for the others."""
    return [draw] if draw else []


def _stars(draw=0):
    for seed, (density, width) in enumerate(((0.002, 1.0), (0.01, 1.3), (0.05, 1.3), (0.05, 2.5))):
        name = f"stars, {density:g} per pixel, width {width:g}"
        yield from _with_each_noise(name, star_field(seed, density, width), seed, *_other(draw))


def _cells(draw=0):
    for seed, peak in enumerate((20.0, 200.0)):
        yield from _with_each_noise(f"cells, peak {peak:g}", cells(seed, peak), seed, *_other(draw))


def _photons(draw=0):
    shape = cells(0, 1.0)
    for seed, mean in enumerate((0.2, 0.5, 1, 2, 5, 10, 50)):
        counts = np.random.default_rng([seed, *_other(draw)]).poisson(shape * (mean / shape.mean()))
        yield f"photons, {mean:g} per pixel", counts, nlridge.PoissonGaussianNoise(1.0)


SCENES = {"stars": _stars, "cells": _cells, "photons": _photons}
