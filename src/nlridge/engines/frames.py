"""The engine for frames that belong together, which runs a pass over a stream of frames.

Similar patches are searched for in the frames before and after as well, up to a radius. Their changes are added to those
frames, so that a frame of the result is ready twice the radius after it was read. No more frames than that are ever
kept, however many there are.

As in the engine for single images, a block of reference patches adds up its own sums. These are then added to the sums of
the frames in the order of the blocks, so that the result does not depend on the number of threads.
"""

from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import count, repeat
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..algorithm.inputs import StepInputs
from ..algorithm.passes import Pass
from ..kernels.simd import LANES
from ..patches.tracking import match_across
from .grid import Block, Positions, group_sizes, references
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

_ROWS = 16  # rows of reference patches in a block
# The grid of reference patches moves from frame to frame by so many rows and columns, so that its gaps do not coincide.
_STAGGER = 2, 3
# Frames whose levels of noise differ by a larger factor do not share groups: noisier patches hardly help.
_ALIKE = 1.5


class Matches(NamedTuple):
    """The similar patches of the references of a block."""

    places: npt.NDArray[Any]
    """Their offsets in the rings."""
    frames: npt.NDArray[Any]
    """The index of their frame among those that were searched."""
    rows: tuple[int, int]
    """The first and the last row that was searched."""


Groups: TypeAlias = MutableMapping[tuple[int, int], Matches]
"""The similar patches of each block, by the number of its frame and its first row."""


class Motion(NamedTuple):
    """How a frame differs as a whole from the one before."""

    rows: float = 0.0
    columns: float = 0.0
    repeats: bool = False
    """Whether it is the same frame again. Its noise is the same, and would be taken for structure."""
    noise: float = 1.0
    """The level of its noise, as a multiple of that of most frames."""


class Work(NamedTuple):
    """A block of reference patches."""

    number: int
    """The number of its frame."""
    block: Block
    searched: list[int]
    """The frames in which patches are searched for; none if the frame repeats the one before."""
    shifts: Positions
    """The rows and columns by which each of them has moved as a whole, one after the other."""
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
    step: Pass,
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

    `motions` has the `Motion` of each frame, for frames of the given `height`. `start_at` is the number of the first frame of the streams, if they are a part of a longer sequence.
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
            iterators, moves, planes, size, step, groups, workers, threads, tick, start_at
        )

    both = Stream(start, noisy.shape)
    total = each(itemgetter(0), both)
    return total, each(itemgetter(1), both) if inputs.keeps_noise else total


def scaled_motion(factor: float, motion: Motion) -> Motion:
    """The motion in frames that are larger by a factor."""
    return motion._replace(rows=factor * motion.rows, columns=factor * motion.columns)


def _results(
    iterators: StepInputs,
    moves: Iterator[Motion],
    planes: Planes,
    size: tuple[int, int],
    step: Pass,
    groups: Groups | None,
    workers: int,
    threads: Executor | None,
    tick: Callable[[], None],
    start_at: int,
) -> Iterator[tuple[Frame, Frame]]:
    """Yield both results of the pass for each frame. The inputs are iterators over frames."""
    settings, search = step.settings, step.frames
    sizes = _all_sizes(size, step)
    denoisers = [
        denoiser_of(plane_set, step, iterators.noise.correlation, sizes)
        for plane_set in step.plane_sets(planes.noisy)
    ]
    margin = max(settings.window, search.near, search.far) // 2
    # Blocks that are computed ahead of their use may belong to several frames.
    fewest = min(len(blocks_of(size, step, number)) for number in range(settings.stride))
    layout = Layout(
        slots=2 * search.radius + search.depth + 1 + -(-(ahead(workers) + 1) // fewest),
        depth=search.depth,
        height=size[0] + 2 * margin,
        width=size[1] + 2 * margin + 2 * LANES,  # kernels work on whole vectors
        margin=margin,
    )
    rings = rings_of(iterators, planes, layout, size)
    denoise = partial(_denoise_block, rings, denoisers, step, groups, size)
    noisy: deque[Frame] = deque()
    work = _work(iterators, moves, rings, size, step, noisy, start_at)
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


def reach_of(step: Pass) -> int:
    """How many frames before and after it a frame of the result of a pass depends on.

    A patch that a reference finds begins up to the radius away from it, and the reference compares it with others up to
    the radius away in the other direction. Patches extend over `depth` frames.
    """
    return 2 * step.frames.radius + step.frames.depth - 1


def blocks_of(size: tuple[int, int], step: Pass, number: int) -> list[Block]:
    """The blocks of reference patches of the frame with this number in the whole sequence."""
    ys, xs = references_of_frame(size, step, number)
    return [Block(ys[k : k + _ROWS], xs) for k in range(0, len(ys), _ROWS)]


def references_of_frame(size: tuple[int, int], step: Pass, number: int) -> Block:
    """The reference patches of the frame with this number in the whole sequence."""
    ys, xs = (
        references(length, step, shift * number)
        for length, shift in zip(size, _STAGGER, strict=True)
    )
    return Block(ys, xs)


def _all_sizes(size: tuple[int, int], step: Pass) -> set[int]:
    """The sizes that groups of any frame can have."""
    radius = step.settings.window // 2
    corners = (np.arange(length - step.settings.patch_size + 1) for length in size)
    # All windows that are not near a border contain the same number of patches.
    places = Block(*(ys[(ys <= radius) | (ys >= ys[-1] - radius)] for ys in corners))
    others = range(2 * step.frames.radius + 1)
    return {int(m) for k in others for m in np.unique(group_sizes_across(places, size, step, k))}


def group_sizes_across(block: Block, size: tuple[int, int], step: Pass, others: int) -> Positions:
    """The number of patches in the group of each reference, if so many other frames are searched.

    If the windows contain fewer patches than asked for, it is as many as they contain in any case: the windows in other
    frames follow the motion, and at most a quarter of them is inside the image.
    """
    settings, search = step.settings, step.frames
    reach = min(search.near, search.far) // 2
    inside = [min(reach, length - settings.patch_size) + 1 for length in size]
    own = group_sizes(block, size, settings, settings.window**2)
    most = max(settings.group_size, settings.size_of_chroma_groups)
    return np.minimum(own + others * inside[0] * inside[1], most)


def _work(
    iterators: StepInputs,
    moves: Iterator[Motion],
    rings: Rings,
    size: tuple[int, int],
    step: Pass,
    noisy: deque[Frame],
    start_at: int,
) -> Iterator[Work]:
    """Read the frames, and yield the blocks of each as soon as all frames that it needs are there."""
    search = step.frames
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
        blocks = blocks_of(size, step, start_at + number)
        searched, shifts = searched_frames(motions, around, number)
        if motions[number - first].repeats:
            searched = []  # nothing to do, but to wait for blocks that need frames of the rings
        noise_differs = rings.variance is not None and rings.variance.differs(
            {k + later for k in searched for later in range(search.depth)}
        )
        for block in blocks:
            is_last = block is blocks[-1]
            yield Work(number, block, searched, shifts.reshape(-1), frame, noise_differs, is_last)


def searched_frames(
    motions: Sequence[Motion], around: range, number: int
) -> tuple[list[int], Positions]:
    """The frames around one of them in which patches are searched for, and the rows and columns that each has moved."""
    own = motions[number - around.start].noise
    is_new = [
        (not motion.repeats or k == 0) and max(motion.noise, own) <= _ALIKE * min(motion.noise, own)
        for k, motion in enumerate(motions)
    ]
    searched = [k for k, new in zip(around, is_new, strict=True) if new]
    return searched, _shifts(motions, number - around.start)[is_new]


def _shifts(motions: Sequence[Motion], own: int) -> Positions:
    """The rows and columns by which frames have moved against one of them, from those since the frame before each.

    They are added up from that frame on, so that rounding errors do not depend on where the stream begins.
    """
    moves = np.array([motion[:2] for motion in motions])
    before = -np.cumsum(moves[own:0:-1], axis=0)[::-1]
    after = np.cumsum(moves[own + 1 :], axis=0)
    return np.round(np.concatenate([before, np.zeros((1, 2)), after])).astype(np.intp)


def _denoise_block(
    rings: Rings,
    denoisers: Sequence[GroupDenoiser],
    step: Pass,
    groups: Groups | None,
    size: tuple[int, int],
    work: Work,
) -> BlockSums:
    """Denoise the groups of a block."""
    inputs, searched = work.inputs, work.searched
    if not searched:
        return BlockSums(work, [], slice(0), *[inputs.noisy[:0]] * 3)
    layout, patch, depth = rings.noisy.layout, step.settings.patch_size, step.frames.depth
    variance = np.asarray(inputs.noise.variance, np.float32).reshape(-1)[:1]
    most = max(denoiser.planes.group_size for denoiser in denoisers)
    sizes = np.minimum(group_sizes_across(work.block, size, step, len(searched) - 1), most)
    frames = np.array([number % layout.slots * layout.frame for number in searched], np.intp)
    key = work.number, int(work.block.ys[0])
    matches = None if groups is None else groups.pop(key, None)
    if matches is None:
        matches = _matches(rings.similar, size, step, work, frames, variance[0], sizes, most)
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
    for k in range(length - 1, 0, -1):  # a patch that begins in a frame extends over the next ones
        for before in range(1, min(depth, k + 1)):
            sums[2][:, k] += sums[2][:, k - before]
    numbers = [*searched, *range(searched[-1] + 1, searched[-1] + depth)]
    return BlockSums(work, numbers, slice(first_row, first_row + height), *sums)


def _matches(
    similar: Ring,
    size: tuple[int, int],
    step: Pass,
    work: Work,
    frames: Positions,
    variance: np.float32,
    sizes: Positions,
    most: int,
) -> Matches:
    """Find the similar patches of the references of a block."""
    layout, settings, search = similar.layout, step.settings, step.frames
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
        step.every,
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
    rest = np.zeros_like(noisy if keeps_noise else noisy[:0])
    return FrameSums(
        noisy, np.zeros_like(noisy), rest, np.zeros((sets, *noisy.shape[1:]), np.float32)
    )


def _averaged(sums: FrameSums, denoisers: Sequence[GroupDenoiser]) -> tuple[Frame, Frame]:
    """Both results for a frame."""
    average(denoisers, sums.total, sums.rest, sums.weight)
    for change in (sums.total, sums.rest):
        apply_change(change, sums.noisy)
    return sums.total, sums.rest
