"""Noise of real cameras and microscopes, estimated from the image alone, and how often its kind is mistaken."""

import time
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

import nlridge

from .correlated import noisy_image
from .images import color, image_sets, psnr, with_noise
from .progress import shown

_STEPS = 12  # of brightness, in which the true noise is measured
_REACH = 15  # of the true correlation


def add_arguments(parser):
    parser.add_argument(
        "--real",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="what to measure with real noise (default: all)",
    )


def run(options):
    for name in options.real:
        PARTS[name](options)


def _polyu(options):
    files = sorted((Path(options.data) / "polyu").glob("*_real.JPG")) if options.data else []
    pairs = [(file, file.with_name(file.name.replace("_real", "_mean"))) for file in files]
    _compare("PolyU", _part(pairs, options), options.methods)


def _fmd(options):
    files = sorted((Path(options.data) / "fmd" / "raw").glob("*.png")) if options.data else []
    pairs = [(file, file.parents[1] / "gt" / file.name) for file in files]
    for kind in ("Confocal", "TwoPhoton", "WideField", ""):
        chosen = [pair for pair in pairs if kind in pair[0].name]
        if kind or not options.part:
            _compare(f"FMD {kind}", _part(chosen, options), options.methods, known=kind != "")


def _brightness(options):
    """Print the PSNR before and after the brightness is restored that noise took."""
    data = Path(options.data or "")
    telephones = [
        (file, file.parents[1] / "gt" / file.name)
        for file in sorted((data / "telephones" / "noisy").glob("*.png"))
    ]
    cameras = [
        (file, file.with_name(file.name.replace("_real", "_mean")))
        for file in sorted((data / "polyu").glob("*_real.JPG"))
    ]
    columns = "noisy; estimated, restored; known, restored; known as one level, restored"
    for name, pairs in (("telephones", telephones), ("PolyU", cameras)):
        rows = []
        for files in shown(_part(pairs, options), name):
            noisy, truth = (np.asarray(Image.open(file)) for file in files)
            error = noisy.astype(float) - truth
            correlation = _correlation(np.moveaxis(error, -1, 0))
            models = (
                nlridge.estimate_noise(noisy, channel_axis=-1),
                true_noise(noisy, truth),
                nlridge.CorrelatedNoise(float(error.std()), correlation),
            )
            row = [_psnr(noisy, truth)]
            for noise in models:
                clean = nlridge.denoise(noisy, noise=noise, channel_axis=-1)
                bright = nlridge.restore_brightness(clean, noise, data_range=255, channel_axis=-1)
                row += [_psnr(clean, truth), _psnr(bright, truth)]
            rows.append(row)
            print(f"  {files[0].name:45s}", *(f"{value:6.2f}" for value in row), flush=True)
        if rows:
            print(f"\n{name}, {len(rows)} pairs, mean PSNR: {columns}")
            print(" ", *(f"{value:.2f}" for value in np.mean(rows, axis=0)), flush=True)


def _pairs(options, name):
    """The pairs of a folder with noisy images and the truth."""
    files = sorted((Path(options.data) / name / "noisy").glob("*.png")) if options.data else []
    pairs = [(file, file.parents[1] / "gt" / file.name) for file in files]
    _compare(name, _part(pairs, options), options.methods)


def _part(pairs, options):
    return pairs[slice(*(int(s) if s else None for s in (options.part or ":").split(":")))]


def _compare(name, pairs, methods, known=True):
    """Print the PSNR of the noisy images, and of the denoised ones with noise that is estimated and known."""
    if not pairs:
        return
    methods = methods or ("standard",)
    columns = [f"{m}, {k}" for m in methods for k in ("estimated", "known")[: 1 + known]]
    rows = []
    for noisy_file, true_file in shown(pairs, name):
        noisy, truth = (np.asarray(Image.open(file)) for file in (noisy_file, true_file))
        axis = color(noisy)
        row = [_psnr(noisy, truth)]
        estimated = nlridge.estimate_noise(noisy, channel_axis=axis)
        true = true_noise(noisy, truth) if known else None
        for method in methods:
            for noise in (estimated, true)[: 1 + known]:
                clean = noisy
                if np.max(noise.level) > 0:
                    clean = nlridge.denoise(noisy, noise=noise, method=method, channel_axis=axis)
                row.append(_psnr(clean, truth))
        rows.append(row)
        print(
            f"  {noisy_file.name:45s}", *(f"{value:6.2f}" for value in row), estimated, flush=True
        )
    print(f"\n{name}, {len(pairs)} pairs, mean PSNR: noisy; {'; '.join(columns)}")
    print(" ", *(f"{value:.3f}" for value in np.mean(rows, axis=0)), flush=True)


def _psnr(estimate, truth):
    """As for files: the estimate is rounded."""
    return psnr(np.rint(estimate), truth.astype(float))


def true_noise(noisy, truth):
    """The noise, measured with the true image: its level at each brightness and in each channel, and its correlation."""
    channels = np.moveaxis(np.atleast_3d(noisy), -1, 0).astype(float)
    true = np.moveaxis(np.atleast_3d(truth), -1, 0).astype(float)
    value, error = true.ravel(), (channels - true).ravel()
    order = np.argsort(value, kind="stable")
    steps = [step for step in np.array_split(order, _STEPS) if len(step)]
    values = np.array([value[step].mean() for step in steps])
    sigmas = np.array([max(error[step].std(), 0.1) for step in steps])
    distinct = np.append(True, np.diff(values) > 0.5)
    curve = nlridge.CurveNoise(values[distinct], sigmas[distinct])
    stable = curve.stabilise(channels) - curve.stabilise(true)
    levels = stable.std(axis=(1, 2))
    curve = nlridge.CurveNoise(curve.values, curve.sigmas, levels)
    return nlridge.CorrelatedNoise(curve, _correlation(stable))


def _correlation(noise):
    """The correlation of the channels, (channels, channels, height, width), smoothly ending."""
    channels, height, width = noise.shape
    noise = noise - noise.mean(axis=(1, 2), keepdims=True)
    spectra = np.fft.fft2(noise, (2 * height, 2 * width))
    steps = np.arange(-_REACH, _REACH + 1)
    between = np.empty((channels, channels, len(steps), len(steps)))
    for i in range(channels):
        for j in range(channels):
            product = np.fft.ifft2(np.conj(spectra[i]) * spectra[j]).real
            between[i, j] = product[np.ix_(steps, steps)]
    levels = np.sqrt(between[:, :, _REACH, _REACH].diagonal())
    between /= np.outer(levels, levels)[:, :, None, None]
    taper = np.cos(np.pi / 2 * steps / (_REACH + 1)) ** 2
    return between * np.outer(taper, taper)


def _kinds(options):
    """How often white noise is taken for correlated noise, and the reverse; and clean images for noisy ones."""
    for name, images in image_sets(options.data, options.sets or ["bsd68"], options.part).items():
        print(
            f"\nkinds of noise that are estimated, {name}, {len(images)} images: white, correlated"
        )
        for kind in ("white", "blur"):
            for sigma in options.noise_sigma:
                correlated = 0
                for seed, _, image in shown(images, f"{kind}, sigma {sigma:g}"):
                    if kind == "white":
                        noisy = with_noise(image, sigma, seed)
                    else:
                        noisy, _ = noisy_image(image.astype(float), kind, sigma, seed)
                    correlated += isinstance(nlridge.estimate_noise(noisy), nlridge.CorrelatedNoise)
                print(f"  {kind} {sigma:<4g} {len(images) - correlated} {correlated}", flush=True)
        untouched = []
        for _, _, image in shown(images, "clean"):
            clean = nlridge.denoise(image)
            error = np.mean((clean - image) ** 2)
            untouched.append(10 * np.log10(255**2 / max(error, 1e-10)))
        print(
            f"  clean images: PSNR of the result to the image at least {min(untouched):.2f} dB, "
            f"below 48 dB: {sum(value < 48 for value in untouched)}",
            flush=True,
        )


def _seconds(options):
    """Print the time for a color image of 512 x 512: white noise, correlated noise, and estimated correlated noise."""
    from skimage import data

    image = data.astronaut().astype(float)
    kernel = np.outer(*2 * [np.exp(-np.square(np.arange(-4, 5) / 0.8) / 2)])
    kernel /= np.linalg.norm(kernel)
    white = np.random.default_rng(0).normal(0, 10, image.shape)
    spectrum = np.fft.fft2(white, axes=(0, 1)) * np.fft.fft2(kernel, image.shape[:2])[:, :, None]
    noisy = np.rint(np.clip(image + np.fft.ifft2(spectrum, axes=(0, 1)).real, 0, 255))
    noisy = noisy.astype(np.uint8)
    model = nlridge.CorrelatedNoise.from_kernel(10, kernel)
    calls = {
        "white, known": {"sigma": 10},
        "correlated, known": {"noise": model},
        "correlated, estimated": {},
    }
    seconds = {name: [] for name in calls}
    for turn in range(6):
        for name, arguments in calls.items():
            start = time.perf_counter()
            nlridge.denoise(noisy, channel_axis=-1, **arguments)
            if turn:  # the first one compiles
                seconds[name].append(time.perf_counter() - start)
    print("\nseconds for a color image of 512 x 512, standard, in turn in one run (fastest, ratio)")
    for name, values in seconds.items():
        ratio = min(values) / min(seconds["white, known"])
        print(f"  {name:24s} {min(values):.3f} {ratio:.2f}", flush=True)


PARTS = {
    "polyu": _polyu,
    "brightness": _brightness,
    "fmd": _fmd,
    "telephones": partial(_pairs, name="telephones"),
    "rawnind": partial(_pairs, name="rawnind"),
    "kinds": _kinds,
    "seconds": _seconds,
}
