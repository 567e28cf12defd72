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
    strengths,
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
    "strengths": strengths,
    "studio": studio,
    "tensors": tensors,
    "video": video,
    "large": large,
    "migrating": migrating,
    "formats": formats,
}

LEFT_OUT = ("guard", "large", "strengths", "studio", "video")

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument(
    "--data",
    help="folder with one folder of PNG images per test set (default: scikit-image's images)",
)
parser.add_argument(
    "--only",
    choices=MEASUREMENTS,
    nargs="+",
    # "large" takes a long time, and 15 GB of disk; so does the long video of "video". "studio" needs Chromium, and
    # "strengths" the filters of others.
    default=[name for name in MEASUREMENTS if name not in LEFT_OUT],
    help=f"measurements to run (default: all but {', '.join(LEFT_OUT)})",
)
measuring.add_arguments(parser)
results.add_arguments(parser)
for measurement in MEASUREMENTS.values():
    measurement.add_arguments(parser)
options = parser.parse_args()
peers.use(options)
for name in options.only:
    MEASUREMENTS[name].run(options)
