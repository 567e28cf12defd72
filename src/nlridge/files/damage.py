"""Checks for damaged and hostile files, and error messages of one sentence."""

import io
import logging
import math
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import ArgumentError

_SAFE = 2**28  # bytes of pixels that any file may have
# Without the logger of astropy, which cannot be imported once a logger of its name exists; astropy issues warnings.
_LOGGERS = ("tifffile", "PIL", "pydicom", "nd2", "liffile", "nibabel", "nibabel.global")
_MAX_LENGTH = 200  # characters of the message of a library


class UnnamedAxes(ValueError):
    """An array has more than two axes, and nothing names them."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(
            f"it has {len(shape)} dimensions, {shape}; expected 2, or --channel-axis or --stack-axis"
        )
        self.shape = shape

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.shape,)


@contextmanager
def convert_errors(what: str, package: str = str(__package__)) -> Iterator[None]:
    """Turn any error of a library into a ValueError that starts with `what`; suppress warnings and log messages.

    A ValueError raised in a module whose name starts with `package` is left as it is.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError:
        raise
    except MemoryError as error:  # often without a message
        raise MemoryError(
            str(error) or "the file claims to hold more than fits in memory"
        ) from error
    except Exception as error:
        is_system_error = isinstance(error, OSError) and error.errno is not None
        if is_system_error or (
            type(error) in (ValueError, ArgumentError, UnnamedAxes)
            and _is_raised_in(package, error)
        ):
            raise
        raise ValueError(f"{what}: {one_line(error)}") from error
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _is_raised_in(package: str, error: Exception) -> bool:
    """Return whether an error was raised in a package, whose messages are shown as they are."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    name = str(trace.tb_frame.f_globals.get("__name__", ""))  # code that was compiled may have none
    return name.startswith((str(__package__), package))


def one_line(error: Exception) -> str:
    """Return the message of a library in one line, unless it only reveals a bug in the library."""
    bugs = (
        TypeError,
        AttributeError,
        LookupError,
        ArithmeticError,
        AssertionError,
        NameError,
        struct.error,
    )
    message = " ".join(str(error).split())
    if isinstance(error, bugs) or not message:
        return f"its metadata are inconsistent ({type(error).__name__})"
    message = "".join(letter if letter.isprintable() else "?" for letter in message)
    return message if len(message) <= _MAX_LENGTH else f"{message[:_MAX_LENGTH]} ..."


def refuse_too_large(what: str, decoded: int, size: int) -> None:
    """Refuse a file whose header claims more bytes of pixels than its size allows, or than is safe to decode.

    Noise does not compress: the more memory an image takes, the lower the compression ratio that is plausible.
    """
    if decoded > 20_000 * max(size, 100) and decoded <= _SAFE:
        raise ValueError(
            f"its header claims {what}; expected no more than its {size} bytes can hold"
        )
    if decoded > _most_bytes(size):
        raise ValueError(
            f"its header claims {what} in {size} bytes; expected no more than is safe to open"
        )


def _most_bytes(size: int) -> int:
    """Return how many bytes a file of this size may take in memory."""
    return min(20_000 * max(size, 100), max(_SAFE, 200 * size), max(4 * _SAFE, 20 * size))


def unpacked(file: BinaryIO, size: int) -> io.BytesIO:
    """Return the content of a compressed file of this size, unless it is larger than is safe to open."""
    most, content = _most_bytes(size), io.BytesIO()
    while part := file.read(2**20):
        content.write(part)
        if content.tell() > most:
            raise ValueError(
                f"it holds more than {most} bytes, compressed to {size}; expected no more than is safe to open"
            )
    content.seek(0)
    return content


def expect_size(shape: tuple[int, ...], dtype: np.dtype[Any], available: int) -> None:
    """Refuse a file whose uncompressed pixels take more bytes than it has."""
    claimed = math.prod(shape) * dtype.itemsize
    if claimed > available:
        raise ValueError(
            f"the file is damaged: its header claims {' x '.join(map(str, shape))} pixels, {claimed} bytes, "
            f"but it has {max(available, 0)}"
        )


def expect_regular(path: Path) -> None:
    """Refuse pipes, sockets and devices, which could block a reader forever."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file; expected one")
