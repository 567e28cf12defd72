"""Test images and their noise, the same for every measurement."""

from pathlib import Path

import numpy as np
from PIL import Image

BUNDLED = ("camera", "coins", "moon", "brick", "grass", "gravel", "page")


def image_sets(data, names, part):
    """{name of set: [(seed, name of image, image)]}, from the folders in `data` or scikit-image's own.

    `part` keeps of each set what a slice says: "::2" the odd-numbered files, "1::2" the even ones.
    Sets in colour have to be named.
    """
    kept = slice(*(int(s) if s else None for s in part.split(":"))) if part else slice(None)
    if data is None:
        from skimage import data as bundled

        images = [(i, name, getattr(bundled, name)()) for i, name in enumerate(BUNDLED)]
        return {"scikit-image": images[kept]}
    folders = [Path(data) / name for name in names] if names else sorted(Path(data).iterdir())
    return {
        folder.name: [
            (i, file.name, np.asarray(Image.open(file)))
            for i, file in list(enumerate(sorted(folder.glob("*.png"))))[kept]
        ]
        for folder in folders
        if folder.is_dir() and (names or _is_gray(folder))
    }


def colour(image):
    """The axis of its channels, if it has any."""
    return -1 if image.ndim == 3 else None


def with_noise(image, sigma, seed, turn=0):
    """White Gaussian noise added in float and never clipped, as float32; other noise for each turn."""
    seed = [seed, turn] if turn else seed
    noise = np.random.default_rng(seed).normal(0, sigma, image.shape)
    return (image + noise).astype(np.float32)


def psnr(estimate, truth, clipped=True):
    """PSNR for a peak of 255, of the estimate clipped to [0, 255] (a noisy image is taken as it is)."""
    estimate = np.asarray(estimate, np.float64)
    error = (np.clip(estimate, 0, 255) if clipped else estimate) - truth
    return 10 * np.log10(255**2 / np.mean(error**2))


def _is_gray(folder):
    return all(Image.open(file).mode == "L" for file in list(folder.glob("*.png"))[:1])
