"""Mosaics of a camera with noise, and raw files of them, for the tests."""

import numpy as np

from nlridge.files.directories import ASCII, EXIF, GPS, SHORT, new_tag, pointer
from nlridge.files.dng import (
    NOISE_PROFILE,
    RawFile,
    camera_tags,
    dng_bytes,
    noise_profile,
    raw_tags,
)

BLACK, WHITE = 512, 16383
BALANCE = (2.0, 1.0, 1.6)
XYZ_TO_SRGB = np.array(
    [[3.2404542, -1.5371385, -0.4985314], [-0.9692660, 1.8760108, 0.0415560], [0.0556434, -0.2040259, 1.0572252]]
)  # fmt: skip


def scene(height=192, width=256):
    """A colorful scene in linear light, as a camera sees it."""
    y, x = np.mgrid[:height, :width] / 32
    brightness = 0.25 + 0.2 * np.sin(2 * x + y) * np.cos(3 * y) + 0.2 * ((x // 2 + y // 2) % 2)
    colors = [1 + 0.3 * np.sin(x + k) for k in range(3)]
    return np.stack([brightness * color for color in colors], axis=-1) / (2 * np.array(BALANCE))


def mosaic_of(image, pattern="RGGB"):
    mosaic = np.empty(image.shape[:2])
    for k, color in enumerate(pattern):
        mosaic[k // 2 :: 2, k % 2 :: 2] = image[k // 2 :: 2, k % 2 :: 2, "RGB".index(color)]
    return mosaic


def with_noise(mosaic, photons=400, read_noise=3, seed=0):
    """Values of a camera that counts so many photons at white."""
    random = np.random.default_rng(seed)
    gain = (WHITE - BLACK) / photons
    counts = random.poisson(mosaic * photons) + random.normal(0, read_noise, mosaic.shape)
    return np.clip(np.rint(BLACK + gain * counts), 0, WHITE).astype(np.uint16)


def error(mosaic, truth):
    return np.sqrt(np.mean((mosaic - (BLACK + (WHITE - BLACK) * truth)) ** 2))


def raw_file(values, pattern="RGGB", order="<", profile=None, area=None):
    height, width = values.shape
    area = area or (0, 0, height, width)
    tags = [
        new_tag(order, 271, ASCII, b"A maker"),
        new_tag(order, 272, ASCII, b"A model"),
        new_tag(order, 274, SHORT, 6),
        new_tag(order, 306, ASCII, b"2024:05:06 07:08:09"),
        pointer(
            EXIF, [new_tag(order, 34855, SHORT, 1600), new_tag(order, 42036, ASCII, b"A lens")]
        ),
        pointer(GPS, [new_tag(order, 1, ASCII, b"N")]),
        *camera_tags(order, XYZ_TO_SRGB, BALANCE, b"A maker A model"),
    ]
    size = area[3] - area[1], area[2] - area[0]
    of_raw = raw_tags(order, pattern, [BLACK] * 4, WHITE, area, (0, 0, *size))
    if profile is not None:
        empty = new_tag(order, NOISE_PROFILE, 12, 0.0, 0.0)
        of_raw.append(noise_profile(order, empty, *profile, WHITE - BLACK))
    return RawFile(values, area, order, tags, of_raw)


def write_raw(path, values, **options):
    path.write_bytes(dng_bytes(raw_file(values, **options), np.zeros((8, 8, 3), np.uint8)))
    return path
