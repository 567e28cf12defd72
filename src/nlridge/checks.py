"""Checks of single values, and how messages name them."""

import math
import operator
from numbers import Real
from typing import Any

import numpy as np

LARGEST = 1e300  # means and differences of larger numbers overflow
_LONGEST = 80


def shown(value: Any) -> str:
    """A value as Python writes it, on one line and not too long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a number of too many digits, or an object that cannot be shown
        return f"of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def number(name: str, value: Any) -> float:
    """A number of any type as a float, infinite if it is too large for one."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is {shown(value)}; expected a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]


def checked_positive(name: str, value: Any) -> float:
    try:
        shape = np.shape(value)
    except ValueError:  # a sequence of unlike things
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
    """An error with advice that works however nlridge was installed: `needs` is, say, "FITS files need"."""
    return ImportError(f"{needs} {package}, which is not installed: pip install {package}")
