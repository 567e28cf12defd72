"""Who does the work: the threads of this process, or the workers of a cluster."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeAlias

Work: TypeAlias = Callable[[list[int], int], Iterator[int]]
"""Does some bands that follow each other with a number of threads, and gives the number of each when it is done."""


class Workforce(Protocol):
    """Those who do the work."""

    def carry_out(self, work: Work, numbers: list[int], tick: Callable[[], None]) -> None:
        """Have bands done, and say of each when it is."""

    def ask(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What each process that works answers."""


class Here:
    """The threads of this process."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def carry_out(self, work: Work, numbers: list[int], tick: Callable[[], None]) -> None:
        """Bands that follow each other are done in one go."""
        while numbers:
            count = 1
            while count < len(numbers) and numbers[count] == numbers[0] + count:
                count += 1
            for _ in work(numbers[:count], self.workers):
                tick()
            numbers = numbers[count:]

    def ask(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """This process needs no telling."""
        return {}


class Cluster:
    """The workers of a Dask cluster, each band with one thread.

    A worker has as many threads as it does bands at a time, so that there are never more than it was given.
    What a worker was doing when it was lost is done by another.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def carry_out(self, work: Work, numbers: list[int], tick: Callable[[], None]) -> None:
        """Bands are tasks."""
        from distributed import as_completed

        futures = self.client.map(_done, [work] * len(numbers), numbers, pure=False)
        try:
            for future in as_completed(futures):
                future.result()
                tick()
        finally:
            self.client.cancel(futures)

    def ask(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """By the addresses of the workers."""
        found: dict[str, Any] = self.client.run(question, *arguments)
        return found


def _done(work: Work, number: int) -> None:
    for _ in work([number], 1):
        pass
