"""Work that can be reused when an image is denoised again with another strength.

The results of first steps, and the groups found in them, are kept under a digest of everything they depend on. The
strength counts as at most 1 in a first step: at any strength from 1 on, only the second step is computed again, and at
the coarsest scale without its first search for similar patches. The bits of the result are the same.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...types import Image
from ..algorithm.inputs import StepInputs
from ..algorithm.passes import Pass
from .cpu import run_pass
from .grid import Window, lines, reach, whole_window

MAX_BYTES = 2**29
"""The memory for what is kept, by default."""
# Groups may take this many times the memory of the image in which they are searched for.
_GROUP_MEMORY = 8


class Kept:
    """Results of first steps and groups of second steps; the least recently used ones are dropped."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._items: OrderedDict[bytes, Any] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        with self._lock:
            return self._bytes()

    def clear(self) -> None:
        with self._lock:
            self._items.clear()

    def engine(self) -> Callable[..., tuple[Image, Image]]:
        """Return the engine for a run over an image, which does not repeat a pass whose result is kept here."""
        is_pilot = False  # whether the previous pass was a first step

        def run(
            inputs: StepInputs,
            pass_: Pass,
            groups: dict[Any, Any] | None = None,
            *,
            window: Window | None = None,
            tick: Callable[[], None],
            **how: Any,
        ) -> tuple[Image, Image]:
            nonlocal is_pilot

            def run_with(groups: dict[Any, Any] | None) -> tuple[Image, Image]:
                return run_pass(inputs, pass_, groups, window=window, tick=tick, **how)

            follows_pilot, is_pilot = is_pilot, not pass_.is_second
            if not pass_.is_second:
                return self._first(inputs, pass_, window, tick, partial(run_with, groups))
            if follows_pilot and not groups:
                return self._second(inputs, pass_, window, groups, run_with)
            return run_with(groups)

        return run

    def _first(
        self,
        inputs: StepInputs,
        pass_: Pass,
        window: Window | None,
        tick: Callable[[], None],
        run: Callable[[], tuple[Image, Image]],
    ) -> tuple[Image, Image]:
        """The results of a first step, which leaves no noise: both are the same."""
        noise, shape = inputs.noise, inputs.noisy.shape
        read = [
            image if isinstance(image, float) else _read(image, pass_, window)
            for image in (inputs.noisy, inputs.similar, noise.variance)
        ]
        key = _digest(pass_, shape, window, *read, noise.correlation, noise.color)
        total: Image | None = self._found(key)
        if total is None:
            total, _ = run()
            self._keep(key, total)
        else:
            for line in _lines(shape[1:], pass_, window):
                for _ in line:
                    tick()
        result = total.copy()  # what is kept must not change
        return result, result

    def _second(
        self,
        inputs: StepInputs,
        pass_: Pass,
        window: Window | None,
        groups: dict[Any, Any] | None,
        run: Callable[[dict[Any, Any] | None], tuple[Image, Image]],
    ) -> tuple[Image, Image]:
        """The results of the first pass of a second step, whose search does not depend on the strength."""
        similar = _read(inputs.similar, pass_, window)
        if similar.nbytes > self._max_bytes / _GROUP_MEMORY:
            return run(groups)
        groups = {} if groups is None else groups
        key = _digest(pass_, inputs.noisy.shape, window, similar)
        groups.update(self._found(key) or {})
        results = run(groups)
        self._keep(key, dict(groups))
        return results

    def _found(self, key: bytes) -> Any:
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def _keep(self, key: bytes, item: Any) -> None:
        with self._lock:
            self._items[key] = item
            self._items.move_to_end(key)
            while self._bytes() > self._max_bytes:
                self._items.popitem(last=False)

    def _bytes(self) -> int:
        return sum(map(_bytes, self._items.values()))


def _bytes(item: Any) -> int:
    arrays = item.values() if isinstance(item, dict) else [item]
    return sum(array.nbytes for array in arrays)


def _lines(shape: tuple[int, int], pass_: Pass, window: Window | None) -> Any:
    return lines(shape, pass_, window or whole_window(shape), trimmed=window is not None)


def _read(image: Any, pass_: Pass, window: Window | None) -> Image:
    """Return the part of an image that a pass reads."""
    shape = image.shape[1:]
    if window is None:
        return np.asarray(image)
    index = reach(_lines(shape, pass_, window), shape, pass_.settings).inside(whole_window(shape))
    return np.asarray(image[index])


def _digest(*facts: Any) -> bytes:
    """Return a digest of arrays, and of objects whose repr describes them completely."""
    digest = hashlib.blake2b(digest_size=32)
    for fact in facts:
        if isinstance(fact, np.ndarray):
            digest.update(f"{fact.dtype} {fact.shape}".encode())
            digest.update(np.ascontiguousarray(fact).data)
        else:
            digest.update(repr(fact).encode())
    return digest.digest()
