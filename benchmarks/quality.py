"""PSNR of each recipe on sets of images, and the difference from the first of them.

Besides the names of recipes, --methods takes "bm3d-1a" and "bm3d-1b", BM3D with the paper's other choices
of Θ in step 1, and any of them with ":1" behind it for its first step alone.
"""

import math
from dataclasses import replace

import numpy as np

import nlridge
from nlridge.families.bm3d import bm3d, haar

from .images import colour, image_sets, psnr, with_noise


def add_arguments(parser):
    parser.add_argument("--sets", nargs="+", help="folders in DATA (default: all gray ones)")
    parser.add_argument(
        "--part", help="a slice of each set, such as 1::2 for the even-numbered files"
    )
    parser.add_argument("--sigma", type=float, nargs="+", default=[5, 15, 25, 35, 50])
    parser.add_argument(
        "--methods",
        nargs="+",
        default=sorted(nlridge.recipe_names(), key=lambda name: name != "nl-ridge"),
    )
    parser.add_argument("--each", action="store_true", help="a line for each image")


def run(options):
    for name, images in image_sets(options.data, options.sets, options.part).items():
        print(f"\nmean PSNR (dB), {name}, {len(images)} images")
        for sigma in options.sigma:
            found = {method: [] for method in options.methods}
            for seed, _, image in images:
                noisy = with_noise(image, sigma, seed)
                for method, values in found.items():
                    clean = nlridge.denoise(
                        noisy, sigma, method=_recipe(method, sigma), channel_axis=colour(image)
                    )
                    values.append(psnr(clean, image))
            if options.each:
                for i, (_, file, _) in enumerate(images):
                    row = "  ".join(f"{method} {values[i]:.2f}" for method, values in found.items())
                    print(f"  {file:12s} {row}")
            print(f"  sigma {sigma:<3g} {_summary(found)}", flush=True)


def _recipe(method, sigma):
    name, _, steps = method.partition(":")
    if name in _THRESHOLDS:
        family = bm3d(threshold=_THRESHOLDS[name], group_transform=haar)
        found = replace(nlridge.recipe("bm3d", sigma), family=family)
    else:
        found = nlridge.recipe(name, sigma)
    return replace(found, second=None) if steps == "1" else found


_THRESHOLDS = {"bm3d-1a": None, "bm3d-1b": math.sqrt(2)}


def _summary(found):
    base = next(iter(found.values()))
    cells = []
    for method, values in found.items():
        cell = f"{method} {np.mean(values):.3f}"
        if values is not base:
            change = np.subtract(values, base)
            cell += f" ({change.mean():+.3f}, worst {change.min():+.3f})"
        cells.append(cell)
    return "   ".join(cells)
