"""How values are shown in messages."""

from typing import Any

_LONGEST = 80


def shown(value: Any) -> str:
    """A value as Python writes it, on one line and not too long."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a number of too many digits, or an object that cannot be shown
        return f"of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."
