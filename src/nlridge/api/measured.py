"""Arrays in memory that have been measured: they can be denoised again with another method or strength."""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.engines.pool import in_order
from ..core.engines.reuse import Kept
from ..errors import ArgumentError
from ..noise import Noise
from ..noise.correlated import CorrelatedNoise
from ..noise.gaussian import GaussianNoise
from ..planning.conversion import result_type, to_dtype
from ..planning.doubts import warn_about
from ..planning.facts import facts_of
from ..planning.layout import window_of
from ..planning.levels import Levels, levels_of, usable_levels
from ..planning.missing import expect_numbers
from ..planning.options import Options, checked_dtype
from ..planning.pixels import NoisyPixels
from ..planning.plan import Facts, Plan, plan_for
from ..progress import Progress, progress_reporter, runs_reporter
from ..types import Mask, Pixels
from .arguments import (
    checked_image,
    checked_progress,
    checked_workers,
    expect_none,
    frame_of,
    missing_pixels,
)
from .details import Denoised, FrameDetails, Summary, details_of, frame_details, summary_of
from .in_memory import denoise_frame, steps_of_frame
from .quality import Quality, quality_from, risk_of

# The largest number of pixels, of all channels, of an image that one worker denoises alone.
_SMALL_IMAGE = 2**20


@dataclass(frozen=True, eq=False)
class Run:
    """How to run the algorithm, as the caller of a method of `Prepared` asked."""

    workers: int | None = None
    progress: Progress = False
    region: Any = None
    frame: Any = None
    dtype: Any = None
    kept: Kept | None = None
    """Work that was kept from earlier runs; None if nothing is to be kept."""
    denoised: Pixels | None = None
    """The result of such a run, if there is one already."""

    @property
    def threads(self) -> int:
        return checked_workers(self.workers)

    @property
    def reports(self) -> Progress:
        return checked_progress(self.progress)


class Measured(Protocol):
    """An image of some kind that `Prepared` can denoise; what was measured is not measured again."""

    @property
    def axes(self) -> str:
        """One letter for each axis; see `Denoised`."""

    @property
    def noise_given(self) -> bool:
        """Whether the noise was given rather than estimated."""

    def plan(self, options: Options) -> Plan:
        """Return the plan for the first image."""

    def denoise(self, options: Options, run: Run) -> Any:
        """Return the denoised image."""

    def details(self, options: Options, run: Run) -> Denoised:
        """Return the denoised image with its details."""

    def quality(self, options: Options, run: Run, peak: float | None, probes: int) -> Quality:
        """Return the denoised image with its estimated quality."""


class HasNoise(Protocol):
    """An image whose noise is known, as given or as estimated: one that was prepared or denoised."""

    @property
    def noise(self) -> Noise: ...
    @property
    def noise_given(self) -> bool: ...


def with_type(options: Options, dtype: Any) -> Options:
    """Return the options for a result of this type; None for floats."""
    return replace(options, dtype=None if dtype is None else checked_dtype(dtype))


class _Measurement(NamedTuple):
    """What was measured in an image."""

    facts: Facts
    levels: Levels | None
    """None for a map of an image of a stack, which would take too much memory for all images."""
    strength: float
    """The strength that the noise was estimated for."""

    def holds_for(self, strength: float, given: bool) -> bool:
        """Whether it is the same for another strength.

        Above 1, correlated noise that may also be texture may be added to white noise, the more the larger the strength.
        """
        noise = self.facts.noise
        if given or max(strength, 1.0) == max(self.strength, 1.0):
            return True
        joined = CorrelatedNoise if self.strength > 1 else GaussianNoise
        return not isinstance(noise, joined)


class MeasuredImages(Measured):
    """An image or a stack in memory."""

    def __init__(
        self,
        image: Any,
        options: Options,
        workers: int,
        *,
        mask: Any,
        stack_axis: Any,
        channel_axis: Any,
        origin: "HasNoise | None" = None,
    ) -> None:
        """Check an image and measure it with some threads; its noise may be taken over from an `origin`.

        The images of a stack are only checked. They are measured when they are needed.
        """
        self.pixels, self.masked, self.layout = checked_image(image, mask, stack_axis, channel_axis)
        """(frames, channels, height, width)"""
        expect_numbers(self.pixels, options.dtype)
        self.options, self.workers, self.origin = options, workers, origin
        self.levels = None if options.noise is None else levels_of(options.noise, self.layout)
        """Noise levels, if given; they broadcast against the pixels."""
        self._measurements: dict[int, _Measurement] = {}
        if self.layout.stack is None:
            self._measured(0, options, workers)
            return
        for k, pixels in enumerate(self.pixels):
            missing = self._missing(k)
            if self.levels is not None:
                usable_levels(frame_of(self.levels, k), missing, pixels)

    @property
    def axes(self) -> str:
        return self.layout.axes

    @property
    def noise_given(self) -> bool:
        known = self.options.noise is not None
        return known if self.origin is None else self.origin.noise_given

    def plan(self, options: Options) -> Plan:
        return self.frame(0, options, self.workers).plan

    def frame(self, k: int, options: Options, workers: int) -> NoisyPixels:
        """Return the k-th image with its plan."""
        pixels, missing = self.pixels[k], self._missing(k)
        facts, levels, _ = self._measured(k, options, workers)
        if levels is None:
            levels = usable_levels(frame_of(self.levels, k), missing, pixels)
        if not self.noise_given:  # estimated noise is never implausible
            options = replace(options, noise=None)
        plan = plan_for(pixels.shape, facts, options)
        return NoisyPixels(plan, pixels, missing, levels, outliers=facts.outliers)

    def _warn(self, doubt: str) -> None:
        if self.origin is None:  # otherwise, the noise has been judged before
            warn_about(doubt)

    def _missing(self, k: int) -> Mask | None:
        return self._missing_in_image if self.layout.stack is None else self._missing_in(k)

    @cached_property
    def _missing_in_image(self) -> Mask | None:
        return self._missing_in(0)

    def _missing_in(self, k: int) -> Mask | None:
        may_be_all = self.layout.stack is not None
        return missing_pixels(self.pixels[k], frame_of(self.masked, k), may_be_all=may_be_all)

    def _measured(self, k: int, options: Options, workers: int) -> _Measurement:
        strength = options.tuning.strength
        known = self._measurements.get(k)
        is_known = self.options.noise is not None
        if known is None or not known.holds_for(strength, is_known):
            levels = frame_of(self.levels, k)
            facts, usable = facts_of(self.pixels[k], self._missing(k), levels, options, workers)
            facts = replace(facts, doubt=getattr(self.origin, "doubt", facts.doubt))
            is_large = usable.given is not None and self.layout.stack is not None
            known = _Measurement(facts, None if is_large else usable, strength)
            self._measurements[k] = known
        return known

    def denoise(self, options: Options, run: Run) -> Pixels:
        layout = self.layout
        expect_none("without time_axis or depth_axis", frame=run.frame)
        options = with_type(options, run.dtype)
        expect_numbers(self.pixels, options.dtype)
        dtype = result_type(options, self.pixels)
        window = None if run.region is None else window_of(run.region, layout)

        def denoise_one(frame: NoisyPixels, workers: int, progress: Progress) -> Pixels:
            return to_dtype(denoise_frame(frame, workers, progress, window, run.kept), dtype)

        with closing(self._each(options, run, denoise_one)) as each:
            if layout.stack is None:
                return layout.like_image(next(each)[None])
            size = self.pixels.shape[2:] if window is None else map(len, window)
            results = np.empty((*self.pixels.shape[:2], *size), dtype)
            for k, result in enumerate(each):
                results[k] = result
        return layout.like_image(results)

    def details(self, options: Options, run: Run) -> Denoised:
        expect_none("without time_axis or depth_axis", frame=run.frame)
        with closing(self._each(options, run, _details_of_frame)) as each:
            return details_of(list(each), self.layout, self.noise_given, self.pixels.dtype)

    def summary(self, options: Options, denoised: Pixels) -> Summary:
        """Return what was removed from the image."""
        self._expect_like_image(denoised)
        frame = self.frame(0, options, self.workers)
        return summary_of(frame, self.layout.frames(denoised)[0], self.noise_given)

    def _expect_like_image(self, denoised: Pixels) -> None:
        layout = self.layout
        if layout.stack is not None or denoised.shape != layout.shape:
            raise ArgumentError(
                "denoised",
                denoised.shape,
                f"the result of a single image, of shape {layout.shape}",
                "has shape {value}",
            )

    def quality(self, options: Options, run: Run, peak: float | None, probes: int) -> Quality:
        denoised = run.denoised
        if denoised is not None:
            self._expect_like_image(denoised)
        found, risks = [], []
        threads, count = run.threads, len(self.pixels)
        first = int(denoised is None)
        with runs_reporter(run.reports, count * (first + probes)) as reports:
            for k in range(count):
                own = reports[k * (first + probes) :][: first + probes]
                frame = self.frame(k, options, threads)
                if k == 0:
                    self._warn(frame.plan.doubt)
                if denoised is None:
                    one = _details_of_frame(frame, threads, own[0])
                else:
                    one = frame_details(frame, [self.layout.frames(denoised)[0]])
                found.append(one)
                if not one.has_pixels:
                    continue
                levels = frame_of(self.levels, k)
                again = replace(options, noise=frame.plan.noise, method=frame.plan.recipe)
                risks.append(risk_of(frame, levels, one.result, again, threads, own[first:]))
        dtype = self.pixels.dtype
        details = details_of(found, self.layout, self.noise_given, dtype)
        return quality_from(risks, details, dtype, peak)

    def _each(
        self, options: Options, run: Run, work: Callable[[NoisyPixels, int, Progress], Any]
    ) -> Generator[Any]:
        """Yield what `work` returns for each image; each small image is left to a single worker."""
        threads, progress = run.threads, run.reports
        if self.layout.stack is None:
            frame = self.frame(0, options, threads)
            self._warn(frame.plan.doubt)
            result = work(frame, threads, progress)
            if frame.outliers is not None:  # to find them once
                known = self._measurements[0]
                facts = replace(known.facts, outliers=frame.outliers)
                self._measurements[0] = known._replace(facts=facts)
            yield result
            return
        # A small image has too few blocks to keep several workers busy.
        is_small = self.pixels[0].size <= _SMALL_IMAGE
        at_once = min(threads, len(self.pixels)) if is_small else 1

        def work_on(k: int) -> tuple[str, Any]:
            frame = self.frame(k, options, threads // at_once)
            return frame.plan.doubt, work(frame, threads // at_once, False)

        with (
            progress_reporter(progress, len(self.pixels), "image") as tick,
            closing(in_order(work_on, range(len(self.pixels)), at_once)) as results,
        ):
            for k, (doubt, result) in enumerate(results):
                if k == 0:  # the same noise for all
                    self._warn(doubt)
                yield result
                tick()


def _details_of_frame(frame: NoisyPixels, workers: int, progress: Progress) -> FrameDetails:
    return frame_details(frame, steps_of_frame(frame, workers, progress))
