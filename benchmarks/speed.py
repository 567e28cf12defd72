"""Seconds and PSNR of each recipe beside other denoisers: one run, in turn, the shortest time counts."""

import time

import numpy as np

import nlridge

from .images import image_sets, psnr, with_noise


def add_arguments(parser):
    parser.add_argument("--speed-sigma", type=float, nargs="+", default=[15, 25, 50])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--skip-slow", action="store_true", help="leave the bm3d package out")


def run(options):
    images = images_of_512(options)
    calls = methods(options.skip_slow)
    for call, _ in calls.values():  # compile and load
        call(images[0][1][:64, :64].astype(np.float32), 25.0)
    for sigma in options.speed_sigma:
        seconds = {name: [] for name in calls}
        quality = {name: [] for name in calls}
        for seed, image in images:
            noisy = with_noise(image, sigma, seed)
            best = dict.fromkeys(calls, np.inf)
            for turn in range(options.repeat):
                for name, (call, most) in calls.items():
                    if turn >= most:
                        continue
                    start = time.perf_counter()
                    clean = call(noisy, sigma)
                    best[name] = min(best[name], time.perf_counter() - start)
                    if turn == 0:
                        quality[name].append(psnr(clean, image))
            for name in calls:
                seconds[name].append(best[name])
        base = np.mean(seconds["standard"])
        print(f"\nsigma {sigma:g}, 512 x 512, mean of {len(images)} images, relative to standard")
        for name in calls:
            mean = np.mean(seconds[name])
            print(
                f"  {name:22s} {mean:7.3f} s {mean / base:7.2f} x {np.mean(quality[name]):7.2f} dB"
            )
        one = np.mean(seconds["standard, 1 worker"])
        print(f"  all workers are {one / base:.2f} x as fast as one")


def images_of_512(options):
    found = [
        (seed, image)
        for images in image_sets(options.data, ["set12"] if options.data else None, None).values()
        for seed, _, image in images
        if image.shape == (512, 512)
    ]
    return found[:3]


def methods(skip_slow):
    """{name: (function of a noisy image and sigma, how many turns at most)}"""

    def ours(method, workers=None):
        def call(noisy, sigma):
            return nlridge.denoise(noisy, sigma, method=method, data_range=255, workers=workers)

        return call

    found = {name: (ours(name), 99) for name in nlridge.recipe_names()}
    found["standard, 1 worker"] = (ours("standard", 1), 99)
    try:
        import cv2

        def opencv(noisy, sigma):
            rounded = np.clip(noisy + 0.5, 0, 255).astype(np.uint8)
            return cv2.fastNlMeansDenoising(rounded, None, h=0.9 * sigma)

        found["opencv nl-means"] = (opencv, 99)
    except ImportError:
        print("opencv is not installed")
    try:
        from skimage.restoration import denoise_nl_means

        def scikit_image(noisy, sigma):
            s = sigma / 255
            return 255 * denoise_nl_means(noisy / 255, 7, 10, h=0.6 * s, sigma=s)

        found["scikit-image nl-means"] = (scikit_image, 2)
    except ImportError:
        print("scikit-image is not installed")
    if not skip_slow:
        try:
            from bm3d import bm3d

            found["bm3d package"] = (bm3d, 2)
        except ImportError:
            print("the bm3d package is not installed")
    return found
