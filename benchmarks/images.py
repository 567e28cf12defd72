"""Test images and their noise, shared by all measurements."""

from pathlib import Path

import numpy as np
from PIL import Image

BUNDLED = ("camera", "coins", "moon", "brick", "grass", "gravel", "page")


def image_sets(data, names, part):
    """Test sets as {name: [(seed, file name, image)]}, from the folders in `data`, or scikit-image's images.

    `part` is a slice that selects images of each set: "::2" the odd-numbered files, "1::2" the even-numbered ones.
    Sets of color images are included only if they are named.
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


def color(image):
    """The channel axis of an image, or None if it is gray."""
    return -1 if image.ndim == 3 else None


def with_noise(image, sigma, seed, turn=0):
    """Add white Gaussian noise, without clipping, as float32; each turn draws different noise."""
    seed = [seed, turn] if turn else seed
    noise = np.random.default_rng(seed).normal(0, sigma, image.shape)
    return (image + noise).astype(np.float32)


def psnr(estimate, truth, clipped=True):
    """PSNR for a peak of 255; the estimate is clipped to [0, 255] unless `clipped` is False."""
    estimate = np.asarray(estimate, np.float64)
    error = (np.clip(estimate, 0, 255) if clipped else estimate) - truth
    return 10 * np.log10(255**2 / np.mean(error**2))


def _is_gray(folder):
    return all(Image.open(file).mode == "L" for file in list(folder.glob("*.png"))[:1])
