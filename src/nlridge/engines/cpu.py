"""The CPU engine: one step of the algorithm, in blocks of reference patches on a pool of threads.

A block reads its own window of the noisy image and the guide, finds its groups, denoises them and adds up its own
weighted sums, which are then added to those of the image in the order of the blocks: the result depends neither on
the number of threads nor on what lies farther away than the algorithm reaches.

Images are arrays of (planes, height, width).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from ..families import Estimator
from ..patches.groups import normalise
from ..patches.matching import BRIGHT
from ..recipes import Step
from ..rounds import Partly
from .block import Band, Groups, Lines, band_of, denoise_block
from .grid import Block, Image, lines, rows_read
from .pool import in_order


def step(
    noisy: Image,
    guide: Image,
    estimator: Estimator,
    settings: Step,
    variance: float | Image,
    *,
    similar: Image,
    bands: Sequence[range],
    partly: Partly | None = None,
    groups: Groups | None = None,
    shifted: bool = False,
    workers: int,
    tick: Callable[[], None],
) -> tuple[Image, Image]:
    """Match on `similar`, denoise the groups, and average them back into an image.

    `variance` is that of the noise: a number, or a plane for all planes, or one for each.  `bands` says
    which planes share one Θ.  Groups that are in `groups` are not sought again; those that are found are left
    there.  Reference patches stand between their usual places if they are `shifted`.  `tick` is called from the
    calling thread after each block.  Gives the result, and the same with some of the noise left in it if
    `partly` says so.
    """
    total = np.empty_like(noisy)
    rest = np.empty_like(noisy if partly is not None and partly.keep > 0 else noisy[:0])
    for rows, *some in strips(
        noisy,
        guide,
        estimator,
        settings,
        variance,
        similar=similar,
        bands=bands,
        partly=partly,
        groups=groups,
        shifted=shifted,
        rows=range(noisy.shape[1]),
        workers=workers,
        tick=tick,
    ):
        for strip, image in zip(some, (total, rest), strict=True):
            image[:, rows.start : rows.stop] = strip
    return total, rest if len(rest) else total


def strips(
    noisy: Image,
    guide: Image,
    estimator: Estimator,
    settings: Step,
    variance: float | Image,
    *,
    similar: Image,
    bands: Sequence[range],
    partly: Partly | None,
    groups: Groups | None,
    shifted: bool,
    rows: range,
    workers: int,
    tick: Callable[[], None],
) -> Iterator[tuple[range, Image, Image]]:
    """Some rows of what `step` gives, from top to bottom, a strip as soon as no block to come adds to it.

    Runs the blocks that reach these rows and no others, and reads images line after line of blocks: they
    need not be in memory, if they have a shape and can be cut, image[:, top:bottom].
    """
    shape = noisy.shape[1:]
    grid = lines(shape, settings, shifted, rows)
    found = [
        band_of(
            planes, estimator, [b for line in grid for b in line], shape, settings, first=k == 0
        )
        for k, planes in enumerate(bands)
    ]
    read = partial(_read, settings, noisy, guide, similar, variance, partly)
    denoise = partial(denoise_block, found, settings, groups, shape)
    work = ((images, block) for line in grid for images in [read(line)] for block in line)
    blocks_done = in_order(denoise, work, workers)
    keep = partly is not None and partly.keep > 0
    counts = (len(noisy), len(noisy) if keep else 0, len(bands))
    sums = [np.zeros((count, 0, shape[1]), np.float32) for count in counts]
    top = rows_read(grid[:1], shape, settings).start  # of the sums
    at = rows.start
    for k, line in enumerate(grid):
        bottom = rows_read([line], shape, settings).stop
        sums = [_extended(image, bottom - top) for image in sums]
        for _ in line:
            images, window, *some = next(blocks_done)
            for sum_, image in zip(some, sums, strict=True):
                window._replace(top=window.top - top).add(sum_, image)
            tick()
        end = rows_read(grid[k + 1 : k + 2], shape, settings).start if k + 1 < len(grid) else bottom
        ready = range(at, min(end, rows.stop))
        if len(ready):
            yield ready, *_normalised(images, sums, found, settings.patch_size, top, ready)
            at = ready.stop
        # The weights of patches that begin some rows above are still needed.
        done = max(end - settings.patch_size + 1 - top, 0)
        sums = [image[:, done:] for image in sums]
        top += done


def _read(
    settings: Step,
    noisy: Image,
    guide: Image,
    similar: Image,
    variance: float | Image,
    partly: Partly | None,
    line: Sequence[Block],
) -> Lines:
    """What a line of blocks reads; images that are the same are read once, and stay the same."""
    rows = rows_read([line], noisy.shape[1:], settings)
    known: dict[int, Image] = {}

    def cut(image: Image) -> Image:
        if id(image) not in known:
            known[id(image)] = image[:, rows.start : rows.stop]
        return known[id(image)]

    return Lines(
        rows.start,
        cut(noisy),
        cut(guide),
        cut(similar),
        variance if isinstance(variance, float) else cut(variance),
        None if partly is None else partly._replace(original=cut(partly.original)),
    )


def _extended(sums: Image, height: int) -> Image:
    """With rows of zeros below."""
    return np.pad(sums, ((0, 0), (0, height - sums.shape[1]), (0, 0)))


def _normalised(
    images: Lines, sums: list[Image], bands: Sequence[Band], patch: int, top: int, ready: range
) -> tuple[Image, Image]:
    """The rows that are ready, from sums of which `top` is the first row."""
    first = max(ready.start - patch + 1, top)  # corners of patches that cover the first row
    total, rest, weight = (image[:, first - top : ready.stop - top].copy() for image in sums)
    for band, corners in zip(bands, weight, strict=True):
        normalise(total[band.planes], corners, patch)
        if len(rest):
            normalise(rest[band.planes], corners, patch)
    total, rest = (image[:, ready.start - first :] for image in (total, rest))
    noisy = images.noisy[:, ready.start - images.top : ready.stop - images.top]
    for change in (total, rest):
        if len(change):
            # Next to pixels so bright that float32 cannot resolve the noise, the image is left as it is.
            change[~(np.abs(change) < BRIGHT)] = 0
            change += noisy
    return total, rest
