"""Images in memory: their frames, the plan for each frame, and the run of the algorithm."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.framework import denoised
from ..algorithm.passes import all_passes
from ..engines import cpu
from ..engines.grid import lines
from ..noise.estimation import noise_of
from ..noise.gaussian import GaussianNoise
from ..planning.channels import Image, Planes, select_channels
from ..planning.doubts import warn_about
from ..planning.layout import Layout
from ..planning.levels import Levels, levels_of, usable_levels
from ..planning.options import Options
from ..planning.pixels import restored, stabilised
from ..planning.plan import SAMPLE, Facts, Plan, covariance_of, float_type, plan_for
from ..planning.ranges import known_ends, typical_ends
from ..progress import Progress, progress_reporter
from .arguments import checked_image, frame_of, missing_pixels

Pixels = npt.NDArray[Any]
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Frames:
    """An image or a stack as (frames, channels, height, width), with the options for denoising it."""

    pixels: Pixels
    masked: Mask | None
    levels: Array | None
    """Noise levels, if given; they broadcast against the pixels."""
    layout: Layout
    options: Options

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, k: int) -> "Frame":
        """Return the k-th frame with its plan."""
        return frame_for(self.pixels[k], self._missing(k), frame_of(self.levels, k), self.options)

    def _missing(self, k: int) -> Mask | None:
        may_be_all = self.layout.stack is not None
        return missing_pixels(self.pixels[k], frame_of(self.masked, k), may_be_all=may_be_all)

    def check(self) -> None:
        """Check all frames before any of them is denoised."""
        for k, pixels in enumerate(self.pixels):
            missing = self._missing(k)
            if self.levels is not None:
                usable_levels(frame_of(self.levels, k), missing, pixels)


def frames_of(
    image: Any,
    options: Options,
    *,
    mask: Any,
    stack_axis: Any,
    channel_axis: Any,
    may_be_stack: bool = True,
) -> Frames:
    """Check an image and return its frames."""
    pixels, masked, layout = checked_image(
        image, mask, stack_axis, channel_axis, may_be_stack=may_be_stack
    )
    levels = None if options.noise is None else levels_of(options.noise, layout)
    frames = Frames(pixels, masked, levels, layout, options)
    if layout.stack is not None:
        frames.check()
    return frames


def denoise_array(frames: Frames, workers: int, progress: Progress) -> npt.NDArray[Any]:
    """Denoise all frames; returns an array of the shape of the image."""
    if frames.layout.stack is None:
        frame = frames[0]
        warn_about(frame.plan.doubt)
        return frames.layout.like_image(denoise_frame(frame, workers, progress)[None])
    results = np.empty(frames.pixels.shape, float_type(frames.pixels.dtype))
    with progress_reporter(progress, len(frames), "image") as tick:
        for k, result in enumerate(results):
            frame = frames[k]
            if k == 0:  # the same noise for all
                warn_about(frame.plan.doubt)
            result[...] = frame.result(workers, lambda: None)
            tick()
    return frames.layout.like_image(results)


def denoise_frame(frame: "Frame", workers: int, progress: Progress) -> npt.NDArray[Any]:
    """Denoise a frame; returns an array of shape (channels, height, width)."""
    with progress_reporter(progress, frame.blocks(), "block") as tick:
        return frame.result(workers, tick)


@dataclass(frozen=True, eq=False)
class Frame:
    """One image as (channels, height, width), with its plan."""

    pixels: Pixels
    missing: Mask | None
    levels: Levels
    """Levels of the stabilised noise."""
    plan: Plan

    def blocks(self) -> int:
        """Return the number of times that `run` calls `tick`."""
        passes = all_passes(self.plan.recipe, self.plan.shape[1:])
        return len(self.plan.planes) * sum(len(line) for one in passes for line in lines(*one))

    def run(self, workers: int, tick: Callable[[], None]) -> Iterator[npt.NDArray[Any]]:
        """Yield the pilot and the result in the units of the image; nothing if there is no noise to remove."""
        plan, pixels = self.plan, self.pixels
        filled = _any_of(self.missing, self.levels.unreliable, pixels.shape)
        channels = sorted(channel for planes in plan.planes for channel in planes.channels)
        noisy = stabilised(plan, channels, pixels, self.missing, filled)
        engine = partial(cpu.run_pass, workers=workers, tick=tick)
        steps_of_planes = []
        for planes in plan.planes:
            renewed = None
            if filled is not None:
                channels_of_planes = select_channels(noisy, planes.channels)
                renewed = partial(_renewed, planes, channels_of_planes, filled[planes.channels])
            noise = plan.plane_noise(planes, self.levels.all)
            image = planes.of(noisy)
            steps_of_planes.append(
                denoised(image, noise, plan.recipe, engine, plan.tuning, renewed=renewed)
            )
        for images in zip(*steps_of_planes, strict=True):
            yield restored(plan, pixels, images, self.missing)

    def result(self, workers: int, tick: Callable[[], None]) -> npt.NDArray[np.floating[Any]]:
        """Run the algorithm; returns the last image, or the pixels unchanged if there is no noise to remove."""
        last = None
        for image in self.run(workers, tick):
            last = image
        return restored(self.plan, self.pixels, ()) if last is None else last


def frame_for(
    pixels: Pixels, missing: Mask | None, levels: Array | None, options: Options
) -> Frame:
    """Plan the denoising of an image of shape (channels, height, width).

    `levels` are the noise levels, if given, as an array that broadcasts against the image.
    """
    empty: Mask = np.zeros(len(pixels), bool)
    if missing is not None:
        empty = np.asarray(missing.all(axis=(1, 2)))
    noise = options.noise
    if noise is None or levels is None:
        noise = GaussianNoise(0) if empty.all() else noise_of(pixels, missing, options.kind)
        levels = np.asarray(noise.level, np.float64).reshape(-1, 1, 1)
    usable = usable_levels(levels, missing, pixels)
    unknown = _any_of(missing, usable.unknown, pixels.shape)
    ends = known_ends(pixels.dtype, noise.black_level, options.data_range)
    if ends is None:
        ends = [typical_ends(channel) for channel in _channels(pixels, unknown)]
    covariance = covariance_of(noise, usable.typical, _sample(pixels, unknown))
    present = 1.0 if unknown is None else 1 - float(unknown.mean())
    facts = Facts(noise, usable.typical, ends, covariance, empty, pixels.dtype, present)
    return Frame(pixels, missing, usable, plan_for(pixels.shape, facts, options))


def _any_of(one: Mask | None, other: Mask | None, shape: tuple[int, ...]) -> Mask | None:
    """Return the union of two masks, which broadcast against `shape`; None if both are None."""
    masks = [mask for mask in (one, other) if mask is not None]
    if not masks:
        return None
    return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*masks)), shape)


def _renewed(planes: Planes, noisy: Image, filled: Mask, pilot: Image) -> Image:
    """Return the noisy planes, with the values of the pilot where pixels were filled in."""
    return planes.product(np.where(filled, planes.back(pilot), noisy))


def _channels(pixels: Pixels, missing: Mask | None) -> Iterator[Pixels]:
    """Yield each channel, with missing pixels replaced by the mean of the others."""
    for k, channel in enumerate(pixels):
        if missing is None or not missing[k].any():
            yield channel
        else:
            valid = channel[~missing[k]]
            mean = valid.mean(dtype=np.float64) if valid.size else 0.0
            yield np.where(missing[k], channel.dtype.type(mean), channel)


def _sample(pixels: Pixels, missing: Mask | None) -> Pixels:
    """Return a regular sample of the pixels as (channels, count)."""
    if len(pixels) == 1:
        return pixels[:, :1, 0]
    step = -(-pixels[0].size // SAMPLE)
    return np.stack([channel.reshape(-1)[::step] for channel in _channels(pixels, missing)])
