"""The CPU engine, which runs a pass over an image in blocks of reference patches on a pool of threads.

Each block reads its own window of the images, finds and denoises its groups, and adds up its own weighted sums. These
are then added to those of other blocks in the order of the blocks, strip by strip, so that a pixel of the result depends
neither on the number of threads nor on pixels beyond the reach of the algorithm.

Images are arrays of (planes, height, width).
"""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ...types import Image, Pixels
from ..algorithm.inputs import StepInputs
from ..algorithm.passes import ONE_FRAME, Pass
from ..kernels.simd import LANES
from ..patches.matching import FAR, match
from .grid import (
    BlockPart,
    Window,
    distinct_sizes,
    group_sizes,
    lines,
    reach,
    slice_within,
    whole_window,
)
from .groups import (
    GroupDenoiser,
    GroupImages,
    GroupPlaces,
    GroupShape,
    GroupSums,
    denoiser_of,
)
from .pool import in_order
from .strips import BlockSums, LineInputs, Strips

Groups: TypeAlias = MutableMapping[tuple[int, int], Pixels]
"""Maps the corner of a block's first reference to the offsets of the similar patches in the block's window, an array of
(rows of references, columns of references, group size)."""

_Result = TypeVar("_Result")


def run_pass(
    inputs: StepInputs,
    pass_: Pass,
    groups: Groups | None = None,
    *,
    window: Window | None = None,
    workers: int,
    threads: Executor | None = None,
    tick: Callable[[], None],
) -> tuple[Image, Image]:
    """Match on `inputs.similar`, denoise the groups, and average their patches into an image.

    Groups are stored in `groups`; those that it already contains are not searched for again. `tick` is called after each
    block, from the calling thread. Several passes may share their `threads`. Returns the result, and the result with
    some of the noise left in it if `inputs.partly` asks for one. If a window is given, only this part of the results is
    computed.
    """
    planes, *shape = inputs.noisy.shape
    window, trimmed = window or whole_window(tuple(shape)), window is not None
    total, rest = (
        np.empty((count, *map(len, window)), np.float32)
        for count in (planes, planes if inputs.keeps_noise else 0)
    )

    def keep(rows: range, *parts: Image) -> None:
        for strip, image in zip(parts, (total, rest), strict=True):
            image[:, slice_within(rows, window.rows)] = strip

    for _ in _run(inputs, pass_, groups, window, workers, threads, tick, keep, trimmed=trimmed):
        pass
    return total, rest if len(rest) else total


def strips(
    inputs: StepInputs,
    pass_: Pass,
    groups: Groups | None,
    *,
    window: Window,
    workers: int,
    tick: Callable[[], None],
) -> Iterator[tuple[range, Image, Image]]:
    """Yield the given part of both results of `run_pass` in strips of rows, from top to bottom.

    A strip is yielded as soon as no further block adds to it. Only the blocks that reach the window are run. Images are
    read as image[:, top:bottom, left:right], once for each line of blocks, and need not be in memory. An exception that
    `tick` raises ends the work at once.
    """

    def as_it_is(*strip: Any) -> Any:
        return strip

    yield from _run(inputs, pass_, groups, window, workers, None, tick, as_it_is)


def _run(
    inputs: StepInputs,
    pass_: Pass,
    groups: Groups | None,
    window: Window,
    workers: int,
    threads: Executor | None,
    tick: Callable[[], None],
    finish: Callable[[range, Image, Image], _Result],
    *,
    trimmed: bool = False,
) -> Iterator[_Result]:
    """Yield what `finish` returns for the rows of each strip and both results for them; `trimmed` is as for `lines`."""
    if pass_.frames != ONE_FRAME:  # of the recipe for a video
        pass_ = replace(pass_, frames=ONE_FRAME)
    settings, shape = pass_.settings, inputs.noisy.shape[1:]
    grid = lines(shape, pass_, window, trimmed=trimmed)
    plane_sets = pass_.plane_sets(len(inputs.noisy))
    most = max(plane_set.group_size for plane_set in plane_sets)
    sizes = distinct_sizes(grid, shape, settings, most)
    denoisers = [
        denoiser_of(plane_set, pass_, inputs.noise.correlation, sizes) for plane_set in plane_sets
    ]
    finished = Strips(grid, shape, window, settings, denoisers, finish)

    def denoise(work: tuple[int, int, LineInputs, BlockPart]) -> None:
        line, column, read, block = work
        sums = denoise_block(denoisers, pass_, groups, shape, read, block)
        finished.add(line, column, sums)

    work = (
        (k, column, read, block)
        for k, line in enumerate(grid)
        for read in [_read(inputs, pass_, line)]
        for column, block in enumerate(line)
    )
    with closing(in_order(denoise, work, workers, threads)) as blocks_done:
        for k, line in enumerate(grid):
            for _ in line:
                next(blocks_done)
                tick()
            if (strip := finished.take(k)) is not None:
                yield strip


def _read(inputs: StepInputs, pass_: Pass, line: Sequence[BlockPart]) -> LineInputs:
    """Read the part of the images that a line of blocks needs."""
    shape = inputs.noisy.shape[1:]
    window = reach([line], shape, pass_.settings)
    index = window.inside(whole_window(shape))
    return LineInputs(window, inputs.mapped(lambda image: image[index]))


def denoise_block(
    denoisers: Sequence[GroupDenoiser],
    pass_: Pass,
    groups: Groups | None,
    shape: tuple[int, int],
    line: LineInputs,
    part: BlockPart,
) -> BlockSums:
    """Denoise the groups of a block, and return its sums."""
    block, whole = part
    inputs, settings = line.inputs, pass_.settings
    patch, radius = settings.patch_size, settings.window // 2
    # The offsets in a group refer to the window of the whole block.
    top, left = int(whole.ys[0]) - radius, int(whole.xs[0]) - radius
    window = Window(
        range(top, int(whole.ys[-1]) + patch + radius),
        # Kernels work on whole vectors.
        range(left, int(whole.xs[-1]) + patch + radius + 2 * LANES),
    )
    row_length = len(window.columns)
    y = window.cut(inputs.noisy, line.window, 0)
    x = window.cut(inputs.guide, line.window, 0)
    original, keep = y[:0], np.float32(0)
    if inputs.partly is not None:
        keep = np.float32(inputs.partly.keep)
        if inputs.partly.original is not inputs.noisy:  # some noise has been removed already
            original = window.cut(inputs.partly.original, line.window, 0)
    variance = inputs.noise.variance
    if isinstance(variance, np.ndarray):
        v = window.cut(variance, line.window, 1)
    else:
        v = np.full((1, 1, 1), variance, np.float32)
    total, weight = (
        np.zeros_like(y, order="C"),
        np.zeros((len(denoisers), *y.shape[1:]), np.float32),
    )
    rest = np.zeros_like(y if keep > 0 else y[:0], order="C")
    most = max(denoiser.planes.group_size for denoiser in denoisers)
    sizes = group_sizes(block, shape, settings, most)
    plane = len(window.rows) * row_length
    key = int(whole.ys[0]), int(whole.xs[0])
    shape_of_groups = len(whole.ys), len(whole.xs), most
    inside = np.ix_(*map(np.searchsorted, whole, block))
    if groups is not None and key in groups:
        offsets = groups[key][inside].astype(np.intp).reshape(-1)
    else:
        offsets = np.zeros(len(sizes) * most, np.intp)
        # The last rows and columns of a patch may not be compared: the border of the image moves inwards by as many,
        # so that patches that extend beyond the image are still recognised.
        height, width = shape
        inner = whole_window((height - pass_.ignored, width - pass_.ignored))
        seen = line.window.overlap(inner)
        match(
            window.cut(inputs.similar[seen.inside(line.window)], seen, float(FAR)).reshape(-1),
            row_length,
            plane,
            len(inputs.similar),
            block.ys - top,
            block.xs - left,
            settings.stride,
            patch,
            settings.every,
            settings.window,
            v[0].reshape(-1),
            np.float32(pass_.nearness),
            sizes,
            most,
            offsets,
        )
        if groups is not None:
            found = np.zeros(shape_of_groups, np.min_scalar_type(plane))
            found[inside] = offsets.reshape(len(block.ys), len(block.xs), most)
            groups[key] = found
    for (plane_set, denoise_groups, _), corners in zip(denoisers, weight, strict=True):
        planes, group_size = plane_set
        denoise_groups(
            GroupImages(
                y[planes].reshape(-1),
                x[planes].reshape(-1),
                inputs.guide is inputs.noisy,
                (v if len(v) == 1 else v[planes]).reshape(-1),
                0 if len(v) == 1 else plane,
                np.float32(inputs.noise.factor_of(planes)),
                original[planes].reshape(-1),
                keep,
            ),
            GroupSums(total[planes].reshape(-1), rest[planes].reshape(-1), corners.reshape(-1)),
            GroupPlaces(offsets, offsets, most, np.minimum(sizes, group_size)),
            GroupShape(row_length, plane, plane, plane_set.number, patch, group_size),
        )
    return BlockSums(line, window, total, rest, weight)
