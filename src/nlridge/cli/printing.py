"""Printing of messages in a terminal."""

import sys

from ..jobs.words import printable


def report_error(sentence: str) -> None:
    """Print an error message in one line."""
    print(f"nlridge: {printable(sentence)}", file=sys.stderr, flush=True)


def report_note(sentence: str) -> None:
    """Print a note in one line, apart from the results."""
    from tqdm import tqdm

    tqdm.write(f"nlridge: note: {printable(sentence)}", file=sys.stderr)  # above a progress bar
    sys.stderr.flush()


def escape_unencodable() -> None:
    """Escape characters that the encoding of the terminal lacks, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a replacement for the stream may not have it
            stream.reconfigure(errors="backslashreplace")
