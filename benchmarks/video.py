"""Videos and volumes: quality, time and memory."""

import numpy as np

import nlridge

from .clips import hard_clips, noise_of
from .images import psnr
from .progress import shown

_METHODS = ("fast", "standard", "best")


def add_arguments(parser):
    parser.add_argument(
        "--video",
        nargs="+",
        choices=PARTS,
        default=list(PARTS),
        help="what to measure with videos (default: all)",
    )
    parser.add_argument(
        "--video-sigma",
        type=float,
        nargs="+",
        default=[20, 40],
        help="noise levels for videos (default: %(default)s)",
    )


def run(options):
    for name in options.video:
        PARTS[name](options)


def _nasty(options):
    """Print by how much hard clips are better than frame by frame, for each method."""
    for sigma in options.video_sigma:
        print(
            f"\nhard clips, sigma {sigma:g}: PSNR, and how much better that is than frame by frame with the same "
            "method: whole clip, least frame\n"
        )
        print("| clip |", " | ".join(_METHODS), "|")
        print("|---" * (1 + len(_METHODS)) + "|")
        least = {}
        for name, clip in shown(hard_clips().items(), f"sigma {sigma:g}"):
            noisy = (clip + noise_of(name, clip, sigma)).astype(np.float32)
            cells = []
            for method in _METHODS:
                together, alone = (
                    nlridge.denoise(noisy, sigma, method=method, data_range=255, **axis)
                    for axis in ({"time_axis": 0}, {"stack_axis": 0})
                )
                margin = psnr(together, clip) - psnr(alone, clip)
                frames = min(map(_margin, together, alone, clip))
                least[method] = min(least.get(method, (np.inf, "")), (margin, name))
                cells.append(f"{psnr(together, clip):.2f}: {margin:+.2f}, {frames:+.2f}")
            print(f"| {name} |", " | ".join(cells), "|", flush=True)
        for method, (margin, name) in least.items():
            print(f"{method}: least margin {margin:+.2f} dB ({name})", flush=True)


def _margin(together, alone, truth):
    return psnr(together, truth) - psnr(alone, truth)


PARTS = {"nasty": _nasty}
