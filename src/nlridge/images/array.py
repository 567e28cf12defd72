"""Images that are arrays in memory."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.algorithm import filtering, pyramid
from ..core.algorithm.filling import fill_planes
from ..core.algorithm.images import Images
from ..core.algorithm.inputs import Image, PlaneNoise, StepInputs
from ..core.algorithm.passes import Pass
from ..core.arrays import do_all
from ..core.engines import cpu
from ..core.engines.pool import in_order, threads_of
from ..core.engines.reuse import Kept
from ..types import Shape

# Pixels of a plane, few enough to stay in the cache of a core while they are converted.
_BAND = 2**16


class Arrays(Images):
    """Arrays of (planes, height, width), computed on some threads."""

    def __init__(
        self,
        workers: int = 1,
        tick: Callable[[], None] = lambda: None,
        threads: Executor | None = None,
        kept: Kept | None = None,
    ) -> None:
        """`tick` is called after each block of a pass. Work that was `kept` from an earlier run is reused."""
        self.workers = workers
        self._run_pass = partial(
            cpu.run_pass if kept is None else kept.engine(),
            workers=workers,
            threads=threads,
            tick=tick,
        )
        self._map = partial(in_order, workers=workers, threads=threads)

    def run_pass(
        self, inputs: StepInputs, pass_: Pass, groups: dict[Any, Any] | None = None
    ) -> tuple[Image, Image]:
        return self._run_pass(inputs, pass_, groups)

    def each(
        self, function: Callable[..., Any], *images: Image, shape: Shape | None = None
    ) -> Image:
        """See `Images`. Rows are computed in bands, so that several threads can share them."""
        _, height, width = images[0].shape
        rows = max(1, _BAND // width)
        if height <= rows:
            return function(*images)
        bands = [slice(top, top + rows) for top in range(0, height, rows)]

        def of_band(band: slice) -> Any:
            return function(*(_some_rows(image, band, height) for image in images))

        results: list[Image] = []  # only one
        allocating = Lock()

        def compute(band: slice) -> None:
            part = of_band(band)
            with allocating:
                if not results:
                    results.append(np.empty((len(part), height, width), part.dtype))
            results[0][:, band] = part

        do_all(self._map(compute, bands))
        return results[0]

    def coarser(self, image: Image) -> Image:
        return pyramid.coarser(image, self._map)

    def coarser_noise(self, noise: PlaneNoise) -> PlaneNoise:
        return pyramid.coarser_noise(noise, self._map)

    def with_coarse(self, image: Image, coarse: Image, level: int, most: Any) -> Image:
        return pyramid.with_coarse(image, coarse, level, most, self._map)

    def filtered(self, image: Image, taps: npt.NDArray[np.float32]) -> Image:
        return filtering.filtered(image, taps, self._map)

    def filled(self, image: Image) -> Image:
        return fill_planes(image)

    def steadied(self, noisy: Image, source: Image) -> tuple[Images, Image, None]:
        """See `Images`. A single image does not change."""
        return self, noisy, None


@contextmanager
def arrays(
    workers: int, tick: Callable[[], None] = lambda: None, kept: Kept | None = None
) -> Iterator[Arrays]:
    """Provide `Arrays` whose passes share their threads."""
    with threads_of(workers) as threads:
        yield Arrays(workers, tick, threads, kept)


def _some_rows(image: Any, band: slice, height: int) -> Any:
    """Some rows of an image; a value for all rows, such as a number, is returned as it is."""
    shape = getattr(image, "shape", ())
    return image[..., band, :] if shape and shape[-2] == height else image
