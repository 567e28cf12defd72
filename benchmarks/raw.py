"""Raw images: denoised before and after they are developed, copied through DNG, and the time and memory they take."""

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import ndimage

import nlridge
from nlridge.files.dng import RawFile, camera_tags, dng_bytes, raw_tags

from .images import image_sets, psnr
from .progress import shown
from .real import true_noise
from .results import record

BLACK, WHITE = 512, 16383
BALANCE = np.array([2.0, 1.0, 1.6])  # the factors of red, green and blue
XYZ_TO_SRGB = np.array(
    [[3.2404542, -1.5371385, -0.4985314], [-0.9692660, 1.8760108, 0.0415560], [0.0556434, -0.2040259, 1.0572252]]
)  # fmt: skip
COLUMNS = (
    "noisy; denoised after developing: noise estimated, level known but taken for white, level at each brightness and "
    "correlation known; denoised before: noise estimated, known"
)
RECORDED = (
    "noisy", "after, estimated", "after, white", "after, known", "before, estimated", "before, known"
)  # fmt: skip
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
    parser.add_argument(
        "--megapixels",
        type=float,
        default=24,
        help="size of the raw file that is timed (default: 24)",
    )
    parser.add_argument(
        "--developer",
        choices=DEVELOPERS,
        default="libraw",
        help="how synthetic raw scenes are developed (default: libraw)",
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


def _file_of(pixels):
    height, width = pixels.shape
    area = (0, 0, height, width)
    tags = camera_tags("<", XYZ_TO_SRGB, BALANCE, b"A camera")
    of_raw = raw_tags("<", "RGGB", [BLACK] * 4, WHITE, area, (0, 0, width, height))
    return RawFile(pixels, area, "<", tags, of_raw)


def developed(values):
    """Developed by LibRaw, with its default demosaicking (AHD) and the tone curve of sRGB."""
    import rawpy

    pixels = np.rint(np.clip(values, 0, WHITE)).astype(np.uint16)
    data = dng_bytes(_file_of(pixels), compressed=False)
    with rawpy.imread(io.BytesIO(data)) as raw:
        options = {"use_camera_wb": True, "no_auto_bright": True, "gamma": (2.4, 12.92)}
        return raw.postprocess(output_bps=16, **options) / 257.0


def interpolated(values):
    """Developed by bilinear interpolation, with the white balance and the tone curve of sRGB."""
    light = np.clip((np.asarray(values, np.float64) - BLACK) / (WHITE - BLACK), 0, 1)
    channels = []
    for places in ([(0, 0)], [(0, 1), (1, 0)], [(1, 1)]):
        own = np.zeros(light.shape)
        for y, x in places:
            own[y::2, x::2] = light[y::2, x::2]
        kernel = [[1, 2, 1], [2, 4, 2], [1, 2, 1]] if len(places) == 1 else [[0, 1, 0], [1, 4, 1], [0, 1, 0]]  # fmt: skip
        channels.append(ndimage.convolve(own, np.array(kernel) / 4, mode="mirror"))
    linear = np.clip(np.stack(channels, axis=-1) * BALANCE, 0, 1)
    return 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


DEVELOPERS = {"libraw": developed, "bilinear": interpolated}


def _scenes(options):
    """PSNR after the same development, whose result for the mosaic without noise is the truth."""
    sets = image_sets(options.data, options.sets or ["cbsd68"], None)
    images = [image for images in sets.values() for image in images if image[2].ndim == 3]
    if not images:
        from skimage import data

        images = [(k, name, getattr(data, name)()[::2, ::2]) for k, name in enumerate(("astronaut", "coffee", "rocket", "cat"))]  # fmt: skip
    images = images[:: max(1, len(images) // options.scenes)][: options.scenes]
    mosaic = nlridge.Mosaic("RGGB", BLACK, WHITE)
    develop = DEVELOPERS[options.developer]
    for method in options.methods or ("standard",):
        for level, (photons, read_noise) in LEVELS.items():
            gain = (WHITE - BLACK) / photons
            model = nlridge.PoissonGaussianNoise(gain, read_noise * gain)
            print(
                f"\nraw scenes, {level} noise, {method}, developed by {options.developer}, PSNR: {COLUMNS}"
            )
            rows = []
            for seed, name, image in shown(images, f"raw, {level}, {method}"):
                truth = mosaic_of(image)
                noisy = photographed(truth, photons, read_noise, seed)
                expected = develop(BLACK + (WHITE - BLACK) * truth)
                picture = develop(noisy)
                white = nlridge.GaussianNoise(float(np.std(picture - expected)))
                after = [
                    nlridge.denoise(picture, noise=noise, method=method, channel_axis=-1)
                    for noise in (None, white, true_noise(picture, expected))
                ]
                before = [
                    develop(nlridge.denoise_mosaic(noisy, mosaic, noise=noise, method=method))
                    for noise in (None, model)
                ]
                rows.append([psnr(result, expected) for result in (picture, *after, *before)])
                print(f"  {name:14s}", *(f"{value:6.2f}" for value in rows[-1]), flush=True)
            print(
                f"  mean of {len(rows):3d}   ",
                *(f"{v:6.2f}" for v in np.mean(rows, axis=0)),
                flush=True,
            )
            if method == "standard" and options.developer == "libraw":
                values = (round(float(v), 3) for v in np.mean(rows, axis=0))
                record(
                    options,
                    "raw",
                    {f"{photons} photons at white": dict(zip(RECORDED, values, strict=True))},
                )


# What exiftool says of how pixels are stored and of the file itself, and what is not true of a copy: the maker notes are
# dropped, and the copy has a preview and a newer version of the format.
STORED = {
    "SourceFile", "ExifToolVersion", "BitsPerSample", "Compression", "DNGVersion", "DNGBackwardVersion", "ImageWidth",
    "ImageHeight", "ImageSize", "Megapixels", "PhotometricInterpretation", "PlanarConfiguration", "RowsPerStrip",
    "SamplesPerPixel", "StripByteCounts", "StripOffsets", "SubfileType", "TileWidth", "TileLength", "TileOffsets",
    "TileByteCounts", "ThumbnailTIFF", "YCbCrSubSampling", "XResolution", "YResolution", "ResolutionUnit",
    "TIFF-EPStandardID", "CompressedBitsPerPixel", "FileType", "FileTypeExtension", "MIMEType",
}  # fmt: skip


def _tags(path):
    """The tags of a file by exiftool, as text."""
    said = subprocess.run(
        ["exiftool", "-j", "-G0", str(path)], check=True, capture_output=True, text=True
    ).stdout
    tags = (name.split(":") for name in json.loads(said)[0])
    values = json.loads(said)[0]
    return {name[-1]: values[":".join(name)] for name in tags if name[0] not in ("File", "MakerNotes") and name[-1] not in STORED}  # fmt: skip


def _copies(options):
    """Whether raw files keep their pixels and their tags if nothing is removed."""
    import rawpy

    folder = Path(options.data or ".") / "raw"
    print(
        "\nraw files copied by nlridge denoise --strength 0: whether pixels, sizes, levels, white balance and color "
        "matrix are the same (rawpy), and which tags are not (exiftool)"
    )
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with tempfile.TemporaryDirectory() as place:
            target = Path(place) / "copy.dng"
            command = [
                sys.executable,
                "-m",
                "nlridge",
                "denoise",
                path,
                "--strength",
                "0",
                "-o",
                target,
            ]
            run = subprocess.run(
                [*map(str, command), "--quiet"], check=False, capture_output=True, text=True
            )
            if run.returncode:
                print(f"  {path.name:36s} {run.stderr.strip().partition(': ')[2]}")
                continue
            with rawpy.imread(str(path)) as a, rawpy.imread(str(target)) as b:
                same = (
                    np.array_equal(a.raw_image, b.raw_image),
                    a.sizes == b.sizes,
                    (a.black_level_per_channel, a.white_level) == (b.black_level_per_channel, b.white_level),
                    np.allclose(a.camera_whitebalance[:3], b.camera_whitebalance[:3]),
                    np.allclose(a.color_matrix, b.color_matrix) or not np.any(a.color_matrix),
                )  # fmt: skip
            words = "exiftool is not installed"
            if shutil.which("exiftool"):
                before, after = _tags(path), _tags(target)
                different = [name for name in before if before[name] != after.get(name)]
                words = f"{len(before)} tags, not the same: {', '.join(different) or 'none'}"
        print(f"  {path.name:36s}", *same, words, flush=True)


def _seconds(options):
    """Seconds and memory of nlridge denoise for a raw file, from reading it to the DNG file with its preview."""
    print(
        f"\nnlridge denoise for a raw file of {options.megapixels:g} megapixels, noise estimated: seconds, processor "
        "seconds, peak megabytes"
    )
    height = 2 * round(500 * np.sqrt(options.megapixels / 1.5))
    y, x = np.mgrid[:height, : 3 * height // 2 // 2 * 2].astype(np.float32)
    light = 0.1 + 0.05 * np.sin(x / 9) * np.cos(y / 7) + 0.05 * ((x // 300 + y // 400) % 2)
    values = photographed(light, *LEVELS["moderate"], seed=0)
    with tempfile.TemporaryDirectory() as place:
        whole, small = (Path(place) / f"{name}.dng" for name in ("whole", "small"))
        whole.write_bytes(dng_bytes(_file_of(values)))
        small.write_bytes(dng_bytes(_file_of(values[:256, :256])))
        for method in options.methods or ("fast", "standard"):
            for path in (small, whole):  # the small one compiles
                command = [sys.executable, "-m", "nlridge", "denoise", path, "--method", method]
                start = time.perf_counter()
                process = subprocess.Popen([*map(str, command), "--overwrite", "--quiet"])
                _, status, usage = os.wait4(process.pid, 0)
                seconds = time.perf_counter() - start
                if status:
                    raise RuntimeError(f"nlridge denoise {path} failed")
            used = usage.ru_utime + usage.ru_stime
            print(
                f"  {method:10s} {seconds:6.1f} s {used:6.1f} s {usage.ru_maxrss / 1024:6.0f} MB",
                flush=True,
            )


PARTS = {"scenes": _scenes, "copies": _copies, "seconds": _seconds}
