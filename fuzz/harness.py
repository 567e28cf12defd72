"""Run cases in child processes, with a limit on memory and time, and judge how each ended.

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
from itertools import islice
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
    "expected the range of the images",
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
    together: int = 1,
) -> Iterator[Outcome]:
    """Run cases, and yield how they ended; none starts later than `until` (see `time.monotonic`).

    To fork takes longer than most cases, so a child runs as many as `together`, one after the other. It stops at the
    first that goes wrong, which is then judged in a child of its own.
    """
    raise_statements()  # found once, for all children
    gc.collect()
    gc.freeze()  # children that collect garbage would copy all of the parent's memory
    todo = iter(cases)
    again: list[
        tuple[list[Case], str]
    ] = []  # cases, and what went wrong with the first one in company
    children: list[_Child] = []
    room = Path(tempfile.mkdtemp(prefix="nlridge-fuzz-"))
    try:
        while True:
            while len(children) < workers and (again or time.monotonic() < until):
                batch, doubt = again.pop() if again else (list(islice(todo, together)), "")
                if not batch:
                    break
                children.append(_Child(batch, runs, room, limits, doubt))
            if not children:
                return
            ended = [child for child in children if child.has_ended()]
            for child in ended:
                children.remove(child)
                told, rest, reason = child.outcomes()
                if rest:
                    again += [([rest[0]], reason), (rest[1:], "")] if rest[1:] else [(rest, reason)]
                yield from told
            if not ended:
                time.sleep(0.002)
    finally:
        gc.unfreeze()
        for child in children:
            child.kill(signal.SIGKILL)
        shutil.rmtree(room, ignore_errors=True)


class _Child:
    """A process that runs cases, one after the other."""

    def __init__(
        self, cases: list[Case], runs: dict[str, Run], room: Path, limits: Limits, doubt: str
    ) -> None:
        self.cases, self.limits, self.doubt = cases, limits, doubt
        self.folder = Path(tempfile.mkdtemp(dir=room))
        self.report = self.folder.with_suffix(".json")
        self.stderr = self.folder.with_suffix(".txt")
        self.start, self.told, self.stopped = time.monotonic(), 0, ""
        self.status, self.peak = 0, 0
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _perform(cases, runs, self.folder, self.report, self.stderr, limits)
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
        told = self.report.stat().st_size if self.report.exists() else 0
        if told > self.told:  # the next case has begun
            self.told, self.start = told, time.monotonic()
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

    def outcomes(self) -> tuple[list[Outcome], list[Case], str]:
        """How cases ended; those that are to be run again, because one went wrong; and what went wrong."""
        lines = self.report.read_text().splitlines() if self.report.exists() else []
        told = [
            self._told(case, json.loads(line))
            for case, line in zip(self.cases, lines, strict=False)
        ]
        if len(told) < len(self.cases) and not (told and told[-1].is_bad):
            told.append(self._cut_short(self.cases[len(told)]))
        shutil.rmtree(self.folder, ignore_errors=True)
        for file in (self.report, self.stderr):
            file.unlink(missing_ok=True)
        if told[-1].is_bad and len(self.cases) > 1:
            return told[:-1], self.cases[len(told) - 1 :], told[-1].reason
        if self.doubt and not told[-1].is_bad:
            told[-1].verdict = UGLY
            told[-1].reason = f"fine by itself, but after other cases: {self.doubt}"
        return told, [], ""

    def _told(self, case: Case, told: dict[str, Any]) -> Outcome:
        """The outcome of a case that came to its end."""
        raised = {(file, line) for file, line in told.pop("raised")}
        outcome = Outcome(case, raised=raised, **told)
        if outcome.memory > self.limits.memory:
            taken, limit = outcome.memory >> 20, self.limits.memory >> 20
            outcome.verdict, outcome.reason = BROKEN, f"took {taken} MB, more than {limit} MB"
        return outcome

    def _cut_short(self, case: Case) -> Outcome:
        """The outcome of a case in which the process ended."""
        reason = f"ended with exit code {os.waitstatus_to_exitcode(self.status)} before its end"
        if os.WIFSIGNALED(self.status):
            reason = f"ended by {signal.Signals(os.WTERMSIG(self.status)).name}"
        printed = self.stderr.read_text(errors="replace") if self.stderr.exists() else ""
        memory = max(self.peak - self.before, 0)
        return Outcome(case, BROKEN, self.stopped or reason, printed, memory)


def _resident(pid: int) -> int:
    """The memory of a process, in bytes; 0 if it is not known."""
    try:
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * resource.getpagesize()


def _perform(
    cases: list[Case],
    runs: dict[str, Run],
    folder: Path,
    report: Path,
    stderr: Path,
    limits: Limits,
) -> None:
    """In the child: run cases until one goes wrong, and write a line about each; never returns."""
    before = peak = _resident(os.getpid())
    sink = os.open(stderr, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(0, 1)
    os.dup2(sink, 2)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(number), "w") for number in (1, 2))
    faulthandler.enable(sys.stderr)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    most = taken + 4 * limits.memory  # the parent watches what is really used
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for case in cases:
        own = folder / str(case.seed)
        own.mkdir()
        os.chdir(own)
        told = _ended(case, runs[case.kind], own, stderr)
        highest = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        told["memory"] = highest - before if highest > peak else 0
        peak = max(peak, highest)
        with report.open("a") as file:
            file.write(json.dumps(told) + "\n")
        if told["verdict"] in (UGLY, BROKEN):
            break
        os.chdir(folder)
        shutil.rmtree(own, ignore_errors=True)
    os._exit(0)


def _ended(case: Case, run: Run, folder: Path, stderr: Path) -> dict[str, Any]:
    """Run a case; how it ended, as the fields of an `Outcome`."""
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
    printed = stderr.read_text(errors="replace")
    if printed and verdict != BROKEN:
        verdict, reason = UGLY, f"printed to stderr: {printed.strip().splitlines()[-1:]}"
    details += printed
    return {
        "verdict": verdict,
        "reason": reason,
        "details": details,
        "raised": sorted(raised),
    }


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
