"""The sums of blocks, added up in strips of rows.

A strip is added up by the thread that finishes the last block that reaches it, while the others go on with the next blocks.
Blocks are added in their order in the image, so that the bits of a pixel depend neither on which thread that is, nor on
when blocks are finished.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ...types import Image
from ..algorithm.inputs import StepInputs
from ..algorithm.settings import Step
from .grid import BlockPart, Window, reach
from .groups import GroupDenoiser, apply_change, average

_Result = TypeVar("_Result")


class LineInputs(NamedTuple):
    """The part of the images that a line of blocks reads."""

    window: Window
    inputs: StepInputs


class BlockSums(NamedTuple):
    """The sums of a block."""

    line: LineInputs
    window: Window
    total: Image
    """The weighted sums of the changes of its patches."""
    rest: Image
    """The same with some of the noise left."""
    weight: Image
    """The weights of the patches, at their corners."""


class Strips(Generic[_Result]):
    """The strips of a pass: one for each line of blocks, of the rows of the window to which no further line adds."""

    def __init__(
        self,
        grid: Sequence[Sequence[BlockPart]],
        shape: tuple[int, int],
        window: Window,
        settings: Step,
        denoisers: Sequence[GroupDenoiser],
        finish: Callable[[range, Image, Image], _Result],
    ) -> None:
        """`finish` receives the rows of a strip and both results for them; it is called from several threads."""
        self._denoisers, self._finish = denoisers, finish
        covering = (
            settings.patch_size - 1
        )  # the largest distance of a pixel from the corner of a patch
        reached = [reach([line], shape, settings).rows for line in grid]
        at = window.rows.start
        ends = [*(rows.start for rows in reached[1:]), reached[-1].stop]
        self._strips, self._held = [], []
        self._first = []
        """The first line of blocks that adds to each strip."""
        for end in ends:
            rows = range(at, max(min(end, window.rows.stop), at))
            # The weights of patches that cover the strip may be above it and to the left.
            top = max(at - covering, reached[0].start)
            left = max(window.columns.start - covering, 0)
            self._strips.append(Window(rows, window.columns))
            self._held.append(Window(range(top, rows.stop), range(left, window.columns.stop)))
            self._first.append(sum(one.stop <= top for one in reached))
            at = rows.stop
        self._lock = threading.Lock()
        self._blocks: list[dict[int, BlockSums]] = [{} for _ in grid]
        """The blocks of each line, by their place in it."""
        self._missing = list(map(len, grid))
        self._next = 0
        """The first strip that has not been begun."""
        self._results: dict[int, _Result] = {}

    def add(self, line: int, column: int, sums: BlockSums) -> None:
        """Add a block; finishes the strips that waited for it alone."""
        with self._lock:
            self._blocks[line][column] = sums
            self._missing[line] -= 1
            begun = []
            while self._next < len(self._missing) and self._missing[self._next] == 0:
                k, first = self._next, self._first[self._next]
                blocks = [own[j] for own in self._blocks[first : k + 1] for j in range(len(own))]
                begun.append((k, blocks))
                self._blocks[:first] = [{}] * first  # needed no longer
                self._next += 1
        for k, blocks in begun:
            if len(self._strips[k].rows):
                self._results[k] = self._finish(self._strips[k].rows, *self._added_up(k, blocks))

    def take(self, line: int) -> _Result | None:
        """The result for the strip of a line, all of whose blocks have been added; None if it has no rows."""
        return self._results.pop(line, None)

    def _added_up(self, k: int, blocks: Sequence[BlockSums]) -> tuple[Image, Image]:
        """Both results for a strip."""
        strip, held = self._strips[k], self._held[k]
        sums = [np.zeros((len(part), *map(len, held)), np.float32) for part in blocks[0][2:]]
        for block in blocks:
            for part, image in zip(block[2:], sums, strict=True):
                block.window.add(part, image, held)
        total, rest, weight = sums
        average(self._denoisers, total, rest, weight)
        line = blocks[-1].line
        noisy = line.inputs.noisy[strip.inside(line.window)]
        total, rest = (image[strip.inside(held)] for image in (total, rest))
        for change in (total, rest):
            apply_change(change, noisy)
        return total, rest
