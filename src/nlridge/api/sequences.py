"""Frames that belong together: in memory along an axis of time or depth, or as they arrive (`denoise_frames`)."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, pairwise
from operator import index
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..checks import checked_positive
from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..core.arrays import library
from ..core.engines.grid import whole_window
from ..errors import ArgumentError, ArgumentTypeError, shown
from ..noise import Noise
from ..planning.conversion import result_type, to_dtype
from ..planning.doubts import warn_about
from ..planning.elsewhere import explained
from ..planning.frames import SourceFrame, denoised_frames
from ..planning.layout import Layout, SequenceAxis, window_of
from ..planning.levels import levels_of, usable_levels
from ..planning.missing import expect_numbers
from ..planning.options import Options, checked_options
from ..planning.pixels import NoisyPixels
from ..planning.plan import Plan
from ..planning.sequences import SAMPLED, SequencePlan, has_pixels, plan_sequence, plan_video
from ..progress import progress_reporter
from ..types import Array, Mask, Pixels
from .arguments import checked_image, checked_workers, frame_of, missing_pixels
from .details import Denoised, details_of, frame_details
from .measured import Measured, Run, with_type
from .quality import Quality


def checked_sequence(time_axis: Any, depth_axis: Any, spacing: Any = None) -> SequenceAxis | None:
    """Check these arguments of `denoise`; None if there is no such axis."""
    if time_axis is not None and depth_axis is not None:
        raise ArgumentError(
            "time_axis",
            time_axis,
            "one of them, and `stack_axis` for the other",
            f"is {shown(time_axis)} and `depth_axis` is {shown(depth_axis)}",
        )
    if spacing is not None and depth_axis is None:
        raise ArgumentError("spacing", spacing, "None without `depth_axis`")
    if time_axis is not None:
        return SequenceAxis("time_axis", time_axis)
    return None if depth_axis is None else SequenceAxis("depth_axis", depth_axis, _checked(spacing))


def _checked(spacing: Any) -> tuple[float, float, float] | None:
    if spacing is None:
        return None
    try:
        values = tuple(spacing)
    except TypeError:
        values = ()
    if len(values) != 3:
        raise ArgumentError(
            "spacing", spacing, "three numbers: the depth, height and width of a voxel"
        )
    depth, height, width = (checked_positive("spacing", value) for value in values)
    return depth, height, width


class ArrayFrames(NamedTuple):
    """Frames in memory."""

    pixels: Pixels
    """(frames, channels, height, width)"""
    masked: Mask | None
    levels: Array
    """The levels of the noise, which broadcast against the pixels."""

    def frame(self, k: int) -> SourceFrame:
        """Return a frame, all of whose pixels may be missing."""
        missing = missing_pixels(self.pixels[k], frame_of(self.masked, k), may_be_all=True)
        return SourceFrame(self.pixels[k], missing, frame_of(self.levels, k))


class MeasuredSequences(Measured):
    """A video or a volume in memory, or a stack of them."""

    def __init__(
        self,
        image: Any,
        options: Options,
        axis: SequenceAxis,
        workers: int,
        *,
        mask: Any,
        stack_axis: Any,
        channel_axis: Any,
    ) -> None:
        """Check an image whose frames belong together, and measure it with some threads, unless it is a stack."""
        self.pixels, self.masked, self.layout = checked_image(
            image, mask, stack_axis, channel_axis, axis
        )
        """(stack, frames, channels, height, width)"""
        expect_numbers(self.pixels, options.dtype)
        self.options, self.axis, self.workers = options, axis, workers
        self.levels: Array = np.zeros((1,) * 5)
        """The levels of the noise, which broadcast against the pixels; 0 if they are not given."""
        if options.noise is not None:
            levels = levels_of(options.noise, self.layout)
            self.levels = levels.reshape((1,) * (5 - levels.ndim) + levels.shape)
        self._check()
        self._plans: dict[int, tuple[str | Recipe, Tuning, SequencePlan]] = {}
        if self.layout.stack is None:
            self.sequence_plan(0, options)

    def _check(self) -> None:
        """Check all frames before any of them is denoised."""
        valid = np.zeros(len(self.pixels), bool)
        for k, number in np.ndindex(self.pixels.shape[:2]):
            frame = self.frames(k).frame(number)
            valid[k] |= has_pixels(frame).any()
            usable_levels(frame.levels, frame.missing, frame.pixels)
        if not valid.all() and (self.layout.stack is None or not valid.any()):
            raise ArgumentError("image", None, "at least one", "has no valid pixels")

    def frames(self, k: int) -> ArrayFrames:
        """Return the frames of the k-th sequence."""
        return ArrayFrames(self.pixels[k], frame_of(self.masked, k), frame_of(self.levels, k))

    @property
    def axes(self) -> str:
        return self.layout.axes

    @property
    def noise_given(self) -> bool:
        return self.options.noise is not None

    def plan(self, options: Options) -> Plan:
        return self.sequence_plan(0, options).plan

    def sequence_plan(self, k: int, options: Options) -> SequencePlan:
        """Return the plan for the k-th sequence."""
        method, tuning, plan = self._plans.get(k, (None, None, None))
        if plan is None or (method, tuning) != (options.method, options.tuning):
            frames = self.frames(k)
            count = len(frames.pixels)
            plan = plan_sequence(frames.frame, count, options, self.axis, self.workers)
            self._plans[k] = options.method, options.tuning, plan
        return plan

    def denoise(self, options: Options, run: Run) -> Pixels:
        pixels, wanted = self.pixels, self.wanted(run)
        options = with_type(options, run.dtype)
        expect_numbers(pixels, options.dtype)
        dtype = result_type(options, pixels)
        part = self.part(run)
        results = np.empty((len(pixels), len(wanted), *pixels[0, 0][part].shape), dtype)
        for k, result in enumerate(results):
            with self._steps(k, options, run, wanted) as (_, steps):
                for frame, images in zip(result, steps, strict=True):
                    frame[...] = to_dtype(images[-1][part], dtype)
        return self.like_image(results, run.frame)

    def details(self, options: Options, run: Run) -> Denoised:
        layout, wanted, denoised = self.layout, self.wanted(run), []
        for k in range(len(self.pixels)):
            with self._steps(k, options, run, wanted) as (sequence, steps):
                for number, images in zip(wanted, steps, strict=True):
                    denoised.append(frame_details(self._frame(k, number, sequence), images))
        details = details_of(
            denoised, layout, self.noise_given, self.pixels.dtype, (len(self.pixels), len(wanted))
        )
        if run.frame is None:
            return details
        image, pilot, residual = (
            np.asarray(np.take(array, 0, axis=layout.sequence))
            for array in (details.image, details.pilot, details.residual)
        )
        axes = layout.axes.replace("T", "").replace("I", "T")
        return replace(details, image=image, pilot=pilot, residual=residual, axes=axes)

    def quality(self, options: Options, run: Run, peak: float | None, probes: int) -> Quality:
        raise ArgumentError(self.axis.name, self.axis.axis, "None to estimate the quality")

    def wanted(self, run: Run) -> range:
        """Check what is wanted, and return the numbers of the frames."""
        count = self.pixels.shape[1]
        if run.frame is None:
            return range(count)
        try:
            frame = index(run.frame)
        except TypeError:
            raise TypeError(f"frame is {shown(run.frame)}; expected a whole number") from None
        if not -count <= frame < count:
            raise ValueError(f"frame is {frame}; expected a number from {-count} to {count - 1}")
        return range(frame % count, frame % count + 1)

    def part(self, run: Run) -> Any:
        """Return the index of the region that is wanted of each frame, which is computed as a whole."""
        if run.region is None:
            return ...
        window = window_of(run.region, self.layout)
        return window.inside(whole_window(self.pixels.shape[3:]))

    @contextmanager
    def _steps(
        self, k: int, options: Options, run: Run, wanted: range
    ) -> Iterator[tuple[SequencePlan, Iterator[list[Pixels]]]]:
        """Provide the plan for the k-th sequence, and an iterator over the pilots and the results of some frames."""
        threads, progress = run.threads, run.reports
        sequence = self.sequence_plan(k, options)
        if k == 0:  # the same noise for all
            warn_about(sequence.plan.doubt)
        read = self.frames(k).frame
        with progress_reporter(progress, sequence.ticks(), "block") as tick:
            some = wanted if len(wanted) < sequence.count else None
            with closing(sequence.run(read, threads, tick, some)) as steps:
                yield sequence, steps

    def _frame(self, k: int, number: int, sequence: SequencePlan) -> NoisyPixels:
        """Return a frame with its plan."""
        read = self.frames(k).frame
        frame = sequence.with_levels(read(number))
        levels = usable_levels(frame.levels, frame.missing, frame.pixels)
        return NoisyPixels(sequence.plan, frame.pixels, frame.missing, levels)

    def like_image(self, results: Pixels, frame: Any) -> Pixels:
        """Return results in the layout of the image, or of one frame of it."""
        image = self.layout.like_image(results)
        if frame is None or self.layout.sequence is None:
            return image
        one: Pixels = library(image).moveaxis(image, self.layout.sequence, 0)[0]
        return one


@explained
def denoise_frames(
    frames: Iterable[npt.ArrayLike],
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    channel_axis: int | None = None,
    data_range: float | None = None,
    dtype: npt.DTypeLike | None = None,
    workers: int | None = None,
    similar: Iterable[npt.ArrayLike] | None = None,
) -> "DenoisedFrames":
    """Remove noise from the frames of a video as they arrive.

    Similar patches are also searched for in the frames before and after. Only a few dozen frames are in memory at a
    time, so the video may be of any length.

    Parameters
    ----------
    frames : iterable of array_like
        The frames, all of the same shape and type: (height, width), with a third axis if `channel_axis` is given. NaN
        pixels, and the masked pixels of masked arrays, are treated as missing.
    sigma, noise, strength, color, method, data_range, dtype, workers
        As in `denoise`. If the noise or the range is not given, it is estimated once, from the first eight frames.
    channel_axis : int, optional
        Axis of the channels of a frame.
    similar : iterable of array_like, optional
        Another image of each frame, (height, width), in which similar patches are searched for instead: one with more
        detail or less noise, such as the luma of frames of chroma.

    Returns
    -------
    DenoisedFrames
        An iterator over the denoised frames, in order, as `dtype` if it is given. Otherwise, floats keep their type;
        integers become float32. A frame is returned after 36 more have been read with "standard", 12 with "fast" and 60
        with "best", and a dozen more with several workers. Its attributes `noise`, `noise_given` and `doubt` describe the
        noise. Close it to stop early.

    See Also
    --------
    denoise : Denoise a video in memory, with ``time_axis``. The result is the same if the noise and the range are given.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> random = np.random.default_rng(0)
    >>> camera = (100 + random.normal(0, 20, (48, 64)) for _ in range(10))
    >>> spread = [np.std(frame) for frame in nlridge.denoise_frames(camera, sigma=20)]
    >>> len(spread), bool(max(spread) < 3)
    (10, True)
    """
    options = checked_options(sigma, noise, method, data_range, Tuning(strength, color), dtype)
    threads = checked_workers(workers)
    if isinstance(frames, str | PathLike):
        path = shown(fspath(frames))
        raise ArgumentTypeError(
            "frames",
            path,
            f"an iterable of arrays, or the command: nlridge denoise {path}",
            "is {value}",
        )
    try:
        iterator = iter(frames)
    except TypeError:
        raise ArgumentTypeError("frames", frames, "an iterable of arrays") from None
    checked = checked_frames(iterator, options, channel_axis)
    if similar is not None:
        try:
            checked = with_similar(checked, iter(similar))
        except TypeError:
            raise ArgumentTypeError("similar", similar, "an iterable of arrays") from None
    return DenoisedFrames(checked, options, threads)


class DenoisedFrames(Iterator[Pixels]):
    """The denoised frames of a video, one after the other, as `denoise_frames` returns them.

    The noise is known once the first eight frames have been read. Accessing `noise` earlier reads them.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> random = np.random.default_rng(0)
    >>> frames = [100 + random.normal(0, 20, (48, 64)) for _ in range(10)]
    >>> denoised = nlridge.denoise_frames(frames, noise="gaussian")
    >>> bool(abs(denoised.noise.sigma - 20) < 1)
    True
    """

    def __init__(
        self, frames: Iterator[tuple[SourceFrame, Layout]], options: Options, workers: int
    ) -> None:
        self._frames = frames
        self._options = options
        self._workers = workers
        self._results = self._run()

    def __next__(self) -> Pixels:
        return next(self._results)

    def close(self) -> None:
        """Stop, and release all frames and threads."""
        self._results.close()

    @property
    def noise(self) -> Noise:
        """The noise model, as given or as estimated; `print` describes it."""
        return self._planned.plan.noise

    @property
    def noise_given(self) -> bool:
        """Whether the noise was given rather than estimated."""
        return self._options.noise is not None

    @property
    def doubt(self) -> str:
        """Why the given noise is implausible, in a sentence, which is also raised as a warning; otherwise empty."""
        return self._planned.plan.doubt

    @cached_property
    def _first(self) -> list[tuple[SourceFrame, Layout]]:
        """The frames that the plan is made from, each with its layout; more if all of these are missing."""
        first = list(islice(self._frames, SAMPLED))
        if not any(has_pixels(frame).any() for frame, _ in first):
            for pair in self._frames:
                first.append(pair)
                if has_pixels(pair[0]).any():
                    break
        return first

    @cached_property
    def _planned(self) -> SequencePlan:
        if not self._first:
            raise ArgumentError("frames", None, "at least one frame", "is empty")
        frames = [frame for frame, _ in self._first]
        sample = [frame for frame in frames if has_pixels(frame).any()] or frames
        sample = sample[:SAMPLED]
        planned = plan_video(sample, pairwise(sample), self._options, len(frames), self._workers)
        warn_about(planned.plan.doubt)
        return planned

    def _run(self) -> Generator[Pixels]:
        if not self._first:
            return
        planned, layout = self._planned, self._first[0][1]
        frames = (planned.with_levels(frame) for frame, _ in chain(self._first, self._frames))
        for *_, result in denoised_frames(
            frames,
            planned.plan,
            level_planes=planned.level_planes,
            has_similar=planned.has_similar,
            workers=self._workers,
        ):
            yield to_dtype(layout.like_image(result[None]), result_type(self._options, result))


def checked_frames(
    frames: Iterator[Any], options: Options, channel_axis: Any
) -> Iterator[tuple[SourceFrame, Layout]]:
    """Yield each frame and its layout, which is the same for all."""
    expected = None
    for number, frame in enumerate(frames):
        pixels, masked, layout = checked_image(
            frame, None, channel_axis=channel_axis, may_be_stack=False
        )
        expect_numbers(pixels, options.dtype)
        if expected is None:
            expected = layout, pixels.dtype
        if (layout, pixels.dtype) != expected:
            raise ValueError(
                f"frame {number} has shape {layout.shape} and dtype {pixels.dtype}; expected those of the "
                f"first one, {expected[0].shape} and {expected[1]}"
            )
        levels: Array = np.zeros((1, 1, 1, 1))
        if options.noise is not None:
            levels = levels_of(options.noise, layout)
        missing = missing_pixels(pixels[0], frame_of(masked, 0), may_be_all=True)
        yield SourceFrame(pixels[0].copy(), missing, levels[0]), layout


def with_similar(
    frames: Iterator[tuple[SourceFrame, Layout]], similar: Iterator[Any]
) -> Iterator[tuple[SourceFrame, Layout]]:
    """Yield each frame with the image in which its similar patches are searched for."""
    for frame, layout in frames:
        image = next(similar, None)
        if image is None:
            raise ArgumentError("similar", None, "one image for each frame", "has fewer")
        pixels = np.ma.filled(np.ma.asarray(image, dtype=np.float64), np.nan)
        if pixels.shape != frame.pixels.shape[1:]:
            raise ArgumentError("similar", pixels.shape, f"the shape {frame.pixels.shape[1:]}", "has the shape {value}")  # fmt: skip
        yield frame._replace(similar=pixels[None]), layout
