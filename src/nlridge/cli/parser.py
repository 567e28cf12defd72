"""The options of the command line.  Heavy modules are imported only by `commands`, so that help appears at once."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module, metadata
from typing import Any, NoReturn

from .. import __version__
from ..jobs.words import printable, with_options
from .printing import escape_unencodable, report_error

_METHODS = ("fast", "standard", "best", "nl-ridge", "nl-bayes", "bm3d")

_KINDS = ("auto", "gaussian", "poisson", "correlated")
_KINDS_IN_WORDS = (
    "kind of noise to estimate: constant (gaussian), growing with the signal (poisson), correlated "
    "from pixel to pixel (correlated), or whichever fits the image (auto, the default)"
)

_CODECS = ("h264", "hevc", "vp9", "av1", "prores", "mjpeg", "ffv1")

_EXAMPLES = """examples:
  nlridge denoise photo.jpg                 write photo_denoised.jpg
  nlridge denoise scan.tif -o clean.tif --sigma 12.5
  nlridge denoise experiment/ -o cleaned/ --recursive --report report.html
  nlridge denoise clip.mp4                  write clip_denoised.mp4
  nlridge noise *.tif
  nlridge compare photo.jpg photo_denoised.jpg
  nlridge studio photo.jpg                  see it in the browser

'nlridge COMMAND --help' describes the options of a command.
"""

_DENOISE_EXAMPLES = """examples:
  nlridge denoise photo.jpg                   write photo_denoised.jpg
  nlridge denoise a.png b.png -o cleaned/     write into a folder
  nlridge denoise cells.tif --noise poisson   noise that grows with the signal
  nlridge denoise cube.npy --channel-axis 0   channels along the first axis
  nlridge denoise slide.zarr -o clean.zarr    larger than memory
  nlridge denoise clip.mov -o clip.mp4        a video, with its sound
  nlridge denoise IMG_0001.CR2                a raw file: write IMG_0001_denoised.dng
  nlridge denoise IMG_000*.CR2 --burst        several raw files of one scene: write one
  nlridge denoise stack.tif --frames time     pages that are frames of a video
  nlridge denoise raw/ -o clean/ --recursive --skip-existing
                                              resume an interrupted batch
"""


def build_parser() -> "_Parser":
    """Return the parser of all commands and options."""
    parser = _Parser(
        prog="nlridge",
        description="Remove noise from images and videos.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        help="show the versions of nlridge and of the libraries it uses, and exit",
    )
    parser.commands = commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND"
    )
    _add_denoise(commands)
    _add_noise(commands)
    _add_compare(commands)
    _add(commands, "methods", "list the methods, and measure their speed on this machine")
    _add_demo(commands)
    _add_studio(commands)
    completion = _add(commands, "completion", "print a script for tab completion in a shell")
    completion.add_argument(
        "shell", choices=("bash", "zsh", "tcsh"), help="shell that will run the script"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    escape_unencodable()
    try:
        try:
            return _run(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as "head" does
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            # Discard the rest, or Python would print an error when it exits.
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 141  # the exit code of a program killed by SIGPIPE


def _run(arguments: Sequence[str] | None) -> int:
    parser = build_parser()
    options = parser.parse_args(arguments)
    try:
        if options.command == "completion":
            import shtab

            print(shtab.complete(parser, shell=options.shell))
            return 0
        # Imports NumPy, Numba and the kernels.
        code: int = import_module(".commands", __package__).run(options)
        return code
    except BrokenPipeError:
        raise
    except ModuleNotFoundError as error:  # in an installation for arrays alone
        from ..checks import not_installed  # which needs NumPy

        report_error(str(not_installed("the command line needs", str(error.name))))
        return 1
    except (ValueError, TypeError, OSError, ImportError) as error:
        report_error(with_options(str(error)))
        return 1
    except MemoryError:
        report_error("the image does not fit into memory")
        return 1
    except KeyboardInterrupt as error:
        report_error(str(error) or "interrupted")
        return 130


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the closest option or choice for an unknown word."""

    commands: "argparse._SubParsersAction[_Parser]"

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        options, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self.commands.choices[options.command]
            hints = (
                _suggestion(word.partition("=")[0], command._option_string_actions)
                for word in unknown
            )
            hint = next(filter(None, hints), "")
            command.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            hint = _suggestion(value, action.choices)
            choices = ", ".join(action.choices)
            raise argparse.ArgumentError(
                action, f"invalid choice: {value!r}{hint} (choose from {choices})"
            )

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _suggestion(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


class _Version(argparse.Action):
    def __call__(self, *_: object) -> None:
        print(f"nlridge {__version__}")
        print(f"Python {sys.version.split()[0]}")
        for name in (
            "numpy",
            "numba",
            "llvmlite",
            "pillow",
            "tifffile",
            "imagecodecs",
            "astropy",
            "mrcfile",
            "nibabel",
            "pydicom",
            "h5py",
            "czifile",
            "nd2",
            "liffile",
            "bioio",
            "av",
            "starlette",
            "uvicorn",
            "rawpy",
            "pillow-heif",
        ):
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


def _add_denoise(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add(commands, "denoise", "denoise image and video files", _DENOISE_EXAMPLES)
    files = parser.add_argument_group("files")
    _add_inputs(files)
    files.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="output file for a single input, or output folder (default: beside each input, with "
        "_denoised added to its name)",
    )
    existing = files.add_mutually_exclusive_group()
    existing.add_argument("--overwrite", action="store_true", help="replace existing files")
    existing.add_argument(
        "--skip-existing", action="store_true", help="skip inputs whose output already exists"
    )
    files.add_argument(
        "--format",
        help="format of the output, such as png, tif or mp4 (default: format of the input)",
    )
    files.add_argument(
        "--develop",
        action="store_true",
        help="develop raw files: write 16-bit TIFF, or another --format, instead of DNG",
    )
    files.add_argument(
        "--burst",
        action="store_true",
        help="treat all inputs as frames of one scene, and write the middle one, denoised with the help of the "
        "others",
    )
    files.add_argument(
        "--report",
        metavar="FILE.html",
        help="write a page that shows each image before and after, and what was removed",
    )
    _add_axes(files)
    files.add_argument(
        "--frames",
        choices=("auto", "time", "depth", "independent"),
        default="auto",
        help="how the frames of a video, or the images of a stack, belong together: in time, in depth (slices of "
        "a volume), or not at all; auto follows the metadata of the file, and treats images without metadata as "
        "independent (default: %(default)s)",
    )

    noise = parser.add_argument_group("noise and method")
    model = noise.add_mutually_exclusive_group()
    model.add_argument(
        "--sigma",
        type=_numbers,
        help="standard deviation of the noise, in the units of the pixels; comma-separated values "
        "give one for each channel (default: estimated from the image)",
    )
    model.add_argument(
        "--noise",
        choices=_KINDS,
        help=_KINDS_IN_WORDS,
    )
    model.add_argument(
        "--sigma-map",
        metavar="FILE",
        help="image with the standard deviation of the noise of each pixel: of all noise, or with --gain-map "
        "of the read noise only",
    )
    for name, what in (
        ("offset", "value of each pixel of the camera without light"),
        ("gain", "gray levels that a photon adds to each pixel of the camera"),
    ):
        noise.add_argument(
            f"--{name}-map",
            metavar="FILE",
            help=f"image of the {what}; the result has the median for all pixels",
        )
    _add_method(noise)
    noise.add_argument(
        "--strength",
        type=float,
        default=1.0,
        help="factor on the noise level: below 1 removes less, above 1 removes more, 0 removes nothing (default: 1)",
    )
    noise.add_argument(
        "--colour",
        type=float,
        default=1.0,
        help="factor on --strength that applies to colour differences only (default: 1)",
    )
    noise.add_argument(
        "--keep-outliers",
        action="store_true",
        help="keep single pixels that noise cannot explain, such as hot ones, instead of replacing them; not for "
        "videos and bursts",
    )

    work = parser.add_argument_group("processing")
    work.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="number of threads (default: one for each core)",
    )
    work.add_argument(
        "--tile",
        type=int,
        metavar="SIDE",
        help="process a Zarr, NPY or TIFF file in tiles of this size, in little memory; the same "
        "command resumes after an interruption (default for Zarr: 2048)",
    )
    work.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of the scheduler of a Dask cluster that does the work, such as "
        "tcp://10.0.0.1:8786 (only for Zarr)",
    )

    video = parser.add_argument_group("video files")
    video.add_argument(
        "--codec",
        choices=_CODECS,
        help="codec of the output (default: codec of the input if it can be written; otherwise h264, "
        "hevc for more than 8 bits, or ffv1 if the input is lossless)",
    )
    video.add_argument(
        "--quality",
        type=int,
        metavar="CRF",
        help="constant rate factor of h264, hevc, vp9 or av1: 0 is the best and largest "
        "(default: 17 for h264, 19 for hevc, 24 for vp9 and av1)",
    )

    messages = parser.add_argument_group("messages").add_mutually_exclusive_group()
    messages.add_argument("--quiet", action="store_true", help="print only error messages")
    messages.add_argument(
        "--json", action="store_true", help="print one line of JSON for each file"
    )


def _add_noise(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add(commands, "noise", "estimate the noise in image files")
    _add_inputs(parser)
    _add_axes(parser)
    parser.add_argument("--kind", choices=_KINDS, default="auto", help=_KINDS_IN_WORDS)
    parser.add_argument("--json", action="store_true", help="print one line of JSON for each file")


def _add_compare(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add(commands, "compare", "compare two image files: PSNR, SSIM and RMSE")
    parser.add_argument("first", metavar="A", help="first image file")
    parser.add_argument("second", metavar="B", help="second image file, of the same shape")
    parser.add_argument(
        "--peak",
        type=float,
        help="range of the values, for PSNR and SSIM (default: largest value of an integer type, or "
        "range of the values in A for floats)",
    )
    _add_axes(parser)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")


def _add_demo(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add(commands, "demo", "denoise a sample photograph and save the result side by side")
    parser.add_argument(
        "image", nargs="?", help="noisy image of your own (default: a sample photograph)"
    )
    parser.add_argument(
        "--sigma",
        type=float,
        help="standard deviation of the noise, in the units of the image (default: 25 for the sample, "
        "estimated for your own image)",
    )
    _add_method(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="new file for the side-by-side image (default: demo.png, which is replaced if it exists)",
    )


def _add_studio(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = _add(commands, "studio", "denoise images interactively in the browser")
    parser.add_argument("path", nargs="?", metavar="FILE|FOLDER", help="image or folder to open")
    parser.add_argument(
        "--port", type=int, metavar="N", help="port of the page (default: any that is free)"
    )
    parser.add_argument(
        "--no-browser",
        action="store_true",
        help="print the address of the page, but do not open it",
    )
    parser.add_argument(
        "--address",
        metavar="A",
        help="IP address to listen on, for other computers on the network (default: 127.0.0.1, this "
        "computer only)",
    )


def _add_inputs(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument(
        "input", nargs="+", metavar="INPUT", help="file, folder or pattern such as '*.tif'"
    )
    parser.add_argument(
        "--recursive", action="store_true", help="include the subfolders of folders"
    )


def _add_method(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument(
        "--method",
        choices=_METHODS,
        default="standard",
        help="method to use; 'nlridge methods' describes them (default: %(default)s)",
    )


def _add_axes(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument(
        "--channel-axis",
        type=int,
        metavar="AXIS",
        help="axis of the channels in a file that does not name its axes (NPY, FITS, HDF5)",
    )
    parser.add_argument(
        "--stack-axis",
        type=int,
        metavar="AXIS",
        help="axis of the images in a stack that does not name its axes",
    )
    parser.add_argument(
        "--dataset",
        metavar="PATH",
        help="path of the array inside an HDF5 file, such as /entry/data (default: the only image in it)",
    )


def _numbers(text: str) -> "float | list[float]":
    numbers = [float(part) for part in text.split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


_numbers.__name__ = "number"  # in argparse's messages
