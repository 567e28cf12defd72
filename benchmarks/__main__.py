"""Run all measurements, or those selected with --only."""

import argparse

from . import (
    barbara,
    bias,
    cameras,
    color,
    contrast,
    correlated,
    first,
    flux,
    formats,
    frontier,
    guard,
    kernels,
    large,
    measuring,
    migrating,
    noise,
    peers,
    poisson,
    quality,
    raw,
    real,
    resources,
    results,
    smooth,
    speed,
    statements,
    studio,
    sure,
    tensors,
    video,
    workers,
)

MEASUREMENTS = {
    "noise": noise,
    "poisson": poisson,
    "quality": quality,
    "barbara": barbara,
    "speed": speed,
    "workers": workers,
    "kernels": kernels,
    "guard": guard,
    "frontier": frontier,
    "color": color,
    "correlated": correlated,
    "raw": raw,
    "real": real,
    "cameras": cameras,
    "flux": flux,
    "contrast": contrast,
    "smooth": smooth,
    "bias": bias,
    "first": first,
    "resources": resources,
    "sure": sure,
    "statements": statements,
    "studio": studio,
    "tensors": tensors,
    "video": video,
    "large": large,
    "migrating": migrating,
    "formats": formats,
}

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument(
    "--data",
    help="folder with one folder of PNG images per test set (default: scikit-image's images)",
)
parser.add_argument(
    "--only",
    choices=MEASUREMENTS,
    nargs="+",
    # "large" takes a long time, and 15 GB of disk; so does the long video of "video". "studio" needs Chromium.
    default=[name for name in MEASUREMENTS if name not in ("guard", "large", "studio", "video")],
    help="measurements to run (default: all but guard, large, studio and video)",
)
measuring.add_arguments(parser)
results.add_arguments(parser)
for measurement in MEASUREMENTS.values():
    measurement.add_arguments(parser)
options = parser.parse_args()
peers.use(options)
for name in options.only:
    MEASUREMENTS[name].run(options)
