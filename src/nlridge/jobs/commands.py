"""The command that does the same again."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DEFAULTS = {"method": "standard", "strength": 1.0, "colour": 1.0, "frames": "auto"}
_REMOVES = "--noise correlated removes it"  # in sentences of `doubt_about_rest`
_NAMES = (
    "noise", "method", "strength", "colour", "format", "channel_axis", "stack_axis", "frames", "codec", "quality", "tile",
    "dataset", "offset_map", "gain_map",
)  # fmt: skip


def command_for(source: Path, target: Path | None, options: Mapping[str, Any]) -> str:
    """Return the command that denoises a file, for a shell; without a target, the result is written beside the file."""
    words = ["nlridge", "denoise"]
    sigma = options.get("sigma")
    if sigma is not None:
        words += ["--sigma", ",".join(map(repr, sigma if isinstance(sigma, list) else [sigma]))]
    for name in _NAMES:
        value = options.get(name)
        if value != _DEFAULTS.get(name) and value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += [f"--{name}" for name in ("develop", "overwrite") if options.get(name)]
    if target is not None:
        words += [f"--output={target}"] if str(target).startswith("-") else ["-o", str(target)]
    words += ["--", str(source)] if str(source).startswith("-") else [str(source)]
    return " ".join(map(_quoted, words))


def with_command(sentence: str, source: Path, target: Path, options: Mapping[str, Any]) -> str:
    """Return a sentence that names an option with the command that denoises the file again, with this option."""
    if not sentence.endswith(_REMOVES) or options.get("burst"):
        return sentence
    again = {**options, "noise": "correlated", "strength": 1.0, "overwrite": True}
    command = command_for(source, target, again)
    return f"{sentence.removesuffix(_REMOVES)}this removes it: {command}"


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
