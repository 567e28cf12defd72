"""One image, all that has been decided about it, and the way from its pixels to planes and back."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from .channels import Planes, assembled, planes_of
from .engines import cpu
from .framework import two_steps
from .missing import fill
from .noise import Noise
from .noise.estimation import noise_of
from .noise.gaussian import Gaussian
from .recipes import Recipe, recipe

Pixels = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

_FLOOR = 0.01  # of the typical level of the noise: no pixel is trusted more than if it had that


@dataclass(frozen=True, eq=False)
class Job:
    """An image of (channels, height, width), and what is to be done with it."""

    pixels: Pixels
    missing: Mask | None
    noise: Noise
    recipe: Recipe
    levels: npt.NDArray[np.float64]
    """Of the noise, after it has been stabilised: an array that broadcasts against the image."""
    level: float
    """A typical one of them; 0 leaves the image as it is."""
    planes: list[Planes]
    """How its channels are denoised: together, apart, or some of them together."""
    strength: float

    @property
    def scale(self) -> float:
        """The power of two that brings the noise near 1, where float32 is at its best."""
        return math.ldexp(1.0, -round(math.log2(self.level)))

    def blocks(self) -> int:
        """How often `run` will tick."""
        if self.level == 0:
            return 0
        steps = filter(None, (self.recipe.first, self.recipe.second))
        shape = self.pixels.shape[1:]
        return len(self.planes) * sum(len(list(cpu.blocks(shape, step))) for step in steps)

    def run(self, workers: int, tick: Callable[[], None]) -> Iterator[Pixels]:
        """The pilot and the result, in the units of the stabilised and scaled image."""
        if self.level == 0:
            yield self.pixels
            return
        noisy = np.empty(self.pixels.shape, np.float32)
        for part in _parts(noisy):
            stable = self.noise.stabilise(self.pixels[part])
            np.multiply(stable, self.scale, out=noisy[part], dtype=np.float64, casting="unsafe")
        if self.missing is not None:
            noisy = np.stack([fill(c, gone) for c, gone in zip(noisy, self.missing, strict=True)])
        largest = float(max(abs(noisy.max()), abs(noisy.min())))
        if not largest < 1e12:
            raise ValueError(
                f"sigma is {self.level}; expected at least 1e-12 of the image's largest value, "
                f"{largest / self.scale:.4g}"
            )
        variances = np.square(self.levels * self.scale, dtype=np.float64).astype(np.float32)
        run = partial(cpu.step, workers=workers, tick=tick)
        together = []
        for planes in self.planes:
            gone = None if self.missing is None else np.any(self.missing[planes.channels], axis=0)
            image, variance = planes.of(noisy), planes.variance(variances)
            together.append(
                two_steps(image, variance, self.recipe, run, strength=self.strength, missing=gone)
            )
        for images in zip(*together, strict=True):
            yield assembled(self.planes, images)

    def result(self, workers: int, tick: Callable[[], None]) -> npt.NDArray[np.floating[Any]]:
        """The last of what `run` gives, finished."""
        for stabilised in self.run(workers, tick):
            last = stabilised  # the pilot is let go of
        return self.finished(last)

    def finished(self, stabilised: Pixels) -> npt.NDArray[np.floating[Any]]:
        """What the caller gets: the image's own units, floats of its width, missing pixels as they were."""
        restored = np.empty(self.pixels.shape, float_type(self.pixels.dtype))
        if self.level == 0:
            restored[...] = self.pixels
            return restored
        for part in _parts(restored):
            values = np.divide(stabilised[part], self.scale, dtype=np.float64)
            restored[part] = self.noise.restore(values)
        if self.missing is not None:
            restored[self.missing] = self.pixels[self.missing]
        return restored


def decided(
    pixels: Pixels,
    missing: Mask | None,
    levels: npt.NDArray[np.float64] | None,
    noise: Noise | None,
    strength: float,
    method: str | Recipe,
    data_range: float | None,
) -> Job:
    """What is to be done with an image of (channels, height, width); what is not given is found out.

    `levels` are those of the noise, if it is given, as an array that broadcasts against the image.
    """
    if missing is not None and missing.all():  # a frame of a stack: it is left as it is
        nothing = np.zeros((1, 1, 1))
        first = recipe(method, 1.0) if isinstance(method, str) else method
        return Job(pixels, missing, noise or Gaussian(0), first, nothing, 0.0, [], strength)
    if noise is None or levels is None:
        noise = noise_of(pixels, missing)
        levels = np.asarray(noise.level, np.float64).reshape(-1, 1, 1)
    levels = _trusted(levels, missing)
    of_channels = np.broadcast_to(np.median(levels, axis=(1, 2)), len(pixels))
    level = float(np.sqrt(np.mean(of_channels**2)))
    spread = _stable_range(pixels, missing, noise, data_range)
    if level <= 1e-4 * spread:
        level = 0.0  # nobody would see it, and float32 could not resolve its square
    chosen = recipe(method, level, spread) if isinstance(method, str) else method
    return Job(
        pixels,
        missing,
        noise,
        chosen.within(pixels.shape[1:]),
        levels,
        level,
        planes_of(noise.stabilise(_sample(pixels, missing)), of_channels) if level else [],
        strength,
    )


def _trusted(levels: npt.NDArray[np.float64], missing: Mask | None) -> npt.NDArray[np.float64]:
    """The levels of the noise where none is far below the typical one: pixels without any are not trusted blindly.

    Where pixels are missing, the level may be anything.
    """
    wrong = ~np.isfinite(levels)
    if wrong.any():
        there = wrong if missing is None else wrong & ~missing
        if there.any():
            raise ValueError(
                f"sigma is not finite in {np.count_nonzero(there)} pixels that are not missing; "
                "expected finite numbers, or such pixels named by mask"
            )
    seen = levels[~wrong & (levels > 0)]
    typical = float(np.median(seen)) if seen.size else 0.0
    return np.maximum(np.where(wrong, typical, levels), _FLOOR * typical)


def _sample(pixels: Pixels, missing: Mask | None) -> Pixels:
    """Some pixels of all channels, (channels, count), enough to see what channels have in common."""
    step = -(-pixels[0].size // 2**20)
    sample = pixels.reshape(len(pixels), -1)[:, ::step]
    if missing is None:
        return sample
    gone = missing.reshape(len(pixels), -1)[:, ::step]
    means = [
        c[~g].mean(dtype=np.float64) if not g.all() else 0
        for c, g in zip(sample, gone, strict=True)
    ]
    return np.where(gone, np.reshape(means, (-1, 1)), sample)


def _stable_range(
    pixels: Pixels, missing: Mask | None, noise: Noise, data_range: float | None
) -> float:
    """The range of the image, after the noise has been stabilised."""
    if data_range is not None:
        low = getattr(noise, "black_level", 0.0)
        ends = np.array([low, low + data_range])
    else:
        ends = np.array(typical_ends(pixels, missing))
    low, high = noise.stabilise(ends)
    return float(high - low)


def typical_ends(image: Pixels, missing: Mask | None = None) -> tuple[float, float]:
    """The darkest and the brightest of an image with its noise averaged out (see `data_range` of `denoise`).

    The range of the pixels themselves grows with the noise, and with every hot pixel.
    """
    if image.dtype == np.uint8:
        return 0.0, 255.0
    if missing is not None:
        if missing.all():
            return 0.0, 0.0
        image = np.where(missing, image[~missing].mean(dtype=np.float64), image)
    channels, *shape = image.shape
    height, width = (min(8, max(1, length // 4)) for length in shape)  # at least 4 blocks
    rows, columns = shape[0] // height, shape[1] // width
    blocks = image[:, : rows * height, : columns * width]
    blocks = blocks.reshape(channels, rows, height, columns, width)
    low, high = np.percentile(blocks.mean(axis=(2, 4), dtype=np.float64), [0.1, 99.9])
    return float(low), float(high)


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What comes back for a type of pixels: floats of the same width, float32 for integers."""
    return dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float32)


def _parts(image: Pixels) -> Iterator[tuple[int, slice]]:
    """Some rows of a channel at a time, so that what is computed in float64 is never a whole large image."""
    channels, height, width = image.shape
    rows = max(1, 2**20 // width)
    for channel in range(channels):
        for top in range(0, height, rows):
            yield channel, slice(top, top + rows)
