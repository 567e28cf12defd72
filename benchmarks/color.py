"""Color images: PSNR and seconds compared with the color version of the bm3d package, in turn in one run."""

import time
from pathlib import Path

import numpy as np

import nlridge

from .images import image_sets, psnr, with_noise
from .progress import shown


def add_arguments(parser):
    parser.add_argument(
        "--color-sigma",
        type=float,
        nargs="+",
        default=[15, 25, 50],
        help="noise levels for color images (default: %(default)s)",
    )
    parser.add_argument(
        "--color-part", default="::7", help="slice of the test set cbsd68 (default: %(default)s)"
    )


def run(options):
    images = _images(options)
    methods = {name: _ours(name) for name in ("fast", "standard")}
    try:
        from bm3d import bm3d_rgb

        if not options.skip_slow:
            methods["bm3d package"] = lambda noisy, sigma: 255 * bm3d_rgb(noisy / 255, sigma / 255)
    except ImportError:
        print("the bm3d package is not installed")
    for call in methods.values():  # compile and load
        call(images[0][1][:64, :64].astype(np.float32), 25.0)
    for sigma in options.color_sigma:
        seconds, quality = ({name: [] for name in methods} for _ in range(2))
        for seed, image in shown(images, f"sigma {sigma:g}"):
            noisy = with_noise(image, sigma, seed)
            for name, call in methods.items():
                start = time.perf_counter()
                clean = call(noisy, sigma)
                seconds[name].append(time.perf_counter() - start)
                quality[name].append(psnr(clean, image))
        print(f"\nsigma {sigma:g}, color, mean of {len(images)} images, relative to standard")
        for name in methods:
            ratio = np.sum(seconds[name]) / np.sum(seconds["standard"])
            print(
                f"  {name:14s} {np.mean(seconds[name]):7.3f} s {ratio:7.2f} x {np.mean(quality[name]):7.3f} dB",
                flush=True,
            )


def _ours(method):
    def call(noisy, sigma):
        return nlridge.denoise(noisy, sigma, method=method, data_range=255, channel_axis=-1)

    return call


def _images(options):
    if options.data is not None and (Path(options.data) / "cbsd68").is_dir():
        images = image_sets(options.data, ["cbsd68"], options.color_part)["cbsd68"]
        return [(seed, image) for seed, _, image in images]
    from skimage import data

    return [(0, data.astronaut()), (1, data.coffee())]
