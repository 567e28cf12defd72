"""Dask arrays: the passes of the algorithm as a Dask graph, which any scheduler can compute.

The bands that `stages` keeps in files are passed from task to task here.  Each task uses one thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from ..algorithm.inputs import StepInputs
from ..algorithm.passes import Pass
from ..arrays import is_dask
from ..engines import cpu
from ..engines.grid import Window, lines, reach
from ..planning.doubts import warn_about
from ..planning.layout import Layout
from ..planning.options import Options
from ..planning.plan import float_type
from .bands import bands_of
from .frames import Frame, PlannedFrame, Source, plan_frame
from .lazy import Image, ImageOnDemand, from_rows
from .planes import denoised_image
from .scales import Function, ImagesInParts, Needed, Part, Shape


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

    def __getitem__(self, index: Any) -> npt.NDArray[Any]:
        pixels: npt.NDArray[Any] = self.array[index].compute()
        return pixels


def as_eager(array: Any) -> EagerDaskArray:
    """Return any array as a Dask array whose slices are computed immediately."""
    import dask.array as da

    return EagerDaskArray(array if is_dask(array) else da.from_array(array))


def denoise_dask(
    image: Any, sources: Sequence[Source], layout: Layout, options: Options, band_height: int
) -> Any:
    """Return the denoised image as a Dask array with the chunks of the image, not yet computed.

    The arrays of the sources are `EagerDaskArray`.
    """
    import dask.array as da

    planned = [plan_frame(source, layout, options) for source in sources]
    warn_about(planned[0].plan.doubt)
    results: Any = da.stack([_denoise_frame(frame, band_height) for frame in planned])
    result: Any = layout.like_image(results)
    return result.rechunk(image.chunks)


def _denoise_frame(planned: PlannedFrame, band_height: int) -> Any:
    """Denoise a frame; returns a Dask array of shape (channels, height, width)."""
    graph, frames = Graph(band_height), planned.source.frames
    sources = [graph.bands_of_array(_pixels_of(frame)) for frame in frames]
    result = denoised_image(planned, sources, graph, graph.run_pass)
    return graph.as_array(result, float_type(frames[0].dtype))


def _pixels_of(frame: Frame) -> Any:
    """Return the pixels of a frame as a Dask array of (channels, height, width), not yet computed."""
    array = frame.array.array[frame.index()].transpose(frame.order)
    array = array[(0,) * len(frame.number)]
    return array if "C" in frame.axes else array[None]


class GraphImage(ImageOnDemand):
    """An image whose bands are tasks of a graph.  Sums, differences, multiples and powers add tasks to the graph."""

    def __init__(self, graph: "Graph", name: str, shape: Shape) -> None:
        self.graph, self.name, self.shape = graph, name, shape

    def mapped(self, planes: int, function: Callable[..., Image], *others: Any) -> Any:
        """See `ImageOnDemand`."""
        shape = (planes, *self.shape[1:])
        return self.graph.map_bands(shape, _mapped, [self, *others], function)

    def key(self, k: int) -> Any:
        """Return the key of the task that computes the k-th band."""
        return (self.name, 0, k, 0)

    def rows(self, rows: range) -> tuple[int, list[Any]]:
        """Return the first row of the first band that contains `rows`, and the keys of all such bands."""
        band_height = self.graph.band_height
        first, last = rows.start // band_height, -(-rows.stop // band_height)
        return first * band_height, [self.key(k) for k in range(first, last)]


class Graph(ImagesInParts):
    """Passes and scales for `framework.denoised` that only add tasks to a graph.

    The tasks are added one by one.  With `dask.delayed`, Dask would optimise each array separately, and compute what
    they share again and again.
    """

    def __init__(self, band_height: int) -> None:
        self.band_height = band_height
        self.tasks: dict[Any, Any] = {}
        self.sources: list[Any] = []

    def bands_of_array(self, array: Any) -> GraphImage:
        """Split a Dask array into bands."""
        bands = array.rechunk({0: -1, 1: self.band_height, 2: -1})
        self.sources.append(bands)
        return GraphImage(self, bands.name, array.shape)

    def as_array(self, image: GraphImage, dtype: Any) -> Any:
        """Return an image as a Dask array."""
        import dask.array as da
        from dask.highlevelgraph import HighLevelGraph

        tasks = HighLevelGraph.from_collections(image.name, self.tasks, dependencies=self.sources)
        planes, height, width = image.shape
        chunks = ((planes,), tuple(map(len, bands_of(height, self.band_height))), (width,))
        return da.Array(tasks, image.name, chunks, dtype=dtype)

    def _new_image(self, shape: Shape) -> GraphImage:
        return GraphImage(self, f"nlridge-{uuid4().hex}", shape)

    def _shared(self, *arguments: Any) -> str:
        """Add a task that returns arguments shared by all bands, so that they are sent only once; returns its key."""
        key = f"shared-{uuid4().hex}"
        self.tasks[key] = (Shared(arguments),)
        return key

    def map_bands(
        self,
        shape: Shape,
        function: Callable[..., Any],
        images: list[GraphImage],
        *arguments: Any,
    ) -> GraphImage:
        """Return the image whose bands are function(arguments, the same band of each image)."""
        result, shared = self._new_image(shape), self._shared(*arguments)
        for k in range(len(bands_of(shape[1], self.band_height))):
            self.tasks[result.key(k)] = (function, shared, *(image.key(k) for image in images))
        return result

    def run_pass(
        self, inputs: StepInputs, step: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[GraphImage, GraphImage]:
        """Run a pass of the engine; the task of a band passes its groups on to the task of the next round."""
        noisy: Any = inputs.noisy
        _, height, width = noisy.shape
        shape = height, width
        images: list[Any] = inputs.images()
        numbered = inputs.mapped(images.index)
        shared = self._shared(noisy.shape, numbered, step)
        outputs = self._new_image(noisy.shape)
        earlier = None if groups is None else groups.get("round")
        for k, rows in enumerate(bands_of(height, self.band_height)):
            grid = lines(shape, step, Window(rows, range(width)))
            needed = reach(grid, shape, step.settings).rows
            previous = groups is not None if earlier is None else earlier.key(k)
            self.tasks[outputs.key(k)] = (
                _run_pass,
                shared,
                previous,
                (rows.start, rows.stop),
                noisy.rows(needed)[0],
                *(image.rows(needed)[1] for image in images),
            )
        if groups is not None and earlier is None:
            groups["round"] = outputs
        result = self.map_bands(noisy.shape, _item, [outputs], 0)
        if not inputs.keeps_noise:
            return result, result
        return result, self.map_bands(noisy.shape, _item, [outputs], 1)

    def image_of(self, shape: Shape, function: Function, inputs: Sequence[Needed]) -> GraphImage:
        """See `ImagesInParts`."""
        result, width = self._new_image(shape), shape[2]
        widths = [image.shape[2] for image, _ in inputs]
        shared = self._shared(function, width, widths)
        for k, rows in enumerate(bands_of(shape[1], self.band_height)):
            parts = []
            for image, needed_of in inputs:
                needed = needed_of(Window(rows, range(width))).rows
                first, keys = image.rows(needed)
                parts += [(needed.start, needed.stop), first, keys]
            self.tasks[result.key(k)] = (_computed, shared, (rows.start, rows.stop), *parts)
        return result


class Shared:
    """A function that returns its arguments; Dask does not search it for tasks."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments

    def __call__(self) -> tuple[Any, ...]:
        return self.arguments


# The functions of the tasks.  The first argument is the one that all bands share.


def _mapped(shared: tuple[Callable[..., Image]], *images: Image) -> Image:
    return shared[0](*images)


def _item(shared: tuple[int], images: Sequence[Image]) -> Image:
    return images[shared[0]]


def _computed(
    shared: tuple[Function, int, Sequence[int]], ends: tuple[int, int], *parts: Any
) -> Any:
    """Call the function of `Graph.image_of`; `parts` has three items for each input."""
    function, width, widths = shared
    inputs = [
        Part(
            Window(range(*needed), range(width_of_input)),
            _select_rows(bands, first, range(*needed)),
        )
        for needed, first, bands, width_of_input in zip(
            parts[::3], parts[1::3], parts[2::3], widths, strict=True
        )
    ]
    return function(Window(range(*ends), range(width)), *inputs)


def _select_rows(bands: list[Image], first: int, rows: range) -> Image:
    """Return `rows` from consecutive bands; `first` is the first row of the first band."""
    joined = bands[0] if len(bands) == 1 else np.concatenate(bands, axis=1)
    return joined[:, rows.start - first : rows.stop - first]


def _run_pass(
    shared: tuple[Any, StepInputs, Pass],
    previous: Any,
    ends: tuple[int, int],
    first: int,
    *images: list[Image],
) -> tuple[Image, Image, dict[Any, Any]]:
    """Return some rows of the result, the same rows with some of the noise kept, and the groups.

    `previous` is what this function returned in an earlier round, or else whether a later round needs the groups.
    """
    shape, numbered, step = shared
    available: list[Any] = [
        from_rows(np.concatenate(bands, axis=1), first, shape) for bands in images
    ]
    inputs = numbered.mapped(lambda number: available[number])
    earlier_groups = previous[2] if isinstance(previous, tuple) else {}
    groups = dict(earlier_groups) if previous else None
    window = Window(range(*ends), range(shape[2]))
    strips = cpu.strips(inputs, step, groups, window=window, workers=1, tick=lambda: None)
    _, results, noisier_results = zip(*strips, strict=True)
    result = np.concatenate(results, axis=1)
    noisier = np.concatenate(noisier_results, axis=1)
    return result, noisier, {} if earlier_groups else groups or {}
