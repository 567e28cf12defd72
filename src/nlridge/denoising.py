"""The public functions: check the arguments, decide the noise and the recipe, run, give back what the caller expects."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from .arguments import (
    Mask,
    Progress,
    checked_image,
    checked_method,
    checked_noise,
    checked_positive,
    checked_progress,
    checked_stack,
    checked_workers,
    missing_pixels,
)
from .engines import cpu
from .framework import two_steps
from .missing import fill
from .noise import Noise
from .noise.estimation import estimate_noise
from .recipes import Recipe, recipe


def denoise(
    image: npt.ArrayLike,
    sigma: float | None = None,
    *,
    noise: Noise | None = None,
    strength: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    stack_axis: int | None = None,
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> npt.NDArray[np.floating[Any]]:
    """Remove the noise from a gray image, or from each image of a stack.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The noisy image, of integers or floats in any range: whatever NumPy takes for an array. It is
        not written to. Pixels that are NaN, or masked in a masked array, are missing (see `mask`).
    sigma : float, optional
        Standard deviation of white Gaussian noise, in the image's own units.
    noise : Gaussian or PoissonGaussian, optional
        What the noise is, instead of `sigma`. With neither of them it is estimated from the image, as
        `estimate_noise` does.
    strength : float
        1 removes the noise as given or estimated; less or more counts it as that much weaker or stronger.
    method : str or Recipe
        "standard" is the best choice for most images, "fast" takes less time; "nl-ridge",
        "nl-bayes" and "bm3d" are the published algorithms. A `Recipe` sets everything by hand.
    mask : array_like of bool of the image's shape, optional
        True for pixels that are missing, besides those that are NaN. Their values have no influence on
        the others, and come back as they were.
    stack_axis : int, optional
        The axis along which images are stacked, if `image` is a stack of them, of three dimensions.
        Each is denoised by itself, with its own estimate of the noise if it is estimated.
    data_range : float, optional
        The range of the image's values, by which patch and group sizes are chosen: 255 sigma /
        data_range is looked up in the method's table of settings. By default 255 for uint8, and
        otherwise the range of the means of blocks of 8 x 8 pixels (fewer in a small image) without the
        extreme .1 % at either end.
    workers : int, optional
        Number of threads, by default one for each core that the process may use. The result is the
        same for every number.
    progress : bool or callable
        True shows a progress bar; a function is called with (done, total).

    Returns
    -------
    ndarray of the image's shape
        The denoised image, in the units of the input and neither rounded nor clipped: floats of the
        input's width, float32 for integers.

    See Also
    --------
    denoise_with_details : the same, and what was found and done on the way.

    Notes
    -----
    The time is proportional to the number of pixels. The memory taken is about four float32 images.

    Images that are smaller than the search window, or even smaller than a patch, are denoised with
    what they have: fewer patches in a group, and square patches that are at most half as wide as the
    image. An image that is only a few pixels wide changes little.

    Scaling image, sigma and data_range by the same power of two scales the result exactly.

    An image whose noise is below a ten-thousandth of its range is given back as it is.

    Missing pixels are filled in by a mean of their neighbours for the first step, and by its result for
    the second.

    References
    ----------
    .. [1] S. Herbreteau and C. Kervrann, "Towards a unified view of unsupervised non-local methods
       for image denoising: the NL-Ridge approach", ICIP 2022.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> clean = np.tile(np.linspace(0, 200, 64), (64, 1))
    >>> noisy = clean + np.random.default_rng(0).normal(0, 20, clean.shape)
    >>> denoised = nlridge.denoise(noisy, sigma=20)
    >>> bool(np.std(denoised - clean) < 4)
    True
    >>> blind = nlridge.denoise(noisy)
    >>> bool(np.std(blind - clean) < 4)
    True
    """
    prepare = _checked_options(sigma, noise, strength, method, data_range)
    threads, progress = checked_workers(workers), checked_progress(progress)
    if stack_axis is None:
        pixels, missing = checked_image(image, mask)
        job = prepare(pixels, missing)
        with _ticking(progress, job.blocks(), "block") as tick:
            return job.result(threads, tick)

    frames, masks, axis = checked_stack(image, mask, stack_axis)
    denoised = np.empty(frames.shape, _float_type(frames.dtype))
    with _ticking(progress, len(frames), "image") as tick:
        for frame, gone, out in zip(frames, masks, denoised, strict=True):
            out[...] = _denoised_frame(frame, gone, prepare, threads)
            tick()
    return np.moveaxis(denoised, 0, axis)


@dataclass(frozen=True, eq=False)
class Denoised:
    """A denoised image, and what was found and done on the way."""

    image: npt.NDArray[np.floating[Any]]
    """The result, as `denoise` gives it."""
    pilot: npt.NDArray[np.floating[Any]]
    """The result of the first step."""
    residual: npt.NDArray[np.floating[Any]]
    """What was removed: the input less the result."""
    noise: Noise
    """The noise that was removed, as given or as estimated; `print` says what it is."""
    recipe: Recipe
    """The settings that were used."""


def denoise_with_details(
    image: npt.ArrayLike,
    sigma: float | None = None,
    *,
    noise: Noise | None = None,
    strength: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Denoised:
    """Remove the noise from a gray image, and tell what was found and done.

    Parameters
    ----------
    image, sigma, noise, strength, method, mask, data_range, workers, progress
        As for `denoise`.

    Returns
    -------
    Denoised
        The image, the pilot (the result of the first step), the residual, the noise and the recipe.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> noisy = 100 + np.random.default_rng(0).normal(0, 20, (64, 64))
    >>> found = nlridge.denoise_with_details(noisy, sigma=20)
    >>> print(found.noise)
    Gaussian noise with a standard deviation of 20
    >>> bool(np.std(found.residual) > 5 * np.std(found.image))
    True
    """
    prepare = _checked_options(sigma, noise, strength, method, data_range)
    threads, progress = checked_workers(workers), checked_progress(progress)
    pixels, missing = checked_image(image, mask)
    job = prepare(pixels, missing)
    with _ticking(progress, job.blocks(), "block") as tick:
        pilot, *rest = (job.finished(image) for image in job.run(threads, tick))
    result = rest[-1] if rest else pilot.copy()
    residual = np.subtract(pixels, result, dtype=np.float64).astype(result.dtype)
    return Denoised(result, pilot, residual, job.noise, job.recipe)


@dataclass(frozen=True, eq=False)
class _Job:
    """One image, and all that has been decided about it."""

    pixels: npt.NDArray[Any]
    missing: Mask | None
    noise: Noise
    recipe: Recipe
    level: float  # of the noise, after it has been stabilised; 0 leaves the image as it is
    strength: float

    @property
    def scale(self) -> float:
        """The power of two that brings the noise near 1, where float32 is at its best."""
        return math.ldexp(1.0, -round(math.log2(self.level)))

    def blocks(self) -> int:
        if self.level == 0:
            return 0
        steps = filter(None, (self.recipe.first, self.recipe.second))
        return sum(len(list(cpu.blocks(self.pixels.shape, step))) for step in steps)

    def run(self, workers: int, tick: Callable[[], None]) -> Iterator[npt.NDArray[Any]]:
        """The pilot and the result, in the units of the stabilised and scaled image."""
        if self.level == 0:
            yield self.pixels
            return
        noisy = np.empty(self.pixels.shape, np.float32)
        for rows in _bands(noisy):
            stable = self.noise.stabilise(self.pixels[rows])
            np.multiply(stable, self.scale, out=noisy[rows], dtype=np.float64, casting="unsafe")
        if self.missing is not None:
            noisy = fill(noisy, self.missing)
        largest = float(max(abs(noisy.max()), abs(noisy.min())))
        if not largest < 1e12:
            raise ValueError(
                f"sigma is {self.level}; expected at least 1e-12 of the image's largest value, "
                f"{largest / self.scale:.4g}"
            )
        run = partial(cpu.step, workers=workers, tick=tick)
        yield from two_steps(
            noisy,
            self.level * self.scale,
            self.recipe,
            run,
            strength=self.strength,
            missing=self.missing,
        )

    def result(self, workers: int, tick: Callable[[], None]) -> npt.NDArray[np.floating[Any]]:
        """The last of what `run` gives, finished."""
        for stabilised in self.run(workers, tick):
            last = stabilised  # the pilot is let go of
        return self.finished(last)

    def finished(self, stabilised: npt.NDArray[Any]) -> npt.NDArray[np.floating[Any]]:
        """What the caller gets: the image's own units, floats of its width, missing pixels as they were."""
        restored = np.empty(self.pixels.shape, _float_type(self.pixels.dtype))
        if self.level == 0:
            restored[...] = self.pixels
            return restored
        for rows in _bands(restored):
            values = np.divide(stabilised[rows], self.scale, dtype=np.float64)
            restored[rows] = self.noise.restore(values)
        if self.missing is not None:
            restored[self.missing] = self.pixels[self.missing]
        return restored


Prepare: TypeAlias = Callable[[npt.NDArray[Any], Mask | None], _Job]


def _checked_options(
    sigma: Any, noise: Any, strength: Any, method: Any, data_range: Any
) -> Prepare:
    """All options but the image, as a function of the image that decides the rest."""
    return partial(
        _decided,
        noise=checked_noise(sigma, noise),
        strength=checked_positive("strength", strength),
        method=checked_method(method),
        data_range=None if data_range is None else checked_positive("data_range", data_range),
    )


def _bands(image: npt.NDArray[Any]) -> Iterator[slice]:
    """Some rows at a time, so that what is computed in float64 is never a whole large image."""
    rows = max(1, 2**20 // image.shape[1])
    for top in range(0, image.shape[0], rows):
        yield slice(top, top + rows)


def _decided(
    pixels: npt.NDArray[Any],
    missing: Mask | None,
    noise: Noise | None,
    strength: float,
    method: str | Recipe,
    data_range: float | None,
) -> _Job:
    """What is not given is found out."""
    found = estimate_noise(pixels, mask=missing) if noise is None else noise
    level = found.level
    spread = _stable_range(pixels, missing, found, data_range)
    if level <= 1e-4 * spread:
        level = 0.0  # nobody would see it, and float32 could not resolve its square
    chosen = recipe(method, level, spread) if isinstance(method, str) else method
    return _Job(pixels, missing, found, chosen.within(pixels.shape), level, strength)


def _denoised_frame(
    frame: npt.NDArray[Any], missing: Mask | None, prepare: Prepare, workers: int
) -> npt.NDArray[Any]:
    missing = missing_pixels(frame, missing)
    if missing is not None and missing.all():
        return frame
    return prepare(frame, missing).result(workers, lambda: None)


def _stable_range(
    pixels: npt.NDArray[Any], missing: Mask | None, noise: Noise, data_range: float | None
) -> float:
    """The range of the image, after the noise has been stabilised."""
    if data_range is not None:
        low = getattr(noise, "black_level", 0.0)
        ends = np.array([low, low + data_range])
    else:
        ends = np.array(typical_ends(pixels, missing))
    low, high = noise.stabilise(ends)
    return float(high - low)


def typical_ends(image: npt.NDArray[Any], missing: Mask | None = None) -> tuple[float, float]:
    """The darkest and the brightest of an image with its noise averaged out (see `data_range` of `denoise`).

    The range of the pixels themselves grows with the noise, and with every hot pixel.
    """
    if image.dtype == np.uint8:
        return 0.0, 255.0
    if missing is not None:
        if missing.all():
            return 0.0, 0.0
        image = np.where(missing, image[~missing].mean(dtype=np.float64), image)
    height, width = (min(8, max(1, length // 4)) for length in image.shape)  # at least 4 blocks
    rows, columns = image.shape[0] // height, image.shape[1] // width
    blocks = image[: rows * height, : columns * width].reshape(rows, height, columns, width)
    low, high = np.percentile(blocks.mean(axis=(1, 3), dtype=np.float64), [0.1, 99.9])
    return float(low), float(high)


def _float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float32)


@contextmanager
def _ticking(progress: Progress, total: int, unit: str) -> Iterator[Callable[[], None]]:
    """A function that is to be called `total` times, and passes that on as the caller wants it."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if callable(progress):
            progress(done, total)

    if progress is True:
        with tqdm(total=total, desc="denoising", unit=unit, leave=False) as bar:

            def advance() -> None:
                bar.update()

            yield advance
    else:
        yield tick
