"""Threads that compute results in order, some of them ahead of their use."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from typing import NamedTuple, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Kept(NamedTuple):
    """Threads that have been started, and their number."""

    workers: int
    threads: ThreadPoolExecutor


_idle: deque[_Kept] = deque()
"""The threads of the last call, while they are not in use."""

_in_use: list[_Kept] = []
"""All others, so that they are never garbage.

An iterator that was abandoned gives its threads back when the garbage collector closes it. Had they been garbage
themselves, they would have ended before that, and the next call would wait for them forever.
"""


def in_order(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    workers: int,
    threads: Executor | None = None,
) -> Generator[_Result, None, None]:
    """Yield function(item) for each item in turn; the workers are at most `ahead(workers)` items ahead.

    Several calls may share their `threads`; by default, each has its own.
    """
    if workers == 1:
        yield from map(function, items)
        return
    with nullcontext(threads) if threads else threads_of(workers) as pool:
        waiting: deque[Future[_Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > ahead(workers):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error or Ctrl-C, wait only for the items being computed
            wait([result for result in waiting if not result.cancel()])


def ahead(workers: int) -> int:
    """The number of items that may be computed before they are needed."""
    return 2 * workers if workers > 1 else 0


@contextmanager
def threads_of(workers: int) -> Iterator[Executor]:
    """Threads for `in_order`, for this caller alone. A single worker needs none.

    They are kept for the next call: new threads share a core for some milliseconds before the system separates them.
    """
    if workers == 1:
        with ThreadPoolExecutor(1) as none_started:
            yield none_started
        return
    idle = None
    with suppress(IndexError):
        idle = _idle.pop()
    if idle is not None and idle.workers != workers:
        idle.threads.shutdown()
        idle = None
    kept = idle or _Kept(workers, ThreadPoolExecutor(workers, "nlridge"))
    _in_use.append(kept)
    try:
        yield kept.threads
    finally:
        _in_use.remove(kept)
        if _idle:  # those of another call that ran at the same time
            kept.threads.shutdown()
        else:
            _idle.append(kept)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # a forked process has none of the threads
