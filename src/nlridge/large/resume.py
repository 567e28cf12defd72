"""What a run leaves for the next one: where it is kept, for whom, and what has to be the same to resume."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from .. import __version__
from ..algorithm.settings import Recipe
from ..files.atomic import lock, put, put_back, writing
from .disk import NewArray
from .frames import Planned

_DISCARDED = "discarded-"  # how names begin of what is being removed
_LONGEST = 200  # bytes of a name that can be part of another


def sync_all() -> None:
    """Wait until all that was written is on the disk."""
    if hasattr(os, "sync"):  # not on Windows; a store of many files knows no other way
        os.sync()


def finish(result: Path, out: Path) -> None:
    """Give the result its name; what had it before is gone only then."""
    sync_all()
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


def discard(path: Path) -> None:
    """Remove a file or a folder, so that no run ever takes a part of it for the whole."""
    if path.is_dir():
        gone = path.with_name(f"{_DISCARDED}{uuid4().hex}")
        os.replace(path, gone)
        shutil.rmtree(gone)
    else:
        path.unlink()


def folder_of(out: Path) -> Path:
    """Where a run keeps what is done so far: beside the output, under a name that the file system allows."""
    name = out.name if len(os.fsencode(out.name)) <= _LONGEST else _short(out.name)
    return out.with_name(f".{name}.part")


def tidy_up(out: Path) -> None:
    """Remove what a run left that was stopped just after its result had its name."""
    out = out.resolve()
    folder = folder_of(out)
    if folder.is_dir() and all(_is_finished(f, out) for f in folder.iterdir() if f.is_dir()):
        with suppress(OSError), claimed(folder):  # unless another process has it
            pass


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
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
                discard(path)
    shutil.rmtree(folder)


def folder_for(claimed: Path, wanted: NewArray, out: Path) -> Path:
    """The folder of what runs to the same kind of result have done; what others have left is removed.

    Each has its own: a worker that still does what a run was stopped in does not disturb another.
    """
    about = [__version__, wanted.shape, str(wanted.dtype), wanted.axes, wanted.tile]
    mine = claimed / _short(about)
    for path in claimed.iterdir():
        if path.is_dir():
            put_back(path / "result", out)
            if path != mine or _is_finished(path, out):
                discard(path)
    mine.mkdir(exist_ok=True)
    return mine


def _short(about: Any) -> str:
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def fingerprint(planned: Planned) -> str:
    """Of what has to be the same for a run to resume: all pixels of the frame, and all settings."""
    plan = planned.plan
    matrices = [[*planes.channels, *planes.matrix.ravel().tolist()] for planes in plan.planes]
    noise = [repr(plan.noise), plan.levels.tolist(), repr(plan.tuning)]
    settings = [noise, _recipe_identity(plan.recipe), matrices]
    return _short([str(planned.frame.dtype), planned.digest, *settings])


def _recipe_identity(recipe: Recipe) -> str:
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
