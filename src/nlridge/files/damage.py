"""Checks for damaged and hostile files, and error messages of one sentence."""

import logging
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SAFE = 2**28  # bytes of pixels that any file may have
_LONGEST = 200  # characters of the message of a library


@contextmanager
def convert_errors(what: str) -> Iterator[None]:
    """Turn any error of a library into a ValueError that starts with `what`; suppress warnings and log messages."""
    # Not the logger of astropy, which cannot be imported any more once its logger exists.  It warns instead.
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
        is_system_error = isinstance(error, OSError) and error.errno is not None
        if is_system_error or (type(error) is ValueError and _is_raised_here(error)):
            raise
        raise ValueError(f"{what}: {one_line(error)}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _is_raised_here(error: Exception) -> bool:
    """Return whether an error was raised by this package, whose messages are shown as they are."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals["__name__"].startswith(str(__package__))


def one_line(error: Exception) -> str:
    """Return the message of a library in one line, unless it only reveals a bug in the library."""
    bugs = TypeError, AttributeError, LookupError, ArithmeticError, AssertionError, struct.error
    message = " ".join(str(error).split())
    if isinstance(error, bugs) or not message:
        return f"its metadata are inconsistent ({type(error).__name__})"
    message = "".join(letter if letter.isprintable() else "?" for letter in message)
    return message if len(message) <= _LONGEST else f"{message[:_LONGEST]} ..."


def refuse_too_large(what: str, decoded: int, size: int) -> None:
    """Refuse a file whose header claims more bytes of pixels than its size allows, or than is safe to decode.

    Noise does not compress: the more memory an image takes, the lower the compression ratio that is plausible.
    """
    if decoded > 20_000 * max(size, 100) and decoded <= _SAFE:
        raise ValueError(
            f"its header claims {what}; expected no more than its {size} bytes can hold"
        )
    if decoded > min(max(_SAFE, 200 * size), max(4 * _SAFE, 20 * size)):
        raise ValueError(
            f"its header claims {what} in {size} bytes; expected no more than is safe to open"
        )


def expect_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices, which could block a reader forever."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file; expected one")
