"""Who does the work: the threads of this process, or the workers of a cluster."""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Work: TypeAlias = Callable[[list[int], int], Iterator[int]]
"""Does some bands that follow each other with a number of threads, and gives the number of each when it is done."""
CarryOut: TypeAlias = Callable[[Work, list[int], Callable[[], None]], None]
"""Has bands done, and says of each when it is."""


def here(work: Work, numbers: list[int], tick: Callable[[], None], *, workers: int) -> None:
    """Do bands in this process; those that follow each other in one go."""
    while numbers:
        count = 1
        while count < len(numbers) and numbers[count] == numbers[0] + count:
            count += 1
        for _ in work(numbers[:count], workers):
            tick()
        numbers = numbers[count:]


def on_cluster(work: Work, numbers: list[int], tick: Callable[[], None], *, client: Any) -> None:
    """Do bands on the workers of a Dask cluster, each with one thread.

    A worker has as many threads as it does bands at a time, so that there are never more than it was given.
    What a worker was doing when it was lost is done by another.
    """
    from distributed import as_completed

    futures = client.map(_done, [work] * len(numbers), numbers, pure=False)
    try:
        for future in as_completed(futures):
            future.result()
            tick()
    finally:
        client.cancel(futures)


def _done(work: Work, number: int) -> None:
    for _ in work([number], 1):
        pass
