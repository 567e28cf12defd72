"""Where bands are computed: in threads of this process, or on a Dask cluster."""

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import Any, Protocol, TypeAlias

Work: TypeAlias = Callable[[list[int], int], Iterator[int]]
"""Computes consecutive bands with a number of threads, and yields the number of each one when it is done."""


class Executor(Protocol):
    """Something that computes bands."""

    def run_bands(self, work: Work, numbers: list[int], tick: Callable[[], None]) -> None:
        """Compute the bands with these numbers; `tick` is called after each one."""

    def ask_workers(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Call a function in every worker process; returns the answer of each one."""


class LocalThreads:
    """The threads of this process."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run_bands(self, work: Work, numbers: list[int], tick: Callable[[], None]) -> None:
        """Compute each run of consecutive bands in one go, so that no block is computed twice."""
        while numbers:
            count = 1
            while count < len(numbers) and numbers[count] == numbers[0] + count:
                count += 1
            for _ in work(numbers[:count], self.workers):
                tick()
            numbers = numbers[count:]

    def ask_workers(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Return nothing: there are no other processes."""
        return {}


class Cluster:
    """The workers of a Dask cluster.

    Each band is a task of one thread, since a worker already runs one task per thread that it was given. If a
    worker is lost, its bands are computed by another. If the scheduler is lost or restarted, the run ends.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def run_bands(self, work: Work, numbers: list[int], tick: Callable[[], None]) -> None:
        """Submit one task per band."""
        from distributed import as_completed

        futures = self.client.map(_run_band, [work] * len(numbers), numbers, pure=False)
        try:
            for future in as_completed(futures):
                future.result()
                tick()
        except CancelledError as error:
            raise ConnectionError(
                "the cluster was restarted, or its scheduler has ended"
            ) from error
        finally:
            self.client.cancel(futures)

    def ask_workers(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Return the answers by the addresses of the workers."""
        answers: dict[str, Any] = self.client.run(question, *arguments)
        return answers


def _run_band(work: Work, number: int) -> None:
    for _ in work([number], 1):
        pass
