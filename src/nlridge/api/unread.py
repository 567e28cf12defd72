"""Images that are not read before they are denoised: arrays on disk and Dask arrays."""

from functools import partial
from typing import Any, NoReturn

import numpy as np

from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..errors import ArgumentTypeError
from ..large.entry import LargeImage, large_image
from ..large.frames import PlannedFrame, Source, plan_frame
from ..planning.conversion import to_dtype
from ..planning.doubts import warn_about
from ..planning.layout import Layout, SequenceAxis, layout_of, window_of
from ..planning.options import Options, checked_dtype, checked_options
from ..planning.parts import denoised_region
from ..planning.plan import Plan
from ..progress import progress_reporter
from ..types import Pixels
from .arguments import checked_tile, expect_none
from .details import Denoised
from .measured import Measured, Run
from .quality import Quality


class _Unread(Measured):
    """An image that is read when it is denoised."""

    called: str
    """Its name in messages."""

    def __init__(
        self,
        image: Any,
        sigma: Any,
        noise: Any,
        mask: Any,
        axes: dict[str, Any],
        sequence: SequenceAxis | None,
        workers: Any,
        tile: Any,
    ) -> None:
        self.image, self.sigma, self.noise, self.mask = image, sigma, noise, mask
        self.image_axes, self.sequence = axes, sequence
        self.tile = checked_tile(tile)

    @property
    def layout(self) -> Layout:
        """The layout of the image."""
        shape, dtype = tuple(self.image.shape), np.dtype(self.image.dtype)
        return layout_of(shape, dtype, **self.image_axes, sequence=self.sequence)

    @property
    def axes(self) -> str:
        return self.layout.axes

    @property
    def noise_given(self) -> bool:
        return self.sigma is not None or not (self.noise is None or isinstance(self.noise, str))

    def plan(self, options: Options) -> Plan:
        self._refuse("read its noise, recipe or doubt")

    def details(self, options: Options, run: Run) -> Denoised:
        self._refuse("return details")

    def quality(self, options: Options, run: Run, peak: float | None, probes: int) -> Quality:
        self._refuse("estimate the quality")

    def _refuse(self, what: str) -> NoReturn:
        raise ArgumentTypeError("image", self.called, f"an array in memory to {what}", "is {value}")

    def _large(self, options: Options, dtype: Any = None) -> LargeImage:
        """Check the image with some options."""
        options_for = partial(
            checked_options,
            noise=self.noise,
            method=options.method,
            data_range=options.data_range,
            tuning=options.tuning,
            dtype=dtype,
        )
        return large_image(
            self.image,
            self.sigma,
            options_for,
            mask=self.mask,
            **self.image_axes,
            sequence=self.sequence,
        )


class StoredImages(_Unread):
    """A memory map or a Zarr array; only the pixels that a region depends on are read, after all have been measured."""

    called = "not in memory"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._plans: dict[int, tuple[str | Recipe, Tuning, PlannedFrame]] = {}

    def plan(self, options: Options) -> Plan:
        """The plan for the first image, if its noise is to be estimated."""
        if self.noise_given or self.mask is not None:
            self._refuse("read its noise, recipe or doubt")
        large = self._large(options)
        return self._planned(0, large.sources()[0], large).plan

    def _planned(self, k: int, source: Source, large: LargeImage) -> PlannedFrame:
        """Return the plan for the k-th image, for which all of its pixels are read once."""
        method, tuning, planned = self._plans.get(k, (None, None, None))
        options = large.options
        if planned is None or (method, tuning) != (options.method, options.tuning):
            planned = plan_frame(source, large.layout, options)
            self._plans[k] = options.method, options.tuning, planned
        return planned

    def denoise(self, options: Options, run: Run) -> Pixels:
        expect_none("without time_axis or depth_axis", frame=run.frame)
        large, threads, progress = self._large(options, run.dtype), run.threads, run.reports
        window = window_of(np.s_[:, :] if run.region is None else run.region, large.layout)
        large.expect_plausible()
        sources, stacked = large.sources(), large.layout.stack is not None
        results: list[Pixels] = []
        with progress_reporter(stacked and progress, len(sources), "image") as tick:
            for k, source in enumerate(sources):
                planned = self._planned(k, source, large)
                if k == 0:  # the same noise for all
                    warn_about(planned.plan.doubt)
                images, of_frame = planned.images(), not stacked and progress
                results.append(denoised_region(planned.parts, images, window, threads, of_frame))
                tick()
        result = large.layout.like_image(np.stack(results))
        return result if run.dtype is None else to_dtype(result, checked_dtype(run.dtype))


class DaskImages(_Unread):
    """A Dask array, whose result is computed by a scheduler of Dask."""

    called = "a Dask array"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        *_, sequence, workers, tile = arguments
        expect_none("for a Dask array", workers=workers)
        if sequence is not None:
            expect_none(f"for a Dask array with {sequence.name}", tile=tile)

    def denoise(self, options: Options, run: Run) -> Any:
        expect_none("for a Dask array", workers=run.workers, progress=run.progress)
        if self.sequence is None:
            expect_none("without time_axis or depth_axis", frame=run.frame)
        from ..large.graphs import denoise_dask

        result = denoise_dask(self._large(options, run.dtype), self.tile)
        if run.dtype is not None:
            target = checked_dtype(run.dtype)
            result = result.map_blocks(to_dtype, target, dtype=target)
        return result if run.region is run.frame is None else result[self._index(run)]

    def _index(self, run: Run) -> tuple[Any, ...]:
        """Return the index of the part that is wanted."""
        layout = self.layout
        index: list[Any] = [slice(None)] * len(layout.shape)
        if run.region is not None:
            for axis, span in zip("YX", window_of(run.region, layout), strict=True):
                index[layout.axes.index(axis)] = slice(span.start, span.stop)
        if layout.sequence is not None and run.frame is not None:
            index[layout.sequence] = run.frame
        return tuple(index)
