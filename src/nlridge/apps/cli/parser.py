"""The parser of the command line.  Heavy modules are imported only by `commands`, so that help appears at once."""

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module, metadata
from typing import Any, NoReturn

from ... import __version__
from ..jobs.words import printable, with_options
from ..options import COMMANDS, OPTIONS, Command, Option, words_about
from .printing import escape_unencodable, report_error

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

_LIBRARIES = (
    "numpy numba llvmlite pillow tifffile imagecodecs astropy mrcfile nibabel pydicom "
    "h5py czifile nd2 liffile bioio av starlette uvicorn rawpy pillow-heif"
)


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
    for name, command in COMMANDS.items():
        _add(commands, name, command)
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
        from ...checks import not_installed  # which needs NumPy

        report_error(str(not_installed("the command line needs", str(error.name))))
        return 1
    except (ValueError, TypeError, OSError, ImportError) as error:
        report_error(with_options(error))
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
        for name in _LIBRARIES.split():
            try:
                print(f"{name} {metadata.version(name)}")
            except metadata.PackageNotFoundError:
                print(f"{name} is not installed")
        raise SystemExit(0)


def _add(commands: "argparse._SubParsersAction[_Parser]", name: str, command: Command) -> None:
    summary = command.summary
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=command.examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for title, entries in command.groups.items():
        group = parser.add_argument_group(title) if title else parser
        for entry in entries:
            if isinstance(entry, Option):
                _add_option(group, entry)
            else:
                exclusive = group.add_mutually_exclusive_group()
                for option in entry:
                    _add_option(exclusive, option)


def _add_option(parser: "argparse._ActionsContainer", option: Option) -> None:
    words = words_about(option, lambda name: OPTIONS[name].flag)
    names = [option.letter, option.flag] if option.letter else [option.flag]
    if option.type is bool:
        parser.add_argument(*names, action="store_true", help=words)
        return
    settings: dict[str, Any] = {"choices": option.choices or None, "metavar": option.metavar}
    if option.nargs in ("+", "?"):  # argparse would return one value as a list
        settings["nargs"] = option.nargs
    if option.default is not None:
        shown = option.default if isinstance(option.default, str) else f"{option.default:g}"
        words += f" (default: {shown})"
    parser.add_argument(*names, type=option.type, default=option.default, help=words, **settings)
