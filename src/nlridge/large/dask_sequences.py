"""Dask arrays of frames that belong together: each task denoises some frames, with those around that they depend on."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from ..arrays import is_dask
from ..noise.poisson import PoissonGaussianNoise
from ..planning.doubts import warn_about
from ..planning.layout import Layout
from ..planning.levels import INSTEAD_OF_MAP
from ..planning.options import Options
from ..planning.plan import float_type
from ..planning.ranges import known_ends
from ..video.planning import SequenceAxis, SequencePlan, plan_sequence
from ..video.run import SourceFrame
from .dask_graph import Shared
from .sequences import as_frame, given_levels

Pixels = npt.NDArray[Any]


def denoise_dask_sequences(
    image: Any,
    companions: Sequence[tuple[str, Any]],
    layout: Layout,
    options: Options,
    axis: SequenceAxis,
) -> Any:
    """Return the denoised image as a Dask array with the chunks of the image, not yet computed.

    The companions are masks and a map of levels, with the names of their arguments.
    """
    import dask.array as da

    frames = [layout.frames(image)]
    for name, array in companions:
        instead = INSTEAD_OF_MAP if name == "sigma" else ""
        dask_array = array if is_dask(array) else da.from_array(array)
        frames.append(layout.spread(name, dask_array, instead))
    levels = given_levels(options, layout)
    known = _is_known(
        options, layout, np.dtype(image.dtype), axis, [name for name, _ in companions]
    )
    results = []
    for k in range(len(frames[0])):
        arrays = [array[k if len(array) > 1 else 0] for array in frames]
        count, *shape = arrays[0].shape
        read = partial(_computed, arrays, levels)
        if known:
            read = partial(_blank, SourceFrame(np.zeros(shape, image.dtype), None, levels))
        planned = plan_sequence(read, count, options, axis, workers=1)
        if k == 0:
            warn_about(planned.plan.doubt)
        results.append(_denoise_sequence(planned, arrays, levels))
    result: Any = layout.like_image(da.stack(results))
    return result.rechunk(image.chunks)


def _is_known(
    options: Options, layout: Layout, dtype: np.dtype[Any], axis: SequenceAxis, given: Sequence[str]
) -> bool:
    """Whether the plan does not depend on the pixels, so that none has to be computed for it."""
    noise = options.noise
    if noise is None or "sigma" in given or isinstance(noise, PoissonGaussianNoise):
        return False
    channels = 1 if layout.channel is None else layout.shape[layout.channel]
    ends = known_ends(dtype, noise.black_level, options.data_range)
    return channels == 1 and ends is not None and (axis.is_time or axis.spacing is not None)


def _blank(frame: SourceFrame, number: int) -> SourceFrame:
    return frame


def _computed(arrays: Sequence[Any], levels: npt.NDArray[np.float64], number: int) -> SourceFrame:
    """Compute a frame immediately."""
    import dask

    frames = [array[number if len(array) > 1 else 0] for array in arrays]
    return as_frame(dask.compute(*frames), levels)


def _denoise_sequence(
    planned: SequencePlan, arrays: Sequence[Any], levels: npt.NDArray[np.float64]
) -> Any:
    """Denoise frames; returns a Dask array of (frames, channels, height, width).

    The arrays have as many frames, or one for all.
    """
    import dask.array as da
    from dask.highlevelgraph import HighLevelGraph

    sources = [array.rechunk({1: -1, 2: -1, 3: -1}) for array in arrays]
    name, shared = f"nlridge-{uuid4().hex}", f"shared-{uuid4().hex}"
    tasks: dict[Any, Any] = {shared: (Shared((planned, levels)),)}
    parts = list(_parts(sources[0].chunks[0], sum(planned.reach)))
    for k, frames in enumerate(parts):
        needed = planned.needed(frames)
        inputs = [part for source in sources for part in _chunks_with(source, needed)]
        tasks[name, k, 0, 0, 0] = (_denoise_part, shared, (frames.start, frames.stop), *inputs)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=sources)
    chunks = (tuple(map(len, parts)), *((length,) for length in arrays[0].shape[1:]))
    return da.Array(graph, name, chunks, dtype=float_type(arrays[0].dtype))


def _parts(chunks: Sequence[int], least: int) -> Iterator[range]:
    """Join chunks of frames to parts of at least so many frames, so that no more are computed twice than once."""
    start = stop = 0
    for number, length in enumerate(chunks):
        stop += length
        if stop - start >= least or number == len(chunks) - 1:
            yield range(start, stop)
            start = stop


def _chunks_with(source: Any, frames: range) -> tuple[int, list[Any]]:
    """Return the first frame of the first chunk that contains some of the frames, and the keys of all such chunks."""
    if len(source) == 1:  # for all frames
        frames = range(1)
    ends = np.cumsum(source.chunks[0])
    first, last = np.searchsorted(ends, [frames.start, frames.stop - 1], side="right").tolist()
    start = int(ends[first]) - source.chunks[0][first]
    return start, [(source.name, k, 0, 0, 0) for k in range(first, last + 1)]


def _denoise_part(
    shared: tuple[SequencePlan, npt.NDArray[np.float64]], ends: tuple[int, int], *inputs: Any
) -> Pixels:
    """Denoise some frames; `inputs` has two items for each array, those of `_chunks_with`."""
    planned, levels = shared
    arrays = [
        (first, chunks[0] if len(chunks) == 1 else np.concatenate(chunks))
        for first, chunks in zip(inputs[::2], inputs[1::2], strict=True)
    ]

    def read(number: int) -> SourceFrame:
        return as_frame(
            [array[number - first if len(array) > 1 else 0] for first, array in arrays], levels
        )

    earliest = arrays[0][0]
    results = planned.run(read, 1, frames=range(*ends), earliest=earliest)
    return np.stack([images[-1] for images in results])
