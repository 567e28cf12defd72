"""Checks of single arguments."""

import math
import operator
from numbers import Real
from typing import Any

import numpy as np

from .errors import ArgumentError, ArgumentTypeError

LARGEST = 1e300  # sums and differences of larger numbers may overflow


def number(name: str, value: Any) -> float:
    """Convert a real number of any type to a float; numbers beyond the range of floats become infinite."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ArgumentTypeError(name, value, "a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def checked_positive(name: str, value: Any) -> float:
    """Return a positive number as a float, or raise an error that names the argument."""
    try:
        shape = np.shape(value)
    except ValueError:  # a ragged sequence
        raise ArgumentTypeError(name, value, "a single positive number") from None
    if shape:
        raise ArgumentError(name, shape, "a single positive number", "has shape {value}")
    try:
        if isinstance(value, str | bytes | bool) or value is np.ma.masked:
            raise TypeError
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise ArgumentTypeError(name, value, "a positive number") from None
    if 0 < number <= 1e-300 or number >= LARGEST:
        raise ArgumentError(name, value, f"a positive number between 1e-300 and {LARGEST:g}")
    if not number > 0:
        raise ArgumentError(name, value, "a positive number")
    return number


def checked_whole(
    name: str, value: Any, least: int, most: float = math.inf, expected: str = "a whole number"
) -> int:
    """Return an integer from `least` to `most`, or raise an error that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentTypeError(name, value, expected) from None
    if number < least:
        raise ArgumentError(name, number, f"at least {least}")
    if number > most:
        raise ArgumentError(name, number, f"at most {most}")
    return number


def not_installed(needs: str, package: str) -> ImportError:
    """An ImportError that says how to install a missing package.

    `needs` is the start of the sentence, such as "FITS files need". The advice names the package itself rather than
    an extra of nlridge, so that it works however nlridge was installed.
    """
    return ImportError(f"{needs} {package}, which is not installed: pip install {package}")
