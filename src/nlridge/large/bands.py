"""What is kept in files while an image is worked on: each file is whole, or it is not there."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.passes import Pass
from ..engines.grid import lines
from ..files.atomic import writing

Image = npt.NDArray[np.float32]


def one_behind(parts: Iterable[tuple[int, Callable[[], object]]]) -> Iterator[int]:
    """The numbers of parts, each when its function has been called: while the next part is computed.

    That function waits for the disk.
    """
    with ThreadPoolExecutor(1, "nlridge-disk") as pool:
        before: list[tuple[int, Future[object]]] = []
        for number, finish in parts:
            yield from _waited_for(before)
            before = [(number, pool.submit(finish))]
        yield from _waited_for(before)


def _waited_for(parts: list[tuple[int, Future[object]]]) -> Iterator[int]:
    for number, future in parts:
        future.result()
        yield number


def bands_of(height: int, band: int) -> list[range]:
    """The rows of each band."""
    return list(in_turn(range(height), band))


def in_turn(rows: range, count: int) -> Iterator[range]:
    """All rows, some at a time."""
    for top in range(rows.start, rows.stop, count):
        yield range(top, min(top + count, rows.stop))


@dataclass(frozen=True)
class Bands:
    """An image of (planes, height, width) in a folder, a file for each band of its rows: (rows, planes, width)."""

    folder: Path
    shape: tuple[int, int, int]
    band: int

    def path(self, k: int) -> Path:
        """The file of the k-th band."""
        return self.folder / str(k)

    def read(self, top: int, bottom: int) -> Image:
        """Some rows, which may be of several bands."""
        planes, _, width = self.shape
        found: Image = np.empty((bottom - top, planes, width), np.float32)
        for k in range(top // self.band, -(-bottom // self.band)):
            first, last = max(top, k * self.band), min(bottom, (k + 1) * self.band)
            skip = (first - k * self.band) * planes * width * found.itemsize
            count = (last - first) * planes * width
            rows = np.fromfile(self.path(k), np.float32, count, offset=skip)
            found[first - top : last - top] = rows.reshape(last - first, planes, width)
        image: Image = found.transpose(1, 0, 2)
        return image


class Groups:
    """The groups of similar patches of a step, kept for another: a file for each line of blocks.

    What the engine takes for a mapping from the first reference of a block.  `known` says whether they have
    been found already.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], step: Pass, known: bool) -> None:
        self.arguments = folder, shape, step, known
        self.folder, self.known = folder, known
        self.lines = {int(line[0].ys[0]): line for line in lines(shape, step)}
        self.some: dict[int, dict[int, npt.NDArray[Any]]] = {}
        """Of lines that are being read or written: by the row, then by the column of the first reference."""
        self.lock = threading.Lock()

    def __reduce__(self) -> Any:
        return Groups, self.arguments

    def __contains__(self, key: object) -> bool:
        return self.known

    def __getitem__(self, key: tuple[int, int]) -> npt.NDArray[Any]:
        y, x = key
        with self.lock:
            if y not in self.some:
                for read in sorted(self.some)[:-2]:  # they are wanted one after the other
                    del self.some[read]
                with open(self.folder / str(y), "rb") as file:
                    self.some[y] = {int(block.xs[0]): np.load(file) for block in self.lines[y]}
            return self.some[y][x]

    def __setitem__(self, key: tuple[int, int], places: npt.NDArray[Any]) -> None:
        y, x = key
        with self.lock:
            line = self.some.setdefault(y, {})
            line[x] = places
            if len(line) < len(self.lines[y]):
                return
            del self.some[y]
        with writing(self.folder / str(y)) as file:
            for block in self.lines[y]:
                np.save(file, line[int(block.xs[0])])
