"""What messages have in common: how values are shown, numbers that are none, packages that are not installed."""

import math
from numbers import Real
from typing import Any

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


def not_installed(needs: str, package: str) -> ImportError:
    """An error with advice that works however nlridge was installed: `needs` is, say, "FITS files need"."""
    return ImportError(f"{needs} {package}, which is not installed: pip install {package}")
