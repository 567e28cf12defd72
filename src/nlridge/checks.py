"""Checks of single arguments, and how error messages show their values."""

import math
import operator
from numbers import Real
from typing import Any

import numpy as np

LARGEST = 1e300  # sums and differences of larger numbers may overflow
_LONGEST = 80  # characters of a value shown in a message


def shown(value: Any) -> str:
    """The repr of a value, on one line and shortened if it is long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # an integer with too many digits, or an object whose repr fails
        return f"of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def number(name: str, value: Any) -> float:
    """Convert a real number of any type to a float; numbers beyond the range of floats become infinite."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is {shown(value)}; expected a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def checked_positive(name: str, value: Any) -> float:
    """Return a positive number as a float, or raise an error that names the argument."""
    try:
        shape = np.shape(value)
    except ValueError:  # a ragged sequence
        raise TypeError(f"{name} is {shown(value)}; expected a single positive number") from None
    if shape:
        raise ValueError(f"{name} has shape {shape}; expected a single positive number")
    try:
        if isinstance(value, str | bytes | bool) or value is np.ma.masked:
            raise TypeError
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {shown(value)}; expected a positive number") from None
    if 0 < number <= 1e-300 or number >= LARGEST:
        raise ValueError(
            f"{name} is {shown(value)}; expected a positive number between 1e-300 and {LARGEST:g}"
        )
    if not number > 0:
        raise ValueError(f"{name} is {shown(value)}; expected a positive number")
    return number


def checked_whole(
    name: str, value: Any, least: int, most: float = math.inf, expected: str = "a whole number"
) -> int:
    """Return an integer from `least` to `most`, or raise an error that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; expected {expected}") from None
    if number < least:
        raise ValueError(f"{name} is {shown(number)}; expected at least {least}")
    if number > most:
        raise ValueError(f"{name} is {shown(number)}; expected at most {most}")
    return number


def not_installed(needs: str, package: str) -> ImportError:
    """An ImportError that says how to install a missing package.

    `needs` is the start of the sentence, such as "FITS files need". The advice names the package itself rather than
    an extra of nlridge, so that it works however nlridge was installed.
    """
    return ImportError(f"{needs} {package}, which is not installed: pip install {package}")
