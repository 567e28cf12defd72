"""Smooth, regular and odd images, on which more effort must not be worse: "best" at least as good as "standard"."""

import numpy as np

import nlridge

from .images import psnr, with_noise
from .progress import shown

_SIDE = 256
_SIGMAS = (15, 25, 50)
_METHODS = ("fast", "standard", "best")
_BUNDLED = ("moon", "cell", "coins", "page", "text")


def add_arguments(parser):
    """There are none."""


def run(options):
    print(f"\nPSNR in dB at sigma {' / '.join(map(str, _SIGMAS))}\n")
    print(f'| image | {" | ".join(_METHODS)} | "best" - "standard" |')
    print("|---|" + "---|" * (len(_METHODS) + 1))
    for seed, (name, image) in enumerate(shown(images().items(), "images")):
        values = np.array([[quality(image, sigma, seed, m) for sigma in _SIGMAS] for m in _METHODS])
        gain = values[_METHODS.index("best")] - values[_METHODS.index("standard")]
        cells = [" / ".join(f"{value:.2f}" for value in row) for row in values]
        cells.append(" / ".join(f"{value:+.2f}" for value in gain))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def quality(image, sigma, seed, method):
    """The PSNR of a method."""
    noisy = with_noise(image, sigma, seed)
    return psnr(nlridge.denoise(noisy, sigma, method=method, data_range=255), image)


def images():
    """All images of the suite by name."""
    from skimage import data

    bundled = {name: getattr(data, name)().astype(float) for name in _BUNDLED}
    return bundled | drawn(_SIDE) | {"blurred": blurred(data.camera().astype(float), 4.0)}


def drawn(side):
    """The images that are computed, of any size."""
    y, x = np.mgrid[:side, :side] / side
    rng = np.random.default_rng(0)
    galaxies, cells = np.full((side, side), 12.0), np.full((side, side), 8.0)
    for cy, cx, angle in rng.uniform(0, 1, (40, 3)):
        u = np.cos(np.pi * angle) * (y - cy) + np.sin(np.pi * angle) * (x - cx)
        v = np.cos(np.pi * angle) * (x - cx) - np.sin(np.pi * angle) * (y - cy)
        galaxies += 220 * rng.uniform(0, 1) ** 3 * np.exp(-np.sqrt((u**2 + 4 * v**2) / 0.01**2))
    for cy, cx in rng.uniform(0, 1, (12, 2)):
        away = np.hypot(y - cy, x - cx) / rng.uniform(0.04, 0.1)
        texture = 1 + 0.3 * np.sin(180 * (y + cy)) * np.sin(150 * (x - y))
        cells += rng.uniform(40, 160) / (1 + np.exp(8 * (away - 1))) * texture
    return {
        "flat": np.full((side, side), 128.0),
        "ramp": 40 + 90 * (y + x),
        "disc": np.where(np.hypot(y - 0.5, x - 0.5) < 0.3, 190.0, 60.0),
        "galaxies": np.clip(galaxies, 0, 255),
        "fluorescence": np.clip(cells, 0, 255),
    }


def blurred(image, width):
    """An image out of focus: filtered by a Gaussian of the given width in pixels."""
    frequencies = np.meshgrid(*map(np.fft.fftfreq, image.shape), indexing="ij")
    response = np.exp(-2 * (np.pi * width) ** 2 * sum(f**2 for f in frequencies))
    return np.fft.ifft2(np.fft.fft2(image) * response).real
