"""One way to write: a file or a folder has its name only once all of it is on the disk."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to, which becomes `path` in one step at the end.

    A link stays a link, and a file that is replaced passes on its mode.  Several processes may write the same
    file: the last one wins.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise FileExistsError(
            f"{path} is not a regular file; expected a file to replace, or a new name"
        )
    remove_leftovers(path.parent)
    try:
        with _temporary(path.parent) as partial:
            yield partial
            put(partial, path)
    except OSError as error:
        if error.filename is not None and _is_temporary(error.filename):
            error.filename = str(path)  # the one that the caller knows
        raise


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Likewise, as an open file."""
    with replacing(path) as partial, open(partial, "wb") as file:
        yield file


def put(finished: Path, path: Path) -> None:
    """Give a finished file or folder its name in one step; a folder that had it before takes the other name."""
    sync(finished)
    if path.is_file() and finished.is_file():
        shutil.copymode(path, finished)
        os.replace(finished, path)
    elif path.exists():
        _exchange(finished, path)
    else:
        os.replace(finished, path)
    sync(path.parent)


def put_back(finished: Path, path: Path) -> None:
    """Undo a `put` that was stopped halfway, which can happen where folders cannot be exchanged in one step."""
    if _aside(finished).exists() and not path.exists():
        os.replace(_aside(finished), path)


def _exchange(one: Path, other: Path) -> None:
    """Each takes the other's place."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    names = os.fsencode(one), os.fsencode(other)
    if rename is None or rename(_HERE, names[0], _HERE, names[1], _EXCHANGE) != 0:
        os.replace(other, _aside(one))
        os.replace(one, other)
        os.replace(_aside(one), one)


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}-aside")


def sync(path: Path) -> None:
    """Wait until a file is on the disk, or the names in a folder where the system can tell."""
    if path.is_file():
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
        return
    with suppress(OSError):
        folder = os.open(path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of processes that were killed: those that nobody has locked."""
    for path in folder.glob(".nlridge-*.part"):
        with suppress(OSError), open(path, "rb+") as file:
            lock(file)
            path.unlink()


@contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """The path of a new file, removed in the end if it is still there; it is short whatever the file is called."""
    path, file = _locked(folder)
    with file:
        if fcntl is None:
            file.close()  # Windows renames no file that is open
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _locked(folder: Path) -> tuple[Path, BinaryIO]:
    """A new file, so that others do not take it for a leftover."""
    while True:
        path = folder / f".nlridge-{uuid4().hex}.part"
        file = open(path, "xb")  # noqa: SIM115 (the caller closes it)
        try:
            lock(file)
        except BlockingIOError:  # another process is just removing it
            file.close()
            continue
        except OSError:  # there are no locks: leftovers stay
            return path, file
        if path.exists():
            return path, file
        file.close()


def _is_temporary(name: str | bytes) -> bool:
    return Path(os.fsdecode(name)).name.startswith(".nlridge-")


def lock(file: BinaryIO) -> None:
    """Lock a file until it is closed; BlockingIOError if another process has locked it."""
    if fcntl is None:
        raise OSError("this system has no locks")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
