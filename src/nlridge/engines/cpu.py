"""The CPU engine, which runs a pass over an image in blocks of reference patches on a pool of threads.

A block reads its own window of the images, finds and denoises its groups, and adds up its own weighted sums. These are
then added to the sums of the image in the order of the blocks, so that a pixel of the result depends neither on the
number of threads nor on pixels beyond the reach of the algorithm.

Images are arrays of (planes, height, width).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ..algorithm.inputs import StepInputs
from ..algorithm.passes import ONE_FRAME, Pass
from .block import Groups, LineInputs, denoise_block
from .grid import Block, Image, group_sizes, lines, rows_read
from .groups import GroupDenoiser, apply_change, average, denoiser_of
from .pool import in_order


def run_pass(
    inputs: StepInputs,
    step: Pass,
    groups: Groups | None = None,
    *,
    workers: int,
    tick: Callable[[], None],
) -> tuple[Image, Image]:
    """Match on `inputs.similar`, denoise the groups, and average their patches into an image.

    Groups that are found are stored in `groups`; those that are already there are not searched for again. `tick` is
    called after each block, from the calling thread. Returns the result, and the same with some of the noise left
    in it if `inputs.partly` asks for that.
    """
    noisy = inputs.noisy
    total = np.empty_like(noisy)
    rest = np.empty_like(noisy if inputs.keeps_noise else noisy[:0])
    for rows, *parts in strips(
        inputs, step, groups, rows=range(noisy.shape[1]), workers=workers, tick=tick
    ):
        for strip, image in zip(parts, (total, rest), strict=True):
            image[:, rows.start : rows.stop] = strip
    return total, rest if len(rest) else total


def strips(
    inputs: StepInputs,
    step: Pass,
    groups: Groups | None,
    *,
    rows: range,
    workers: int,
    tick: Callable[[], None],
) -> Iterator[tuple[range, Image, Image]]:
    """Yield the given rows of both results of `run_pass` in strips, from top to bottom.

    A strip is yielded as soon as no further block adds to it. Only the blocks that reach the given rows are run. Images
    are read as image[:, top:bottom], once for each line of blocks, and need not be in memory.
    """
    step = replace(step, frames=ONE_FRAME)  # whatever the recipe says about others
    settings, planes = step.settings, len(inputs.noisy)
    shape = inputs.noisy.shape[1:]
    grid = lines(shape, step, rows)
    plane_sets = step.plane_sets(planes)
    most = max(plane_set.group_size for plane_set in plane_sets)
    sizes = {
        int(size)
        for line in grid
        for block in line
        for size in np.unique(group_sizes(block, shape, settings, most))
    }
    denoisers = [
        denoiser_of(plane_set, step, inputs.noise.correlation, sizes) for plane_set in plane_sets
    ]
    denoise = partial(denoise_block, denoisers, step, groups, shape)
    work = (
        (read, block) for line in grid for read in [_read(inputs, step, line)] for block in line
    )
    blocks_done = in_order(denoise, work, workers)
    counts = (planes, planes if inputs.keeps_noise else 0, len(denoisers))
    sums = [np.zeros((count, 0, shape[1]), np.float32) for count in counts]
    top = rows_read(grid[:1], shape, settings).start  # the first row of the sums
    at = rows.start  # the first row that has not been yielded
    for k, line in enumerate(grid):
        bottom = rows_read([line], shape, settings).stop
        sums = [_extended(image, bottom - top) for image in sums]
        for _ in line:
            read, window, *block_sums = next(blocks_done)
            for block_sum, image in zip(block_sums, sums, strict=True):
                window._replace(top=window.top - top).add(block_sum, image)
            tick()
        end = rows_read(grid[k + 1 : k + 2], shape, settings).start if k + 1 < len(grid) else bottom
        ready = range(at, min(end, rows.stop))
        if len(ready):
            yield ready, *_normalised(read, sums, denoisers, settings.patch_size, top, ready)
            at = ready.stop
        # The rows to come need the weights of patches that begin above them.
        done = max(end - settings.patch_size + 1 - top, 0)
        sums = [image[:, done:] for image in sums]
        top += done


def _read(inputs: StepInputs, step: Pass, line: Sequence[Block]) -> LineInputs:
    """Read the rows of the images that a line of blocks needs."""
    rows = rows_read([line], inputs.noisy.shape[1:], step.settings)
    return LineInputs(rows.start, inputs.mapped(lambda image: image[:, rows.start : rows.stop]))


def _extended(sums: Image, height: int) -> Image:
    """The sums, extended to the given height by rows of zeros."""
    return np.pad(sums, ((0, 0), (0, height - sums.shape[1]), (0, 0)))


def _normalised(
    read: LineInputs,
    sums: list[Image],
    denoisers: Sequence[GroupDenoiser],
    patch: int,
    top: int,
    ready: range,
) -> tuple[Image, Image]:
    """The results for the rows that are ready, from sums whose first row is `top`."""
    first = max(ready.start - patch + 1, top)  # the first corners of patches that cover these rows
    total, rest, weight = (image[:, first - top : ready.stop - top].copy() for image in sums)
    average(denoisers, total, rest, weight)
    total, rest = (image[:, ready.start - first :] for image in (total, rest))
    noisy = read.inputs.noisy[:, ready.start - read.top : ready.stop - read.top]
    for change in (total, rest):
        apply_change(change, noisy)
    return total, rest
