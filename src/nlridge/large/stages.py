"""The steps of the algorithm on images that are kept in files, one band of rows after the other.

Each step needs of the one before no more than what it reads itself, some rows beyond its band, so that nothing is
computed twice but the few lines of blocks that reach into two bands; and not even those where bands that follow
each other are done in one go.
"""

import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..algorithm import pyramid
from ..algorithm.inputs import PlaneNoise, StepInputs
from ..algorithm.passes import Pass
from ..engines import cpu
from ..engines.pool import in_order
from ..files.atomic import writing
from ..progress import Tick
from .bands import Bands, Groups, bands_of, in_turn, one_behind
from .lazy import Image, Lazy
from .scales import around, coarser_part, fine_rows, halved, with_coarse_part
from .workers import Workforce

Strips: TypeAlias = Iterator[tuple[Any, ...]]
"""Rows, as a range, and those rows of one or several images."""
Compute: TypeAlias = Callable[[range, int], Strips]
"""Some rows of images, from top to bottom, by a number of threads."""

_AT_ONCE = 512  # rows of an image that is computed from others without blocks


class Stages:
    """Steps and scales for `framework.denoised` that keep their images in a folder.

    A stage that was done before is not done again, nor is a band of one.
    """

    def __init__(self, folder: Path, band: int, workforce: Workforce, tick: Tick) -> None:
        self.folder, self.band, self.workforce, self.tick = folder, band, workforce, tick
        self.count = 0
        self.alive: list[tuple[Path, weakref.ref[Any]]] = []

    def run_pass(
        self, inputs: StepInputs, step: Pass, groups: dict[str, Groups] | None = None
    ) -> tuple[Lazy, Lazy]:
        """A pass of the engine."""
        shape: Any = inputs.noisy.shape
        kept = None if groups is None else self._groups(groups, shape[1:], step)
        compute = partial(_run_pass, inputs, step, kept)
        found = self.kept(compute, shape, 1 + inputs.keeps_noise, self.tick)
        return found[0], found[-1]

    def _groups(
        self, groups: dict[str, Groups], shape: tuple[int, int], step: Pass
    ) -> Groups | None:
        known = "kept" in groups
        folder = groups["kept"].folder if known else self.folder / f"{self.count}-groups"
        folder.mkdir(exist_ok=True)
        kept = Groups(folder, shape, step, known)
        if not known:
            groups["kept"] = kept
            self.alive.append((folder, weakref.ref(kept)))
        return kept

    def coarser(self, image: Lazy) -> Lazy:
        """See `pyramid`."""
        planes, height, width = image.shape
        shape = (planes, *pyramid.coarser_shape((height, width)))
        return self.kept(partial(_coarser, image), shape)[0]

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise:
        """See `pyramid`."""
        return pyramid.coarser_noise(noise)

    def with_coarse(self, image: Lazy, coarse: Lazy, level: int, most: float) -> Lazy:
        """See `pyramid`."""
        return self.kept(partial(_with_coarse, image, coarse, level, most), image.shape)[0]

    def kept(
        self,
        compute: Compute,
        shape: tuple[int, int, int],
        count: int = 1,
        tick: Tick = lambda count=1, *, already=False: None,
    ) -> list[Lazy]:
        """Images of one shape, computed band by band, in files."""
        images = [Bands(self.folder / f"{self.count}-{k}", shape, self.band) for k in range(count)]
        done = self.folder / f"{self.count}-done"
        self.count += 1
        missing: list[int] = []
        numbers = range(len(bands_of(shape[1], self.band)))
        if not done.exists():
            for image in images:
                image.folder.mkdir(exist_ok=True)
            missing = [k for k in numbers if not all(image.path(k).exists() for image in images)]
        tick(len(numbers) - len(missing), already=True)
        self.workforce.carry_out(partial(keep, compute, images), missing, tick)
        done.touch()
        for folder, something in self.alive:
            if something() is None:  # nobody will ask for it, now that this stage is done
                shutil.rmtree(folder, ignore_errors=True)
        found = [Lazy(shape, image.read) for image in images]
        self.alive += [(i.folder, weakref.ref(f)) for i, f in zip(images, found, strict=True)]
        return found


def keep(
    compute: Compute, images: Sequence[Bands], numbers: list[int], workers: int
) -> Iterator[int]:
    """Compute bands that follow each other and write them; gives the number of each when it is whole."""
    return one_behind(_written(compute, images, numbers, workers))


def _written(
    compute: Compute, images: Sequence[Bands], numbers: list[int], workers: int
) -> Iterator[tuple[int, Callable[[], None]]]:
    """Each band, and what makes its files whole."""
    band, height = images[0].band, images[0].shape[1]
    strips = compute(range(numbers[0] * band, min((numbers[-1] + 1) * band, height)), workers)
    parts = _split(strips, band)
    for k in numbers:
        bottom = min((k + 1) * band, height)
        with ExitStack() as stack:
            files = [stack.enter_context(writing(image.path(k))) for image in images]
            done = k * band
            while done < bottom:
                rows, *found = next(parts)
                for file, strip in zip(files, found, strict=False):
                    file.write(np.ascontiguousarray(strip.transpose(1, 0, 2)).data)
                done = rows.stop
            yield k, stack.pop_all().close


def _split(strips: Strips, band: int) -> Strips:
    """The same strips, cut where a band ends."""
    for rows, *images in strips:
        top = rows.start
        while top < rows.stop:
            bottom = min((top // band + 1) * band, rows.stop)
            cut = slice(top - rows.start, bottom - rows.start)
            yield range(top, bottom), *(image[:, cut] for image in images)
            top = bottom


def _run_pass(inputs: StepInputs, step: Pass, groups: Any, rows: range, workers: int) -> Strips:
    return cpu.strips(inputs, step, groups, rows=rows, workers=workers, tick=lambda: None)


def _coarser(image: Lazy, rows: range, workers: int) -> Strips:
    return mapped(rows, workers, partial(_coarser_rows, image))


def _coarser_rows(image: Lazy, rows: range) -> tuple[range, Image]:
    needed = fine_rows(rows, image.shape[1])
    return rows, coarser_part(image[:, needed.start : needed.stop], needed, rows)


def _with_coarse(
    image: Lazy, coarse: Lazy, level: int, most: float, rows: range, workers: int
) -> Strips:
    return mapped(rows, workers, partial(_with_coarse_rows, image, coarse, level, most))


def _with_coarse_rows(
    image: Lazy, coarse: Lazy, level: int, most: float, rows: range
) -> tuple[range, Image]:
    needed = around(rows, image.shape[1], level)
    small = halved(needed)
    return rows, with_coarse_part(
        image[:, needed.start : needed.stop],
        coarse[:, small.start : small.stop],
        level,
        most,
        needed,
        rows,
    )


def mapped(rows: range, workers: int, function: Callable[[range], tuple[range, Image]]) -> Strips:
    """function(rows) of some rows at a time."""
    # More threads would have too much in memory.
    return in_order(function, in_turn(rows, _AT_ONCE), min(workers, 2))
