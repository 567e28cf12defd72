"""Run all measurements, or those selected with --only."""

import argparse

from . import (
    barbara,
    colour,
    correlated,
    first,
    flux,
    formats,
    frontier,
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
    "frontier": frontier,
    "colour": colour,
    "correlated": correlated,
    "raw": raw,
    "real": real,
    "flux": flux,
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
    default=[name for name in MEASUREMENTS if name not in ("large", "studio", "video")],
    help="measurements to run (default: all but large, studio and video)",
)
measuring.add_arguments(parser)
for measurement in MEASUREMENTS.values():
    measurement.add_arguments(parser)
options = parser.parse_args()
peers.use(options)
for name in options.only:
    MEASUREMENTS[name].run(options)
