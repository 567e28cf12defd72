"""Names, messages and warnings in words that are safe to show, whatever the names of files contain."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# What the command line calls the arguments of Python. The output has a name without --output as well.
_OPTIONS = {
    **{name: f"--{name.replace('_', '-')}" for name in (
        "channel_axis", "codec", "colour", "dataset", "format", "frames", "gain_map", "kind", "method", "noise", "offset_map", "peak",
        "quality", "report", "sigma", "sigma_map", "stack_axis", "strength", "tile", "workers",
    )},
    "client": "--scheduler",
}  # fmt: skip
# An argument is the subject of a sentence, such as "sigma is 0; expected ...", or has an underscore.
_ARGUMENT = re.compile(
    rf"(?:^|(?<= and ))(?:{'|'.join(_OPTIONS)})(?= (?:is|has) )|\b(?:channel|stack)_axis\b"
)


_VALUE = re.compile(rf"\b({'|'.join(_OPTIONS)})='(\w+)'")


def option_of(argument: str) -> str:
    """What the command line calls an argument of Python."""
    return _OPTIONS[argument]


def with_options(message: str) -> str:
    """Name the options of the command line in a message that names arguments of Python."""
    message = _VALUE.sub(lambda match: f"{_OPTIONS[match[1]]} {match[2]}", message)
    return _ARGUMENT.sub(lambda match: _OPTIONS[match[0]], message)


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Provide a list which, in the end, holds each different warning about the noise once.

    A result that cannot be right is an error: nobody may look at it before it is used.
    """
    from ..planning.doubts import NoiseWarning  # imports NumPy and Numba, which help does without
    from ..planning.explained import UnexplainedWarning

    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)
        warnings.simplefilter("error", UnexplainedWarning)
        yield sentences
    for warning in caught:
        if issubclass(warning.category, NoiseWarning):
            sentence = with_options(str(warning.message))
            if sentence not in sentences:
                sentences.append(sentence)
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def printable(text: str) -> str:
    """Escape line breaks, control characters and everything else that cannot be printed."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )
