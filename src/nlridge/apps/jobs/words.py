"""Names, messages and warnings in words that are safe to show, whatever the names of files contain."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ...errors import Words
from ..options import FLAGS


def option_of(argument: str) -> str:
    """What the command line calls an argument of Python; the name of the argument if it has no option."""
    return FLAGS.get(argument, argument)


def with_options(message: BaseException | str) -> str:
    """The words of a message in which arguments of Python have the names of options."""
    words = message.args[0] if isinstance(message, BaseException) and message.args else message
    return words.naming(option_of) if isinstance(words, Words) else str(message)


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Provide a list that, at the end of the block, holds all warnings about the noise, without duplicates.

    A result that cannot be right raises an error, since nobody may look at it before it is used.
    """
    from ... import NoiseWarning, UnexplainedWarning  # import Numba, which help does without

    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NoiseWarning)
        warnings.simplefilter("error", UnexplainedWarning)
        try:
            yield sentences
        except UnexplainedWarning as error:
            what, _, _ = str(error).partition(";")  # without what functions return
            raise ValueError(f"{what}; nothing was written; please report it") from error
    for warning in caught:
        if issubclass(warning.category, NoiseWarning):
            sentence = with_options(warning.message)
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
