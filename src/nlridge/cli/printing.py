"""What is printed for people: in a way that a terminal can show, whatever names files have."""

import sys


def printable(text: str) -> str:
    """One line in which everything that could not be shown, or would control a terminal, is escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def complain(sentence: str) -> None:
    """Say what went wrong, in one line."""
    print(f"nlridge: {printable(sentence)}", file=sys.stderr, flush=True)


def escape_what_cannot_be_encoded() -> None:
    """Characters that the encoding of the output lacks are escaped rather than an error."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # not if somebody put something else in its place
            stream.reconfigure(errors="backslashreplace")
