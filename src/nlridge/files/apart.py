"""Reading files in a process of its own: where a library crashes or does not return, only its file fails.

Most formats are decoded by libraries that are written in C. `read_apart` is `read` for the files of people, none of
which may keep them waiting for ever, or end what else is under way. One process reads them all; it is started again if
it has ended.
"""

import atexit
import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from .damage import expect_regular
from .picture import Picture

SECONDS = 60.0  # for any file, and
SECONDS_PER_BYTE = 1e-6
_SERVE = "import sys; sys.path[:] = {}; from nlridge.files.apart import serve; serve()"
_WORD = 8  # bytes of a length


def read_apart(path: Path, axes: str | None = None, dataset: str | None = None) -> Picture:
    """Read a file as `read` does, in another process."""
    expect_regular(path)
    seconds = SECONDS + SECONDS_PER_BYTE * path.stat().st_size
    try:
        answer = _reader.ask((os.getcwd(), path, axes, dataset, seconds))
    except _Ended as ended:
        too_long = ended.args == (_TOO_LONG,)
        what = f"did not return within {seconds:g} s" if too_long else "crashed"
        raise ValueError(
            f"the file is damaged: the library that reads {path.suffix.lower()} files {what}"
        ) from None
    if isinstance(answer, Exception):
        raise answer
    if answer == _UNSENDABLE:
        from . import read

        return read(path, axes, dataset)
    picture: Picture = answer
    return picture


_UNSENDABLE = "a picture of a plug-in, which cannot be sent to another process"
_TOO_LONG = 1  # the exit code of a process that took longer than it may


class _Ended(Exception):
    """The process has ended; with its exit code."""


class _Reader:
    """The process that reads, once it has been needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()  # several threads may read, one after the other

    def ask(self, question: Any) -> Any:
        """Return the answer to a question."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _send(process.stdin, question)
                return _received(process.stdout)
            except (OSError, EOFError):
                process.wait()
                self.end()
                raise _Ended(process.returncode) from None

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVE.format(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process

    def end(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(OSError):  # there may be something that was not sent
                process.__exit__(None, None, None)


_reader = _Reader()
atexit.register(_reader.end)


def serve() -> None:
    """Answer questions from the standard input until it is closed: the other end of `read_apart`."""
    from . import read

    if hasattr(signal, "SIGINT"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get among the answers
    while True:
        try:
            folder, path, axes, dataset, seconds = _received(questions)
        except EOFError:
            return
        # This clock also ends a library that keeps all threads of Python waiting.
        faulthandler.dump_traceback_later(seconds, exit=True)
        answer: Any
        try:
            os.chdir(folder)
            answer = read(path, axes, dataset)
        except Exception as error:
            answer = error
        except BaseException as error:  # libraries written in Rust raise such ones
            answer = RuntimeError(f"{type(error).__name__}: {error}")
        faulthandler.cancel_dump_traceback_later()
        _send(answers, answer)
        del answer  # its memory is not kept until the next question


def _send(pipe: IO[bytes], thing: Any) -> None:
    """Send an object; the pixels of a picture are not copied on the way."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(thing, 5, buffer_callback=buffers.append)
        if isinstance(thing, Exception):
            pickle.loads(head)
    except Exception:  # whatever an object of a plug-in raises
        buffers = []
        head = pickle.dumps(ValueError(str(thing)) if isinstance(thing, Exception) else _UNSENDABLE)
    parts = [memoryview(head), *(buffer.raw() for buffer in buffers)]
    pipe.write(len(parts).to_bytes(_WORD))
    for part in parts:
        pipe.write(part.nbytes.to_bytes(_WORD))
        pipe.write(part)
    pipe.flush()


def _received(pipe: IO[bytes]) -> Any:
    head, *buffers = [_filled(pipe, _number(pipe)) for _ in range(_number(pipe))]
    return pickle.loads(head, buffers=buffers)


def _number(pipe: IO[bytes]) -> int:
    return int.from_bytes(_filled(pipe, _WORD))


def _filled(pipe: Any, length: int) -> bytearray:
    """Return this many bytes of a pipe."""
    data = bytearray(length)
    rest = memoryview(data)
    while rest:
        got = pipe.readinto(rest)
        if not got:
            raise EOFError
        rest = rest[got:]
    return data
