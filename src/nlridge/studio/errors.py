"""Errors as the page shows them."""

from pathlib import Path

from ..jobs.words import printable


class Refused(Exception):
    """A request that is refused: the status of the answer, and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Cancelled(Exception):
    """Nobody wants the result any more."""


def in_one_sentence(error: BaseException, path: Path | None = None, name: str = "the file") -> str:
    """Return what went wrong, in a sentence that names no path of this computer."""
    if isinstance(error, MemoryError):
        return "the image does not fit into memory"
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{name}: {error.strerror}")
    words = " ".join(str(error).split()) or type(error).__name__
    if path is not None:
        words = words.replace(str(path), name)
    return printable(words)
