"""Errors as the page shows them, and the answers to requests that are refused."""

import html
import json
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template

from ..display import digest, resource
from ..jobs.words import printable
from .words import NO_MEMORY, THE_FILE


class Refused(Exception):
    """A request that is refused: the status of the answer, and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Cancelled(Exception):
    """The result is no longer wanted."""


def in_one_sentence(error: BaseException, path: Path | None = None, name: str = THE_FILE) -> str:
    """Return what went wrong, in a sentence that names no path of this computer."""
    if isinstance(error, MemoryError):
        return NO_MEMORY
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{name}: {error.strerror}")
    words = " ".join(str(error).split()) or type(error).__name__
    if path is not None:
        words = words.replace(str(path), name)
    return printable(words)


Headers = dict[str, str]


def refusal(accept: str, sentence: str, policy: str) -> tuple[bytes, Headers]:
    """Return the body of an answer, and its headers.

    `accept` is the header of the request by which a browser asks for a page, and `policy` is that of all pages.
    """
    if "text/html" not in accept.lower():
        return json.dumps({"error": sentence}).encode(), {"content-type": "application/json"}
    template, style = _page()
    what, _, _ = sentence.partition(";")  # what to do is on the page
    words = html.escape(what[:1].upper() + what[1:])
    page = Template(template).substitute(style=style, sentence=words)
    return page.encode(), {
        "content-type": "text/html; charset=utf-8",
        # Style sheets are served only to those who have access, so this page contains its own.
        "content-security-policy": policy.replace("style-src 'self'", f"style-src {digest(style)}"),
    }


@cache
def _page() -> tuple[str, str]:
    """Return the page, and its style."""
    folder = resources.files(__package__) / "page"
    own = (folder / "refused.css").read_text("utf-8")
    return (folder / "refused.html").read_text("utf-8"), resource("colors.css") + own
