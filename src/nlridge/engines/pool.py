"""Threads that compute results ahead of their use, in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_order(
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    workers: int,
    threads: Executor | None = None,
) -> Generator[_Result, None, None]:
    """Yield function(item) for each item in turn, computed by the workers at most `ahead(workers)` items ahead.

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
            for result in waiting:
                result.cancel()


def ahead(workers: int) -> int:
    """The number of items that may be computed before they are needed."""
    return 2 * workers if workers > 1 else 0


def threads_of(workers: int) -> ThreadPoolExecutor:
    """Threads for `in_order`, to be used in a `with` statement."""
    return ThreadPoolExecutor(workers, "nlridge")
