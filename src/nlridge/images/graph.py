"""Dask arrays: the passes of the algorithm as a Dask graph, which any scheduler can compute.

The bands that `stored` keeps in files are passed from task to task here. Each task uses one thread.
"""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from ..core.algorithm.images import ImageOnDemand
from ..core.algorithm.inputs import StepInputs
from ..core.algorithm.passes import Pass
from ..core.engines import cpu
from ..core.engines.grid import Window, lines, reach
from ..types import Image, Shape
from .bands import bands_of
from .lazy import from_rows
from .parts import Function, ImagesInParts, Needed, Part


class GraphImage(ImageOnDemand):
    """An image whose bands are tasks of a graph. Sums, differences, multiples and powers add tasks to the graph."""

    def __init__(self, graph: "Graph", name: str, shape: Shape) -> None:
        self.graph, self.name, self.shape = graph, name, shape

    def mapped(self, planes: int, function: Callable[..., Image], *others: Any) -> Any:
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

    The tasks are added one by one. With `dask.delayed`, Dask would optimise each array separately, and compute what
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
        self, shape: Shape, function: Callable[..., Any], images: list[GraphImage], *arguments: Any
    ) -> GraphImage:
        """Return the image whose bands are function(arguments, the same band of each image)."""
        result, shared = self._new_image(shape), self._shared(*arguments)
        for k in range(len(bands_of(shape[1], self.band_height))):
            self.tasks[result.key(k)] = (function, shared, *(image.key(k) for image in images))
        return result

    def run_pass(
        self, inputs: StepInputs, pass_: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[GraphImage, GraphImage]:
        """Run a pass of the engine; the task of a band passes its groups on to the task of the next round."""
        noisy: Any = inputs.noisy
        _, height, width = noisy.shape
        shape = height, width
        images: list[Any] = inputs.images()
        numbered = inputs.mapped(images.index)
        shared = self._shared(noisy.shape, numbered, pass_)
        outputs = self._new_image(noisy.shape)
        earlier = None if groups is None else groups.get("round")
        for k, rows in enumerate(bands_of(height, self.band_height)):
            grid = lines(shape, pass_, Window(rows, range(width)))
            needed = reach(grid, shape, pass_.settings).rows
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


# The functions of the tasks. The first argument is the one that all bands share.


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
    shape, numbered, pass_ = shared
    available: list[Any] = [
        from_rows(np.concatenate(bands, axis=1), first, shape) for bands in images
    ]
    inputs = numbered.mapped(lambda number: available[number])
    earlier_groups = previous[2] if isinstance(previous, tuple) else {}
    groups = dict(earlier_groups) if previous else None
    window = Window(range(*ends), range(shape[2]))
    strips = cpu.strips(inputs, pass_, groups, window=window, workers=1, tick=lambda: None)
    _, results, noisier_results = zip(*strips, strict=True)
    result = np.concatenate(results, axis=1)
    noisier = np.concatenate(noisier_results, axis=1)
    return result, noisier, {} if earlier_groups else groups or {}
