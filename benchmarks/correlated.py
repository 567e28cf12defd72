"""Noise of known correlation: PSNR and seconds compared with the bm3d package, in turn in one run."""

import time

import numpy as np

import nlridge

from .images import image_sets, psnr
from .methods import restore_trapz
from .progress import shown

_SEED = 70000  # of the first image


def add_arguments(parser):
    parser.add_argument(
        "--correlated-sigma",
        type=float,
        nargs="+",
        default=[10, 25],
        help="levels of correlated noise (default: %(default)s)",
    )
    parser.add_argument(
        "--correlated-noise",
        nargs="+",
        choices=KERNELS,
        default=list(KERNELS),
        help="kinds of correlated noise (default: all)",
    )
    parser.add_argument(
        "--correlated-images",
        nargs="+",
        default=["01", "03", "06"],
        help="images of the test set set12 (default: %(default)s)",
    )


def run(options):
    images = _images(options)
    methods = {name: _ours(name) for name in ("standard", "best")}
    if not options.skip_slow:
        try:
            methods["bm3d package"] = _bm3d()
        except ImportError:
            print("the bm3d package is not installed")
    for method in ("standard", "best"):  # compile and load
        methods[method](*noisy_image(images[0][1], "blur", 25, 0))
    for kind in options.correlated_noise:
        for sigma in options.correlated_sigma:
            seconds, quality = ({name: [] for name in methods} for _ in range(2))
            for seed, image in shown(images, f"{kind}, sigma {sigma:g}"):
                noisy, spectrum = noisy_image(image, kind, sigma, seed)
                for name, call in methods.items():
                    start = time.perf_counter()
                    clean = call(noisy, spectrum)
                    seconds[name].append(time.perf_counter() - start)
                    quality[name].append(psnr(clean, image))
            print(f"\n{kind}, sigma {sigma:g}, mean of {len(images)} images, relative to standard")
            for name in methods:
                ratio = np.sum(seconds[name]) / np.sum(seconds["standard"])
                print(
                    f"  {name:14s} {np.mean(seconds[name]):7.3f} s {ratio:7.2f} x"
                    f" {np.mean(quality[name]):7.3f} dB",
                    flush=True,
                )


def noisy_image(image, kind, sigma, seed):
    """An image with correlated noise, and the power spectrum of the noise: the mean of abs(fft2(noise))**2."""
    kernel = KERNELS[kind]()
    transfer = np.fft.fft2(kernel / np.linalg.norm(kernel), image.shape)
    white = np.random.default_rng(seed).normal(0, sigma, image.shape)
    noise = np.fft.ifft2(transfer * np.fft.fft2(white)).real
    return image + noise, sigma**2 * np.abs(transfer) ** 2 * image.size


def _blur():
    """A correlation of 0.67 between neighbours."""
    taps = np.exp(-np.square(np.arange(-4, 5) / 0.8) / 2)
    return np.outer(taps, taps)


def _lines():
    """Horizontal lines of 31 pixels that fade at their ends."""
    return 16.0 - np.abs(np.arange(-15, 16))[None]


def _rings():
    y, x = np.mgrid[-10:11, -10:11]
    distance = np.hypot(y, x)
    return np.cos(distance) * np.exp(-(distance**2) / 200)


def _pink():
    """An amplitude that falls off as 1 / f."""
    frequencies = np.fft.fftfreq(64)
    distance = np.hypot(frequencies[:, None], frequencies)
    distance[0, 0] = distance[0, 1]
    return np.fft.fftshift(np.fft.ifft2(1 / distance).real)


KERNELS = {"blur": _blur, "lines": _lines, "rings": _rings, "pink": _pink}


def _ours(method):
    def call(noisy, spectrum):
        noise = nlridge.CorrelatedNoise.from_spectrum(spectrum)
        return nlridge.denoise(noisy, noise=noise, method=method, data_range=255)

    return call


def _bm3d():
    from bm3d import bm3d

    restore_trapz()

    def call(noisy, spectrum):
        return 255 * bm3d(noisy / 255, spectrum / 255**2, profile="refilter")

    return call


def _images(options):
    """Some images of set12 with their seeds, or scikit-image's images."""
    wanted = options.correlated_images
    if options.data is None:
        (images,) = image_sets(None, None, ":3").values()
    else:
        (images,) = image_sets(options.data, ["set12"], None).values()
        images = [(k, name, image) for k, name, image in images if name.split(".")[0] in wanted]
    return [(_SEED + k, image.astype(float)) for k, (_, _, image) in enumerate(images)]
