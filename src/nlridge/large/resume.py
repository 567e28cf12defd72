"""Folders with the work of unfinished runs, and the conditions under which a run can resume.

The work for an output ``clean.zarr`` is in the folder ``.clean.zarr.part`` beside it, in one subfolder for each kind of
result. A lock on the file ``claim`` reserves the folder for one process at a time.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from .. import __version__
from ..atomic import lock, put, put_back, writing
from ..core.kernels.simd import LANES
from ..core.kernels.target import TARGET, fuses
from ..planning.plan import Plan
from .disk import metadata_of
from .frames import Source
from .new import NewArray

_DISCARDED = "discarded-"  # prefix of the names of folders that are being removed
_LONGEST = 200  # bytes; longer names of outputs are shortened


def sync_all() -> None:
    """Wait until everything that was written is on the disk."""
    # This is the only way for a store of many files; Windows has no such function.
    if hasattr(os, "sync"):
        os.sync()


def publish(result: Path, out: Path) -> None:
    """Move the finished result to `out`, which replaces an earlier one in a single step."""
    sync_all()
    # Lets a later run recognise the result under its final name.
    with writing(result.with_name("finished")) as file:
        file.write(json.dumps(_identity(result)).encode())
    put(result, out)


def _is_finished(folder: Path, out: Path) -> bool:
    """Return whether the result of a folder has been published."""
    if folder.name.startswith(_DISCARDED) or not (folder / "result").exists():
        return True
    try:
        published: bool = json.loads((folder / "finished").read_text()) == _identity(out)
    except (OSError, ValueError):
        return False
    return published


def _identity(path: Path) -> list[int]:
    about = path.stat()
    return [about.st_dev, about.st_ino]


def discard(path: Path) -> None:
    """Remove a file or a folder, so that a partly removed folder is never mistaken for a complete one."""
    if path.is_dir():
        discarded = path.with_name(f"{_DISCARDED}{uuid4().hex}")
        os.replace(path, discarded)
        shutil.rmtree(discarded)
    else:
        path.unlink()


def work_folder_of(out: Path) -> Path:
    """Return the folder for intermediate results: beside the output, with a name that is not too long."""
    name = out.name if len(os.fsencode(out.name)) <= _LONGEST else _short_digest(out.name)
    return out.with_name(f".{name}.part")


def remove_finished_work(out: Path) -> None:
    """Remove the work folder of a run that was interrupted just after its result was published."""
    out = out.resolve()
    folder = work_folder_of(out)
    if folder.is_dir() and all(_is_finished(f, out) for f in folder.iterdir() if f.is_dir()):
        # Unless another process uses it.
        with suppress(OSError), claim(folder):
            pass


@contextmanager
def claim(folder: Path) -> Iterator[None]:
    """Reserve a work folder for this process; it is removed at the end, unless there was an error."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "claim", "wb") as file:
        try:
            lock(file)
        except BlockingIOError:
            raise FileExistsError(
                f"{folder} is in use by another process; expected one run at a time"
            ) from None
        except OSError:  # the file system has no locks
            pass
        try:
            yield
        except BaseException:
            if [path.name for path in folder.iterdir()] == ["claim"]:  # there is nothing to resume
                shutil.rmtree(folder)
            raise
        for path in folder.iterdir():
            if path.is_dir():
                discard(path)
    shutil.rmtree(folder)


def run_folder_for(work_folder: Path, spec: NewArray, out: Path, unit: str) -> Path:
    """Return the subfolder for results of this kind, and remove the others; `unit` is what resumes as a whole.

    Each kind has its own subfolder, so that a worker still busy with an interrupted run does not disturb the next.
    """
    made_by = [__version__, _digest_of_sources(), LANES, fuses(*TARGET)]
    about = [spec.shape, str(spec.dtype), spec.axes, spec.tile, metadata_of(spec.like)]
    kind = [*made_by, unit, *about]
    mine = work_folder / _short_digest(kind)
    for path in work_folder.iterdir():
        if path.is_dir():
            put_back(path / "result", out)
            if path != mine or _is_finished(path, out):
                discard(path)
    mine.mkdir(exist_ok=True)
    return mine


def _short_digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


@cache
def _digest_of_sources() -> str:
    """Return a digest of the code of the package: bits may depend on it, whatever the version."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def fingerprint(plan: Plan, source: Source, digest: str) -> str:
    """Return a digest of what must not change for a run to resume: the pixels of the frame, its masks
    and its map of levels, of which `digest` is a digest, and the settings.
    """
    matrices = [[*planes.channels, *planes.matrix.ravel().tolist()] for planes in plan.planes]
    settings = [_identity_of(value) for value in (plan.noise, plan.tuning, plan.recipe, plan.runs)]
    planes = [plan.levels.tolist(), matrices, plan.share]
    dtypes = [str(frame.dtype) for frame in source.frames]
    return _short_digest([dtypes, digest, *settings, *planes])


def is_resumable(plan: Plan) -> bool:
    """Return whether a run with this plan can be resumed: it contains no code from outside the package."""
    return all(map(_is_built_in, (plan.noise, plan.tuning, plan.recipe)))


def _identity_of(setting: Any) -> str:
    """Return a string that is the same for the same setting in every process.

    A recipe or a noise model with code from outside the package gets a unique string, so that its runs are not resumed:
    that code may change between runs without any change of the values.
    """
    return _described(setting) if _is_built_in(setting) else uuid4().hex


def _described(value: Any) -> str:
    """Return the repr of a value, with all of its arrays in full."""
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()
        return f"{value.dtype}{value.shape}{digest}"
    if is_dataclass(value) and not isinstance(value, type):
        parts = [_described(getattr(value, field.name)) for field in fields(value)]
        return f"{type(value).__qualname__}({', '.join(parts)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_described, value))})"
    return repr(value)


def _is_built_in(value: Any) -> bool:
    """Return whether a value, with everything in it, is plain data or part of this package."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
        return _is_from_nlridge(type(value)) and all(map(_is_built_in, parts))
    if callable(value):
        return _is_from_nlridge(value)
    if isinstance(value, tuple):
        return all(map(_is_built_in, value))
    return value is None or isinstance(value, int | float | str | np.ndarray)


def _is_from_nlridge(thing: Any) -> bool:
    return getattr(thing, "__module__", "").partition(".")[0] == "nlridge"
