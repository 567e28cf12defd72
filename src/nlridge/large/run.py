"""Denoise one array on disk into another, frame by frame; an interrupted run can be resumed."""

import errno
import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import denoised
from ..algorithm.passes import all_passes
from ..engines.pool import in_order
from ..files.atomic import writing
from ..noise import Noise
from ..planning.channels import Planes
from ..planning.doubts import warn_about
from ..planning.layout import Layout
from ..planning.options import Options
from ..planning.pixels import restored, stabilised
from ..planning.plan import Plan
from ..progress import Progress, Tick, progress_reporter
from .bands import bands_of, finish_in_background, split_range
from .disk import NewArray, create_or_open, remove_partial_chunks, write_pyramid
from .executors import Executor
from .frames import Frame, PlannedFrame, frames_of, plan_frame, sample_of
from .lazy import Image, LazyImage
from .limits import expect_disk_space
from .resume import (
    claim,
    discard,
    fingerprint,
    is_resumable,
    publish,
    run_folder_for,
    sync_all,
    work_folder_of,
)
from .scales import slice_within
from .stages import Stages, Strips

Store = Callable[[npt.NDArray[Any], np.dtype[Any]], npt.NDArray[Any]]
"""Converts denoised floats to the type of the output."""

_ROWS = 256  # converted at a time


def run(
    array: Any,
    layout: Layout,
    options: Options,
    out: Path,
    spec: NewArray,
    executor: Executor,
    progress: Progress,
    store: Store,
) -> Noise:
    """Denoise all frames of an array into a new one; returns the noise of the first frame.

    The new array appears at `out` once it is complete.  Until then, intermediate results are in a folder beside it.
    An interrupted run resumes from there, frame by frame, unless the image or the settings have changed.
    """
    out = out.resolve()  # a link stays a link
    frames = frames_of(array, spec.axes)
    work_folder = work_folder_of(out)
    expect_disk_space(out, work_folder, math.prod(frames[0].shape))
    first = plan_frame(frames[0], layout, options)
    warn_about(first.plan.doubt)
    with claim(work_folder):
        _expect_shared_files(executor, frames[0], work_folder)
        folder = run_folder_for(work_folder, spec, out)
        result = folder / "result"
        bands = _count_bands(first.plan, spec.tile)
        total = len(frames) * bands
        with (
            progress_reporter(progress, total, "band") as report,
            _explain(out, report, total, resumable=is_resumable(first.plan)) as tick,
        ):
            target = create_or_open(result, out.suffix.lower(), spec)
            for k, frame in enumerate(frames):
                planned = first if k == 0 else plan_frame(frame, layout, options)
                work = folder / f"{k}-{fingerprint(planned)}"
                done = work.with_name(f"{work.name}-done")
                if done.exists():
                    tick(bands, already=True)
                    continue
                for other in folder.glob(f"{k}-*"):
                    if other != work:  # another image, or other settings
                        discard(other)
                work.mkdir(exist_ok=True)
                scaled = _scaled_tick(tick, _count_bands(planned.plan, spec.tile), bands)
                stages = Stages(work, spec.tile, executor, scaled)
                _denoise_frame(planned, replace(frame, array=target), stages, store)
                done.touch()
                discard(work)
            write_pyramid(result, spec)
            remove_partial_chunks(result)
            publish(result, out)
    return first.plan.noise


@contextmanager
def _explain(out: Path, tick: Tick, total: int, *, resumable: bool) -> Iterator[Tick]:
    """Report how far an interrupted run has got, and name the output if the disk is full."""
    done = 0

    def counted(count: int = 1, *, already: bool = False) -> None:
        nonlocal done
        done += count
        tick(count, already=already)

    again = "run it again to resume" if resumable else "run it again to start over"
    try:
        yield counted
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted with {done / total:.0%} done; {again}") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            message = f"{os.strerror(error.errno)}; free some space and {again}"
            raise OSError(error.errno, message, str(out)) from error
        raise


def _scaled_tick(tick: Tick, calls: int, ticks: int) -> Tick:
    """Return a function that calls `tick` evenly, `ticks` times in total over `calls` calls.

    Frames may differ in their number of passes, but all count the same in the progress.
    """
    called = 0

    def scaled(count: int = 1, *, already: bool = False) -> None:
        nonlocal called
        before = called * ticks // calls
        called += count
        tick(called * ticks // calls - before, already=already)

    return scaled


def _denoise_frame(planned: PlannedFrame, target: Frame, stages: Stages, store: Store) -> None:
    images = [_denoise_planes(planned, planes, stages) for planes in planned.plan.planes]
    bands = bands_of(target.shape[1], stages.band_height)
    written = [stages.folder / f"written-{k}" for k in range(len(bands))]
    missing = [k for k, mark in enumerate(written) if not mark.exists()]
    stages.tick(len(bands) - len(missing), already=True)
    work = partial(_write_bands, planned.plan, planned.frame, target, images, bands, written, store)
    stages.executor.run_bands(work, missing, stages.tick)


def _denoise_planes(planned: PlannedFrame, planes: Planes, stages: Stages) -> LazyImage:
    """Denoise the planes of channels that are denoised jointly."""
    plan = planned.plan
    shape = (len(planes.channels), *plan.shape[1:])
    noisy = stages.stored(partial(_noisy_planes, plan, planes, planned.frame), shape)[0]
    result: LazyImage
    *_, result = denoised(
        noisy,
        plan.plane_noise(planes, planned.levels),
        plan.recipe,
        stages.run_pass,
        plan.tuning,
        scales=stages,
    )
    return result


def _count_bands(plan: Plan, band_height: int) -> int:
    """Return how often `tick` is called for a frame: once for each band of each pass and of the result."""
    heights = [shape[0] for shape, _ in all_passes(plan.recipe, plan.shape[1:])]
    passes = sum(len(bands_of(height, band_height)) for height in heights)
    return len(plan.planes) * passes + len(bands_of(plan.shape[1], band_height))


def _noisy_planes(plan: Plan, planes: Planes, frame: Frame, rows: range, workers: int) -> Strips:
    """Yield the planes of the stabilised and scaled image."""

    def strip(part: range) -> tuple[range, Image]:
        return part, planes.of(stabilised(plan, planes.channels, frame.read(part)))

    return in_order(strip, split_range(rows, frame.rows_at_once), workers)


def _write_bands(
    plan: Plan,
    frame: Frame,
    target: Frame,
    images: Sequence[LazyImage],
    bands: Sequence[range],
    written: Sequence[Path],
    store: Store,
    numbers: list[int],
    workers: int,
) -> Iterator[int]:
    """Write each band of the result at once, as whole tiles; an empty file marks that it is on the disk."""

    def strip(rows: range) -> tuple[range, npt.NDArray[Any]]:
        pixels = frame.read(rows)
        result = np.empty(pixels.shape, target.dtype)
        for part in split_range(rows, _ROWS):
            inside = slice_within(part, rows)
            planes = [image[:, part.start : part.stop] for image in images]
            result[:, inside] = store(restored(plan, pixels[:, inside], planes), target.dtype)
        return rows, result

    def write() -> Iterator[tuple[int, Callable[[], None]]]:
        for k in numbers:
            rows = bands[k]
            result = np.empty((frame.shape[0], len(rows), frame.shape[2]), target.dtype)
            for part, pixels in in_order(strip, split_range(rows, frame.rows_at_once), workers):
                result[:, slice_within(part, rows)] = pixels
            target.write(rows, result, workers)
            yield k, partial(_mark_written, written[k])

    return finish_in_background(write())


def _mark_written(path: Path) -> None:
    """Create an empty file once everything written before is on the disk."""
    sync_all()
    with writing(path):
        pass


def _expect_shared_files(executor: Executor, frame: Frame, folder: Path) -> None:
    """Check that the workers see the same image and the same folder as this process."""
    answers = executor.ask_workers(_visible_files, frame, folder / "claim")
    expected = _visible_files(frame, folder / "claim") if answers else None
    for worker, answer in answers.items():
        if answer != expected:
            raise ValueError(
                f"worker {worker} cannot read the image or {folder}; expected absolute paths on a file "
                "system that the workers share with this process"
            )


def _visible_files(frame: Frame, file: Path) -> tuple[str, bool]:
    """Return a digest of a sample of the pixels, and whether a file exists."""
    try:
        return hashlib.sha256(sample_of(frame)[0].tobytes()).hexdigest(), file.exists()
    except Exception as error:
        return str(error), False
