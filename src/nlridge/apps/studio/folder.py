"""The folder that the studio was started with: its files, and denoising all that are left."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from ...files.damage import UnnamedAxes, expect_regular
from ...files.video import is_video_name
from ..jobs.clips import clean_clip
from ..jobs.paths import sources
from ..jobs.pictures import clean_file
from ..jobs.words import printable
from .errors import Cancelled, Refused, in_one_sentence
from .events import Events
from .opening import likely_axes
from .saving import expect_no_link, target_of
from .tasks import Pace
from .words import NOT_IN_FOLDER


@dataclass(eq=False)
class File:
    """A file of the folder."""

    path: Path
    state: str = "waiting"
    error: str = ""
    id: str = field(default_factory=lambda: token_urlsafe(9))

    def fail(self, error: Exception) -> None:
        """Note why the file cannot be opened or denoised."""
        self.state, self.error = "failed", in_one_sentence(error, self.path, self.path.name)

    def described(self) -> dict[str, str]:
        """Return what the page is told about the file."""
        error = {"error": self.error} if self.error else {}
        return {"id": self.id, "name": printable(self.path.name), "state": self.state, **error}


class Folder:
    """The files of a folder, none of which lie outside it, and the run over those that are left."""

    def __init__(self, path: Path, events: Events) -> None:
        self._root = path.resolve()
        self._events = events
        found = [source.path for source in sources([str(self._root)], recursive=False)]
        inside = [file for file in found if self._holds(file)]
        self._files = {file.id: file for file in map(File, inside)}
        for file in self._files.values():
            file.state = "done" if target_of(file.path).exists() else "waiting"
        self._arguments: dict[str, Any] | None = None
        self._pace, self._done = Pace(), 0
        """The pace of the current run, and the number of its files that are done."""

    def __iter__(self) -> Iterator[File]:
        return iter(self._files.values())

    @property
    def is_running(self) -> bool:
        return self._arguments is not None

    def described(self) -> dict[str, Any]:
        """Return what the page is told about the folder."""
        files = [file.described() for file in self._files.values()]
        return {"name": printable(self._root.name), "files": files, "running": self.is_running}

    def path_of(self, identity: str) -> Path:
        """Return the path of a file, which may have been replaced by a link since."""
        file = self._files.get(identity)
        if file is None or not self._holds(file.path):
            raise Refused(404, NOT_IN_FOLDER)
        expect_regular(file.path)
        return file.path

    def run(self, arguments: dict[str, Any]) -> None:
        """Denoise the files that have no result yet, with these arguments of `denoise`."""
        for file in self._files.values():
            if file.state in ("failed", "skipped", "done"):
                file.state = "skipped" if target_of(file.path).exists() else "waiting"
                file.error = ""
        self._arguments = arguments
        self._pace, self._done = Pace(), 0
        self._events.publish(type="folder", folder=self.described())

    def stop(self) -> None:
        """Stop as soon as possible; unfinished files are not written."""
        self._arguments = None
        self._events.publish(type="folder", folder=self.described())

    def step(self, interrupt: Callable[[], None]) -> bool:
        """Denoise the next file of a run; returns whether there was one. `interrupt` is called now and then."""
        waiting = [file for file in self._files.values() if file.state == "waiting"]
        arguments = self._arguments
        if arguments is None or not waiting:
            if arguments is not None:
                self._arguments = None
                self._events.publish(type="folder", folder=self.described())
            return False
        file = waiting[0]
        self._say(file, "running")
        try:
            self._clean(file, arguments, interrupt)
            state = "done"
        except Cancelled:
            state = "waiting"
            self._events.publish(type="folder", folder=self.described())
        except FileExistsError:
            state = "skipped"
        except Exception as error:
            file.fail(error)
            state = file.state
        self._done += state != "waiting"
        self._say(file, state)
        return True

    def _clean(self, file: File, arguments: dict[str, Any], interrupt: Callable[[], None]) -> None:
        path = self.path_of(file.id)
        last = 0.0

        def progress(share: float, speed: str = "") -> None:
            nonlocal last
            if self._arguments is not arguments:
                raise Cancelled
            interrupt()
            if share - last > 0.02:
                last = share
                left = self._seconds_left(share)
                facts = {"file": file.described(), "done": round(share, 3), "left": left}
                self._events.publish(type="folder", running=True, **facts)

        common: dict[str, Any] = {"overwrite": False, "frames": "auto", "progress": progress}
        target = target_of(path)
        expect_no_link(target)
        if is_video_name(path):
            given = {"sigma": None, "noise": None, **arguments}
            clean_clip(path, target, codec=None, quality=None, **common, **given)
        else:
            try:
                clean_file(path, target, axes=None, **common, **arguments)
            except UnnamedAxes as error:
                clean_file(path, target, axes=likely_axes(error), **common, **arguments)

    def _seconds_left(self, share: float) -> float | None:
        """Return the seconds left of a run once a share of its current file is done, if its files are alike."""
        waiting = sum(file.state == "waiting" for file in self)
        total = self._done + 1 + waiting
        return self._pace.left((self._done + share) / total)

    def _say(self, file: File, state: str) -> None:
        file.state = state
        left = self._seconds_left(0.0) if state == "running" else None
        facts = {"file": file.described(), "running": self.is_running, "left": left}
        self._events.publish(type="folder", **facts)

    def _holds(self, path: Path) -> bool:
        """Return whether a path, with its links resolved, leads to a file inside the folder."""
        resolved = path.resolve()
        return self._root in resolved.parents and resolved.is_file()
