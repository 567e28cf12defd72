"""Run each case in a child process, with a limit on its memory and time, and judge how it ended.

A child is forked from a process that has imported everything and compiled the kernels, so that a case takes no longer
than the calls it makes. There are four verdicts:

- ok: it ended without an error;
- clean error: the package refused it on purpose, in a message of one line;
- ugly: an error that the package did not mean to raise, a message of several lines, a warning, or text on stderr;
- broken: a wrong result (a failed assertion), a crash, or more memory or time than it may take.
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
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import nlridge

SOURCE = Path(nlridge.__file__).parent
OK, CLEAN, UGLY, BROKEN = VERDICTS = "ok", "clean error", "ugly", "broken"

_CLEAN_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)
_LONGEST = 1000  # characters of a message
# Warnings that the documentation promises.
_DOCUMENTED = (
    "is out of memory; trying again",
    "expected a standard deviation in the units of the image",
    "which has no effect, since",
)

Run = Callable[[int, Path], None]
Place = tuple[str, int]
"""A file of the package and the number of a line."""


class Case(NamedTuple):
    kind: str
    seed: int

    @property
    def command(self) -> str:
        return f"python -m fuzz --again {self.kind} {self.seed}"


@dataclass
class Outcome:
    """How a case ended."""

    case: Case
    verdict: str
    reason: str = ""
    """The error, or what was wrong, in one line."""
    details: str = ""
    """The traceback, and what was printed to stderr."""
    memory: int = 0
    """The most that it took, in bytes."""
    raised: set[Place] = field(default_factory=set)
    """Where the package raised errors, including caught ones."""

    @property
    def is_bad(self) -> bool:
        """Whether it needs fixing."""
        return self.verdict in (UGLY, BROKEN)


class Limits(NamedTuple):
    memory: int = 2**30
    """Bytes beyond what the child starts with."""
    seconds: float = 30.0


_LIMITS = Limits()


def outcomes(
    cases: Iterable[Case],
    runs: dict[str, Run],
    limits: Limits = _LIMITS,
    workers: int = 1,
    until: float = float("inf"),
) -> Iterator[Outcome]:
    """Run cases, and yield how they ended, in that order; none starts later than `until` (see `time.monotonic`)."""
    raise_statements()  # found once, for all children
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
    """A process that runs one case."""

    def __init__(self, case: Case, run: Run, room: Path, limits: Limits) -> None:
        self.case, self.limits = case, limits
        self.folder = Path(tempfile.mkdtemp(dir=room))
        self.report = self.folder.with_suffix(".json")
        self.stderr = self.folder.with_suffix(".txt")
        self.start, self.stopped = time.monotonic(), ""
        self.status, self.peak = 0, 0
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _perform(case, run, self.folder, self.report, self.stderr, limits)
            finally:
                os._exit(99)  # only if the harness itself fails
        self.before = _resident(self.pid) or _resident(os.getpid())

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
            self.kill(signal.SIGABRT)  # it prints where it was
            time.sleep(0.1)
        elif self._grown() > self.limits.memory:
            self.stopped = f"took more than {self.limits.memory >> 20} MB"
            self.kill(signal.SIGKILL)
        return False

    def _grown(self) -> int:
        now = _resident(self.pid)
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
            report = json.loads(self.report.read_text())
            outcome.verdict, outcome.reason = report["verdict"], report["reason"]
            outcome.details = report["details"] + printed
            outcome.raised = {(file, line) for file, line in report["raised"]}
            self.before = report["before"]
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
    """The memory of a process, in bytes; 0 if it is not known."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * resource.getpagesize()


def _perform(
    case: Case, run: Run, folder: Path, report: Path, stderr: Path, limits: Limits
) -> None:
    """In the child: run the case, and write a report about it; never returns."""
    before = _resident(os.getpid())
    sink = os.open(stderr, os.O_WRONLY | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.dup2(sink, 2)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w") for number in (1, 2))
    faulthandler.enable(sys.stderr)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = taken + 4 * limits.memory  # the parent watches what is really used
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(folder)
    error: BaseException | None = None
    with _Raised() as raised, warnings.catch_warnings(record=True) as warned:
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
    told = {"verdict": verdict, "reason": reason, "details": details}
    report.write_text(json.dumps({**told, "raised": sorted(raised), "before": before}))
    os._exit(0)


def judged(error: BaseException | None, warned: list[str]) -> tuple[str, str]:
    """The verdict on a case that ended by itself, and the reason, from its error and its warnings."""
    warned = [text for text in warned if not any(known in text for known in _DOCUMENTED)]
    if error is None:
        return (UGLY, f"warned: {_line(warned[0])}") if warned else (OK, "")
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
    return (UGLY, f"warned: {_line(warned[0])}") if warned else (CLEAN, named)


def _line(text: str) -> str:
    return " ".join(text.split())[:300]


def innermost(error: BaseException) -> tuple[Path, int]:
    """The file and the line at which an error was raised."""
    return _frames(error)[-1]


def _frames(error: BaseException) -> list[tuple[Path, int]]:
    """Files and lines, the innermost last; the files are not read, which would take long."""
    frames = traceback.walk_tb(error.__traceback__)
    return [(Path(frame.f_code.co_filename), line) for frame, line in frames]


def _place(error: BaseException) -> str:
    frames = _frames(error.__cause__ or error)
    own = [frame for frame in frames if frame[0].is_relative_to(SOURCE)]
    file, line = (own or frames)[-1]
    return f"{file.name}:{line}"


def _meant(error: BaseException) -> bool:
    """Whether a statement of the package raised an error, or Python refused the call that the case made."""
    file, line = innermost(error)
    if not file.is_relative_to(SOURCE):
        return file.is_relative_to(Path(__file__).parent)
    place = str(file.relative_to(SOURCE)), line
    return any(place in lines for lines in raise_statements())


@cache
def raise_statements() -> list[frozenset[Place]]:
    """The lines of each statement of the package that raises a new error; found once."""
    statements = []
    for file in sorted(SOURCE.rglob("*.py")):
        name = str(file.relative_to(SOURCE))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                statements.append(frozenset((name, line) for line in lines))
    return statements


class _Raised:
    """Records where the package raises errors, also those that it catches."""

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
