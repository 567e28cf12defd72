"""A file that is cleaned tile by tile, because it is larger than memory, or on a cluster."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.tuning import Tuning
from ..api.arguments import checked_tile, checked_workers
from ..api.conversion import to_dtype
from ..files.formats.npy import named_axes
from ..files.formats.tiff import axes_of_plain
from ..large.disk import NewArray, Opened, opened
from ..large.entry import checked_out, workforce_of
from ..large.frames import expect_finite, frames_of, levels_for, sampled
from ..large.limits import expect_plausible
from ..large.resume import tidy_up
from ..large.run import run
from ..noise import Noise
from ..noise.estimation import noise_of
from ..planning.layout import Layout, layout_of
from ..planning.options import checked_options
from ..progress import Progress
from .batch import MARK, is_zarr_name


def is_tiled(inputs: list[str], tile: int | None, scheduler: str | None) -> bool:
    """Whether inputs are to be cleaned tile by tile: on demand, and always if they are Zarr."""
    zarr = any(is_zarr_name(Path(name)) for name in inputs)
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
    progress: Progress,
) -> Noise:
    """Clean a file into a new one of the same type of pixels; gives the noise (of the first frame)."""
    ends = {source.resolve(), target.resolve()}
    if len(ends) == 1 or any(end in other.parents for end in ends for other in ends):
        raise ValueError(f"output is {target}, which is the input or in it, or has it in it; expected another place")  # fmt: skip
    if target.exists() and not overwrite:
        tidy_up(target)
        raise FileExistsError(f"{target} exists; use --overwrite or --skip-existing")
    place = checked_out(target, scheduler, overwrite=overwrite)
    found, named = _opened(source, axes)
    layout = _layout(found.array, named)
    options = checked_options(sigma, None, method, None, Tuning(strength), noise)
    if options.noise is not None:
        levels_for(options.noise, layout)
    wanted = NewArray(layout.shape, np.dtype(found.array.dtype), named, checked_tile(tile), found)
    if found.group is not None and place.suffix.lower() != ".zarr":
        raise ValueError(f"output is {target}; expected a name that ends in .zarr, as the input")
    with workforce_of(scheduler, checked_workers(workers), found.array) as workforce:
        return run(found.array, layout, options, place, wanted, workforce, progress, to_dtype)


def noise_in_parts(source: Path, axes: str | None) -> tuple[Noise, int, int]:
    """The noise of the middle frame, from a sample of its pixels: the model, the number of the frame, and of how many."""
    found, named = _opened(source, axes)
    _layout(found.array, named)
    frames = frames_of(found.array, named)
    middle = len(frames) // 2
    pixels, missing = sampled(frames[middle])
    return noise_of(expect_finite(pixels), missing), middle + 1, len(frames)


class Parts:
    """All planes of an array on disk, (planes, height, width), of which some rows are read at a time."""

    def __init__(self, source: Path, axes: str | None) -> None:
        found, named = _opened(source, axes)
        _layout(found.array, named)
        self.frames = frames_of(found.array, named)
        channels, *size = self.frames[0].shape
        self.shape = (len(self.frames) * channels, *size)
        self.dtype = self.frames[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: tuple[int, slice]) -> npt.NDArray[Any]:
        """Some rows of a plane."""
        plane, rows = index
        number, channel = divmod(plane, self.frames[0].shape[0])
        read = self.frames[number].read(range(*rows.indices(self.shape[1])))
        found: npt.NDArray[Any] = read[channel]
        return found


def _opened(source: Path, axes: str | None) -> tuple[Opened, str]:
    """An array on disk and a letter for each of its axes."""
    if source.suffix.lower() in (".tif", ".tiff") and source.is_file():
        axes = axes_of_plain(source, axes)
    found = opened(source.absolute())
    for array in [found.array, *(found.group[name] for name in found.levels[1:])]:
        expect_plausible(array)
    named = axes if axes and found.group is None else found.axes
    return found, named_axes(found.array.shape, named)


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
    layout_of(tuple(one), np.dtype(array.dtype), None, channel)
    return Layout(tuple(array.shape), None, axes.index("C") if "C" in axes else None)
