"""Denoising of a file in tiles, because it is larger than memory, or on a cluster."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.tuning import Tuning
from ..api.arguments import checked_tile, checked_workers
from ..api.conversion import to_dtype
from ..files.formats.npy import named_axes
from ..files.formats.tiff import axes_of_plain
from ..large.disk import NewArray, OpenedArray, open_array
from ..large.entry import checked_out, executor_for
from ..large.frames import Source, frames_of, sample_of, sources_of
from ..large.limits import expect_plausible
from ..large.run import run
from ..noise import Noise
from ..planning.blind import estimated_noise
from ..planning.layout import Layout, layout_of
from ..planning.levels import levels_of
from ..planning.options import checked_options
from ..progress import Progress
from .batch import INSTEAD_OF_EXISTING, MARK, is_zarr_name, notes_on_axes, unchanged_frames
from .words import recorded_warnings


def is_tiled(inputs: list[str], tile: int | None, scheduler: str | None) -> bool:
    """Return whether to process the inputs in tiles: if asked for, and always if one of them is Zarr."""
    zarr = any(is_zarr_name(Path(name)) for name in inputs)
    return zarr or tile is not None or scheduler is not None


def clean_tiled(
    source: Path,
    target: Path,
    *,
    overwrite: bool,
    axes: str | None,
    noise: str | None,
    sigma: Any,
    method: str,
    strength: float,
    colour: float = 1.0,
    workers: int | None,
    tile: int | None,
    scheduler: str | None,
    progress: Progress,
) -> tuple[Noise, list[str], list[str]]:
    """Denoise a file into a new one of the same data type.

    Returns the noise of its first frame with valid pixels, warnings and notes.
    """
    ends = {source.resolve(), target.resolve()}
    if len(ends) == 1 or any(end in other.parents for end in ends for other in ends):
        raise ValueError(
            f"output is {target}, which is, contains or is inside the input; expected another place"
        )
    path = checked_out(
        "output", target, scheduler, overwrite=overwrite, alternatives=INSTEAD_OF_EXISTING
    )
    opened, letters, notes = _open(source, axes)
    array = opened.array
    layout = _layout(array, letters)
    options = checked_options(sigma, noise, method, None, Tuning(strength, colour))
    if options.noise is not None:
        levels_of(options.noise, layout)
    spec = NewArray(layout.shape, np.dtype(array.dtype), letters, checked_tile(tile), opened)
    if opened.group is not None and path.suffix.lower() != ".zarr":
        raise ValueError(f"output is {target}; expected a name that ends in .zarr, like the input")
    sources = sources_of(frames_of(array, letters))
    with (
        executor_for(scheduler, checked_workers(workers), [("image", array)]) as executor,
        recorded_warnings() as warnings,
    ):
        model, empty = run(sources, layout, options, path, spec, executor, progress, to_dtype)
    if empty:
        notes.append(unchanged_frames(empty, len(sources)))
    return model, warnings, notes


def noise_in_sample(source: Path, axes: str | None, kind: str) -> tuple[Noise, int, int, list[str]]:
    """Estimate the noise of the middle frame from a sample of its pixels.

    Returns the noise, the number of the frame (from 1), the number of frames, and notes.
    """
    opened, letters, notes = _open(source, axes)
    _layout(opened.array, letters)
    frames = frames_of(opened.array, letters)
    middle = len(frames) // 2
    pixels, missing = sample_of(Source(frames[middle]))
    return estimated_noise(pixels, missing, kind), middle + 1, len(frames), notes


class DiskPlanes:
    """All planes of an array on disk, as (planes, height, width); rows are read when they are indexed."""

    def __init__(self, source: Path, axes: str | None) -> None:
        opened, letters, self.notes = _open(source, axes)
        _layout(opened.array, letters)
        self.frames = frames_of(opened.array, letters)
        channels, *size = self.frames[0].shape
        self.shape = (len(self.frames) * channels, *size)
        self.dtype = self.frames[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: tuple[int, slice]) -> npt.NDArray[Any]:
        """Read some rows of a plane."""
        plane, rows = index
        number, channel = divmod(plane, self.frames[0].shape[0])
        channels = self.frames[number].read(range(*rows.indices(self.shape[1])))
        pixels: npt.NDArray[Any] = channels[channel]
        return pixels


def _open(source: Path, axes: str | None) -> tuple[OpenedArray, str, list[str]]:
    """Open an array on disk; returns it with one letter for each axis, and notes."""
    given = axes
    if source.suffix.lower() in (".tif", ".tiff") and source.is_file():
        axes = axes_of_plain(source, axes)
    opened = open_array(source.absolute())
    for array in [opened.array, *(opened.group[name] for name in opened.levels[1:])]:
        expect_plausible(array)
    letters = axes if axes and opened.group is None else opened.axes
    used = named_axes(opened.array.shape, letters)
    return opened, used, notes_on_axes(given, [used])


def target_of(source: Path, output: str | None) -> Path:
    """Return the path of the result: beside the input, unless an output is given."""
    if output is None:
        return source.with_name(f"{source.stem.removesuffix('.ome')}{MARK}{source.suffix}")
    return Path(output)


def _layout(array: Any, axes: str) -> Layout:
    """Check an array, which may have several stack axes, and return its layout."""
    if len(set(axes)) != len(axes) or not set("YX") <= set(axes):
        raise ValueError(f"its axes are {axes}; expected an image with Y and X, each axis once")
    frame_shape = [n for axis, n in zip(axes, array.shape, strict=True) if axis in "CYX"]
    frame_axes = [axis for axis in axes if axis in "CYX"]
    channel = frame_axes.index("C") if "C" in frame_axes else None
    layout_of(tuple(frame_shape), np.dtype(array.dtype), None, channel)
    return Layout(tuple(array.shape), None, axes.index("C") if "C" in axes else None)
