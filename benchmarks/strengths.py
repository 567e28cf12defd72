"""The strengths of filters that do not go by sigma, for the tables in benchmarks/peers: those of the highest mean PSNR.

They are chosen on every fourth image of BSD68, none of which is in a comparison.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from .images import image_sets, psnr, with_noise
from .methods import denoiser
from .peers.ffmpeg import FILTERS

FILTERED = (
    *(f"ffmpeg,filter={name}" for name in FILTERS),
    "bm3dcpu,step=4",
    "vapoursynth_bm3d",
)


def add_arguments(parser):
    parser.add_argument(
        "--strength-sigma",
        type=float,
        nargs="+",
        default=[15, 25, 50],
        help="noise levels for which strengths are chosen (default: %(default)s)",
    )


def run(options):
    images = image_sets(options.data, ["bsd68"] if options.data else None, "::4")
    members = [member for some in images.values() for member in some]
    for name in FILTERED:
        for sigma in options.strength_sigma:
            pairs = [(with_noise(image, sigma, seed), image) for seed, _, image in members]

            def loss(logarithm, name=name, sigma=sigma, pairs=pairs):
                call = denoiser(f"{name},strength={np.exp(logarithm):.4g}")
                return -np.mean([psnr(call(noisy, sigma), image) for noisy, image in pairs])

            bounds = np.log([sigma / 4, 4 * sigma])
            best = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.02})
            print(
                f"  {name:28s} sigma {sigma:g}: strength {np.exp(best.x):.4g}, {-best.fun:.2f} dB",
                flush=True,
            )
