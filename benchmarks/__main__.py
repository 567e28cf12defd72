"""Run the measurements: all of them, or those that are named."""

import argparse

from . import (
    barbara,
    colour,
    frontier,
    large,
    measuring,
    noise,
    quality,
    resources,
    speed,
    statements,
    sure,
    tensors,
)

MEASUREMENTS = {
    "noise": noise,
    "quality": quality,
    "barbara": barbara,
    "speed": speed,
    "frontier": frontier,
    "colour": colour,
    "resources": resources,
    "sure": sure,
    "statements": statements,
    "tensors": tensors,
    "large": large,
}

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument(
    "--data", help="a folder of sets of PNG images (default: scikit-image's images)"
)
parser.add_argument(
    "--only",
    choices=MEASUREMENTS,
    nargs="+",
    default=[name for name in MEASUREMENTS if name != "large"],  # it takes long, and 15 GB of disk
)
measuring.add_arguments(parser)
for measurement in MEASUREMENTS.values():
    measurement.add_arguments(parser)
options = parser.parse_args()
for name in options.only:
    MEASUREMENTS[name].run(options)
