"""nlridge in VapourSynth: a filter that removes noise from a clip.

Frames can be asked for in any order. They are denoised one after the other from wherever they are asked for, with those
around that they depend on, so each is the same whatever was asked for before.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import vapoursynth as vs

from .api.arguments import checked_workers
from .api.sequences import checked_frames, with_similar
from .apps.jobs.frames import adjustments_of, sigma_of
from .core.algorithm.settings import Recipe
from .core.algorithm.tuning import Tuning
from .errors import ArgumentError, ArgumentTypeError
from .files.video.pixels import Parts, luma_of
from .noise import Noise
from .planning.doubts import warn_about
from .planning.frames import SourceFrame
from .planning.layout import SequenceAxis
from .planning.options import Options, checked_options
from .planning.sequences import SequencePlan, plan_sequence
from .types import Pixels

__all__ = ["denoise"]

_KEPT = 32  # denoised frames: those that other filters ask for out of order
_READ = 128  # noisy frames: those that chroma needs soon after luma


def denoise(
    clip: vs.VideoNode,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    workers: int | None = None,
) -> vs.VideoNode:
    """Remove noise from a clip.

    Similar patches are also searched for in the frames before and after. Luma and chroma are denoised separately, each
    at its own size, but similar patches of chroma are those of the luma; red, green and blue are denoised together.

    Parameters
    ----------
    clip : vapoursynth.VideoNode
        Gray, YUV or RGB frames of a constant format: integers of 8 to 16 bits, or floats.
    sigma : float or sequence of 3 floats, optional
        Standard deviation of the noise, in the units of the pixels. A single number is that of the luma, from which that
        of smaller chroma planes is computed. Estimated from eight frames of the clip by default.
    noise, strength, color, method, workers
        As in `nlridge.denoise`.

    Returns
    -------
    vapoursynth.VideoNode
        A clip of the same format, length and properties. Frames are those of `nlridge.denoise` with ``time_axis``, bit
        for bit, and those of chroma of `nlridge.denoise_frames` with ``similar``; integers are rounded and clipped.

    Examples
    --------
    >>> import vapoursynth as vs
    >>> import nlridge.vapoursynth
    >>> clip = vs.core.std.BlankClip(format=vs.GRAY8, width=64, height=48, length=3, color=90)
    >>> clean = nlridge.vapoursynth.denoise(clip, sigma=5)
    >>> clean.format.name, clean.num_frames
    ('Gray8', 3)
    """
    if not isinstance(clip, vs.VideoNode):
        raise ArgumentTypeError("clip", clip, "a VideoNode of VapourSynth")
    if clip.format.color_family == vs.UNDEFINED or 0 in (clip.width, clip.height):
        raise ArgumentError("clip", clip, "a constant one", found="has a variable format or size")
    parts, peak = _parts_of(clip.format)
    threads = checked_workers(workers)
    read = lru_cache(_READ)(clip.get_frame)  # for all parts
    streams = []
    for number, planes in enumerate(parts.planes):
        level = sigma_of(_as_list(sigma), parts, number)
        tuned = adjustments_of({"strength": strength, "color": color}, parts, number)
        options = checked_options(level, noise, method, peak, Tuning(**tuned), None)
        streams.append(
            _Stream(_reader(read, planes, parts, options), clip.num_frames, options, threads)
        )

    def with_denoised_planes(n: int, f: vs.VideoFrame) -> vs.VideoFrame:
        frame = f.copy()
        for planes, stream in zip(parts.planes, streams, strict=True):
            for number, values in zip(planes, stream.frame(n), strict=True):
                out = np.asarray(frame[number])
                if peak is None:
                    out[...] = values
                else:
                    np.clip(np.rint(values), 0, peak, out=out, casting="unsafe")
        return frame

    return clip.std.ModifyFrame(clip, with_denoised_planes)


def _parts_of(format: Any) -> tuple[Parts, int | None]:
    """Return the images that a frame consists of, and the largest value of integers."""
    shrink = 1 << format.subsampling_h, 1 << format.subsampling_w
    planes: tuple[tuple[int, ...], ...] = (tuple(range(format.num_planes)),)
    if format.color_family == vs.YUV:
        planes = ((0,), (1, 2))
    parts = Parts(planes, format.bits_per_sample, shrink)
    if format.sample_type == vs.FLOAT:
        return parts, None
    if format.bits_per_sample > 16:
        raise ArgumentError(
            "clip", format.name, "8 to 16 bits, or floats", found=f"has the format {format.name}"
        )
    return parts, parts.peak


def _as_list(sigma: Any) -> Any:
    """Several values as a list of Python's numbers, as the command line passes them."""
    return sigma if sigma is None or np.ndim(sigma) == 0 else np.asarray(sigma).tolist()


def _reader(
    read: Callable[[int], vs.VideoFrame], planes: tuple[int, ...], parts: Parts, options: Options
) -> Callable[[int], SourceFrame]:
    """Return the function that reads some planes of a frame as an image."""

    def pixels_of(frame: vs.VideoFrame, planes: tuple[int, ...]) -> Pixels:
        pixels = np.stack([np.asarray(frame[plane]) for plane in planes])
        if pixels.dtype == np.float16:
            pixels = pixels.astype(np.float32)
        return pixels if len(planes) > 1 else pixels[0]

    def image(number: int) -> SourceFrame:
        frame, is_chroma = read(number), planes != parts.planes[0]
        axis = 0 if len(planes) > 1 else None
        checked = checked_frames(iter([pixels_of(frame, planes)]), options, channel_axis=axis)
        if is_chroma:
            luma = luma_of((pixels_of(frame, parts.planes[0]),), parts)
            checked = with_similar(checked, iter([luma]))
        return next(checked)[0]

    return image


class _Stream:
    """The denoised images of a clip, of which those around the one that was asked for last are kept."""

    def __init__(
        self, read: Callable[[int], SourceFrame], count: int, options: Options, workers: int
    ) -> None:
        self._read = read
        self._count = count
        self._options = options
        self._workers = workers
        self._planned: SequencePlan | None = None
        self._results: Generator[list[Pixels]] | None = None
        self._next = 0
        """The number of the frame that comes next."""
        self._kept: OrderedDict[int, Pixels] = OrderedDict()
        self._lock = Lock()

    def frame(self, number: int) -> Pixels:
        """Return a denoised image of (channels, height, width)."""
        with self._lock:
            planned = self._plan()
            if number not in self._kept:
                # It takes less to go on than to start again if the frame is near.
                near = self._next <= number <= self._next + sum(planned.reach)
                if self._results is None or not near:
                    self._start(planned, number)
                self._advance(number)
            return self._kept[number]

    def _plan(self) -> SequencePlan:
        if self._planned is None:
            axis = SequenceAxis("time_axis", 0)
            self._planned = plan_sequence(
                self._read, self._count, self._options, axis, self._workers
            )
            warn_about(self._planned.plan.doubt)
        return self._planned

    def _start(self, planned: SequencePlan, number: int) -> None:
        if self._results is not None:
            self._results.close()
        frames = range(number, self._count)
        self._results = planned.run(self._read, self._workers, frames=frames)
        self._next = number

    def _advance(self, number: int) -> None:
        assert self._results is not None
        while self._next <= number:
            self._kept[self._next] = next(self._results)[-1]
            self._next += 1
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
