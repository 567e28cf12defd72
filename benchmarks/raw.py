"""Raw images: denoised before and after they are developed, copied through DNG, and the time and memory they take."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import nlridge

from .images import image_sets, psnr
from .progress import shown
from .real import true_noise

BLACK, WHITE = 512, 16383
BALANCE = np.array([2.0, 1.0, 1.6])  # the factors of red, green and blue
# Photons at white, and the read noise in photons: a bright scene at a high ISO, and a dark one.
LEVELS = {"moderate": (500, 3.0), "strong": (150, 3.0)}


def add_arguments(parser):
    parser.add_argument(
        "--raw",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="what to measure with raw images (default: all)",
    )
    parser.add_argument(
        "--scenes", type=int, default=8, help="number of synthetic raw scenes (default: 8)"
    )


def run(options):
    for name in options.raw:
        PARTS[name](options)


def mosaic_of(image):
    """The mosaic of an 8-bit picture in sRGB, as a camera sees it in linear light: 1 is white."""
    encoded = image[: len(image) // 2 * 2, : image.shape[1] // 2 * 2] / 255.0
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    camera = linear / BALANCE
    mosaic = camera[..., 1].copy()
    mosaic[::2, ::2], mosaic[1::2, 1::2] = camera[::2, ::2, 0], camera[1::2, 1::2, 2]
    return mosaic


def photographed(mosaic, photons, read_noise, seed):
    """The values of a camera."""
    random = np.random.default_rng(seed)
    counts = random.poisson(mosaic * photons) + random.normal(0, read_noise, mosaic.shape)
    values = BLACK + (WHITE - BLACK) / photons * counts
    return np.rint(np.clip(values, 0, WHITE)).astype(np.uint16)


def developed(values):
    """Demosaicked by bilinear interpolation, with the white balance and the tone curve of sRGB."""
    light = np.clip((np.asarray(values, np.float64) - BLACK) / (WHITE - BLACK), 0, 1)
    wide = np.pad(light, 1, "reflect")
    y, x = np.mgrid[-1 : len(light) + 1, -1 : light.shape[1] + 1]
    places = {0: (y % 2 == 0) & (x % 2 == 0), 1: (y + x) % 2 == 1, 2: (y % 2 == 1) & (x % 2 == 1)}
    channels = []
    for place in places.values():
        total, weight = (
            sum(
                (2 - abs(dy)) * (2 - abs(dx)) * a[1 + dy : a.shape[0] - 1 + dy, 1 + dx : a.shape[1] - 1 + dx]
                for dy in (-1, 0, 1)
                for dx in (-1, 0, 1)
            )
            for a in (wide * place, place.astype(float))
        )  # fmt: skip
        own = place[1:-1, 1:-1]
        channels.append(np.where(own, light, total / weight))
    linear = np.clip(np.stack(channels, axis=-1) * BALANCE, 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def _scenes(options):
    """PSNR after the same development."""
    sets = image_sets(options.data, options.sets or ["cbsd68"], None)
    images = [image for images in sets.values() for image in images if image[2].ndim == 3]
    if not images:
        from skimage import data

        images = [(k, name, getattr(data, name)()[::2, ::2]) for k, name in enumerate(("astronaut", "coffee", "rocket", "cat"))]  # fmt: skip
    images = images[:: max(1, len(images) // options.scenes)][: options.scenes]
    mosaic = nlridge.Mosaic("RGGB", BLACK, WHITE)
    for method in options.methods or ("standard",):
        for level, (photons, read_noise) in LEVELS.items():
            rows = []
            for seed, name, image in shown(images, f"raw, {level}, {method}"):
                truth = mosaic_of(image)
                noisy = photographed(truth, photons, read_noise, seed)
                expected = developed(BLACK + (WHITE - BLACK) * truth)
                picture = developed(noisy)
                noise = true_noise(picture, expected)
                gain = (WHITE - BLACK) / photons
                model = nlridge.PoissonGaussianNoise(gain, read_noise * gain)
                after = (
                    nlridge.denoise(picture, noise=noise, method=method, channel_axis=-1),
                    nlridge.denoise(picture, method=method, channel_axis=-1),
                )
                before = (
                    nlridge.denoise(noisy, mosaic=mosaic, method=method),
                    nlridge.denoise(noisy, mosaic=mosaic, noise=model, method=method),
                )
                results = [picture, *after, *map(developed, before)]
                rows.append([psnr(result, expected) for result in results])
                print(f"  {name:14s}", *(f"{value:6.2f}" for value in rows[-1]), flush=True)
            print(
                f"\nraw scenes, {level} noise, {method}, {len(rows)} scenes, mean PSNR after developing: noisy; after, "
                "noise known and estimated; before, noise estimated and known"
            )
            print(" ", *(f"{value:.2f}" for value in np.mean(rows, axis=0)), flush=True)


def _copies(options):
    """Whether raw files keep their pixels and their tags."""
    import rawpy

    from nlridge.files import read, write

    folder = Path(options.data or ".") / "raw"
    print("\nraw files copied through DNG: pixels, sizes, levels, white balance, colour matrix")
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            picture = read(path)
        except ValueError as error:
            print(f"  {path.name:36s} refused: {error}")
            continue
        with tempfile.TemporaryDirectory() as place:
            target = Path(place) / "copy.dng"
            write(target, picture)
            with rawpy.imread(str(path)) as a, rawpy.imread(str(target)) as b:
                same = (
                    np.array_equal(a.raw_image, b.raw_image),
                    a.sizes == b.sizes,
                    (a.black_level_per_channel, a.white_level) == (b.black_level_per_channel, b.white_level),
                    np.allclose(a.camera_whitebalance[:3], b.camera_whitebalance[:3]),
                    np.allclose(a.color_matrix, b.color_matrix) or not np.any(a.color_matrix),
                )  # fmt: skip
        print(f"  {path.name:36s}", *same, flush=True)


def _seconds(options):
    """Seconds and memory for 24 megapixels."""
    print("\nseconds and peak megabytes for a raw image of 24 megapixels, noise estimated")
    for method in options.methods or ("fast", "standard"):
        said = subprocess.run(
            [sys.executable, "-c", _PROGRAM, method], check=True, capture_output=True, text=True
        ).stdout
        seconds, megabytes = json.loads(said)
        print(f"  {method:10s} {seconds:6.1f} s {megabytes:6.0f} MB", flush=True)


_PROGRAM = """
import json, resource, sys, time
import numpy as np, nlridge
y, x = np.mgrid[:4000, :6000].astype(np.float32)
light = 0.3 + 0.2 * np.sin(x / 9) * np.cos(y / 7) + 0.2 * ((x // 300 + y // 400) % 2)
random = np.random.default_rng(0)
raw = (512 + 50 * random.poisson(light * 300)).astype(np.uint16)
mosaic = nlridge.Mosaic("RGGB", 512, 16383)
nlridge.denoise(raw[:256, :256], mosaic=mosaic, method=sys.argv[1])  # compiles
start = time.perf_counter()
nlridge.denoise(raw, mosaic=mosaic, method=sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""

PARTS = {"scenes": _scenes, "copies": _copies, "seconds": _seconds}
