"""Dask arrays: the steps of the algorithm as a graph, computed when its result is, by whatever scheduler there is.

Bands are those that `stages` keeps in files; here they are handed from task to task instead.  A task is one thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from ..algorithm import pyramid
from ..algorithm.framework import denoised
from ..algorithm.inputs import PlaneNoise, StepInputs
from ..algorithm.passes import Pass
from ..engines import cpu
from ..engines.grid import lines, rows_read
from ..planning.channels import Planes
from ..planning.layout import Layout
from ..planning.options import Options
from ..planning.pixels import restored, stabilised
from ..planning.plan import Plan, float_type
from .bands import bands_of
from .frames import Planned, expect_finite, frames_of, planned
from .lazy import Image, part
from .scales import around, coarser_part, fine_rows, halved, with_coarse_part


@dataclass(frozen=True)
class _Computed:
    """A Dask array of which slices are computed at once: what concerns the whole image is found out so."""

    array: Any
    is_computed = True

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
        found: npt.NDArray[Any] = self.array[index].compute()
        return found


def denoised_later(image: Any, layout: Layout, options: Options, band: int) -> Any:
    """The denoised image as a Dask array, in the chunks of the image."""
    import dask.array as da

    pixels: Any = layout.frames(image)
    frames = frames_of(_Computed(image), layout.axes)
    found: Any = da.stack(
        [
            _denoised(some, planned(frame, layout, options), band)
            for some, frame in zip(pixels, frames, strict=True)
        ]
    )
    result: Any = layout.like_image(found)
    return result.rechunk(image.chunks)


def _denoised(pixels: Any, here: Planned, band: int) -> Any:
    """One frame, as (channels, height, width)."""
    graph, plan = Graph(band), here.plan
    whole = graph.bands_of_array(pixels)
    results: list[Any] = []
    for planes in plan.planes:
        shape = (len(planes.channels), *pixels.shape[1:])
        noisy = graph.mapped(shape, _noisy, [whole], plan, planes)
        noise = plan.plane_noise(planes, here.levels)
        scales: Any = graph
        *_, result = denoised(noisy, noise, plan.recipe, graph.run_pass, plan.tuning, scales=scales)
        results.append(result)
    finished = graph.mapped(pixels.shape, _restored, [whole, *results], plan)
    return graph.as_array(finished, pixels, float_type(pixels.dtype))


class Banded:
    """An image whose bands are tasks of a graph; sums and multiples of such images are such images."""

    def __init__(self, graph: "Graph", name: str, shape: tuple[int, ...]) -> None:
        self.graph, self.name, self.shape = graph, name, shape

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, planes: slice) -> "Banded":
        count = len(range(*planes.indices(len(self))))
        return self.graph.mapped((count, *self.shape[1:]), _planes, [self], planes)

    def __add__(self, other: "Banded") -> "Banded":
        return self.graph.mapped(self.shape, _sum, [self, other])

    def __sub__(self, other: "Banded") -> "Banded":
        return self.graph.mapped(self.shape, _difference, [self, other])

    def __rmul__(self, factor: float) -> "Banded":
        return self.graph.mapped(self.shape, _multiple, [self], factor)

    def key(self, k: int) -> Any:
        """Of the task of a band."""
        return (self.name, 0, k, 0)

    def rows(self, rows: range) -> tuple[int, list[Any]]:
        """The tasks that these rows are in, and the first row of the first."""
        band = self.graph.band
        first, last = rows.start // band, -(-rows.stop // band)
        return first * band, [self.key(k) for k in range(first, last)]


class Graph:
    """Steps and scales for `framework.denoised` that only write down what is to be computed.

    Tasks are written down one by one: Dask optimises arrays that are handed to its `delayed` functions each by
    itself, and what they have in common would be computed again and again.
    """

    def __init__(self, band: int) -> None:
        self.band = band
        self.tasks: dict[Any, Any] = {}

    def bands_of_array(self, array: Any) -> Banded:
        """A Dask array, in bands."""
        cut = array.rechunk({0: -1, 1: self.band, 2: -1})
        self.source = cut
        return Banded(self, cut.name, tuple(array.shape))

    def as_array(self, image: Banded, like: Any, dtype: Any) -> Any:
        """The Dask array of an image."""
        import dask.array as da
        from dask.highlevelgraph import HighLevelGraph

        tasks = HighLevelGraph.from_collections(image.name, self.tasks, dependencies=[self.source])
        planes, height, width = image.shape
        chunks = ((planes,), tuple(map(len, bands_of(height, self.band))), (width,))
        return da.Array(tasks, image.name, chunks, dtype=dtype)

    def _new(self, shape: tuple[int, ...]) -> Banded:
        return Banded(self, f"nlridge-{uuid4().hex}", shape)

    def _given(self, *arguments: Any) -> str:
        """The key of what all bands are given, which is handed over once."""
        key = f"given-{uuid4().hex}"
        self.tasks[key] = (_Given(arguments),)
        return key

    def mapped(
        self,
        shape: tuple[int, ...],
        function: Callable[..., Any],
        images: list[Banded],
        *arguments: Any,
    ) -> Banded:
        """The image whose bands are function(arguments, the same band of each image)."""
        found, given = self._new(shape), self._given(*arguments)
        for k in range(len(bands_of(shape[1], self.band))):
            self.tasks[found.key(k)] = (function, given, *(image.key(k) for image in images))
        return found

    def run_pass(
        self, inputs: StepInputs, step: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[Banded, Banded]:
        """A pass of the engine; the groups of a band go from its task to that of the next round."""
        noisy: Any = inputs.noisy
        _, height, width = noisy.shape
        images: list[Any] = inputs.images()
        numbered = inputs.mapped(images.index)
        given = self._given(noisy.shape, numbered, step)
        both = self._new(noisy.shape)
        known = None if groups is None else groups.get("of")
        for k, rows in enumerate(bands_of(height, self.band)):
            needed = rows_read(lines((height, width), step, rows), (height, width), step.settings)
            remembered = groups is not None if known is None else known.key(k)
            self.tasks[both.key(k)] = (
                _run_pass,
                given,
                remembered,
                (rows.start, rows.stop),
                noisy.rows(needed)[0],
                *(image.rows(needed)[1] for image in images),
            )
        if groups is not None and known is None:
            groups["of"] = both
        result = self.mapped(noisy.shape, _item, [both], 0)
        return result, self.mapped(noisy.shape, _item, [both], 1) if inputs.keeps_noise else result

    def coarser(self, image: Banded) -> Banded:
        """See `pyramid`."""
        planes, height, width = image.shape
        found = self._new((planes, *pyramid.coarser_shape((height, width))))
        given = self._given(height)
        for k, rows in enumerate(bands_of(found.shape[1], self.band)):
            first, parts = image.rows(fine_rows(rows, height))
            self.tasks[found.key(k)] = (_coarser, given, (rows.start, rows.stop), first, parts)
        return found

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise:
        """See `pyramid`."""
        return pyramid.coarser_noise(noise)

    def with_coarse(self, image: Banded, coarse: Banded, level: int, most: float) -> Banded:
        """See `pyramid`."""
        found, height = self._new(image.shape), image.shape[1]
        given = self._given(height, level, most)
        for k, rows in enumerate(bands_of(height, self.band)):
            needed = around(rows, height, level)
            parts = [*image.rows(needed), *coarse.rows(halved(needed))]
            self.tasks[found.key(k)] = (_with_coarse, given, (rows.start, rows.stop), *parts)
        return found


class _Given:
    """Arguments that are no tasks, whatever they look like."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arguments = arguments

    def __call__(self) -> tuple[Any, ...]:
        return self.arguments


# What the tasks do; the first argument is what all bands are given.


def _planes(given: tuple[slice], image: Image) -> Image:
    return image[given[0]]


def _sum(given: Any, a: Image, b: Image) -> Image:
    return a + b


def _difference(given: Any, a: Image, b: Image) -> Image:
    return a - b


def _multiple(given: tuple[float], image: Image) -> Image:
    return given[0] * image


def _item(given: tuple[int], several: Sequence[Image]) -> Image:
    return several[given[0]]


def _noisy(given: tuple[Plan, Planes], pixels: npt.NDArray[Any]) -> Image:
    plan, planes = given
    return planes.of(stabilised(plan, planes.channels, expect_finite(pixels)))


def _restored(given: tuple[Plan], pixels: npt.NDArray[Any], *images: Image) -> Any:
    return restored(given[0], pixels, images)


def _coarser(given: tuple[int], ends: tuple[int, int], first: int, parts: list[Image]) -> Image:
    rows, (height,) = range(*ends), given
    needed = fine_rows(rows, height)
    return coarser_part(_cut(parts, first, needed), needed, rows)


def _with_coarse(
    given: tuple[int, int, float],
    ends: tuple[int, int],
    first: int,
    parts: list[Image],
    first_coarse: int,
    coarse: list[Image],
) -> Image:
    rows, (height, level, most) = range(*ends), given
    needed = around(rows, height, level)
    small = _cut(coarse, first_coarse, halved(needed))
    return with_coarse_part(_cut(parts, first, needed), small, level, most, needed, rows)


def _cut(parts: list[Image], first: int, rows: range) -> Image:
    """Some rows of bands that follow each other."""
    together = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
    return together[:, rows.start - first : rows.stop - first]


def _run_pass(
    given: tuple[Any, StepInputs, Pass],
    remembered: Any,
    ends: tuple[int, int],
    first: int,
    *images: list[Image],
) -> tuple[Image, Image, dict[Any, Any]]:
    """The rows of the result, the same with some of the noise left in it, and the groups.

    `remembered` is what another round gave, or whether there is another that will want the groups.
    """
    shape, numbered, step = given
    there: list[Any] = [part(np.concatenate(parts, axis=1), first, shape) for parts in images]
    inputs = numbered.mapped(lambda number: there[number])
    known = remembered[2] if isinstance(remembered, tuple) else {}
    groups = dict(known) if remembered else None
    strips = cpu.strips(inputs, step, groups, rows=range(*ends), workers=1, tick=lambda: None)
    _, results, rests = zip(*strips, strict=True)
    result, rest = (np.concatenate(some, axis=1) for some in (results, rests))
    return result, rest, {} if known else groups or {}
