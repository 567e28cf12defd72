"""Frames that belong together: `denoise` with `time_axis` or `depth_axis`, and `denoise_frames`."""

from collections.abc import Generator, Iterable, Iterator
from functools import cached_property
from itertools import chain, islice
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..algorithm.settings import Recipe
from ..algorithm.tuning import Tuning
from ..checks import checked_positive, shown
from ..noise import Noise
from ..planning.doubts import warn_about
from ..planning.elsewhere import explained
from ..planning.layout import Layout
from ..planning.levels import levels_of, usable_levels
from ..planning.missing import expect_numbers
from ..planning.options import Options, checked_options
from ..progress import Progress, progress_reporter
from ..video.planning import (
    SAMPLED,
    SequenceAxis,
    SequencePlan,
    has_pixels,
    plan_sequence,
    plan_video,
)
from ..video.run import SourceFrame, denoised_frames
from .arguments import (
    checked_image,
    checked_workers,
    frame_of,
    missing_pixels,
)
from .conversion import result_type, to_dtype

Mask = npt.NDArray[np.bool_]


def checked_sequence(time_axis: Any, depth_axis: Any, spacing: Any) -> SequenceAxis | None:
    """Check these arguments of `denoise`; None if there is no such axis."""
    if time_axis is not None and depth_axis is not None:
        raise ValueError(
            f"time_axis is {shown(time_axis)} and depth_axis is {shown(depth_axis)}; expected one of them, "
            "and stack_axis for the other"
        )
    if spacing is not None and depth_axis is None:
        raise ValueError(f"spacing is {shown(spacing)}; expected None without depth_axis")
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
        raise ValueError(
            f"spacing is {shown(spacing)}; expected three numbers: the depth, height and width of a voxel"
        )
    depth, height, width = (checked_positive("spacing", value) for value in values)
    return depth, height, width


class ArrayFrames(NamedTuple):
    """Frames in memory."""

    pixels: npt.NDArray[Any]
    """(frames, channels, height, width)"""
    masked: Mask | None
    levels: npt.NDArray[np.float64]
    """The levels of the noise, which broadcast against the pixels."""

    def frame(self, k: int) -> SourceFrame:
        """Return a frame, all of whose pixels may be missing."""
        missing = missing_pixels(self.pixels[k], frame_of(self.masked, k), may_be_all=True)
        return SourceFrame(self.pixels[k], missing, frame_of(self.levels, k))


class Sequences(NamedTuple):
    """An image with frames that belong together; several such sequences if it is a stack."""

    pixels: npt.NDArray[Any]
    """(stack, frames, channels, height, width)"""
    masked: Mask | None
    levels: npt.NDArray[np.float64] | None
    """The levels of the noise, if given, which broadcast against the pixels."""
    layout: Layout
    options: Options
    axis: SequenceAxis
    workers: int
    """Threads to estimate the noise with."""

    def frames(self, k: int) -> ArrayFrames:
        """Return the frames of the k-th sequence."""
        levels = np.zeros((1, 1, 1, 1)) if self.levels is None else frame_of(self.levels, k)
        return ArrayFrames(self.pixels[k], frame_of(self.masked, k), levels)

    def plan(self, k: int) -> SequencePlan:
        """Plan how to denoise the k-th sequence."""
        frames = self.frames(k)
        count = len(frames.pixels)
        return plan_sequence(frames.frame, count, self.options, self.axis, self.workers)

    def check(self) -> None:
        """Check all frames before any of them is denoised."""
        valid = np.zeros(len(self.pixels), bool)
        for k, number in np.ndindex(self.pixels.shape[:2]):
            masked, levels = frame_of(self.masked, k), frame_of(self.levels, k)
            pixels = self.pixels[k, number]
            missing = missing_pixels(pixels, frame_of(masked, number), may_be_all=True)
            valid[k] |= missing is None or not missing.all()
            if levels is not None:
                usable_levels(frame_of(levels, number), missing, pixels)
        if not valid.all() and (self.layout.stack is None or not valid.any()):
            raise ValueError("image has no valid pixels; expected at least one")


def sequences_of(
    image: Any,
    options: Options,
    axis: SequenceAxis,
    *,
    mask: Any,
    stack_axis: Any,
    channel_axis: Any,
    workers: int,
    may_be_stack: bool = True,
) -> Sequences:
    """Check an image with frames that belong together."""
    pixels, masked, layout = checked_image(
        image,
        mask,
        stack_axis,
        channel_axis,
        may_be_stack=may_be_stack,
        sequence_axis=axis.axis,
        sequence_name=axis.name,
    )
    expect_numbers(pixels, options.dtype)
    levels = None
    if options.noise is not None:
        levels = levels_of(options.noise, layout)
        levels = levels.reshape((1,) * (5 - levels.ndim) + levels.shape)
    sequences = Sequences(pixels, masked, levels, layout, options, axis, workers)
    sequences.check()
    return sequences


def denoise_sequences(sequences: Sequences, workers: int, progress: Progress) -> npt.NDArray[Any]:
    """Denoise all frames; returns an array of the shape of the image."""
    pixels = sequences.pixels
    dtype = result_type(sequences.options, pixels)
    results = np.empty(pixels.shape, dtype)
    for k, result in enumerate(results):
        sequence = sequences.plan(k)
        if k == 0:  # the same noise for all
            warn_about(sequence.plan.doubt)
        with progress_reporter(progress, sequence.ticks(), "block") as tick:
            images_of_frames = sequence.run(sequences.frames(k).frame, workers, tick)
            for frame, images in zip(result, images_of_frames, strict=True):
                frame[...] = to_dtype(images[-1], dtype)
    return sequences.layout.like_image(results)


@explained
def denoise_frames(
    frames: Iterable[npt.ArrayLike],
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    colour: float = 1.0,
    method: str | Recipe = "standard",
    channel_axis: int | None = None,
    data_range: float | None = None,
    dtype: npt.DTypeLike | None = None,
    workers: int | None = None,
) -> "DenoisedFrames":
    """Remove noise from the frames of a video as they arrive.

    Similar patches are also searched for in the frames before and after. Only a few dozen frames are in memory at a
    time, so the video may be of any length.

    Parameters
    ----------
    frames : iterable of array_like
        The frames, all of the same shape and type: (height, width), with a third axis if `channel_axis` is given. NaN
        pixels, and the masked pixels of masked arrays, are treated as missing.
    sigma, noise, strength, colour, method, data_range, dtype, workers
        As in `denoise`. If the noise or the range is not given, it is estimated once, from the first eight frames.
    channel_axis : int, optional
        Axis of the channels of a frame.

    Returns
    -------
    DenoisedFrames
        An iterator over the denoised frames, in order, as `dtype` if it is given. Otherwise, floats keep their type;
        integers become float32. A frame is
        returned after 36 more have been read with "standard", 12 with "fast" and 60 with "best", and a dozen more with
        several workers. Its attributes `noise`, `noise_given` and `doubt` describe the noise. Close it to stop early.

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
    options = checked_options(sigma, noise, method, data_range, Tuning(strength, colour), dtype)
    threads = checked_workers(workers)
    if isinstance(frames, str | PathLike):
        path = shown(fspath(frames))
        raise TypeError(
            f"frames is {path}; expected an iterable of arrays, or the command: nlridge denoise {path}"
        )
    try:
        iterator = iter(frames)
    except TypeError:
        raise TypeError(f"frames is {shown(frames)}; expected an iterable of arrays") from None
    return DenoisedFrames(_checked_frames(iterator, options, channel_axis), options, threads)


class DenoisedFrames(Iterator[npt.NDArray[Any]]):
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

    def __next__(self) -> npt.NDArray[Any]:
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
            raise ValueError("frames is empty; expected at least one frame")
        frames = [frame for frame, _ in self._first]
        sample = [frame for frame in frames if has_pixels(frame).any()] or frames
        planned = plan_video(sample[:SAMPLED], self._options, len(frames), self._workers)
        warn_about(planned.plan.doubt)
        return planned

    def _run(self) -> Generator[npt.NDArray[Any]]:
        if not self._first:
            return
        planned, layout = self._planned, self._first[0][1]
        frames = (planned.with_levels(frame) for frame, _ in chain(self._first, self._frames))
        for *_, result in denoised_frames(
            frames, planned.plan, level_planes=planned.level_planes, workers=self._workers
        ):
            yield to_dtype(layout.like_image(result[None]), result_type(self._options, result))


def _checked_frames(
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
        levels = np.zeros((1, 1, 1, 1))
        if options.noise is not None:
            levels = levels_of(options.noise, layout)
        missing = missing_pixels(pixels[0], frame_of(masked, 0), may_be_all=True)
        yield SourceFrame(pixels[0].copy(), missing, levels[0]), layout
