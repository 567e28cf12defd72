"""Dask arrays: the denoised image as another Dask array, which any scheduler can compute.

Where frames belong together, each task denoises some of them, with those around that they depend on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np

from ..core.arrays import is_dask
from ..images.graph import Graph, Shared
from ..noise.poisson import PoissonGaussianNoise
from ..planning.doubts import warn_about
from ..planning.explained import or_unchanged
from ..planning.facts import known_ends
from ..planning.frames import SourceFrame
from ..planning.layout import Layout, SequenceAxis
from ..planning.levels import INSTEAD_OF_MAP
from ..planning.options import Options
from ..planning.parts import can_be_judged, source_of
from ..planning.plan import float_type
from ..planning.sequences import SequencePlan, plan_sequence
from ..planning.way import denoised_image
from ..types import Array, Pixels
from .entry import LargeImage
from .frames import Frame, PlannedFrame, plan_frame
from .sequences import as_frame, given_levels


def denoise_dask(large: LargeImage, band_height: int) -> Any:
    """Return the denoised image as a Dask array with the chunks of the image, not yet computed."""
    import dask.array as da

    if large.sequence is not None:
        results = _denoise_sequences(large, large.sequence)
    else:
        planned = [
            plan_frame(source, large.layout, large.options) for source in large.sources(as_eager)
        ]
        warn_about(planned[0].plan.doubt)
        results = [_denoise_frame(frame, band_height) for frame in planned]
    result: Any = large.layout.like_image(da.stack(results))
    return result.rechunk(large.image.chunks)


def _denoise_sequences(large: LargeImage, axis: SequenceAxis) -> list[Any]:
    """Denoise frames that belong together; returns a Dask array for each sequence of them."""
    import dask.array as da

    image, companions, layout, options, _ = large
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
    return results


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


def _computed(arrays: Sequence[Any], levels: Array, number: int) -> SourceFrame:
    """Compute a frame immediately."""
    import dask

    frames = [array[number if len(array) > 1 else 0] for array in arrays]
    return as_frame(dask.compute(*frames), levels)


def _denoise_sequence(planned: SequencePlan, arrays: Sequence[Any], levels: Array) -> Any:
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
    """Join chunks of frames to parts of at least `least` frames, so that no more frames are computed twice than once."""
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
    shared: tuple[SequencePlan, Array], ends: tuple[int, int], *inputs: Any
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


@dataclass(frozen=True)
class EagerDaskArray:
    """A Dask array whose slices are computed immediately, for the plan, which depends on the whole image."""

    array: Any
    computes_on_read = True

    @property
    def chunks(self) -> tuple[int, ...]:
        return tuple(map(max, self.array.chunks))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def __getitem__(self, index: Any) -> Pixels:
        pixels: Pixels = self.array[index].compute()
        return pixels


def as_eager(array: Any) -> EagerDaskArray:
    """Return any array as a Dask array whose slices are computed immediately."""
    import dask.array as da

    return EagerDaskArray(array if is_dask(array) else da.from_array(array))


def _denoise_frame(planned: PlannedFrame, band_height: int) -> Any:
    """Denoise a frame; returns a Dask array of shape (channels, height, width)."""
    graph, frames = Graph(band_height), planned.source.frames
    source = source_of(planned.parts, [graph.bands_of_array(_pixels_of(frame)) for frame in frames])
    result = denoised_image(planned.parts, source, graph)
    if can_be_judged(planned.parts):
        result = graph.each(or_unchanged, source, result)
    return graph.as_array(result, float_type(frames[0].dtype))


def _pixels_of(frame: Frame) -> Any:
    """Return the pixels of a frame as a Dask array of (channels, height, width), not yet computed."""
    array = frame.array.array[frame.index()].transpose(frame.order)
    array = array[(0,) * len(frame.number)]
    return array if "C" in frame.axes else array[None]
