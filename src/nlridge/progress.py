"""How far the work is: one function that is called bit by bit, and what the caller wants to see of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from tqdm import tqdm

from .kernels.compile import announcing

Progress: TypeAlias = bool | Callable[[int, int], object]
"""Whether to show a progress bar, or a function that is called with (done, total)."""


class Tick(Protocol):
    """Says that some more of the work is done."""

    def __call__(self, count: int = 1, *, already: bool = False) -> None:
        """`already` means before: it says nothing about how long the rest will take."""


@contextmanager
def ticking(progress: Progress, total: int, unit: str) -> Iterator[Tick]:
    """A function to be called until the counts add up to `total`, which shows that as the caller wants it."""
    done = 0

    def tick(count: int = 1, *, already: bool = False) -> None:
        nonlocal done
        done += count
        if callable(progress) and count:
            progress(done, total)

    if progress is True:
        with (
            # Parts differ in the time they take: the mean rate since the start tells more than the latest one.
            tqdm(total=total, desc="denoising", unit=unit, leave=False, smoothing=0) as bar,
            announcing(lambda: bar.set_description_str("compiling for this CPU, once")),
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
