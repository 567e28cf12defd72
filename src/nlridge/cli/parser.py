"""The command line: what can be said, and nothing of what is done (see `commands`), so that help comes at once."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module, metadata
from typing import Any, NoReturn

from .. import __version__
from .printing import complain, escape_what_cannot_be_encoded, printable

_METHODS = ("fast", "standard", "best", "nl-ridge", "nl-bayes", "bm3d")

_EXAMPLES = """examples:
  nlridge denoise photo.jpg                       writes photo_denoised.jpg
  nlridge denoise scan.tif -o clean.tif --sigma 12.5
  nlridge denoise experiment/ -o cleaned/ --recursive --report report.html
  nlridge noise *.tif
  nlridge compare photo.jpg photo_denoised.jpg
"""

_DENOISE_EXAMPLES = """examples:
  nlridge denoise photo.jpg                       writes photo_denoised.jpg
  nlridge denoise a.png b.png -o cleaned/         a folder for the results
  nlridge denoise cells.tif --noise poisson       noise that grows with the signal
  nlridge denoise raw/ -o clean/ --recursive --skip-existing      goes on where it stopped
  nlridge denoise slide.zarr -o clean.zarr        larger than memory; the same again goes on after a stop
  nlridge denoise cube.npy --channel-axis 0       an array that does not say what its axes are
"""


def parser() -> "_Parser":
    """All commands and options."""
    found = _Parser(
        prog="nlridge",
        description="Takes the noise out of images.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    found.add_argument("--version", action=_Version, nargs=0, help="versions of what matters")
    found.commands = commands = found.add_subparsers(
        dest="command", required=True, metavar="COMMAND"
    )
    _denoise(commands)
    _noise(commands)
    _compare(commands)
    _add(commands, "methods", "what can be chosen as --method, and how fast it is on this machine")
    _demo(commands)
    completion = _add(commands, "completion", "print a script that completes commands in a shell")
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    escape_what_cannot_be_encoded()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough, as "head" does
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (
                BrokenPipeError
            ):  # what is left goes nowhere, or Python would complain at the end
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 141  # as a shell reports a program that a closed pipe has ended


def _run(arguments: Sequence[str] | None) -> int:
    words = parser()
    options = words.parse_args(arguments)
    try:
        if options.command == "completion":
            import shtab

            print(shtab.complete(words, shell=options.shell))
            return 0
        # Heavy imports only for a command that needs them.
        code: int = import_module(".commands", __package__).run(options)
        return code
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, OSError, ImportError) as error:
        complain(str(error))
        return 1
    except MemoryError:
        complain("the image does not fit into memory")
        return 1
    except KeyboardInterrupt as error:  # which says how far it got, where that matters
        complain(str(error) or "interrupted")
        return 130


class _Parser(argparse.ArgumentParser):
    """A parser that asks what was meant by a word that it does not know."""

    commands: "argparse._SubParsersAction[_Parser]"

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self.commands.choices[options.command]
            known = command._option_string_actions
            hints = (_meant(word.partition("=")[0], known) for word in unknown)
            hint = next(filter(None, hints), "")
            command.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            hint = _meant(value, action.choices)
            known = ", ".join(action.choices)
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r}{hint} (choose from {known})"
            )

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _meant(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


class _Version(argparse.Action):
    def __call__(self, *_: object) -> None:
        print(f"nlridge {__version__}")
        print(f"Python {sys.version.split()[0]}")
        for name in ("numpy", "numba", "llvmlite", "pillow", "tifffile", "imagecodecs", "astropy"):
            try:
                print(f"{name} {metadata.version(name)}")
            except metadata.PackageNotFoundError:
                print(f"{name} is not installed")
        raise SystemExit(0)


def _add(
    commands: "argparse._SubParsersAction[_Parser]",
    name: str,
    summary: str,
    epilog: str = "",
) -> _Parser:
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _denoise(commands: "argparse._SubParsersAction[_Parser]") -> None:
    found = _add(commands, "denoise", "clean image files", _DENOISE_EXAMPLES)
    found.add_argument(
        "input", nargs="+", metavar="INPUT", help="a file, a folder or a pattern such as '*.tif'"
    )
    found.add_argument(
        "-o",
        "--output",
        help="a file for a single input, or else a folder (default: beside the input, with _denoised in the name)",
    )
    found.add_argument("--recursive", action="store_true", help="folders within folders, too")
    exists = found.add_mutually_exclusive_group()
    exists.add_argument("--overwrite", action="store_true", help="replace files that exist")
    exists.add_argument(
        "--skip-existing", action="store_true", help="leave out what is already done"
    )
    noise = found.add_mutually_exclusive_group()
    noise.add_argument(
        "--sigma",
        type=_numbers,
        help="standard deviation of the noise, in the units of the pixels; several, with commas between "
        "them, for several channels (default: found out)",
    )
    noise.add_argument(
        "--noise",
        choices=("auto", "gaussian", "poisson"),
        default="auto",
        help="find out the noise, and whether it grows with the signal (auto), or take that as settled",
    )
    _method(found)
    found.add_argument(
        "--strength", type=float, default=1.0, help="remove a little less or more (default: 1)"
    )
    found.add_argument("--workers", type=int, help="threads (default: one a core)")
    found.add_argument(
        "--format",
        help="format of the output, such as png or tif (default: that of the input)",
    )
    found.add_argument(
        "--tile",
        type=int,
        metavar="SIDE",
        help="work tile by tile, in little memory, and go on after a stop: Zarr (where it is always so, with "
        "tiles of 2048), NPY and TIFF",
    )
    found.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="of a Dask cluster that does the work, such as tcp://10.0.0.1:8786 (Zarr)",
    )
    _axes(found)
    found.add_argument(
        "--report",
        metavar="FILE.html",
        help="a page to look at: before, after, and what was removed",
    )
    _talk(found)


def _noise(commands: "argparse._SubParsersAction[_Parser]") -> None:
    found = _add(commands, "noise", "say what noise image files have")
    found.add_argument(
        "input", nargs="+", metavar="INPUT", help="a file, a folder or a pattern such as '*.tif'"
    )
    found.add_argument("--recursive", action="store_true", help="folders within folders, too")
    _axes(found)
    found.add_argument("--json", action="store_true", help="one line of JSON a file")


def _compare(commands: "argparse._SubParsersAction[_Parser]") -> None:
    found = _add(commands, "compare", "say how far two image files are apart")
    found.add_argument("first", metavar="A")
    found.add_argument("second", metavar="B")
    found.add_argument(
        "--peak",
        type=float,
        help="range of the values, for PSNR and SSIM (default: that of the type, or of A if it holds floats)",
    )
    _axes(found)
    found.add_argument("--json", action="store_true", help="one line of JSON")


def _demo(commands: "argparse._SubParsersAction[_Parser]") -> None:
    found = _add(
        commands, "demo", "clean a sample photograph, or one of yours, and show it side by side"
    )
    found.add_argument(
        "image", nargs="?", help="your own noisy image (default: a sample photograph)"
    )
    found.add_argument(
        "--sigma",
        type=float,
        help="standard deviation of the noise, in the image's units (default: 25 for the sample; found "
        "out for your own)",
    )
    _method(found)
    found.add_argument(
        "--output", default="demo.png", help="the side-by-side picture (default: %(default)s)"
    )


def _method(found: _Parser) -> None:
    found.add_argument(
        "--method",
        choices=_METHODS,
        default="standard",
        help="see 'nlridge methods' (default: %(default)s)",
    )


def _axes(found: _Parser) -> None:
    found.add_argument(
        "--channel-axis",
        type=int,
        help="of an array that does not say what its axes are (NPY, FITS)",
    )
    found.add_argument("--stack-axis", type=int, help="likewise, for a stack of images")


def _talk(found: _Parser) -> None:
    how = found.add_mutually_exclusive_group()
    how.add_argument("--quiet", action="store_true", help="say nothing but what went wrong")
    how.add_argument("--json", action="store_true", help="one line of JSON a file, for scripts")


def _numbers(text: str) -> "float | list[float]":
    numbers = [float(part) for part in text.split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


_numbers.__name__ = "number"  # in argparse's messages
