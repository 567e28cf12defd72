"""The command that does the same again."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..options import OPTIONS, is_given

# The ends of doubts about the estimate, each with the kind of noise it names and what that does.
_ENDS = {
    "--noise correlated removes it": ("correlated", "removes"),
    "--noise gaussian keeps it": ("gaussian", "keeps"),
}


def command_for(source: Path, target: Path | None, options: Mapping[str, Any]) -> str:
    """Return the command that denoises a file, for a shell; without a target, the result is written beside the file."""
    words = ["nlridge", "denoise"]
    given = [
        name
        for name, option in OPTIONS.items()
        if is_given(name, options.get(name)) and not option.once
    ]
    for name in sorted(given, key=lambda name: OPTIONS[name].type is bool):
        option, value = OPTIONS[name], options[name]
        words += [option.flag] if option.type is bool else [option.flag, _as_text(value)]
    if target is not None:
        words += [f"--output={target}"] if str(target).startswith("-") else ["-o", str(target)]
    words += ["--", str(source)] if str(source).startswith("-") else [str(source)]
    return " ".join(map(_quoted, words))


def with_command(
    sentence: str, source: Path, target: Path | None, options: Mapping[str, Any]
) -> str:
    """Return a sentence that names an option with the command that denoises the file with this option, perhaps again."""
    end = next((end for end in _ENDS if sentence.endswith(end)), None)
    if end is None or options.get("burst"):
        return sentence
    noise, does = _ENDS[end]
    again = {**options, "noise": noise, "strength": 1.0, "overwrite": target is not None}
    return f"{sentence.removesuffix(end)}this {does} it: {command_for(source, target, again)}"


def _as_text(value: Any) -> str:
    return ",".join(map(repr, value)) if isinstance(value, list) else str(value)


def _quoted(word: str) -> str:
    """Quote a word for a shell; unprintable characters use the $'...' syntax of Bash and Zsh."""
    if word.isprintable():
        return shlex.quote(word)
    shown = (
        c
        if c.isprintable() and c not in "\\'"
        else "".join(f"\\x{byte:02x}" for byte in os.fsencode(c))
        for c in word
    )
    return f"$'{''.join(shown)}'"
