"""The command line."""

import argparse
import sys
from collections.abc import Sequence

from . import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="nlridge", description="Takes the noise out of images.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"nlridge {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="clean a sample photograph, or one of yours, and show it side by side",
        description="Clean a sample photograph, to which noise is added, or a noisy image of yours.",
    )
    demo.add_argument(
        "image", nargs="?", help="your own noisy image (default: a sample photograph)"
    )
    demo.add_argument(
        "--sigma",
        type=float,
        help="standard deviation of the noise, in the image's units (default: 25 for the sample; found "
        "out for your own)",
    )
    demo.add_argument(
        "--method", default="standard", help="fast, standard (default), nl-ridge, nl-bayes or bm3d"
    )
    demo.add_argument(
        "--output", default="demo.png", help="the side-by-side picture (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        from .demo import demonstrate  # heavy imports only for a command that needs them

        print(demonstrate(options.image, options.sigma, options.method, options.output))
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"nlridge: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("nlridge: interrupted", file=sys.stderr)
        return 130
    return 0
