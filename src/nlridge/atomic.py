"""Atomic writing: a file or folder gets its name once all of it is on the disk. Everything is written this way."""

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

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # constants of Linux


def expect_new(
    name: str, path: str | os.PathLike[str], *, overwrite: bool = False, alternatives: str = ""
) -> None:
    """Refuse an output that exists, unless it may be overwritten.

    In the message, `name` is the name of the output, and `alternatives` are suggestions besides a new name.
    """
    if os.path.exists(path) and not overwrite:
        raise FileExistsError(
            f"{name} is {os.fspath(path)}, which exists; expected a new name{alternatives}"
        )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Provide a temporary path to write to, which is renamed to `path` in one step at the end.

    A link stays a link, and the new file takes the mode of the one that it replaces. If several processes write the
    same file, the last one wins.
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
            error.filename = str(path)  # the name that the caller knows
        raise


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Provide an open file that becomes `path` in one step at the end; see `replacing`."""
    with replacing(path) as partial, open(partial, "wb") as file:
        yield file


def put(finished: Path, path: Path) -> None:
    """Rename a finished file or folder to `path` in one step.

    A file at `path` is replaced; a folder at `path` changes places with the finished one.
    """
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
    """Undo a `put` that was interrupted halfway, which can happen only where folders are not exchanged in one step."""
    if _aside(finished).exists() and not path.exists():
        os.replace(_aside(finished), path)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders, in one step if the system can."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    names = os.fsencode(one), os.fsencode(other)
    if rename is None or rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) != 0:
        os.replace(other, _aside(one))
        os.replace(one, other)
        os.replace(_aside(one), one)


def _aside(path: Path) -> Path:
    return path.with_name(f"{path.name}-aside")


def sync(path: Path) -> None:
    """Wait until a file is on the disk, or the entries of a folder if the system supports it."""
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
    """Remove the temporary files of processes that were killed: those that are no longer locked."""
    for path in folder.glob(".nlridge-*.part"):
        with suppress(OSError), open(path, "rb+") as file:
            lock(file)
            path.unlink()


@contextmanager
def _temporary(folder: Path) -> Iterator[Path]:
    """Provide the path of a new file, with a short name; it is removed at the end if it still exists."""
    path, file = _create_locked(folder)
    with file:
        if fcntl is None:
            file.close()  # Windows cannot rename an open file
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _create_locked(folder: Path) -> tuple[Path, BinaryIO]:
    """Create a locked file, so that other processes do not remove it as a leftover."""
    while True:
        path = folder / f".nlridge-{uuid4().hex}.part"
        file = open(path, "xb")  # noqa: SIM115 (the caller closes it)
        try:
            lock(file)
        except BlockingIOError:  # another process is about to remove it
            file.close()
            continue
        except OSError:  # the file system has no locks: leftovers stay
            return path, file
        if path.exists():
            return path, file
        file.close()


def _is_temporary(name: str | bytes) -> bool:
    return Path(os.fsdecode(name)).name.startswith(".nlridge-")


def lock(file: BinaryIO) -> None:
    """Lock a file until it is closed; raises BlockingIOError if another process has locked it."""
    if fcntl is None:
        raise OSError("this system has no locks")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
