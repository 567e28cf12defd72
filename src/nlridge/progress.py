"""Progress: the work reports each part that is done, as a bar or to a callback of the caller."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeAlias

from tqdm import tqdm

from .core.kernels.compile import announcing

Progress: TypeAlias = bool | Callable[[int, int], object]
"""True for a progress bar, False for none, or a function that is called with (done, total)."""


class Tick(Protocol):
    """A function to call for each part of the work that is done."""

    def __call__(self, count: int = 1, *, already: bool = False) -> None:
        """Count `count` more parts as done.

        With `already`, they were done in an earlier run, and do not count in the estimate of the remaining time.
        """


@contextmanager
def progress_reporter(progress: Progress, total: int, unit: str) -> Iterator[Tick]:
    """Yield a function that counts up to `total`, and show the progress in the way the caller chose."""
    done = 0

    def tick(count: int = 1, *, already: bool = False) -> None:
        nonlocal done
        done += count
        if callable(progress) and count:
            progress(done, total)

    if progress is True:
        with (
            # Parts take different times: the mean rate since the start predicts better than the latest one.
            tqdm(total=total, desc="denoising", unit=unit, leave=False, smoothing=0) as bar,
            announcing(bar.set_description_str),
        ):

            def advance(count: int = 1, *, already: bool = False) -> None:
                bar.set_description_str("denoising", refresh=False)
                if already:
                    bar.initial += count
                    bar.n += count
                    bar.refresh()
                else:
                    bar.update(count)

            yield advance
    else:
        yield tick


@contextmanager
def runs_reporter(progress: Progress, count: int) -> Iterator[list[Progress]]:
    """Yield the `progress` argument for each of `count` runs of about the same length, one after the other."""
    if count == 1:
        yield [progress]
        return
    with progress_reporter(progress, 100 * count, "%") as tick:
        reported = 0

        def report(k: int, done: int, total: int) -> None:
            nonlocal reported
            now = 100 * k + 100 * done // total
            tick(now - reported)
            reported = now

        yield [partial(report, k) for k in range(count)]
