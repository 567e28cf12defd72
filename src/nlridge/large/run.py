"""From an array on disk to another: each frame in stages, and nothing lost if the run is stopped."""

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
from ..planning.layout import Layout
from ..planning.options import Options
from ..planning.pixels import restored, stabilised
from ..planning.plan import Plan
from ..progress import Progress, Tick, progress_reporter
from .bands import bands_of, in_turn, one_behind
from .disk import NewArray, made, remove_partial_chunks, with_levels
from .frames import Frame, Planned, frames_of, planned, sampled
from .lazy import Image, Lazy
from .limits import expect_room
from .resume import claimed, discard, fingerprint, finish, folder_for, folder_of, sync_all
from .scales import within
from .stages import Stages, Strips
from .workers import Workforce

Store = Callable[[npt.NDArray[Any], np.dtype[Any]], npt.NDArray[Any]]
"""Turns floats into what is stored."""

_AT_ONCE = 256  # rows that are finished together


def run(
    array: Any,
    layout: Layout,
    options: Options,
    out: Path,
    wanted: NewArray,
    workforce: Workforce,
    progress: Progress,
    store: Store,
) -> Noise:
    """Clean all frames of an array into a new one, which has its name when all of it is there.

    What is done so far stays in a folder beside it, from which a run that was stopped resumes, if neither the
    image nor what is to be done with it has changed: frame by frame.  Returns the noise of the first frame.
    """
    out = out.resolve()  # a link stays one
    frames = frames_of(array, wanted.axes)
    expect_room(out, folder_of(out), math.prod(frames[0].shape))
    first = planned(frames[0], layout, options)
    with claimed(folder_of(out)) as kept:
        _expect_in_common(workforce, frames[0], kept)
        folder = folder_for(kept, wanted, out)
        result = folder / "result"
        bands = _bands(first.plan, wanted.tile)
        total = len(frames) * bands
        with (
            progress_reporter(progress, total, "band") as heard,
            _explained(out, heard, total) as tick,
        ):
            target = made(result, out.suffix.lower(), wanted)
            for k, frame in enumerate(frames):
                here = first if k == 0 else planned(frame, layout, options)
                work = folder / f"{k}-{fingerprint(here)}"
                done = work.with_name(f"{work.name}-done")
                if done.exists():
                    tick(bands, already=True)
                    continue
                for other in folder.glob(f"{k}-*"):
                    if other != work:  # of another image, or of other settings
                        discard(other)
                work.mkdir(exist_ok=True)
                paced = _paced(tick, _bands(here.plan, wanted.tile), bands)
                stages = Stages(work, wanted.tile, workforce, paced)
                _denoise(here, replace(frame, array=target), stages, store)
                done.touch()
                discard(work)
            with_levels(result, wanted)
            remove_partial_chunks(result)
            finish(result, out)
    return first.plan.noise


@contextmanager
def _explained(out: Path, tick: Tick, total: int) -> Iterator[Tick]:
    """Say how far the run got if it is interrupted, and name the output if its disk is full."""
    done = 0

    def counted(count: int = 1, *, already: bool = False) -> None:
        nonlocal done
        done += count
        tick(count, already=already)

    try:
        yield counted
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted with {done / total:.0%} done; run it again to resume"
        ) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            words = f"{os.strerror(error.errno)}; free some space and run it again to resume"
            raise OSError(error.errno, words, str(out)) from error
        raise


def _paced(tick: Tick, calls: int, ticks: int) -> Tick:
    """A function that ticks evenly, `ticks` times in all if it is called `calls` times: frames may differ in their steps."""
    called = 0

    def paced(count: int = 1, *, already: bool = False) -> None:
        nonlocal called
        before = called * ticks // calls
        called += count
        tick(called * ticks // calls - before, already=already)

    return paced


def _denoise(here: Planned, to: Frame, stages: Stages, store: Store) -> None:
    """One frame."""
    images = [_result(here, planes, stages) for planes in here.plan.planes]
    bands = bands_of(to.shape[1], stages.band)
    written = [stages.folder / f"written-{k}" for k in range(len(bands))]
    missing = [k for k, mark in enumerate(written) if not mark.exists()]
    stages.tick(len(bands) - len(missing), already=True)
    work = partial(_write, here.plan, here.frame, to, images, bands, written, store)
    stages.workforce.carry_out(work, missing, stages.tick)


def _result(here: Planned, planes: Planes, stages: Stages) -> Lazy:
    """The denoised planes of channels that belong together."""
    plan = here.plan
    shape = (len(planes.channels), *plan.shape[1:])
    noisy = stages.kept(partial(_noisy, plan, planes, here.frame), shape)[0]
    result: Lazy
    *_, result = denoised(
        noisy,
        plan.plane_noise(planes, here.levels),
        plan.recipe,
        stages.run_pass,
        plan.tuning,
        scales=stages,
    )
    return result


def _bands(plan: Plan, band: int) -> int:
    """How often `tick` is called for a frame: once for each band of each pass, and of the result."""
    heights = [shape[0] for shape, _ in all_passes(plan.recipe, plan.shape[1:])]
    passes = sum(len(bands_of(height, band)) for height in heights)
    return len(plan.planes) * passes + len(bands_of(plan.shape[1], band))


def _noisy(plan: Plan, planes: Planes, frame: Frame, rows: range, workers: int) -> Strips:
    """The planes of the stabilised and scaled image."""

    def noisy(some: range) -> tuple[range, Image]:
        return some, planes.of(stabilised(plan, planes.channels, frame.read(some)))

    return in_order(noisy, in_turn(rows, frame.rows_at_once), workers)


def _write(
    plan: Plan,
    frame: Frame,
    to: Frame,
    images: Sequence[Lazy],
    bands: Sequence[range],
    written: Sequence[Path],
    store: Store,
    numbers: list[int],
    workers: int,
) -> Iterator[int]:
    """Finish bands, and write each in one go: whole tiles.  A mark says that it is on the disk."""

    def finished(some: range) -> tuple[range, npt.NDArray[Any]]:
        pixels = frame.read(some)
        found = np.empty(pixels.shape, to.dtype)
        for there in in_turn(some, _AT_ONCE):
            part = pixels[:, within(there, some)]
            planes = [image[:, there.start : there.stop] for image in images]
            found[:, within(there, some)] = store(restored(plan, part, planes), to.dtype)
        return some, found

    def write() -> Iterator[tuple[int, Callable[[], None]]]:
        for k in numbers:
            rows = bands[k]
            found = np.empty((frame.shape[0], len(rows), frame.shape[2]), to.dtype)
            for some, part in in_order(finished, in_turn(rows, frame.rows_at_once), workers):
                found[:, within(some, rows)] = part
            to.write(rows, found, workers)
            yield k, partial(_mark, written[k])

    return one_behind(write())


def _mark(path: Path) -> None:
    """What was written before is on the disk."""
    sync_all()
    with writing(path):
        pass


def _expect_in_common(workforce: Workforce, frame: Frame, folder: Path) -> None:
    """Workers have to find the image and the folder where this process has them."""
    answers = workforce.ask(_found, frame, folder / "claim")
    expected = _found(frame, folder / "claim") if answers else None
    for who, answer in answers.items():
        if answer != expected:
            raise ValueError(
                f"the worker {who} does not find the image or {folder}; expected absolute paths on a file "
                "system that it has in common with this process"
            )


def _found(frame: Frame, file: Path) -> tuple[str, bool]:
    """Some of the pixels, and whether a file is there."""
    try:
        return hashlib.sha256(sampled(frame)[0].tobytes()).hexdigest(), file.exists()
    except Exception as error:
        return str(error), False
