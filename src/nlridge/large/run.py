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

from ..atomic import writing
from ..core.engines.grid import slice_within, split_range
from ..core.engines.pool import in_order
from ..images.bands import bands_of, finish_in_background
from ..images.executors import Executor
from ..images.lazy import LazyImage
from ..images.stored import Stages
from ..noise import Noise
from ..planning.conversion import to_dtype
from ..planning.doubts import warn_about
from ..planning.layout import Layout
from ..planning.options import Options
from ..planning.parts import source_of
from ..planning.pixels import restored
from ..planning.plan import Plan
from ..planning.way import denoised_planes
from ..progress import Progress, Tick, progress_reporter
from ..types import Pixels
from .frames import Frame, PlannedFrame, Source, plan_frame, sample_of
from .limits import expect_disk_space
from .new import NewArray, create_or_open, remove_partial_chunks, write_pyramid
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


def run(
    sources: Sequence[Source],
    layout: Layout,
    options: Options,
    out: Path,
    spec: NewArray,
    executor: Executor,
    progress: Progress,
) -> tuple[Noise, int]:
    """Denoise all frames of an array into a new one.

    Returns the noise of the first frame that has valid pixels, and the number of frames that have none.

    The new array appears at `out` once it is complete. Until then, intermediate results are in a folder beside it.
    An interrupted run resumes from there, frame by frame, unless the image or the settings have changed.
    """
    out = out.resolve()  # a link stays a link
    work_folder = work_folder_of(out)
    expect_disk_space(out, work_folder, math.prod(sources[0].image.shape))
    first = plan_frame(sources[0], layout, options)
    warn_about(first.plan.doubt)
    with claim(work_folder):
        _expect_shared_files(executor, sources[0], work_folder)
        bands = _count_bands(first.plan, spec.tile)
        total = len(sources) * bands
        with (
            progress_reporter(progress, total, "band") as report,
            explain(out, report, total, resumable=is_resumable(first.plan)) as tick,
            publishing(work_folder, out, spec, "frame") as (folder, target),
        ):
            noises: list[Noise] = []
            for k, source in enumerate(sources):
                planned = first if k == 0 else plan_frame(source, layout, options)
                if not planned.is_empty:
                    noises.append(planned.plan.noise)
                work = folder / f"{k}-{fingerprint(planned.plan, planned.source, planned.digest)}"
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
                _denoise_frame(planned, replace(source.image, array=target), stages)
                done.touch()
                discard(work)
    return noises[0] if noises else first.plan.noise, len(sources) - len(noises)


@contextmanager
def publishing(
    work_folder: Path, out: Path, spec: NewArray, unit: str
) -> Iterator[tuple[Path, Any]]:
    """Provide a folder for the work of an unfinished run, and the new array, which appears at `out` at the end.

    `unit` is as for `run_folder_for`.
    """
    folder = run_folder_for(work_folder, spec, out, unit)
    result = folder / "result"
    yield folder, create_or_open(result, out.suffix.lower(), spec)
    write_pyramid(result, spec)
    remove_partial_chunks(result)
    publish(result, out)


@contextmanager
def explain(out: Path, tick: Tick, total: int, *, resumable: bool) -> Iterator[Tick]:
    """Report the progress of an interrupted run, name the output if the disk is full, and say what to do."""
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
        if isinstance(error, ConnectionError) and error.errno is None:  # from `Cluster`
            raise ConnectionError(f"{error}; {again}") from error
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


def _denoise_frame(planned: PlannedFrame, target: Frame, stages: Stages) -> None:
    source = source_of(planned.parts, planned.images())
    images = []
    for planes in planned.plan.planes:
        *_, image = denoised_planes(planned.parts, planes, source, stages)
        images.append(image)
    result = stages.unstored(restored, source, *images)
    bands = bands_of(target.shape[1], stages.band_height)
    written = [stages.folder / f"written-{k}" for k in range(len(bands))]
    missing = [k for k, mark in enumerate(written) if not mark.exists()]
    stages.tick(len(bands) - len(missing), already=True)
    work = partial(_write_bands, target, result, bands, written)
    stages.executor.run_bands(work, missing, stages.tick)


def _count_bands(plan: Plan, band_height: int) -> int:
    """Return the number of calls of `tick` for a frame: one for each band of each pass and of the result."""
    passes = sum(len(bands_of(shape[0], band_height)) for shape, _ in plan.passes())
    return len(plan.planes) * passes + len(bands_of(plan.shape[1], band_height))


def _write_bands(
    target: Frame,
    result: LazyImage,
    bands: Sequence[range],
    written: Sequence[Path],
    numbers: list[int],
    workers: int,
) -> Iterator[int]:
    """Write each band of the result at once, as whole tiles; an empty file marks that it is on the disk."""

    def strip(rows: range) -> tuple[range, Pixels]:
        return rows, to_dtype(result[:, rows.start : rows.stop], target.dtype)

    def write() -> Iterator[tuple[int, Callable[[], None]]]:
        for k in numbers:
            rows = bands[k]
            band = np.empty((target.shape[0], len(rows), target.shape[2]), target.dtype)
            for part, pixels in in_order(strip, split_range(rows, result.rows_at_once), workers):
                band[:, slice_within(part, rows)] = pixels
            target.write(rows, band, workers)
            yield k, partial(_mark_written, written[k])

    return finish_in_background(write())


def _mark_written(path: Path) -> None:
    """Create an empty file once everything written before is on the disk."""
    sync_all()
    with writing(path):
        pass


def _expect_shared_files(executor: Executor, source: Source, folder: Path) -> None:
    """Check that the workers see the same image and the same folder as this process."""
    answers = executor.ask_workers(_visible_files, source, folder / "claim")
    expected = _visible_files(source, folder / "claim") if answers else None
    for worker, answer in answers.items():
        if answer != expected:
            raise ValueError(
                f"worker {worker} cannot read the image or {folder}; expected absolute paths on a file "
                "system that the workers share with this process"
            )


def _visible_files(source: Source, file: Path) -> tuple[str, bool]:
    """Return a digest of a sample of the pixels, and whether a file exists."""
    try:
        return hashlib.sha256(sample_of(source)[0].tobytes()).hexdigest(), file.exists()
    except Exception as error:
        return str(error), False
