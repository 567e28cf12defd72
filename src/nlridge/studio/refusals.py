"""Answers to requests that are refused: a page for a person, JSON for the page of the studio."""

import html
import json
from functools import cache
from importlib import resources
from string import Template

from ..display import digest, resource

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
        # Style sheets are for those who have access: that of this page is part of it.
        "content-security-policy": policy.replace("style-src 'self'", f"style-src {digest(style)}"),
    }


@cache
def _page() -> tuple[str, str]:
    """Return the page, and its style."""
    folder = resources.files(__package__) / "page"
    own = (folder / "refused.css").read_text("utf-8")
    return (folder / "refused.html").read_text("utf-8"), resource("colours.css") + own
