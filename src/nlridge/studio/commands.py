"""The command, and the lines of Python, that do the same as the page."""

from typing import Any

from .images import Opened


def commands_for(image: Opened) -> dict[str, Any]:
    """Return the command of a shell, and the lines of Python."""
    return {"shell": "", "python": ""}
