"""The command line: ``nlridge``."""

from .parser import main

__all__ = ["main"]
