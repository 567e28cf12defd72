"""The CPU engine, which runs a pass over an image in blocks of reference patches on a pool of threads.

A block reads its own window of the images, finds and denoises its groups, and adds up its own weighted sums. These are
then added to the sums of the image in the order of the blocks, so that a pixel of the result depends neither on the
number of threads nor on pixels beyond the reach of the algorithm.

Images are arrays of (planes, height, width).
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np

from ..algorithm.inputs import StepInputs
from ..algorithm.passes import ONE_FRAME, Pass
from .block import Groups, LineInputs, denoise_block
from .grid import (
    BlockPart,
    Image,
    Window,
    distinct_sizes,
    lines,
    reach,
    slice_within,
    whole_window,
)
from .groups import GroupDenoiser, apply_change, average, denoiser_of
from .pool import in_order


def run_pass(
    inputs: StepInputs,
    step: Pass,
    groups: Groups | None = None,
    *,
    window: Window | None = None,
    workers: int,
    threads: Executor | None = None,
    tick: Callable[[], None],
) -> tuple[Image, Image]:
    """Match on `inputs.similar`, denoise the groups, and average their patches into an image.

    Groups that are found are stored in `groups`; those that are already there are not searched for again. `tick` is
    called after each block, from the calling thread. Several passes may share their `threads`. Returns the result, and the same with some of the noise left
    in it if `inputs.partly` asks for that. If a window is given, only this part of the results is computed.
    """
    planes, *shape = inputs.noisy.shape
    window, trimmed = window or whole_window(tuple(shape)), window is not None
    total, rest = (
        np.empty((count, *map(len, window)), np.float32)
        for count in (planes, planes if inputs.keeps_noise else 0)
    )
    for rows, *parts in strips(
        inputs,
        step,
        groups,
        window=window,
        workers=workers,
        threads=threads,
        tick=tick,
        trimmed=trimmed,
    ):
        for strip, image in zip(parts, (total, rest), strict=True):
            image[:, slice_within(rows, window.rows)] = strip
    return total, rest if len(rest) else total


def strips(
    inputs: StepInputs,
    step: Pass,
    groups: Groups | None,
    *,
    window: Window,
    workers: int,
    threads: Executor | None = None,
    tick: Callable[[], None],
    trimmed: bool = False,
) -> Iterator[tuple[range, Image, Image]]:
    """Yield the given part of both results of `run_pass` in strips of rows, from top to bottom.

    A strip is yielded as soon as no further block adds to it. Only the blocks that reach the window are run; `trimmed`
    is as for `lines`. Images are read as image[:, top:bottom, left:right], once for each line of blocks, and need not be
    in memory. An exception that `tick` raises ends the work at once.
    """
    step = replace(step, frames=ONE_FRAME)  # whatever the recipe says about others
    settings, planes = step.settings, len(inputs.noisy)
    patch, shape = settings.patch_size, inputs.noisy.shape[1:]
    grid = lines(shape, step, window, trimmed=trimmed)
    plane_sets = step.plane_sets(planes)
    most = max(plane_set.group_size for plane_set in plane_sets)
    sizes = distinct_sizes(grid, shape, settings, most)
    denoisers = [
        denoiser_of(plane_set, step, inputs.noise.correlation, sizes) for plane_set in plane_sets
    ]
    denoise = partial(denoise_block, denoisers, step, groups, shape)
    work = (
        (read, block) for line in grid for read in [_read(inputs, step, line)] for block in line
    )
    counts = (planes, planes if inputs.keeps_noise else 0, len(denoisers))
    # The sums extend to the left of the window by the weights of patches that begin there.
    columns = range(max(window.columns.start - patch + 1, 0), window.columns.stop)
    sums = [np.zeros((count, 0, len(columns)), np.float32) for count in counts]
    top = reach(grid[:1], shape, settings).rows.start  # the first row of the sums
    at = window.rows.start  # the first row that has not been yielded
    with closing(in_order(denoise, work, workers, threads)) as blocks_done:
        for k, line in enumerate(grid):
            bottom = reach([line], shape, settings).rows.stop
            sums = [_extended(image, bottom - top) for image in sums]
            held = Window(range(top, bottom), columns)
            for _ in line:
                read, block_window, *block_sums = next(blocks_done)
                for block_sum, image in zip(block_sums, sums, strict=True):
                    block_window.add(block_sum, image, held)
                tick()
            end = bottom
            if k + 1 < len(grid):
                end = reach(grid[k + 1 : k + 2], shape, settings).rows.start
            ready = range(at, min(end, window.rows.stop))
            if len(ready):
                part = Window(ready, window.columns)
                yield ready, *_normalised(read, sums, held, denoisers, patch, part)
                at = ready.stop
            # The rows to come need the weights of patches that begin above them.
            done = max(end - patch + 1 - top, 0)
            sums = [image[:, done:] for image in sums]
            top += done


def _read(inputs: StepInputs, step: Pass, line: Sequence[BlockPart]) -> LineInputs:
    """Read the part of the images that a line of blocks needs."""
    shape = inputs.noisy.shape[1:]
    window = reach([line], shape, step.settings)
    index = window.inside(whole_window(shape))
    return LineInputs(window, inputs.mapped(lambda image: image[index]))


def _extended(sums: Image, height: int) -> Image:
    """The sums, extended to the given height by rows of zeros."""
    planes, present, width = sums.shape
    extended = np.zeros((planes, height, width), np.float32)
    extended[:, :present] = sums
    return extended


def _normalised(
    read: LineInputs,
    sums: list[Image],
    held: Window,
    denoisers: Sequence[GroupDenoiser],
    patch: int,
    part: Window,
) -> tuple[Image, Image]:
    """The results for a part that is ready, from sums of which one window is `held`."""
    # The first corners of patches that cover these rows.
    first = max(part.rows.start - patch + 1, held.rows.start)
    covering = Window(range(first, part.rows.stop), held.columns)
    total, rest, weight = (image[covering.inside(held)].copy() for image in sums)
    average(denoisers, total, rest, weight)
    total, rest = (image[part.inside(covering)] for image in (total, rest))
    noisy = read.inputs.noisy[part.inside(read.window)]
    for change in (total, rest):
        apply_change(change, noisy)
    return total, rest
