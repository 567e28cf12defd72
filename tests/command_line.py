"""Small images for the tests of the command line, and how it is run on them."""

import numpy as np
from PIL import Image

from nlridge.apps.cli import main


def save(path, seed=0, size=32, sigma=20):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.clip(np.random.default_rng(seed).normal(120, sigma, (size, size)), 0, 255)
    if path.suffix == ".npy":
        np.save(path, pixels)
    else:
        Image.fromarray(pixels.astype(np.uint8)).save(path)


def run(*words):
    return main(["denoise", "--method", "fast", *map(str, words)])


def names(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
