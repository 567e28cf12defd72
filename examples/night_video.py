"""A night video, denoised while it is recorded: frames go in, and denoised frames come out.

    python examples/night_video.py [picture.png]    denoise a simulated recording, frame after frame

`denoise_frames` takes any iterable of frames: a camera, a decoder, a generator.  However long the video is, only a few
dozen frames are in memory.
"""

import sys
import time
from collections import deque

import numpy as np

import nlridge


def street(number, height=180, width=240):
    """Draw frame `number` of a street at night, in color, as floats from 0 to 255: a pan, and lights of a car."""
    y, x = np.mgrid[:height, :width]
    x = x + 1.5 * number  # the camera pans
    houses = 18 + 10 * np.floor(x / 37 % 3)
    windows = 90.0 * (
        (x % 37 % 12 > 7) & (y % 24 > 13) & (y < 0.6 * height) & (x // 12 * 7 % 5 > 1)
    )
    lamp = 120 * np.exp(-np.hypot(x % 150 - 75, 1.5 * (y - 0.3 * height)) / 18)
    headlight = 200 * np.exp(-np.hypot(x - 30 - 7.5 * number, y - 0.8 * height) / 6)
    scene = np.where(y < 0.7 * height, houses, 12) + windows + lamp + headlight
    return np.minimum(scene[..., None] * (1.0, 0.85, 0.6), 255.0)


def recording(frames, sigma=12.0, seed=0):
    """Yield the frames that a noisy camera records, as integers."""
    random = np.random.default_rng(seed)
    for number in range(frames):
        truth = street(number)
        yield np.clip(truth + random.normal(0, sigma, truth.shape), 0, 255).astype(np.uint8)


def psnr(image, truth):
    return 10 * np.log10(255**2 / np.mean((image.clip(0, 255) - truth) ** 2))


def denoised(frames, method="standard"):
    """Yield each frame before and after; a frame waits until its result is there."""
    waiting = deque()

    def read():
        for frame in frames:
            waiting.append(frame)
            yield frame

    for clean in nlridge.denoise_frames(read(), method=method, channel_axis=-1):
        before = waiting.popleft()
        yield before, nlridge.to_dtype(clean, before.dtype)


def main(picture="night_video.png"):
    from PIL import Image

    start = time.perf_counter()
    for number, (before, after) in enumerate(denoised(recording(60))):
        if number % 10 == 0:
            truth, seconds = street(number), time.perf_counter() - start
            print(
                f"frame {number:2d} after {seconds:5.1f} s: {psnr(before, truth):.2f} dB -> "
                f"{psnr(after, truth):.2f} dB"
            )
        if number == 30:
            Image.fromarray(np.hstack([before, after])).save(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
