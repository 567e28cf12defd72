"""One case at a time, each in a child process of its own with a limit on memory and time; and what became of it.

A child is a fork of a process that has imported everything and compiled the kernels, so that a case takes as long as
the calls it makes.
"""

import ast
import contextlib
import faulthandler
import gc
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import nlridge

SOURCE = Path(nlridge.__file__).parent
OK, CLEAN, UGLY, BROKEN = CLASSES = "ok", "clean error", "ugly", "broken"

_CLEAN_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)
_LONGEST = 1000  # characters of a message
_DOCUMENTED = ("is out of memory; trying again",)  # warnings that users are told about

Run = Callable[[int, Path], None]
Place = tuple[str, int]
"""A line of the package: its file and its number."""


class Case(NamedTuple):
    kind: str
    seed: int

    @property
    def command(self) -> str:
        return f"python -m fuzz --again {self.kind} {self.seed}"


@dataclass
class Outcome:
    """What became of a case."""

    case: Case
    verdict: str
    reason: str = ""
    """In one line: the error, or what was wrong."""
    details: str = ""
    """The traceback, and what was printed to stderr."""
    memory: int = 0
    """What it took at most, in bytes."""
    raised: set[Place] = field(default_factory=set)
    """Lines of the package at which something was raised."""


class Limits(NamedTuple):
    memory: int = 2**30
    """Bytes, beyond what the parent has."""
    seconds: float = 30.0


_LIMITS = Limits()


def outcomes(
    cases: Iterable[Case],
    runs: dict[str, Run],
    limits: Limits = _LIMITS,
    workers: int = 1,
    until: float = float("inf"),
) -> Iterator[Outcome]:
    """What becomes of the cases, as they end; none is begun later than `until` (see `time.monotonic`)."""
    raise_statements()  # once for all children
    gc.collect()
    gc.freeze()  # children that collect garbage would copy all of the parent's memory
    todo = iter(cases)
    children: list[_Child] = []
    room = Path(tempfile.mkdtemp(prefix="nlridge-fuzz-"))
    try:
        while True:
            while len(children) < workers and time.monotonic() < until:
                case = next(todo, None)
                if case is None:
                    break
                children.append(_Child(case, runs[case.kind], room, limits))
            if not children:
                return
            ended = [child for child in children if child.has_ended()]
            for child in ended:
                children.remove(child)
                yield child.outcome()
            if not ended:
                time.sleep(0.002)
    finally:
        gc.unfreeze()
        for child in children:
            child.kill(signal.SIGKILL)
        shutil.rmtree(room, ignore_errors=True)


class _Child:
    """A process that performs one case."""

    def __init__(self, case: Case, run: Run, room: Path, limits: Limits) -> None:
        self.case, self.limits = case, limits
        self.folder = Path(tempfile.mkdtemp(dir=room))
        self.report = self.folder.with_suffix(".json")
        self.stderr = self.folder.with_suffix(".txt")
        self.start, self.before, self.stopped = time.monotonic(), 0, ""
        self.status, self.peak = 0, 0
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _perform(case, run, self.folder, self.report, self.stderr, limits)
            finally:
                os._exit(99)  # not reached, unless the harness itself is at fault

    def kill(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def has_ended(self) -> bool:
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid:
            self.status, self.peak = status, max(self.peak, 1024 * usage.ru_maxrss)
            return True
        if self.stopped:
            self.kill(signal.SIGKILL)
        elif time.monotonic() - self.start > self.limits.seconds:
            self.stopped = f"took longer than {self.limits.seconds:g} s"
            self.kill(signal.SIGABRT)  # tells where it was
            time.sleep(0.1)
        elif self._grown() > self.limits.memory:
            self.stopped = f"took more than {self.limits.memory >> 20} MB"
            self.kill(signal.SIGKILL)
        return False

    def _grown(self) -> int:
        now = _resident(self.pid)
        self.before = self.before or now
        self.peak = max(self.peak, now)
        return now - self.before

    def outcome(self) -> Outcome:
        printed = self.stderr.read_text(errors="replace") if self.stderr.exists() else ""
        outcome = Outcome(self.case, BROKEN, details=printed)
        if self.stopped:
            outcome.reason = self.stopped
        elif os.WIFSIGNALED(self.status):
            outcome.reason = f"ended by {signal.Signals(os.WTERMSIG(self.status)).name}"
        elif not self.report.exists():
            outcome.reason = f"ended with exit code {os.WEXITSTATUS(self.status)} before its end"
        else:
            told = json.loads(self.report.read_text())
            outcome.verdict, outcome.reason = told["verdict"], told["reason"]
            outcome.details = told["details"] + printed
            outcome.raised = {(file, line) for file, line in told["raised"]}
            self.before = told["before"]
            if printed and outcome.verdict != BROKEN:
                outcome.verdict = UGLY
                outcome.reason = f"printed to stderr: {printed.strip().splitlines()[-1:]}"
        outcome.memory = max(self.peak - self.before, 0)
        if outcome.memory > self.limits.memory and not self.stopped:
            outcome.verdict = BROKEN
            outcome.reason = (
                f"took {outcome.memory >> 20} MB, more than {self.limits.memory >> 20} MB"
            )
        shutil.rmtree(self.folder, ignore_errors=True)
        for file in (self.report, self.stderr):
            file.unlink(missing_ok=True)
        return outcome


def _resident(pid: int) -> int:
    """How much memory a process has, in bytes; 0 if that cannot be told."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * resource.getpagesize()


def _perform(
    case: Case, run: Run, folder: Path, report: Path, stderr: Path, limits: Limits
) -> None:
    """In the child: the case, and what is to be told about it; never returns."""
    before = _resident(os.getpid())
    sink = os.open(stderr, os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.dup2(sink, 2)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w") for number in (1, 2))
    faulthandler.enable(sys.stderr)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = taken + 4 * limits.memory  # a seat belt: the parent looks at what is really used
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(folder)
    error: BaseException | None = None
    with _raises() as raised, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            run(case.seed, folder)
        except BaseException as caught:
            error = caught
    verdict, reason = judged(error, [str(warning.message) for warning in warned])
    details = ""
    if verdict in (UGLY, BROKEN):
        details = "".join(traceback.format_exception(error)) if error is not None else ""
        details += "".join(
            warnings.formatwarning(w.message, w.category, w.filename, w.lineno) for w in warned
        )
    sys.stdout.flush()
    sys.stderr.flush()
    told = {
        "verdict": verdict,
        "reason": reason,
        "details": details,
        "raised": sorted(raised),
        "before": before,
    }
    report.write_text(json.dumps(told))
    os._exit(0)


def judged(error: BaseException | None, warned: list[str]) -> tuple[str, str]:
    """The class of a case that ended by itself, and why, from what it raised and what it was warned of."""
    said = [text for text in warned if not any(known in text for known in _DOCUMENTED)]
    if error is None:
        return (UGLY, f"warned: {_line(said[0])}") if said else (OK, "")
    message = str(error)
    named = f"{type(error).__name__}: {_line(message)}"
    if isinstance(error, AssertionError):
        return BROKEN, f"{named} ({_place(error)})"
    if not isinstance(error, _CLEAN_ERRORS) or isinstance(error, UnicodeError):
        return UGLY, f"{named} ({_place(error)})"
    if not message.strip() or len(message.splitlines()) != 1 or len(message) > _LONGEST:
        return UGLY, f"{named} (expected a message of one line, {_place(error)})"
    if isinstance(error, ValueError | TypeError) and not _meant(error):
        return UGLY, f"{named} (not raised on purpose, {_place(error)})"
    return (UGLY, f"warned: {_line(said[0])}") if said else (CLEAN, named)


def _line(text: str) -> str:
    return " ".join(text.split())[:300]


def _frames(error: BaseException) -> list[tuple[Path, int]]:
    """Files and lines, the innermost last; without a look at the files, which takes long."""
    frames = traceback.walk_tb(error.__traceback__)
    return [(Path(frame.f_code.co_filename), line) for frame, line in frames]


def _place(error: BaseException) -> str:
    frames = _frames(error.__cause__ or error)
    own = [frame for frame in frames if frame[0].is_relative_to(SOURCE)]
    file, line = (own or frames)[-1]
    return f"{file.name}:{line}"


def _meant(error: BaseException) -> bool:
    """Whether an error was raised by a statement of the package, or by a call that Python or the case refused."""
    file, line = _frames(error)[-1]
    if not file.is_relative_to(SOURCE):
        return file.is_relative_to(Path(__file__).parent)
    place = str(file.relative_to(SOURCE)), line
    return any(place in lines for lines in raise_statements())


_statements: list[frozenset[Place]] = []


def raise_statements() -> list[frozenset[Place]]:
    """The lines of each statement of the package that raises a new error."""
    if not _statements:
        for file in sorted(SOURCE.rglob("*.py")):
            name = str(file.relative_to(SOURCE))
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and node.exc is not None:
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    _statements.append(frozenset((name, line) for line in lines))
    return _statements


class _raises:
    """Lines of the package at which something is raised, also if it is caught later."""

    def __enter__(self) -> set[Place]:
        self.places: set[Place] = set()
        self.root = str(SOURCE) + os.sep
        threading.settrace(self._of_frame)
        sys.settrace(self._of_frame)
        return self.places

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _of_frame(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.root):
            return None
        frame.f_trace_lines = False
        return self._of_event

    def _of_event(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception":
            self.places.add((frame.f_code.co_filename.removeprefix(self.root), frame.f_lineno))
        return self._of_event
