"""Printing messages in a terminal."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..jobs.words import printable, with_options
from ..options import PIPE

# Errors whose messages are sentences.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)
_LONGEST = 200  # most characters shown of the message of any other error


@contextmanager
def failing_alone(path: Path, failures: list[str]) -> Iterator[None]:
    """Add a sentence to `failures` if anything goes wrong with a file, so that the other files are still processed.

    All errors of single files are handled here, whatever they are. Only Ctrl-C passes, and the end of the program that
    reads the output.
    """
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except BaseException as error:  # some libraries raise errors that are not Exceptions
        failures.append(sentence_on(path, error))


def report_error(sentence: str) -> None:
    """Print an error message in one line."""
    print(f"nlridge: {printable(sentence)}", file=sys.stderr, flush=True)


def report_note(sentence: str) -> None:
    """Print a note in one line, separate from the results."""
    from tqdm import tqdm

    tqdm.write(f"nlridge: note: {printable(sentence)}", file=sys.stderr)  # above a progress bar
    sys.stderr.flush()


def print_line(options: Namespace, line: dict[str, Any], sentence: str) -> None:
    """Print what was done, on the standard output unless that takes the pixels."""
    stream = sys.stderr if options.output == PIPE else sys.stdout
    if options.json:
        print(json.dumps(line), file=stream, flush=True)
    elif sentence and not options.quiet:
        from tqdm import tqdm

        tqdm.write(printable(sentence), file=stream)
        stream.flush()


def print_warnings(options: Namespace, path: Path, sentences: Iterable[str]) -> None:
    if not options.quiet:
        for sentence in sentences:
            report_note(f"{path}: {sentence}")


def print_skipped(options: Namespace, files: Sequence[Path]) -> None:
    """Print which files in folders were skipped because their format is not known."""
    if files and not getattr(options, "quiet", False):
        from ..jobs.paths import on_unknown

        report_note(on_unknown(files))


def sentence_on(path: Path, error: BaseException) -> str:
    """Return the message of an error, preceded by the name of the file."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename}: no such file"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or path}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"{path}: the image does not fit into memory"
    if not isinstance(error, _EXPECTED):
        message = " ".join(str(error).split())[:_LONGEST]
        words = f"{type(error).__name__}: {message}" if message else type(error).__name__
        return f"{path}: an error that nobody expected ({words}); please report it"
    words = " ".join(with_options(error).split())
    return words if " ".join(str(path).split()) in words else f"{path}: {words}"


def escape_unencodable() -> None:
    """Escape characters that the encoding of the terminal lacks, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a replacement for the stream may not have it
            stream.reconfigure(errors="backslashreplace")
