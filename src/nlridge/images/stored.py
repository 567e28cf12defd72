"""The passes of the algorithm on images that are kept in files, one band of rows after the other.

A pass reads only a few rows beyond its band. Nothing is computed twice except the lines of blocks that reach into two
bands, and not even those if consecutive bands are computed in one go.
"""

import shutil
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ..atomic import writing
from ..core.algorithm.inputs import StepInputs
from ..core.algorithm.passes import Pass
from ..core.engines import cpu
from ..core.engines.grid import Window
from ..progress import Tick
from ..types import Shape
from .bands import BandFiles, GroupFiles, bands_of, finish_in_background
from .executors import Executor
from .lazy import LazyImage
from .parts import Function, ImagesInParts, Needed, Strips, strips_of

Compute: TypeAlias = Callable[[range, int], Strips]
"""Computes some rows of images, from top to bottom, with a number of threads."""


class Stages(ImagesInParts):
    """Images that are kept in files of a folder.

    Each result is a stage. Stages and bands that are already in the folder are not computed again.
    """

    def __init__(self, folder: Path, band_height: int, executor: Executor, tick: Tick) -> None:
        self.folder, self.band_height = folder, band_height
        self.executor, self.tick = executor, tick
        self.count = 0
        self.in_use: list[tuple[Path, weakref.ref[Any]]] = []
        """The folders of stages, each with a reference to the object that reads it."""

    def run_pass(
        self, inputs: StepInputs, pass_: Pass, groups: dict[str, GroupFiles] | None = None
    ) -> tuple[LazyImage, LazyImage]:
        """Run a pass of the engine; returns the result, and the result that keeps some of the noise."""
        shape: Any = inputs.noisy.shape
        group_files = None if groups is None else self._group_files(groups, shape[1:], pass_)
        compute = partial(_run_pass, inputs, pass_, group_files)
        images = self.stored(compute, shape, 1 + inputs.keeps_noise, self.tick)
        return images[0], images[-1]

    def _group_files(
        self, groups: dict[str, GroupFiles], shape: tuple[int, int], pass_: Pass
    ) -> GroupFiles | None:
        complete = "files" in groups
        folder = groups["files"].folder if complete else self.folder / f"{self.count}-groups"
        folder.mkdir(exist_ok=True)
        group_files = GroupFiles(folder, shape, pass_, complete)
        if not complete:
            groups["files"] = group_files
            self.in_use.append((folder, weakref.ref(group_files)))
        return group_files

    def image_of(self, shape: Shape, function: Function, inputs: Sequence[Needed]) -> LazyImage:
        return self.stored(partial(_compute_rows, function, inputs, shape[2]), shape)[0]

    def stored(
        self,
        compute: Compute,
        shape: Shape,
        count: int = 1,
        tick: Tick = lambda count=1, *, already=False: None,
    ) -> list[LazyImage]:
        """Compute `count` images of one shape band by band into files; returns images that read the files."""
        files = [
            BandFiles(self.folder / f"{self.count}-{k}", shape, self.band_height)
            for k in range(count)
        ]
        done = self.folder / f"{self.count}-done"
        self.count += 1
        missing: list[int] = []
        numbers = range(len(bands_of(shape[1], self.band_height)))
        if not done.exists():
            for image_files in files:
                image_files.folder.mkdir(exist_ok=True)
            missing = [k for k in numbers if not all(f.path(k).exists() for f in files)]
        tick(len(numbers) - len(missing), already=True)
        self.executor.run_bands(partial(write_bands, compute, files), missing, tick)
        done.touch()
        for folder, reader in self.in_use:
            if reader() is None:  # nothing can read it any longer
                shutil.rmtree(folder, ignore_errors=True)
        images = [LazyImage(shape, image_files.read) for image_files in files]
        self.in_use += [
            (f.folder, weakref.ref(image)) for f, image in zip(files, images, strict=True)
        ]
        return images


def write_bands(
    compute: Compute, files: Sequence[BandFiles], numbers: list[int], workers: int
) -> Iterator[int]:
    """Compute consecutive bands and write them; yields the number of each one once its files are complete."""
    return finish_in_background(_write_bands(compute, files, numbers, workers))


def _write_bands(
    compute: Compute, files: Sequence[BandFiles], numbers: list[int], workers: int
) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield the number of each band with a function that completes its files."""
    band_height, height = files[0].band_height, files[0].shape[1]
    rows = range(numbers[0] * band_height, min((numbers[-1] + 1) * band_height, height))
    parts = _split_at_bands(compute(rows, workers), band_height)
    for k in numbers:
        bottom = min((k + 1) * band_height, height)
        with ExitStack() as stack:
            outputs = [stack.enter_context(writing(f.path(k))) for f in files]
            done = k * band_height
            while done < bottom:
                rows, *strips = next(parts)
                for output, strip in zip(outputs, strips, strict=False):
                    output.write(np.ascontiguousarray(strip.transpose(1, 0, 2)).data)
                done = rows.stop
            yield k, stack.pop_all().close


def _split_at_bands(strips: Strips, band_height: int) -> Strips:
    """Yield the same strips, split where a band ends."""
    for rows, *images in strips:
        top = rows.start
        while top < rows.stop:
            bottom = min((top // band_height + 1) * band_height, rows.stop)
            part = slice(top - rows.start, bottom - rows.start)
            yield range(top, bottom), *(image[:, part] for image in images)
            top = bottom


def _run_pass(inputs: StepInputs, pass_: Pass, groups: Any, rows: range, workers: int) -> Strips:
    window = Window(rows, range(inputs.noisy.shape[2]))
    return cpu.strips(inputs, pass_, groups, window=window, workers=workers, tick=lambda: None)


def _compute_rows(
    function: Function, inputs: Sequence[Needed], width: int, rows: range, workers: int
) -> Strips:
    return strips_of(function, inputs, Window(rows, range(width)), workers)
