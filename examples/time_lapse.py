"""A microscope's time-lapse: cells drift and change shape, few photons, and a lamp that flickers.

    python examples/time_lapse.py [picture.png]    denoise it, and compare with denoising each frame on its own

`time_axis` tells `denoise` that the images follow each other in time.  The noise is estimated once for all of them.
"""

import sys

import numpy as np

import nlridge


def time_lapse(frames=12, side=160, photons=40, seed=0):
    """Draw cells that drift, and the counts of photons that a camera takes of them.

    Returns the truth and the counts, as arrays of (frames, side, side).  The brightest pixels have about `photons`
    photons; the lamp is up to 10 % brighter or darker from frame to frame.
    """
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side]
    places = random.uniform(0, side, (14, 2))
    drifts = random.normal(0, 1.5, (14, 2))  # pixels per frame
    granules = random.normal(0, 6, (14, 10, 2))
    truth = np.zeros((frames, side, side))
    for k, image in enumerate(truth):
        for place, drift, offsets in zip(places, drifts, granules, strict=True):
            dy, dx = y - place[0] - k * drift[0], x - place[1] - k * drift[1]
            edge = 13 + 2 * np.sin(3 * np.arctan2(dy, dx) + 0.3 * k)  # the cell changes its shape
            image += 0.3 / (1 + np.exp(np.hypot(dy, dx) - edge))
            for offset in offsets:
                image += 0.5 * np.exp(-((dy - offset[0]) ** 2 + (dx - offset[1]) ** 2) / 3)
    lamp = 1 + 0.1 * random.uniform(-1, 1, (frames, 1, 1))
    truth = photons * lamp * (0.05 + np.minimum(truth, 1))
    return truth, random.poisson(truth).astype(np.uint16)


def psnr(image, truth):
    return 10 * np.log10(truth.max() ** 2 / np.mean((image - truth) ** 2))


def main(picture="time_lapse.png"):
    from PIL import Image

    truth, counts = time_lapse()
    results = {
        "counts": counts,
        "each frame on its own": nlridge.denoise(counts, noise="poisson", stack_axis=0),
        "frames together": nlridge.denoise(counts, noise="poisson", time_axis=0),
        "truth": truth,
    }
    for name, result in results.items():
        if result is not truth:
            print(f"{name:22s} {psnr(result, truth):.2f} dB")
    middle = [result[len(counts) // 2] for result in results.values()]
    side_by_side = np.clip(np.hstack(middle) * (255 / truth.max()), 0, 255)
    Image.fromarray(np.rint(side_by_side).astype(np.uint8)).save(picture)


if __name__ == "__main__":
    main(*sys.argv[1:])
