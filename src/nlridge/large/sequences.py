"""Denoise frames that belong together from one array on disk into another; an interrupted run can be resumed.

Frames are read, denoised and written one by one, so that those that are done are the first ones. A run that resumes
starts some frames before the next one, so that the result is the same to the bit.
"""

import hashlib
import math
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..atomic import writing
from ..errors import ArgumentError
from ..images.bands import finish_in_background
from ..noise import Noise
from ..planning.conversion import to_dtype
from ..planning.doubts import warn_about
from ..planning.frames import SourceFrame
from ..planning.layout import Layout, SequenceAxis
from ..planning.levels import levels_of, usable_levels
from ..planning.options import Options
from ..planning.parts import part_of
from ..planning.sequences import SequencePlan, plan_sequence
from ..progress import Progress, Tick, progress_reporter
from ..types import Array, Pixels
from .frames import Frame, Source
from .new import NewArray
from .resume import claim, discard, fingerprint, is_resumable, sync_all, work_folder_of
from .run import explain, publishing

_MAX_KEPT = 2**28  # bytes of the frames of a chunk that are kept in memory
# Seconds between two records of the frames that are done, each of which waits for the disk.
_SECONDS = 2.0


def sequences_of(sources: Sequence[Source], axis: str) -> list[list[Source]]:
    """Return the frames along an axis, given by its letter, for each position along the other axes of the stack."""
    sequences: dict[tuple[int, ...], list[Source]] = {}
    arrays: dict[int, ChunkFrames] = {}

    def in_chunks(frame: Frame) -> Frame:
        chunks = getattr(frame.array, "chunks", None)
        if axis not in frame.place or not chunks:
            return frame
        place = frame.axes.index(axis)
        most = max(_MAX_KEPT // (math.prod(frame.shape) * frame.dtype.itemsize), 1)
        array = ChunkFrames(frame.array, place, min(chunks[place], most))
        return replace(frame, array=arrays.setdefault(id(frame.array), array))

    for source in sources:
        others = tuple(k for letter, k in source.image.place.items() if letter != axis)
        sequences.setdefault(others, []).append(source.mapped(in_chunks))
    return list(sequences.values())


class ChunkFrames:
    """An array whose chunks extend over several frames, which are decoded only once if they are read in order."""

    def __init__(self, array: Any, axis: int, at_once: int) -> None:
        self.array, self.axis, self.at_once = array, axis, at_once
        self.shape: tuple[int, ...] = tuple(array.shape)
        self.dtype = np.dtype(array.dtype)
        self.kept: tuple[Any, Pixels] | None = None

    def __getitem__(self, index: tuple[slice, ...]) -> Pixels:
        """Read a frame, and keep those after it in the same chunk."""
        number, length = index[self.axis].start, self.shape[self.axis]
        first = number - number % self.at_once
        wanted, inside = list(index), [slice(None)] * len(index)
        wanted[self.axis] = slice(first, min(first + self.at_once, length))
        inside[self.axis] = slice(number - first, number - first + 1)
        if self.kept is None or self.kept[0] != wanted:
            self.kept = None
            self.kept = wanted, np.asarray(self.array[tuple(wanted)])
        return self.kept[1][tuple(inside)]


@dataclass(frozen=True, eq=False)
class DiskFrames:
    """Frames that belong together, each of which is read as a whole."""

    sources: Sequence[Source]
    levels: Array
    """The levels of the noise, which broadcast against a frame, if there is no map."""

    def read(self, number: int) -> SourceFrame:
        """Read a frame."""
        source = self.sources[number]
        return as_frame([frame.read(range(frame.shape[1])) for frame in source.frames], self.levels)


def as_frame(arrays: Sequence[Pixels], levels: Array) -> SourceFrame:
    """Return the frame that `Source.frames` describe; `levels` are those of its noise if there is no map."""
    pixels, missing, level_map = part_of(range(arrays[0].shape[1]), arrays)
    return SourceFrame(pixels, missing, levels if level_map is None else level_map)


def run_sequences(
    sequences: Sequence[Sequence[Source]],
    layout: Layout,
    options: Options,
    axis: SequenceAxis,
    out: Path,
    spec: NewArray,
    workers: int,
    progress: Progress,
) -> tuple[Noise, int]:
    """Denoise sequences of frames that belong together into a new array.

    Returns the noise of the first sequence that has valid pixels, and the number of frames that have none.

    The new array appears at `out` once it is complete. An interrupted run resumes at the frame where it stopped, unless
    the sequence or the settings have changed.
    """
    out = out.resolve()  # a link stays a link
    work_folder = work_folder_of(out)
    scans = [_scan(sources) for sources in sequences]
    _expect_valid(scans, sequences[0][0])
    frames = [DiskFrames(sources, given_levels(options, layout)) for sources in sequences]
    first = _plan(frames[0], options, axis, workers)
    warn_about(first.plan.doubt)
    noises: list[Noise] = []
    total = sum(map(len, sequences))
    with (
        claim(work_folder),
        progress_reporter(progress, total, "frame") as report,
        explain(out, report, total, resumable=is_resumable(first.plan)) as tick,
        publishing(work_folder, out, spec, axis.name) as (folder, target),
    ):
        for k, (sources, scan) in enumerate(zip(sequences, scans, strict=True)):
            planned = first if k == 0 else _plan(frames[k], options, axis, workers)
            if scan.valid_frames:
                noises.append(planned.plan.noise)
            done = folder / f"{k}-{fingerprint(planned.plan, sources[0], scan.digest)}"
            for other in folder.glob(f"{k}-*"):
                if other != done:  # other frames, or other settings
                    discard(other)
            targets = [replace(source.image, array=target) for source in sources]
            _denoise_sequence(planned, frames[k], targets, done, workers, tick)
    return noises[0], total - sum(scan.valid_frames for scan in scans)


def given_levels(options: Options, layout: Layout) -> Array:
    """The levels of the noise that broadcast against a frame; 0 if the noise is not given."""
    if options.noise is None or np.ndim(options.noise.level) > 1:  # to be estimated, or a map
        return np.zeros((1, 1, 1))
    levels: Array = levels_of(options.noise, layout)[0]
    return levels


def _plan(frames: DiskFrames, options: Options, axis: SequenceAxis, workers: int) -> SequencePlan:
    return plan_sequence(frames.read, len(frames.sources), options, axis, workers)


class Scan(NamedTuple):
    """The facts about a sequence for which all of its frames are read."""

    valid_frames: int
    """The number of frames with valid pixels."""
    positive: bool
    """Whether the map of levels, if there is one, has any positive value."""
    digest: str


def _scan(sources: Sequence[Source]) -> Scan:
    """Read and check all frames once."""
    digest = hashlib.sha256()
    valid = negative = positive = 0
    for source in sources:
        rows = range(source.image.shape[1])
        arrays = [frame.read(rows) for frame in source.frames]
        for array in arrays:
            digest.update(np.ascontiguousarray(array).data)
        pixels, missing, levels = part_of(rows, arrays)
        valid += missing is None or not missing.all()
        if levels is not None:
            negative += int(np.count_nonzero(levels < 0))
            positive += int(np.count_nonzero(levels > 0))
            usable_levels(levels, missing, pixels)
    if negative:
        raise ArgumentError("sigma", negative, "0 or more", "is negative in {value} pixels")
    return Scan(valid, positive > 0, digest.hexdigest())


def _expect_valid(scans: Sequence[Scan], source: Source) -> None:
    if not any(scan.valid_frames for scan in scans):
        raise ArgumentError("image", None, "at least one", "has no valid pixels")
    if source.levels is not None and not any(scan.positive for scan in scans):
        shape = source.levels.array.shape
        raise ArgumentError(
            "sigma", shape, "at least one", "has shape {value} and no positive value"
        )


def _denoise_sequence(
    planned: SequencePlan,
    frames: DiskFrames,
    targets: Sequence[Frame],
    done: Path,
    workers: int,
    tick: Tick,
) -> None:
    """Write the frames that are not done; the file `done` contains the number of those that are."""
    before = int(done.read_text()) if done.exists() else 0
    remaining = range(before, planned.count)
    tick(before, already=True)
    if not remaining:
        return
    recorded = time.monotonic()

    def write(number: int, image: Pixels) -> None:
        nonlocal recorded
        target = targets[number]
        target.write(range(image.shape[1]), to_dtype(image, target.dtype), 1)
        if time.monotonic() - recorded >= _SECONDS:
            _record(done, number + 1)
            recorded = time.monotonic()

    def results() -> Generator[tuple[int, Callable[[], None]]]:
        with closing(planned.run(frames.read, workers, frames=remaining)) as images_of_frames:
            for number, images in zip(remaining, images_of_frames, strict=True):
                yield number, partial(write, number, images[-1])

    written = before
    try:
        with closing(results()) as tasks:
            for number in finish_in_background(tasks):
                written = number + 1
                tick()
    except BaseException:
        with suppress(OSError):  # the disk is full
            _record(done, written)
        raise
    _record(done, written)


def _record(done: Path, count: int) -> None:
    """Record how many frames are done, once all of them are on the disk."""
    sync_all()
    with writing(done) as file:
        file.write(str(count).encode())
