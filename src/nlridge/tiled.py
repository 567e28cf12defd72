"""A file that is cleaned tile by tile, because it is larger than memory, or on a cluster."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .arguments import Layout, checked_layout, checked_tile, checked_workers
from .files import stored_as
from .files.npy import named_axes
from .large.denoising import carrying_out, checked_out, deciding
from .large.running import run
from .large.stores import SUFFIXES, Plan, opened
from .noise import Noise

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
    if target.resolve() == source.resolve():
        raise ValueError(f"output is {target}, which is the input; expected another name")
    place = checked_out(target, scheduler, overwrite=overwrite)
    found = opened(source)
    named = found.axes or named_axes(found.array.shape, axes)
    layout = _layout(found.array, named)
    decide = deciding(layout, sigma, None, strength, method, kind=noise)
    side = checked_tile(TILE if tile is None else tile)
    plan = Plan(layout.shape, np.dtype(found.array.dtype), named, side, found)
    if found.group is not None and place.suffix.lower() != ".zarr":
        raise ValueError(f"output is {target}; expected a name that ends in .zarr, as the input")

    @contextmanager
    def ticking(total: int, unit: str) -> Iterator[Callable[[], None]]:
        done = 0

        def tick() -> None:
            nonlocal done
            done += 1
            progress(done / total)

        yield tick

    place.parent.mkdir(parents=True, exist_ok=True)
    with carrying_out(scheduler, checked_workers(workers), found.array) as carry_out:
        return run(found.array, place, plan, decide, carry_out, ticking, stored_as).noise


def target_of(source: Path, output: str | None) -> Path:
    """Where the result goes: beside the input unless it is named."""
    if output is None:
        return source.with_name(f"{source.stem}_denoised{source.suffix}")
    path = Path(output)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(
            f"output is {output}; expected a name that ends in {', '.join(SUFFIXES)} to work tile by tile"
        )
    return path


def _layout(array: Any, axes: str) -> Layout:
    """Of an array that may be a stack in several ways."""
    if len(set(axes)) != len(axes) or not set("YX") <= set(axes):
        raise ValueError(f"its axes are {axes}; expected an image")
    one = [n for axis, n in zip(axes, array.shape, strict=True) if axis in "CYX"]
    letters = [axis for axis in axes if axis in "CYX"]
    channel = letters.index("C") if "C" in letters else None
    checked_layout(tuple(one), np.dtype(array.dtype), None, channel)
    return Layout(tuple(array.shape), None, axes.index("C") if "C" in axes else None)
