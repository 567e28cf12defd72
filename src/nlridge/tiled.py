"""A file that is cleaned tile by tile, because it is larger than memory, or on a cluster."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .arguments import Layout, checked_layout, checked_tile, checked_workers
from .batch import MARK
from .conversion import to_dtype
from .files.npy import named_axes
from .files.tiff import axes_of_plain
from .large.denoising import checked_out, deciding, workforce_of
from .large.running import run
from .large.stores import Plan, opened
from .noise import Noise
from .ticking import ticking

TILE = 2048


def is_tiled(inputs: list[str], tile: int | None, scheduler: str | None) -> bool:
    """Whether inputs are to be cleaned tile by tile: on demand, and always if they are Zarr."""
    zarr = any(Path(name).suffix.lower() == ".zarr" for name in inputs)
    return zarr or tile is not None or scheduler is not None


def clean_tiled(
    source: Path,
    target: Path,
    *,
    overwrite: bool,
    axes: str | None,
    noise: str,
    sigma: Any,
    method: str,
    strength: float,
    workers: int | None,
    tile: int | None,
    scheduler: str | None,
    progress: Callable[[float], None],
) -> Noise:
    """Clean a file into a new one of the same type of pixels; gives the noise (of the first frame)."""
    ends = {source.resolve(), target.resolve()}
    if len(ends) == 1 or any(end in other.parents for end in ends for other in ends):
        raise ValueError(f"output is {target}, which is the input or in it, or has it in it; expected another place")  # fmt: skip
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists; use --overwrite or --skip-existing")
    place = checked_out(target, scheduler, overwrite=overwrite)
    if source.suffix.lower() in (".tif", ".tiff") and source.exists():
        axes = axes_of_plain(source, axes)
    found = opened(source.absolute())
    named = axes if axes and found.group is None else found.axes
    named = named_axes(found.array.shape, named)
    layout = _layout(found.array, named)
    decide = deciding(layout, sigma, None, strength, method, kind=noise)
    side = checked_tile(TILE if tile is None else tile)
    plan = Plan(layout.shape, np.dtype(found.array.dtype), named, side, found)
    if found.group is not None and place.suffix.lower() != ".zarr":
        raise ValueError(f"output is {target}; expected a name that ends in .zarr, as the input")

    shares = partial(ticking, lambda done, total: progress(done / total))
    with workforce_of(scheduler, checked_workers(workers), found.array) as workforce:
        return run(found.array, place, plan, decide, workforce, shares, to_dtype).noise


def target_of(source: Path, output: str | None) -> Path:
    """Where the result goes: beside the input unless it is named."""
    if output is None:
        return source.with_name(f"{source.stem.removesuffix('.ome')}{MARK}{source.suffix}")
    return Path(output)


def _layout(array: Any, axes: str) -> Layout:
    """Of an array that may be a stack in several ways."""
    if len(set(axes)) != len(axes) or not set("YX") <= set(axes):
        raise ValueError(f"its axes are {axes}; expected an image")
    one = [n for axis, n in zip(axes, array.shape, strict=True) if axis in "CYX"]
    letters = [axis for axis in axes if axis in "CYX"]
    channel = letters.index("C") if "C" in letters else None
    checked_layout(tuple(one), np.dtype(array.dtype), None, channel)
    return Layout(tuple(array.shape), None, axes.index("C") if "C" in axes else None)
