"""Denoisers that the paper compares with, one file each: `denoiser(**options)` returns a function of a noisy image and sigma.

A file is found by its name, so that adding one adds a method: "dip" is dip.py, and "dip,iterations=300,seed=1" has
options.  Names that begin with an underscore are not methods.  A command line with {input} and {output} stands for any
other program (see _command.py).

    pip install ".[peers]"
    python -m benchmarks --data folder --only quality --methods dncnn ffdnet lidia fast best --weights folder
"""

import os
from importlib import import_module
from inspect import signature
from pathlib import Path
from pkgutil import iter_modules
from types import SimpleNamespace

folders = SimpleNamespace(
    weights=Path(os.environ.get("NLRIDGE_WEIGHTS", "weights")),
    checkpoints=Path(os.environ.get("NLRIDGE_CHECKPOINTS", "results/checkpoints")),
    checkouts=Path(os.environ.get("NLRIDGE_CHECKOUTS", "checkouts")),
    filters=Path(os.environ.get("NLRIDGE_FILTERS", ".venv-filters")),
)
"""Where the user's files are."""

EXAMPLES = ("low_rank", "optimal_weights", "pewa", "plr")
"""The methods that are examples of this package."""

_ABOUT = {
    "weights": "weights of the networks that were trained before",
    "checkpoints": "states of the networks that are trained on each image",
    "checkouts": "the user's copies of other authors' code",
    "filters": "the environment with VapourSynth and its plug-ins, which `make .venv-filters/bench-filters` makes",
}


def add_arguments(parser):
    for name, what in _ABOUT.items():
        parser.add_argument(
            f"--{name}",
            type=Path,
            default=getattr(folders, name),
            help=f"folder with {what} (default: NLRIDGE_{name.upper()}, or %(default)s)",
        )


def use(options):
    """Take the folders from the command line."""
    for name in _ABOUT:
        setattr(folders, name, getattr(options, name))


def names():
    """The names of the methods."""
    return [module.name for module in iter_modules(__path__) if not module.name.startswith("_")]


def is_peer(name):
    return name.split(",")[0] in names() or "{input}" in name


def is_independent(name):
    """Whether a method runs none of the package's code."""
    return is_peer(name) and name not in EXAMPLES


def denoiser(name):
    """The function that a name with options, or a command line, stands for."""
    if "{input}" in name:
        from ._command import denoiser as command

        return command(name)
    method, *changes = name.split(",")
    try:
        function = import_module(f".{method}", __name__).denoiser
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f'{method} needs PyTorch: pip install ".[peers]"') from None
    known = signature(function).parameters
    options = {}
    for change in changes:
        option, _, value = change.partition("=")
        if option not in known:
            expected = ", ".join(known) or "no options"
            raise ValueError(f"an option of {method} is {option!r}; expected {expected}")
        options[option] = known[option].annotation(value)
    return function(**options)
