"""Intermediate results in files. Files are written atomically: a file that exists is complete."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..atomic import writing
from ..core.algorithm.passes import Pass
from ..core.engines.grid import Window, lines, split_range
from ..types import Image, Pixels, Shape


def finish_in_background(tasks: Iterable[tuple[int, Callable[[], object]]]) -> Iterator[int]:
    """Call the `finish` function of each (number, finish) while the next task is computed.

    Yields each number once its function has returned. These functions wait for the disk.
    """
    with ThreadPoolExecutor(1, "nlridge-disk") as pool:
        pending: list[tuple[int, Future[object]]] = []
        for number, finish in tasks:
            yield from _wait_for(pending)
            pending = [(number, pool.submit(finish))]
        yield from _wait_for(pending)


def _wait_for(pending: list[tuple[int, Future[object]]]) -> Iterator[int]:
    for number, future in pending:
        future.result()
        yield number


def bands_of(height: int, band_height: int) -> list[range]:
    """Return the rows of each band."""
    return list(split_range(range(height), band_height))


@dataclass(frozen=True)
class BandFiles:
    """An image of shape (planes, height, width) in a folder, with one file per band.

    A file holds the pixels of its band as (rows, planes, width).
    """

    folder: Path
    shape: Shape
    band_height: int

    def path(self, k: int) -> Path:
        """Return the path of the k-th band."""
        return self.folder / str(k)

    def read(self, window: Window) -> Image:
        """Read a part of the image, which may span several bands; whole rows are read."""
        planes, _, width = self.shape
        top, bottom = window.rows.start, window.rows.stop
        pixels: Image = np.empty((bottom - top, planes, width), np.float32)
        for k in range(top // self.band_height, -(-bottom // self.band_height)):
            first = max(top, k * self.band_height)
            last = min(bottom, (k + 1) * self.band_height)
            skip = (first - k * self.band_height) * planes * width * pixels.itemsize
            count = (last - first) * planes * width
            rows = np.fromfile(self.path(k), np.float32, count, offset=skip)
            pixels[first - top : last - top] = rows.reshape(last - first, planes, width)
        image: Image = pixels.transpose(1, 0, 2)
        return image[:, :, window.columns.start : window.columns.stop]


class GroupFiles:
    """The groups of similar patches of a pass, stored for another pass: one file per line of blocks.

    The engine uses it as a mapping from the first reference (y, x) of a block to the positions in its groups.
    `complete` tells whether all groups have already been stored. Some have if a block reaches into two bands, or if the
    run is resumed.
    """

    def __init__(self, folder: Path, shape: tuple[int, int], pass_: Pass, complete: bool) -> None:
        self.arguments = folder, shape, pass_, complete
        self.folder, self.complete = folder, complete
        self.lines = {
            int(line[0].whole.ys[0]): [int(block.whole.xs[0]) for block in line]
            for line in lines(shape, pass_)
        }
        """The columns of the first references of the blocks of each line, by their row."""
        self.loaded: dict[int, dict[int, Pixels]] = {}
        """Lines in memory, while they are read or written: by row, then by column of the first reference."""
        self.lock = threading.Lock()

    def __reduce__(self) -> Any:
        return GroupFiles, self.arguments

    def __contains__(self, key: tuple[int, int]) -> bool:
        return self.complete or (self.folder / str(key[0])).exists()

    def __getitem__(self, key: tuple[int, int]) -> Pixels:
        y, x = key
        with self.lock:
            if x not in self.loaded.get(y, {}):
                # The engine asks for the lines from top to bottom.
                for finished in sorted(self.loaded)[:-2]:
                    del self.loaded[finished]
                with open(self.folder / str(y), "rb") as file:
                    self.loaded[y] = {first: np.load(file) for first in self.lines[y]}
            return self.loaded[y][x]

    def __setitem__(self, key: tuple[int, int], places: Pixels) -> None:
        y, x = key
        with self.lock:
            line = self.loaded.setdefault(y, {})
            line[x] = places
            if len(line) < len(self.lines[y]):
                return
            del self.loaded[y]
        with writing(self.folder / str(y)) as file:
            for first in self.lines[y]:
                np.save(file, line[first])
