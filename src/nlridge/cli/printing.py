"""Printing of messages in a terminal."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..jobs.words import printable, with_options

_EXPECTED = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    MemoryError,
)  # whose messages are sentences
_LONGEST = 200  # characters of the message of an error that nobody expected


@contextmanager
def failing_alone(path: Path, failures: list[str]) -> Iterator[None]:
    """Add a sentence to `failures` if anything goes wrong with a file, so that the other files go on.

    This is the only place where errors of single files end, whatever they are.  Only Ctrl-C passes.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # some libraries raise errors that are no Exception
        failures.append(sentence_on(path, error))


def report_error(sentence: str) -> None:
    """Print an error message in one line."""
    print(f"nlridge: {printable(sentence)}", file=sys.stderr, flush=True)


def report_note(sentence: str) -> None:
    """Print a note in one line, apart from the results."""
    from tqdm import tqdm

    tqdm.write(f"nlridge: note: {printable(sentence)}", file=sys.stderr)  # above a progress bar
    sys.stderr.flush()


def print_line(options: Namespace, line: dict[str, Any], sentence: str) -> None:
    if options.json:
        print(json.dumps(line), flush=True)
    elif sentence and not options.quiet:
        from tqdm import tqdm

        tqdm.write(printable(sentence), file=sys.stdout)
        sys.stdout.flush()


def print_warnings(options: Namespace, path: Path, sentences: Iterable[str]) -> None:
    if not options.quiet:
        for sentence in sentences:
            report_note(f"{path}: {sentence}")


def print_skipped(options: Namespace, files: Sequence[Path]) -> None:
    """Print which files in folders were skipped, as their format is not known."""
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
    words = with_options(" ".join(str(error).split()))
    return words if " ".join(str(path).split()) in words else f"{path}: {words}"


def escape_unencodable() -> None:
    """Escape characters that the encoding of the terminal lacks, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a replacement for the stream may not have it
            stream.reconfigure(errors="backslashreplace")
