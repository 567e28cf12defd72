"""Printing of messages that are safe to show in a terminal, whatever the names of files contain."""

import re
import sys

# What the command line calls the arguments of Python. The output has a name without --output as well.
_OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in (
        "channel_axis", "format", "kind", "method", "noise", "peak", "report", "sigma",
        "stack_axis", "strength", "tile", "workers",
    )},
    "client": "--scheduler",
}  # fmt: skip
# An argument is the subject of a sentence, such as "sigma is 0; expected ...", or has an underscore.
_ARGUMENT = re.compile(
    rf"(?:^|(?<= and ))(?:{'|'.join(_OPTIONS)})(?= (?:is|has) )|\b(?:channel|stack)_axis\b"
)


def with_options(message: str) -> str:
    """Name the options of the command line in a message that names arguments of Python."""
    return _ARGUMENT.sub(lambda match: _OPTIONS[match[0]], message)


def printable(text: str) -> str:
    """Escape line breaks, control characters and everything else that cannot be printed."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def report_error(sentence: str) -> None:
    """Print an error message in one line."""
    print(f"nlridge: {printable(sentence)}", file=sys.stderr, flush=True)


def report_note(sentence: str) -> None:
    """Print a note in one line, apart from the results."""
    print(f"nlridge: note: {printable(sentence)}", file=sys.stderr, flush=True)


def escape_unencodable() -> None:
    """Escape characters that the encoding of the terminal lacks, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a replacement for the stream may not have it
            stream.reconfigure(errors="backslashreplace")
