"""How far the work is: one function that is called bit by bit, and what the caller wants to see of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

from .arguments import Progress
from .kernels.compile import announcing


@contextmanager
def ticking(progress: Progress, total: int, unit: str) -> Iterator[Callable[[], None]]:
    """A function that is to be called `total` times, and passes that on as the caller wants it."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if callable(progress):
            progress(done, total)

    if progress is True:
        with (
            tqdm(total=total, desc="denoising", unit=unit, leave=False) as bar,
            announcing(lambda: bar.set_description_str("compiling for this CPU, once")),
        ):

            def advance() -> None:
                bar.set_description_str("denoising", refresh=False)
                bar.update()

            yield advance
    else:
        yield tick
