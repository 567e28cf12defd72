"""The paper's figure: Barbara at sigma 20, denoised by each method, with measured and published PSNR.

Without test sets, it is scikit-image's cameraman, for which nothing is published.
"""

import numpy as np

from .images import image_sets, with_noise
from .measuring import measured
from .methods import denoiser
from .published import BARBARA
from .results import record

SIGMA = 20
METHODS = ("noisy", "bm3d", "nl-bayes", "nl-ridge", "standard", "best")


def add_arguments(parser):
    del parser  # no arguments


def run(options):
    sets = image_sets(options.data, ["set12"] if options.data else None, "8:9" if options.data else ":1")  # fmt: skip
    rows = list(measured(options, METHODS, [SIGMA], sets))
    (((seed, name, image),),) = sets.values()
    published = BARBARA if options.data else {}
    print(f"\n{name}, sigma {SIGMA}: PSNR (dB), measured and published")
    captions = []
    for method in METHODS:
        values = [row.psnr for row in rows if row.method == method]
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
        known = published.get(method)
        record(options, "barbara", {method: {"PSNR": round(float(np.mean(values)), 3)}})
        print(
            f"  {method:10s} {np.mean(values):.2f}"
            + ("" if error is None else f" ± {error:.3f}")
            + ("" if known is None else f"   {known:.2f}")
        )
        paper = "" if known is None else f" (paper: {known:.2f})"
        captions.append(f"{method}: {np.mean(values):.2f} dB{paper}")
    noisy = with_noise(image, SIGMA, seed)
    path = options.results / "barbara.png"
    _draw([denoiser(method)(noisy, SIGMA) for method in METHODS], captions, path)
    print(f"  {path}")


def _draw(pictures, captions, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(12, 8.4), dpi=100)
    for axis, picture, caption in zip(axes.flat, pictures, captions, strict=True):
        height, width = picture.shape
        axis.imshow(
            picture[: height * 3 // 4, width // 4 :], cmap="gray", vmin=0, vmax=255, interpolation="nearest"
        )  # fmt: skip
        axis.set_title(caption)
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
