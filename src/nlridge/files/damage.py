"""What is wrong with a file, in one sentence: it is damaged, claims too much, or is no file at all."""

import logging
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SAFE = 2**28  # bytes of pixels that any file may have
_LONGEST = 200  # letters of what a library says


@contextmanager
def in_one_sentence(what: str) -> Iterator[None]:
    """Whatever a library makes of a file becomes a ValueError, and what it has to say besides is not said."""
    # Not that of astropy, which cannot be imported once somebody else has asked for its logger; it warns instead.
    loggers = [logging.getLogger(name) for name in ("tifffile", "PIL")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        of_the_system = isinstance(error, OSError) and error.errno is not None
        if of_the_system or (type(error) is ValueError and _is_raised_here(error)):
            raise
        raise ValueError(f"{what}: {one_line(error)}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _is_raised_here(error: Exception) -> bool:
    """Rather than in a library: it is in our words."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals["__name__"].startswith(str(__package__))


def one_line(error: Exception) -> str:
    """What a library says, unless it says no more than that it stumbled."""
    stumbles = TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, struct.error
    said = " ".join(str(error).split())
    if isinstance(error, stumbles) or not said:
        return f"what it says about itself makes no sense ({type(error).__name__})"
    said = "".join(letter if letter.isprintable() else "?" for letter in said)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST]} ..."


def refuse_too_large(what: str, decoded: int, size: int) -> None:
    """A header may promise more bytes of pixels than a file of this size can hold, or than a memory can.

    Noise does not compress: the more memory a file takes, the less it may have been compressed.
    """
    if decoded > 20_000 * max(size, 100) and decoded <= _SAFE:
        raise ValueError(f"its header says {what}, which its {size} bytes cannot hold")
    if decoded > min(max(_SAFE, 200 * size), max(4 * _SAFE, 20 * size)):
        raise ValueError(
            f"its header says {what} for {size} bytes; that is more than is safe to open"
        )


def expect_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices, which a reader could wait for without end."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file; expected one")
