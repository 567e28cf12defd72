"""Create the pictures of the gallery: `python docs/gallery.py`.

Noise is added to images of scikit-image, so the ground truth is known; nlridge estimates the noise.
"""

import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data

import nlridge
from nlridge.apps.cli.demo import _side_by_side

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.images import color, psnr, with_noise  # noqa: E402


def photons(image, peak, seed):
    """Photon noise, with `peak` photons for white."""
    gain = 255 / peak
    return (gain * np.random.default_rng(seed).poisson(image / gain)).astype(np.float32)


def photographed(image, photons, seed):
    """An image of half the size, and the same as a camera would take it, with so many photons for white.

    Photons and read noise, a Bayer mosaic, bilinear interpolation, a tone curve, and JPEG.
    """
    rng = np.random.default_rng(seed)
    height, width = (length // 4 * 4 for length in image.shape[:2])
    blocks = image[:height, :width].reshape(height // 2, 2, width // 2, 2, 3)
    truth = blocks.mean(axis=(1, 3))
    light = (truth / 255) ** 2.2
    raw = (rng.poisson(photons * light) + rng.normal(0, 3, light.shape)) / photons
    mosaic = np.zeros(light.shape)
    for y, x, c in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
        mosaic[y::2, x::2, c] = 1
    developed = _interpolated(raw * mosaic) / _interpolated(mosaic)
    tones = 255 * np.clip(developed, 0, 1) ** (1 / 2.2)
    file = io.BytesIO()
    Image.fromarray(np.rint(tones).astype(np.uint8)).save(file, "JPEG", quality=95)
    return np.rint(truth).astype(np.uint8), np.asarray(Image.open(file))


def _interpolated(image):
    """The sum over 3 x 3 pixels with bilinear weights."""
    for axis in (0, 1):
        image = 2 * image + np.roll(image, 1, axis) + np.roll(image, -1, axis)
    return image


def pictures():
    """The images by name, as (truth, noisy)."""
    astronaut = data.astronaut()[20:300, 100:380]
    cell = data.cell()[220:500, 260:540]
    tissue = data.immunohistochemistry()[100:380, 60:340]
    sky = data.hubble_deep_field()[330:610, 390:670]
    retina = data.retina()[520:800, 200:480]
    coins = data.coins()[10:290, 30:310]
    return {
        "photograph": (astronaut, with_noise(astronaut, 30, 0)),
        "cell": (cell, photons(cell, 40, 1)),
        "tissue": (tissue, with_noise(tissue, 25, 2)),
        "sky": (sky, photons(sky, 40, 3)),
        "retina": (retina, with_noise(retina, 20, 4)),
        "coins": (coins, with_noise(coins, 20, 5)),
        "camera-portrait": photographed(data.astronaut()[:512, 60:512], 150, 6),
        "camera-cat": photographed(data.chelsea(), 60, 7),
        "camera-coffee": photographed(data.coffee()[:400, 100:], 80, 8),
        "camera-rocket": photographed(data.rocket()[:427, 100:540], 200, 9),
    }


def moving_scene(frames=20, height=192, width=256):
    """A clip that loops: the camera moves over a table, and a coin rolls across it."""
    table = data.coffee().astype(np.float64)
    coin = data.coins()[14:74, 305:365].astype(np.float64)
    y, x = np.mgrid[:60, :60] - 29.5
    disc = np.clip(28 - np.hypot(y, x), 0, 1)[..., None]
    clip = []
    for k in range(frames):
        turn = 2 * np.pi * k / frames
        top, left = round(100 + 24 * np.sin(turn)), round(170 + 40 * np.cos(turn))
        image = table[top : top + height, left : left + width].copy()
        row, column = round(66 - 50 * np.sin(turn)), round(98 + 80 * np.cos(2 * turn))
        part = image[row : row + 60, column : column + 60]
        rolled = np.asarray(
            Image.fromarray(coin).rotate(-720 * k / frames, Image.Resampling.BICUBIC)
        )
        part += disc * (rolled[..., None] * (1.0, 0.9, 0.7) - part)
        clip.append(image)
    return np.clip(np.rint(clip), 0, 255).astype(np.uint8)


def draw_clip():
    """Noisy and denoised frames side by side, as an animation."""
    truth = moving_scene()
    noisy = truth + np.random.default_rng(10).normal(0, 30, truth.shape).astype(np.float32)
    loop = np.concatenate([noisy[-6:], noisy, noisy[:6]])  # as if it had run before
    clean = nlridge.denoise(loop, time_axis=0, channel_axis=-1)[6:-6]
    labels = [f"noisy, {psnr(noisy, truth):.1f} dB", f"denoised, {psnr(clean, truth):.1f} dB"]
    first, *others = (
        _side_by_side(list(pair), labels, 0, 255) for pair in zip(noisy, clean, strict=True)
    )
    path = HERE / "gallery" / "clip.webp"
    first.save(path, save_all=True, append_images=others, duration=80, loop=0, quality=50, method=6)
    print(f"{path.name}: {labels[0]}; {labels[1]}; {path.stat().st_size // 1000} kB")


draw_clip()
for name, (truth, noisy) in pictures().items():
    details = nlridge.denoise_with_details(noisy, channel_axis=color(truth))
    labels = [
        f"noisy, {psnr(noisy, truth):.1f} dB",
        f"denoised, {psnr(details.image, truth):.1f} dB",
        "truth",
    ]
    canvas = _side_by_side([noisy, details.image, truth], labels, 0, 255)
    path = HERE / "gallery" / f"{name}.jpg"
    path.parent.mkdir(exist_ok=True)
    canvas.save(path, quality=88)
    print(
        f"{path.name}: {labels[0]}; {labels[1]}; {details.noise}; {path.stat().st_size // 1000} kB"
    )
