"""How long work will still go on, judged by how far it has come."""

import time

_SOON = 1.0  # seconds after which there is something to judge by
_LITTLE = 0.02  # share of the work


class Pace:
    """The pace of some work that begins now."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def left(self, done: float, after: float = 0.0) -> float | None:
        """Return how many seconds are left once a share of the work is done; None if that cannot be told yet.

        `after` is what follows, as a multiple of the work.
        """
        elapsed = time.monotonic() - self._start
        if elapsed < _SOON or done < _LITTLE:
            return None
        return elapsed * (1 - done + after) / done
