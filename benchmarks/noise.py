"""The accuracy of noise estimation, and the cost of not knowing the noise."""

import time

import numpy as np

import nlridge

from .images import image_sets, psnr, with_noise
from .progress import shown

PEAKS = (5, 20, 100)


def add_arguments(parser):
    parser.add_argument(
        "--noise-sigma",
        type=float,
        nargs="+",
        default=[2, 5, 10, 15, 25, 35, 50],
        help="noise levels to estimate (default: %(default)s)",
    )
    parser.add_argument(
        "--noise-table",
        choices=TABLES,
        nargs="+",
        default=list(TABLES),
        help="what to measure of the estimation of noise (default: all)",
    )


def run(options):
    for name, images in image_sets(options.data, options.sets, options.part).items():
        for table in options.noise_table:
            TABLES[table](name, images, options.noise_sigma)


def _sigma(name, images, levels):
    from skimage.restoration import estimate_sigma as wavelets

    print(
        f"\nerror of estimate_sigma, {name}, {len(images)} images (root mean square, mean, largest)"
    )
    for sigma in (0, 1, *levels):
        ours, theirs, kinds, seconds = [], [], [], 0.0
        for seed, _, image in shown(images, f"sigma {sigma:g}"):
            noisy = with_noise(image, sigma, seed) if sigma else image.astype(np.float32)
            start = time.perf_counter()
            ours.append(nlridge.estimate_sigma(noisy) - sigma)
            seconds += time.perf_counter() - start
            theirs.append(wavelets(noisy) - sigma)
            kinds.append(isinstance(nlridge.estimate_noise(noisy), nlridge.GaussianNoise))
        print(
            f"  sigma {sigma:<3g} {_rms(ours):.3f} {np.mean(ours):+.3f} {np.max(np.abs(ours)):.2f}"
            f"   scikit-image {_rms(theirs):.3f}   {seconds / len(images):.3f} s"
            f"   estimated as Gaussian: {sum(kinds)} of {len(kinds)}",
            flush=True,
        )


def _blind(name, images, levels):
    """What it costs in quality and in time not to know that noise is white, and its level."""
    print(f"\nPSNR of standard, {name}, {len(images)} images: known, estimated; seconds of each")
    for sigma in levels:
        values, seconds = [], []
        for seed, _, image in shown(images, f"blind, sigma {sigma:g}"):
            noisy = with_noise(image, sigma, seed)
            for given in (sigma, None):
                start = time.perf_counter()
                values.append(psnr(nlridge.denoise(noisy, given), image))
                seconds.append(time.perf_counter() - start)
        known, blind = values[::2], values[1::2]
        worst = min(b - a for a, b in zip(known, blind, strict=True))
        print(
            f"  sigma {sigma:<3g} {np.mean(known):.3f} {np.mean(blind):.3f}, worst {worst:+.3f}"
            f"   {np.median(seconds[::2]):.3f} {np.median(seconds[1::2]):.3f} s",
            flush=True,
        )


def _poisson(name, images, levels):
    print(f"\nPSNR for Poisson noise, {name}: known, estimated, Gaussian noise of the mean level")
    for peak in PEAKS:
        values = []
        for seed, _, image in shown(images, f"peak {peak}"):
            gain = 255 / peak
            noisy = gain * np.random.default_rng(seed).poisson(image / gain)
            values.append(
                [
                    psnr(clean, image)
                    for clean in (
                        nlridge.denoise(noisy, noise=nlridge.PoissonGaussianNoise(gain)),
                        nlridge.denoise(noisy),
                        nlridge.denoise(noisy, float(np.sqrt(gain * image.mean()))),
                    )
                ]
            )
        print(
            f"  peak {peak:<4d}", *(f"{value:.3f}" for value in np.mean(values, axis=0)), flush=True
        )


def _missing_and_clean(name, images, levels):
    untouched = [
        psnr(nlridge.denoise(image.astype(np.float32)), image)
        for _, _, image in shown(images, "clean images")
    ]
    print(f"\nclean images, {name}: lowest PSNR relative to the input {min(untouched):.1f} dB")
    cost = []
    for seed, _, image in shown(images, "missing pixels"):
        noisy = with_noise(image, 25, seed)
        known = np.random.default_rng(99).random(image.shape) >= 0.05
        whole = nlridge.denoise(noisy, 25, data_range=255)
        part = nlridge.denoise(np.where(known, noisy, np.nan), 25, data_range=255)
        cost.append(psnr(part[known], image[known]) - psnr(whole[known], image[known]))
    print(f"5 % of pixels missing, sigma 25: {np.mean(cost):+.3f} dB, worst {min(cost):+.3f}")


def _map(name, images, levels):
    """Compare a map of two halves, at sigma 10 and 40, with the best single sigma for each image."""
    singles = (10, 15, 20, 25, 30, 35, 40)
    print(
        f"\nPSNR where sigma is 10 on the left and 40 on the right, {name}: map, best single sigma"
    )
    for method in nlridge.method_names():
        pairs = []
        for seed, _, image in shown(images, method):
            sigma = np.where(np.arange(image.shape[1]) < image.shape[1] // 2, 10.0, 40.0)
            sigma = np.broadcast_to(sigma, image.shape)
            noisy = with_noise(image, sigma, seed)
            known, *others = (
                psnr(nlridge.denoise(noisy, s, method=method, data_range=255), image)
                for s in (sigma, *singles)
            )
            pairs.append((known, max(others)))
        known, best = np.mean(pairs, axis=0)
        worst = min(a - b for a, b in pairs)
        print(
            f"  {method:10s} {known:.3f} {best:.3f} ({known - best:+.3f}, worst {worst:+.3f})",
            flush=True,
        )


def _estimated_psnr(name, images, levels):
    """Compare estimate_quality with the truth, for known and for estimated sigma."""
    print(
        f"\nerror of estimate_quality in dB, {name} (mean, largest, root mean square in standard errors)"
    )
    for sigma in (15, 25):
        for kind, given in (("known", sigma), ("estimated", None)):
            errors, scores = [], []
            for seed, _, image in shown(images, f"sigma {sigma}, {kind}"):
                noisy = with_noise(image, sigma, seed)
                quality = nlridge.estimate_quality(noisy, given, peak=255)
                truth = 10 * np.log10(255**2 / np.mean((quality.denoised.image - image) ** 2.0))
                errors.append(abs(quality.psnr - truth))
                scores.append(errors[-1] / quality.standard_error)
            print(
                f"  sigma {sigma} {kind:9s} {np.mean(errors):.3f} {np.max(errors):.2f} {_rms(scores):.2f}",
                flush=True,
            )


def _rms(values):
    return np.sqrt(np.mean(np.square(values)))


TABLES = {
    "sigma": _sigma,
    "blind": _blind,
    "poisson": _poisson,
    "clean": _missing_and_clean,
    "map": _map,
    "quality": _estimated_psnr,
}
