"""The command that does the same again."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DEFAULTS = {"method": "standard", "strength": 1.0, "colour": 1.0, "frames": "auto"}
_NAMES = (
    "noise", "method", "strength", "colour", "format", "channel_axis", "stack_axis", "frames", "codec", "quality", "tile",
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
    if target is not None:
        words += [f"--output={target}"] if str(target).startswith("-") else ["-o", str(target)]
    words += ["--", str(source)] if str(source).startswith("-") else [str(source)]
    return " ".join(map(_quoted, words))


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
