"""Denoising of a file in tiles, because it is larger than memory, or on a cluster."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...api.arguments import checked_tile, checked_workers
from ...core.algorithm.tuning import Tuning
from ...errors import ArgumentError
from ...files.formats.npy import named_axes
from ...files.formats.tiff import axes_of_plain
from ...files.microscopy import spacing_of
from ...files.picture import Layer
from ...large.disk import OpenedArray, open_array
from ...large.entry import checked_out, executor_for
from ...large.frames import Source, frames_of, sample_of, sources_of
from ...large.limits import expect_plausible
from ...large.new import NewArray
from ...large.run import run
from ...large.sequences import run_sequences, sequences_of
from ...noise import Noise
from ...planning.blind import estimated_noise
from ...planning.layout import Layout, SequenceAxis, layout_of
from ...planning.levels import levels_of
from ...planning.options import checked_options
from ...progress import Progress
from .axes import notes_on_axes, sequence_of
from .grain import ends_of, level_in, plain_words
from .paths import INSTEAD_OF_EXISTING, MARK, is_zarr_name
from .pictures import unchanged_frames
from .words import recorded_warnings

# Pixels of all channels of a frame; several dozen of larger ones may not fit into memory.
_LARGEST = 2**23


@dataclass(frozen=True)
class DenoisedArray:
    """The result of denoising a file in tiles."""

    noise: Noise
    """The noise of the first frame with valid pixels."""
    in_words: str
    """How strong it is, in plain words."""
    frames: int
    together: str
    """How frames belong together that were denoised together: "time" or "depth"."""
    warnings: list[str]
    """What was doubtful about the options."""
    notes: list[str]
    """What could not be preserved or done."""


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
    frames: str,
    noise: str | None,
    sigma: Any,
    method: str,
    workers: int | None,
    tile: int | None,
    scheduler: str | None,
    progress: Progress,
    mask: bool | None = None,
    **adjustments: Any,
) -> DenoisedArray:
    """Denoise a file into a new one of the same data type; `frames` says how its frames belong together."""
    ends = {source.resolve(), target.resolve()}
    if len(ends) == 1 or any(end in other.parents for end in ends for other in ends):
        raise ArgumentError(
            "output",
            target,
            "another place",
            "is {value}, which is, contains or is inside the input",
        )
    path = checked_out(
        "output", target, scheduler, overwrite=overwrite, alternatives=INSTEAD_OF_EXISTING
    )
    opened, letters, notes = _open(source, axes)
    array = opened.array
    layout = _layout(array, letters)
    tuning = Tuning(**adjustments, outliers=mask is not False)
    options = checked_options(sigma, noise, method, None, tuning)
    if options.noise is not None:
        levels_of(options.noise, layout)
    spec = NewArray(layout.shape, np.dtype(array.dtype), letters, checked_tile(tile), opened)
    if opened.group is not None and path.suffix.lower() != ".zarr":
        raise ArgumentError("output", target, "a name that ends in .zarr, like the input")
    sources = sources_of(frames_of(array, letters))
    spacing = spacing_of(opened.sizes)
    along, together = sequence_of(Layer(array, letters), frames)
    if frames == "auto" and together and math.prod(sources[0].image.shape) > _LARGEST:
        notes.append(
            f"frames were denoised independently, as they are large; --frames {together} denoises them together"
        )
        along = together = ""
    if together and scheduler is not None:
        raise ArgumentError(
            "client",
            scheduler,
            "none for frames that belong together, or `frames='independent'`",
            "is {value}",
        )
    threads = checked_workers(workers)
    common = layout, options
    with recorded_warnings() as warnings:
        if together:
            axis = SequenceAxis(f"{together}_axis", None, spacing if together == "depth" else None)
            sequences = sequences_of(sources, along)
            model, empty = run_sequences(sequences, *common, axis, path, spec, threads, progress)
        else:
            with executor_for(scheduler, threads, [("image", array)]) as executor:
                model, empty = run(sources, *common, path, spec, executor, progress)
    if empty:
        notes.append(unchanged_frames(empty, len(sources)))
    samples = (sample_of(source) for source in sources)
    words = next(
        _in_words(model, pixels, missing, options.noise is not None)
        for pixels, missing in samples
        if missing is None or not missing.all()
    )
    return DenoisedArray(model, words, len(sources), together, warnings, notes)


def _in_words(
    noise: Noise,
    sample: npt.NDArray[Any],
    missing: npt.NDArray[np.bool_] | None,
    given: bool = False,
) -> str:
    """Return how strong noise is, from a sample of the pixels as (channels, height, width)."""
    valid = sample if missing is None else sample[~missing]
    return plain_words(noise, level_in(noise, sample, 0, missing), ends_of(valid), given=given)


def noise_in_sample(
    source: Path, axes: str | None, kind: str
) -> tuple[Noise, str, int, int, list[str]]:
    """Estimate the noise of the middle frame from a sample of its pixels.

    Returns the noise, how strong it is in plain words, the number of the frame (from 1), the number of frames, and notes.
    """
    opened, letters, notes = _open(source, axes)
    _layout(opened.array, letters)
    frames = frames_of(opened.array, letters)
    middle = len(frames) // 2
    pixels, missing = sample_of(Source(frames[middle]))
    noise = estimated_noise(pixels, missing, kind)
    return noise, _in_words(noise, pixels, missing), middle + 1, len(frames), notes


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
