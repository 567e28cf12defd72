"""One image, all that has been decided about it, and the way from its pixels to planes and back."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .channels import Image, Planes, planes_of, taken
from .engines import cpu
from .engines.grid import lines
from .framework import denoised, steps_of
from .levels import Levels, trusted
from .missing import fill
from .noise import Noise, power_of_two
from .noise.estimation import noise_of
from .noise.gaussian import Gaussian
from .patches.matching import BRIGHT
from .recipes import Recipe, recipe

Pixels = npt.NDArray[Any]
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Job:
    """An image of (channels, height, width), and what is to be done with it."""

    pixels: Pixels
    missing: Mask | None
    noise: Noise
    recipe: Recipe
    levels: Levels
    """Of the noise, after it has been stabilised."""
    planes: list[Planes]
    """How its channels are denoised: together, apart, or not at all if they have no noise."""
    strength: float

    @property
    def scales(self) -> Array:
        """For each channel the power of two that brings its noise near 1, where float32 is at its best."""
        return _powers_of_two(self.levels.typical)

    @property
    def variances(self) -> Image:
        """Of the noise of the stabilised and scaled channels; broadcasts against the image."""
        levels = self.levels.all * (
            self.scales[:, None, None] if len(self.levels.all) > 1 else self.scales.max()
        )
        return np.square(levels).astype(np.float32)

    def blocks(self) -> int:
        """How often `run` will tick."""
        steps = steps_of(self.recipe, self.pixels.shape[1:])
        return len(self.planes) * sum(len(line) for step in steps for line in lines(*step))

    def run(self, workers: int, tick: Callable[[], None]) -> Iterator[Sequence[Image]]:
        """The pilot and the result, in planes of the stabilised and scaled image."""
        filled = _any_of(self.missing, self.levels.lost, self.pixels.shape)
        noisy = self.noisy(filled)
        variances = self.variances
        run = partial(cpu.step, workers=workers, tick=tick)
        together = []
        for planes in self.planes:
            image, variance = planes.of(noisy), planes.variance(variances)
            renewed = None
            if filled is not None:
                known = taken(noisy, planes.channels)
                renewed = partial(_renewed, planes, known, filled[planes.channels])
            together.append(
                denoised(image, variance, self.recipe, run, strength=self.strength, renewed=renewed)
            )
        return zip(*together, strict=True)

    def noisy(self, filled: Mask | None) -> Image:
        """The stabilised and scaled image, without gaps."""
        noisy = np.zeros(self.pixels.shape, np.float32)
        for channel in sorted(c for planes in self.planes for c in planes.channels):
            scale = self.scales[channel]
            for rows in _bands(noisy[channel]):
                part = self.pixels[channel, rows]
                if self.missing is not None:
                    part = np.where(self.missing[channel, rows], 0, part)
                stable = self.noise.stabilise(part)
                with np.errstate(over="ignore"):  # looked at below
                    np.multiply(
                        stable, scale, out=noisy[channel, rows], dtype=np.float64, casting="unsafe"
                    )
            if filled is not None:
                noisy[channel, filled[channel]] = 0
            largest = float(max(abs(noisy[channel].max()), abs(noisy[channel].min())))
            if not largest < BRIGHT:
                raise ValueError(
                    f"sigma is {self.levels.typical[channel]:.4g}; expected at least 1e-12 of the image's "
                    f"largest value, {largest / scale:.4g}"
                )
            if filled is not None and filled[channel].any():
                noisy[channel] = fill(noisy[channel], filled[channel])
        return noisy

    def result(self, workers: int, tick: Callable[[], None]) -> npt.NDArray[np.floating[Any]]:
        """The last of what `run` gives, finished."""
        last: Sequence[Image] = ()
        for images in self.run(workers, tick):
            last = images
        return self.finished(last)

    def finished(self, images: Sequence[Image]) -> npt.NDArray[np.floating[Any]]:
        """What the caller gets: the image's own units, floats of its width, missing pixels as they were."""
        restored = np.empty(self.pixels.shape, float_type(self.pixels.dtype))
        restored[...] = self.pixels
        largest = min(float(np.finfo(restored.dtype).max), np.finfo(np.float64).max)
        for planes, image in zip(self.planes, images, strict=True):
            for channel, stabilised in zip(planes.channels, planes.back(image), strict=True):
                for rows in _bands(stabilised):
                    with np.errstate(over="ignore"):
                        values = np.divide(stabilised[rows], self.scales[channel], dtype=np.float64)
                    values = self.noise.restore(values)
                    # A result may be a little larger than all that went in.
                    values = np.clip(values, -largest, largest)
                    if self.missing is not None:
                        gone = self.missing[channel, rows]
                        values = np.where(gone, self.pixels[channel, rows], values)
                    restored[channel, rows] = values
        return restored


def decided(
    pixels: Pixels,
    missing: Mask | None,
    levels: Array | None,
    noise: Noise | None,
    strength: float,
    method: str | Recipe,
    data_range: float | None,
) -> Job:
    """What is to be done with an image of (channels, height, width); what is not given is found out.

    `levels` are those of the noise, if it is given, as an array that broadcasts against the image.
    """
    gone: npt.NDArray[np.bool_] = np.zeros(len(pixels), bool)
    if missing is not None:
        gone = np.asarray(missing.all(axis=(1, 2)))
    if noise is None or levels is None:
        noise = Gaussian(0) if gone.all() else noise_of(pixels, missing)
        levels = np.asarray(noise.level, np.float64).reshape(-1, 1, 1)
    found = trusted(levels, missing, pixels)
    unknown = _any_of(missing, found.hopeless, pixels.shape)
    if data_range is None:
        ends = [typical_ends(channel) for channel in _channels(pixels, unknown)]
    else:
        ends = [(noise.black_level, noise.black_level + data_range)]
    return settled(
        pixels,
        missing,
        noise,
        found,
        ends,
        partial(_sample, pixels, unknown),
        strength,
        method,
        gone,
    )


def settled(
    pixels: Pixels,
    missing: Mask | None,
    noise: Noise,
    levels: Levels,
    ends: Sequence[tuple[float, float]],
    sample: Callable[[], Pixels],
    strength: float,
    method: str | Recipe,
    gone: npt.NDArray[np.bool_],
) -> Job:
    """What is to be done with an image of which everything is known that concerns all of it.

    `ends` are the darkest and the brightest of all channels or of each, `sample` gives some pixels of all of them,
    and `gone` says which have no pixels at all.  The image itself is not looked at.
    """
    with np.errstate(invalid="ignore"):  # of a model that knows no bounds
        spans = np.ptp([noise.stabilise(np.array(some, np.float64)) for some in ends], axis=1)
    ranges = np.broadcast_to(spans, len(gone))
    # Less than a ten-thousandth nobody would see, and float32 could not resolve its square.
    noisy = (levels.typical > np.maximum(1e-4 * ranges, 1e-300)) & ~gone
    levels = levels._replace(typical=np.where(noisy, levels.typical, 0.0))
    if isinstance(method, str):
        spread = _rms(ranges[noisy]) if noisy.any() else 1.0
        chosen = recipe(method, _rms(levels.typical[noisy]) if noisy.any() else 1.0, spread)
    else:
        chosen = method
    some = noise.stabilise(sample()) if np.count_nonzero(noisy) > 1 else np.zeros((len(gone), 1))
    return Job(
        pixels,
        missing,
        noise,
        chosen.within(pixels.shape[1:]),
        levels,
        planes_of(some, levels.typical, _powers_of_two(levels.typical)),
        strength,
    )


def _any_of(one: Mask | None, other: Mask | None, shape: tuple[int, ...]) -> Mask | None:
    """The pixels of either mask, which broadcasts against an image of the given shape."""
    masks = [mask for mask in (one, other) if mask is not None]
    if not masks:
        return None
    return np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*masks)), shape)


def _powers_of_two(levels: Array) -> Array:
    return np.array([1 / power_of_two(s) if s > 0 else 0.0 for s in levels])


def _rms(values: Array) -> float:
    largest = float(values.max())
    return largest * math.sqrt(float(np.mean((values / largest) ** 2))) if largest > 0 else 0.0


def _renewed(planes: Planes, noisy: Image, filled: Mask, pilot: Image) -> Image:
    """The planes of the noisy image, with the pilot's values where pixels were filled in."""
    return planes.product(np.where(filled, planes.back(pilot), noisy))


def _channels(pixels: Pixels, missing: Mask | None) -> Iterator[Pixels]:
    """Each channel, with its mean where pixels are missing."""
    for k, channel in enumerate(pixels):
        if missing is None or not missing[k].any():
            yield channel
        else:
            seen = channel[~missing[k]]
            mean = seen.mean(dtype=np.float64) if seen.size else 0.0
            yield np.where(missing[k], mean, channel).astype(channel.dtype)


def _sample(pixels: Pixels, missing: Mask | None) -> Pixels:
    """Some pixels of all channels, (channels, count), enough to see what channels have in common."""
    step = -(-pixels[0].size // 2**20)
    return np.stack([channel.reshape(-1)[::step] for channel in _channels(pixels, missing)])


def typical_ends(channel: Pixels) -> tuple[float, float]:
    """The darkest and the brightest of a channel with its noise averaged out (see `data_range` of `denoise`).

    The range of the pixels themselves grows with the noise, and with every hot pixel.
    """
    if channel.dtype == np.uint8:
        return 0.0, 255.0
    return ends_of(block_means(channel, block_of(channel.shape)))


def block_of(shape: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of the blocks that the noise is averaged out in; there are at least four."""
    height, width = (min(8, max(1, length // 4)) for length in shape)
    return height, width


def block_means(channel: Pixels, block: tuple[int, int]) -> Array:
    """The means of whole blocks."""
    height, width = block
    rows, columns = channel.shape[0] // height, channel.shape[1] // width
    blocks = channel[: rows * height, : columns * width].reshape(rows, height, columns, width)
    found: Array = blocks.mean(axis=(1, 3), dtype=np.float64)
    return found


def ends_of(means: Array) -> tuple[float, float]:
    """The darkest and the brightest of means, but for the extreme .1 %."""
    low, high = np.percentile(means, [0.1, 99.9])
    return float(low), float(high)


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What comes back for a type of pixels: floats of the same width, float32 for integers."""
    return dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float32)


def _bands(plane: Pixels) -> Iterator[slice]:
    """Some rows at a time, so that what is computed in float64 is never a whole large image."""
    rows = max(1, 2**20 // plane.shape[1])
    for top in range(0, plane.shape[0], rows):
        yield slice(top, top + rows)
