"""The engine for frames that belong together, which runs a pass over a stream of frames.

Similar patches are also searched for in the frames before and after, up to a radius. Their changes are added to those
frames, so that a frame of the result is finished when the stream has advanced by twice the radius. No more frames than
that are kept in memory, however long the stream is.

As in the engine for single images, each block of reference patches adds up its own sums. These are then added to the sums
of the frames in the order of the blocks, so that the result does not depend on the number of threads.
"""

from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import count, repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ...types import Pixels, Positions
from ..algorithm.inputs import StepInputs
from ..algorithm.passes import Pass
from ..kernels.simd import LANES
from ..patches.tracking import match_across
from .frame_grid import (
    Motion,
    all_sizes,
    blocks_of,
    group_sizes_across,
    scaled_motion,
    searched_frames,
)
from .grid import Block
from .groups import (
    GroupDenoiser,
    GroupImages,
    GroupPlaces,
    GroupShape,
    GroupSums,
    apply_change,
    average,
    denoiser_of,
)
from .pool import ahead, in_order
from .ring import Layout, Planes, Ring, Rings, rings_of
from .stream import Frame, Stream, each


class Matches(NamedTuple):
    """The similar patches of the references of a block."""

    places: Pixels
    """Their offsets in the rings."""
    frames: Pixels
    """The index of their frame among those that were searched."""
    rows: tuple[int, int]
    """The first and the last row that was searched."""


Groups: TypeAlias = MutableMapping[tuple[int, int], Matches]
"""The similar patches of each block, by the number of its frame and its first row."""


class Work(NamedTuple):
    """A block of reference patches."""

    number: int
    """The number of its frame."""
    block: Block
    searched: list[int]
    """The frames in which patches are searched for; none if the frame repeats the one before."""
    shifts: Positions
    """The rows and columns by which each of them as a whole has moved, one after the other."""
    inputs: StepInputs
    """The frame itself."""
    noise_differs: bool
    """Whether the noise differs within or between the frames."""
    is_last: bool
    """Whether it is the last block of the frame."""


class BlockSums(NamedTuple):
    """The sums that a block adds to some rows of some frames."""

    work: Work
    frames: list[int]
    rows: slice
    total: Frame
    rest: Frame
    weight: Frame


class FrameSums(NamedTuple):
    """The sums of a frame."""

    noisy: Frame
    total: Frame
    rest: Frame
    weight: Frame


def run_pass(
    inputs: StepInputs,
    pass_: Pass,
    groups: Groups | None = None,
    *,
    workers: int,
    threads: Executor | None,
    tick: Callable[[], None],
    motions: Stream | None = None,
    height: int = 0,
    start_at: int = 0,
) -> tuple[Stream, Stream]:
    """Describe the results of a pass over streams; see `engines.cpu.run_pass`.

    `motions` has the `Motion` of each frame, for frames of the given `height`. `start_at` is the number of the first
    frame of the streams, if they are part of a longer sequence.
    """
    noisy: Stream = inputs.noisy
    variance: Any = inputs.noise.variance
    maps = len(variance) if isinstance(variance, Stream) else 0
    planes = Planes(len(noisy), len(inputs.similar), maps)

    def start() -> Iterator[tuple[Frame, Frame]]:
        iterators = inputs.mapped(iter)
        size = noisy.shape[1:]
        moves: Iterator[Motion] = repeat(Motion())
        if motions is not None:
            moves = iter(each(partial(scaled_motion, size[0] / height), motions))
        return _results(
            iterators, moves, planes, size, pass_, groups, workers, threads, tick, start_at
        )

    both = Stream(start, noisy.shape)
    total = each(itemgetter(0), both)
    return total, each(itemgetter(1), both) if inputs.keeps_noise else total


def _results(
    iterators: StepInputs,
    moves: Iterator[Motion],
    planes: Planes,
    size: tuple[int, int],
    pass_: Pass,
    groups: Groups | None,
    workers: int,
    threads: Executor | None,
    tick: Callable[[], None],
    start_at: int,
) -> Iterator[tuple[Frame, Frame]]:
    """Yield both results of the pass for each frame. The inputs are iterators over frames."""
    settings, search = pass_.settings, pass_.frames
    sizes = all_sizes(size, pass_)
    denoisers = [
        denoiser_of(plane_set, pass_, iterators.noise.correlation, sizes)
        for plane_set in pass_.plane_sets(planes.noisy)
    ]
    margin = max(settings.window, search.near, search.far) // 2
    # Blocks that are computed ahead may belong to several frames.
    fewest = min(len(blocks_of(size, pass_, number)) for number in range(settings.stride))
    layout = Layout(
        slots=2 * search.radius + search.depth + 1 + -(-(ahead(workers) + 1) // fewest),
        depth=search.depth,
        height=size[0] + 2 * margin,
        width=size[1] + 2 * margin + 2 * LANES,  # kernels work on whole vectors
        margin=margin,
    )
    rings = rings_of(iterators, planes, layout, size)
    denoise = partial(_denoise_block, rings, denoisers, pass_, groups, size)
    noisy: deque[Frame] = deque()
    work = _work(iterators, moves, rings, size, pass_, noisy, start_at)
    sums: deque[FrameSums] = deque()
    first = 0  # the number of the frame of the first sums

    def extend(number: int) -> None:
        """Add sums up to those of the frame with this number."""
        while first + len(sums) <= number:
            sums.append(_empty_sums(noisy.popleft(), len(denoisers), iterators.keeps_noise))

    for block in in_order(denoise, work, workers, threads):
        extend(max(block.frames, default=block.work.number))
        for k, number in enumerate(block.frames):
            for part, image in zip(block[3:], sums[number - first][1:], strict=True):
                image[:, block.rows] += part[:, k]
        tick()
        # The next blocks are added to those from here on.
        while first < block.work.number + block.work.is_last - search.radius:
            yield _averaged(sums.popleft(), denoisers)
            first += 1
    extend(first + len(sums) + len(noisy) - 1)
    while sums:
        yield _averaged(sums.popleft(), denoisers)


def _work(
    iterators: StepInputs,
    moves: Iterator[Motion],
    rings: Rings,
    size: tuple[int, int],
    pass_: Pass,
    noisy: deque[Frame],
    start_at: int,
) -> Iterator[Work]:
    """Read the frames, and yield the blocks of each as soon as all frames that it needs have been read."""
    search = pass_.frames
    waiting: deque[StepInputs] = deque()
    read, at_end = 0, False
    latest: deque[Motion] = deque(maxlen=2 * (search.radius + search.depth))
    for number in count():
        while not at_end and read < number + search.radius + search.depth:
            frame = iterators.mapped(lambda frames: next(frames, None))
            at_end = frame.noisy is None
            if not at_end:
                rings.write(read, frame)
                noisy.append(frame.noisy)
                waiting.append(frame)
                latest.append(next(moves))
                read += 1
        if number + search.depth > read:
            return
        first, last = (
            max(number - search.radius, 0),
            min(number + search.radius, read - search.depth),
        )
        frame, around = waiting.popleft(), range(first, last + 1)
        motions = [latest[k - read] for k in around]
        blocks = blocks_of(size, pass_, start_at + number)
        searched, shifts = searched_frames(motions, around, number)
        if motions[number - first].repeats:
            searched = []  # its blocks do nothing, but keep their place in the order
        noise_differs = rings.variance is not None and rings.variance.differs(
            {k + later for k in searched for later in range(search.depth)}
        )
        for block in blocks:
            is_last = block is blocks[-1]
            yield Work(number, block, searched, shifts.reshape(-1), frame, noise_differs, is_last)


def _denoise_block(
    rings: Rings,
    denoisers: Sequence[GroupDenoiser],
    pass_: Pass,
    groups: Groups | None,
    size: tuple[int, int],
    work: Work,
) -> BlockSums:
    """Denoise the groups of a block."""
    inputs, searched = work.inputs, work.searched
    if not searched:
        return BlockSums(work, [], slice(0), *[inputs.noisy[:0]] * 3)
    layout, patch, depth = rings.noisy.layout, pass_.settings.patch_size, pass_.frames.depth
    variance = np.asarray(inputs.noise.variance, np.float32).reshape(-1)[:1]
    most = max(denoiser.planes.group_size for denoiser in denoisers)
    sizes = np.minimum(group_sizes_across(work.block, size, pass_, len(searched) - 1), most)
    frames = np.array([number % layout.slots * layout.frame for number in searched], np.intp)
    key = work.number, int(work.block.ys[0])
    matches = None if groups is None else groups.pop(key, None)
    if matches is None:
        matches = _matches(rings.similar, size, pass_, work, frames, variance[0], sizes, most)
        if groups is not None:  # for the next round
            groups[key] = Matches(
                matches.places.astype(np.int32), matches.frames.astype(np.int8), matches.rows
            )
    first_row, last_row = matches.rows
    height = last_row - first_row + patch
    # The sums have the rows that were searched, in the frames that were searched.
    places, frame_of = (array.astype(np.intp, copy=False) for array in matches[:2])
    frame = height * layout.width
    margin = (first_row + layout.margin) * layout.width
    targets = places - (frames + margin - np.arange(len(frames)) * frame)[frame_of]
    length = len(frames) + depth - 1
    plane = length * frame
    keep = np.float32(0 if inputs.partly is None else inputs.partly.keep)
    count = len(inputs.noisy)
    total, rest, weight = (
        np.zeros(number * plane + 4 * LANES, np.float32)
        for number in (count, count if keep > 0 else 0, len(denoisers))
    )
    # The planes of a patch that extends over several frames are these frames.
    next_plane = layout.plane if depth == 1 else layout.frame
    variances = rings.variance if work.noise_differs else None
    one_variance = variances is None or len(variances) == 1
    for k, (plane_set, denoise_groups, _) in enumerate(denoisers):
        planes, group_size = plane_set
        denoise_groups(
            GroupImages(
                rings.noisy.planes(planes),
                rings.guide.planes(planes),
                rings.guide is rings.noisy,
                variance
                if variances is None
                else variances.planes(slice(0, 1) if one_variance else planes),
                0 if one_variance and depth == 1 else next_plane,
                np.float32(inputs.noise.factor_of(planes)),
                variance[:0] if rings.original is None else rings.original.planes(planes),
                keep,
            ),
            GroupSums(
                total[planes.start * plane :],
                rest[planes.start * plane :] if keep > 0 else rest[:0],
                weight[k * plane :],
            ),
            GroupPlaces(places, targets, most, np.minimum(sizes, group_size)),
            GroupShape(
                layout.width,
                next_plane,
                plane if depth == 1 else frame,
                plane_set.number * depth,
                patch,
                group_size,
            ),
        )
    left = layout.margin
    sums = [
        flat[: number * plane].reshape(number, length, height, layout.width)[
            ..., left : left + size[1]
        ]
        for flat, number in (
            (total, count),
            (rest, count if keep > 0 else 0),
            (weight, len(denoisers)),
        )
    ]
    for k in range(length - 1, 0, -1):  # a patch extends over the frames after the one it begins in
        for before in range(1, min(depth, k + 1)):
            sums[2][:, k] += sums[2][:, k - before]
    numbers = [*searched, *range(searched[-1] + 1, searched[-1] + depth)]
    return BlockSums(work, numbers, slice(first_row, first_row + height), *sums)


def _matches(
    similar: Ring,
    size: tuple[int, int],
    pass_: Pass,
    work: Work,
    frames: Positions,
    variance: np.float32,
    sizes: Positions,
    most: int,
) -> Matches:
    """Find the similar patches of the references of a block."""
    layout, settings, search = similar.layout, pass_.settings, pass_.frames
    places, frame_of = np.zeros((2, len(sizes) * most), np.intp)
    rows = match_across(
        similar.pixels,
        layout.width,
        layout.plane if search.depth == 1 else layout.frame,
        len(similar) if search.depth == 1 else search.depth,
        layout.margin,
        *size,
        frames,
        work.shifts,
        work.searched.index(work.number),
        *work.block,
        settings.stride,
        settings.patch_size,
        settings.every,
        settings.window,
        search.near,
        search.far,
        variance,
        sizes,
        most,
        places,
        frame_of,
    )
    return Matches(places, frame_of, rows)


def _empty_sums(noisy: Frame, sets: int, keeps_noise: bool) -> FrameSums:
    rest = np.zeros_like(noisy if keeps_noise else noisy[:0], order="C")
    return FrameSums(
        noisy, np.zeros_like(noisy, order="C"), rest, np.zeros((sets, *noisy.shape[1:]), np.float32)
    )


def _averaged(sums: FrameSums, denoisers: Sequence[GroupDenoiser]) -> tuple[Frame, Frame]:
    """Both results for a frame."""
    average(denoisers, sums.total, sums.rest, sums.weight)
    for change in (sums.total, sums.rest):
        apply_change(change, sums.noisy)
    return sums.total, sums.rest
