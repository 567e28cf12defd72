"""Threads that compute results ahead of their use, in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def in_order(
    function: Callable[[_Item], _Result], items: Iterable[_Item], workers: int
) -> Iterator[_Result]:
    """Yield function(item) for each item in turn, computed by the workers a limited number of items ahead."""
    if workers == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers, "nlridge") as pool:
        ahead: deque[Future[_Result]] = deque()
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) > 2 * workers:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:  # after an error or Ctrl-C, wait only for the items being computed
            pool.shutdown(wait=True, cancel_futures=True)
