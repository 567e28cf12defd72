"""From an array on disk to another: each frame in stages, and nothing lost if the run is stopped."""

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from .. import __version__
from ..algorithm.framework import denoised
from ..algorithm.inputs import PlaneNoise
from ..algorithm.settings import Recipe
from ..engines.pool import in_order
from ..files.atomic import lock, put, put_back, writing
from ..job import Job
from ..planning.channels import Planes
from ..progress import Tick
from .bands import bands_of, in_turn, one_behind
from .disk import Plan, made, remove_partial_chunks, with_levels
from .frames import Frame, frames_of, sampled
from .lazy import Image, Later
from .limits import expect_room
from .portable import without_recipe
from .scales import within
from .stages import Rehearsal, Stages, Strips
from .workers import Workforce

Store = Callable[[npt.NDArray[Any], np.dtype[Any]], npt.NDArray[Any]]
"""Turns floats into what is stored."""

_AT_ONCE = 256  # rows that are finished together
_DISCARDED = "discarded-"  # how names begin of what is being removed
_LONGEST = 200  # bytes of a name that can be part of another


def run(
    array: Any,
    out: Path,
    plan: Plan,
    decide: Callable[[Frame], Job],
    workforce: Workforce,
    ticking: Callable[[int, str], Any],
    store: Store,
) -> Job:
    """Clean all frames of an array into a new one, which has its name when all of it is there.

    What is done so far stays in a folder beside it, from which a run that was stopped resumes, if neither the
    image nor what is to be done with it has changed: frame by frame.  `ticking` is a context that gives a function,
    to be called a number of times.  Gives what was done with the first frame.
    """
    out = out.resolve()  # a link stays one
    frames = frames_of(array, plan.axes)
    expect_room(out, _folder_of(out), math.prod(frames[0].shape))
    first = decide(frames[0])
    with _claimed(_folder_of(out)) as claimed:
        _expect_in_common(workforce, frames[0], claimed)
        folder = _kept_of(claimed, plan, out)
        result = folder / "result"
        bands = _bands(first, plan.tile)
        total = len(frames) * bands
        with ticking(total, "band") as heard, _explained(out, heard, total) as tick:
            target = made(result, out.suffix.lower(), plan)
            for k, frame in enumerate(frames):
                job = first if k == 0 else decide(frame)
                work = folder / f"{k}-{_fingerprint(job)}"
                done = work.with_name(f"{work.name}-done")
                if done.exists():
                    tick(bands, already=True)
                    continue
                # What was done when the frame, or a setting, was another: the result is written over.
                for other in set(folder.glob(f"{k}-*")) - {work}:
                    _discard(other)
                work.mkdir(exist_ok=True)
                paced = _paced(tick, _bands(job, plan.tile), bands)
                stages = Stages(work, plan.tile, workforce, paced)
                _denoise(job, frame, replace(frame, array=target), stages, store)
                done.touch()
                _discard(work)
            with_levels(result, plan)
            remove_partial_chunks(result)
            _finish(result, out)
    return first


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


def _denoise(job: Job, frame: Frame, to: Frame, stages: Stages, store: Store) -> None:
    """One frame."""
    images = [last for *_, last in _stages_of(job, frame, stages)]
    bands = bands_of(frame.shape[1], stages.band)
    written = [stages.folder / f"written-{k}" for k in range(len(bands))]
    missing = [k for k, mark in enumerate(written) if not mark.exists()]
    stages.tick(len(bands) - len(missing), already=True)
    work = partial(_write, without_recipe(job), frame, to, images, bands, written, store)
    stages.workforce.carry_out(work, missing, stages.tick)


def _stages_of(job: Job, frame: Frame, stages: Stages) -> Iterator[Iterator[Later]]:
    """The pilot and the result of planes that belong together."""
    for planes in job.planes:
        shape = (len(planes.channels), *frame.shape[1:])
        noisy = stages.kept(
            partial(_noisy, replace(without_recipe(job), planes=[planes]), frame), shape
        )[0]
        yield denoised(
            noisy,
            PlaneNoise(planes.variance(job.variances)),
            job.recipe,
            stages.run_pass,
            strength=job.strength,
            scales=stages,
        )


def _bands(job: Job, band: int) -> int:
    """How often a tick will be heard."""
    rehearsal = Rehearsal(band)
    frame: Any = job.pixels
    for steps in _stages_of(job, frame, rehearsal):
        for _ in steps:
            pass
    return rehearsal.bands + len(bands_of(frame.shape[1], band))


def _noisy(job: Job, frame: Frame, rows: range, workers: int) -> Strips:
    """The planes of the stabilised and scaled image."""
    planes: Planes = job.planes[0]

    def noisy(some: range) -> tuple[range, Image]:
        return some, planes.of(replace(job, pixels=frame.read(some)).noisy(None))

    return in_order(noisy, in_turn(rows, frame.rows_at_once), workers)


def _write(
    job: Job,
    frame: Frame,
    to: Frame,
    images: Sequence[Later],
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
            part = replace(job, pixels=pixels[:, within(there, some)])
            planes = [image[:, there.start : there.stop] for image in images]
            found[:, within(there, some)] = store(part.finished(planes), to.dtype)
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
    _sync_all()
    with writing(path):
        pass


def _sync_all() -> None:
    if hasattr(os, "sync"):  # not on Windows; a store of many files knows no other way
        os.sync()


def _finish(result: Path, out: Path) -> None:
    """Give the result its name; what had it before is gone only then."""
    _sync_all()
    with writing(
        result.with_name("finished")
    ) as file:  # by this, a run knows its result by another name
        file.write(json.dumps(_identity(result)).encode())
    put(result, out)


def _is_finished(folder: Path, out: Path) -> bool:
    """Whether the result that was made in a folder has its name."""
    if folder.name.startswith(_DISCARDED) or not (folder / "result").exists():
        return True
    try:
        found: bool = json.loads((folder / "finished").read_text()) == _identity(out)
    except (OSError, ValueError):
        return False
    return found


def _identity(path: Path) -> list[int]:
    about = path.stat()
    return [about.st_dev, about.st_ino]


def _discard(path: Path) -> None:
    """Remove a file or a folder, so that no run ever takes a part of it for the whole."""
    if path.is_dir():
        gone = path.with_name(f"{_DISCARDED}{uuid4().hex}")
        os.replace(path, gone)
        shutil.rmtree(gone)
    else:
        path.unlink()


def _folder_of(out: Path) -> Path:
    """Where a run keeps what is done so far: beside the output, under a name that the file system allows."""
    name = out.name if len(os.fsencode(out.name)) <= _LONGEST else _short(out.name)
    return out.with_name(f".{name}.part")


def tidy_up(out: Path) -> None:
    """Remove what a run left that was stopped just after its result had its name."""
    out = out.resolve()
    folder = _folder_of(out)
    if folder.is_dir() and all(_is_finished(f, out) for f in folder.iterdir() if f.is_dir()):
        with suppress(OSError), _claimed(folder):  # unless another process has it
            pass


@contextmanager
def _claimed(folder: Path) -> Iterator[Path]:
    """The folder for what is done so far, for one process at a time; removed when all is done."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "claim", "wb") as claim:
        try:
            lock(claim)
        except BlockingIOError:
            raise FileExistsError(f"{folder} is in use by another process") from None
        except OSError:  # there are no locks
            pass
        try:
            yield folder
        except BaseException:
            if [path.name for path in folder.iterdir()] == ["claim"]:  # nothing has been done
                shutil.rmtree(folder)
            raise
        for path in folder.iterdir():
            if path.is_dir():
                _discard(path)
    shutil.rmtree(folder)


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


def _kept_of(claimed: Path, plan: Plan, out: Path) -> Path:
    """The folder of what runs to the same kind of result have done; what others have left is removed.

    Each has its own: a worker that still does what a run was stopped in does not disturb another.
    """
    about = [__version__, plan.shape, str(plan.dtype), plan.axes, plan.tile]
    mine = claimed / _short(about)
    for path in claimed.iterdir():
        if path.is_dir():
            put_back(path / "result", out)
            if path != mine or _is_finished(path, out):
                _discard(path)
    mine.mkdir(exist_ok=True)
    return mine


def _short(about: Any) -> str:
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def _fingerprint(job: Job) -> str:
    """Of what has to be the same for a run to resume: all pixels of the frame, and all settings."""
    frame: Any = job.pixels
    matrices = [[*planes.channels, *planes.matrix.ravel().tolist()] for planes in job.planes]
    noise = [repr(job.noise), job.levels.typical.tolist(), job.strength]
    return _short([str(frame.dtype), frame.digest, noise, _settings_identity(job.recipe), matrices])


def _settings_identity(recipe: Recipe) -> str:
    """The same for the same settings in every process.

    Families are values, and printed as such.  Code from outside the package may change from one run to the next
    without any value showing it: a recipe that has some in it is like no other, and such a run is not resumed.
    """
    return repr(recipe) if _is_ours(recipe) else uuid4().hex


def _is_ours(value: Any) -> bool:
    """Whether a value, and everything in it, is plain or comes with the package."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
        return _comes_with_the_package(type(value)) and all(map(_is_ours, parts))
    if callable(value):
        return _comes_with_the_package(value)
    return value is None or isinstance(value, int | float | str)


def _comes_with_the_package(thing: Any) -> bool:
    return getattr(thing, "__module__", "").partition(".")[0] == "nlridge"
