"""The public function: check the arguments, choose the recipe, run it, give back what the caller expects."""

import math
import operator
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from .engines import cpu
from .framework import two_steps
from .recipes import Recipe, recipe

Progress: TypeAlias = bool | Callable[[int, int], object]


def denoise(
    image: npt.ArrayLike,
    sigma: float,
    *,
    method: str | Recipe = "standard",
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> npt.NDArray[np.floating[Any]]:
    """Remove white Gaussian noise of known level from a gray image.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The noisy image, of integers or floats in any range. It is not written to.
    sigma : float
        Standard deviation of the noise, in the image's own units.
    method : str or Recipe
        "standard" is the best choice for most images, "fast" takes less time; "nl-ridge",
        "nl-bayes" and "bm3d" are the published algorithms. A `Recipe` sets everything by hand.
    data_range : float, optional
        The range of the image's values, by which patch and group sizes are chosen: 255 sigma /
        data_range is looked up in the method's table of settings. By default 255 for uint8, and otherwise the
        range of the means of blocks of 8 x 8 pixels (fewer in a small image) without the extreme
        .1 % at either end.
    workers : int, optional
        Number of threads, by default one for each core that the process may use. The result is the
        same for every number.
    progress : bool or callable
        True shows a progress bar; a function is called with (done, total).

    Returns
    -------
    ndarray of shape (height, width)
        The denoised image, in the units of the input and neither rounded nor clipped: floats of the
        input's width, float32 for integers.

    Notes
    -----
    The time is proportional to the number of pixels. The memory taken is about four float32 images.

    Images that are smaller than the search window, or even smaller than a patch, are denoised with
    what they have: fewer patches in a group, and square patches that are at most half as wide as the
    image. An image that is only a few pixels wide changes little.

    Scaling image, sigma and data_range by the same power of two scales the result exactly.

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
    """
    pixels = _checked_image(image)
    sigma = _checked_positive("sigma", sigma)
    if data_range is not None:
        data_range = _checked_positive("data_range", data_range)
    threads = _checked_workers(workers)
    if not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress is {progress!r}; expected True, False or a function")
    chosen = _chosen_recipe(method, pixels, sigma, data_range).within(pixels.shape)
    scale = _scale(pixels, sigma)

    noisy = np.empty(pixels.shape, np.float32)
    np.multiply(pixels, scale, out=noisy, dtype=np.float64, casting="unsafe")
    with _ticking(progress, _count_blocks(chosen, pixels.shape)) as tick:
        run = partial(cpu.step, workers=threads, tick=tick)
        result = two_steps(noisy, sigma * scale, chosen, run)

    width = pixels.dtype.newbyteorder("=") if pixels.dtype.kind == "f" else np.dtype(np.float32)
    restored = result if width == result.dtype else np.empty(result.shape, width)
    return np.divide(result, scale, out=restored, dtype=np.float64, casting="unsafe")


def typical_range(image: npt.NDArray[Any]) -> float:
    """The range of an image with its noise averaged out (see `data_range` of `denoise`).

    The range of the pixels themselves grows with the noise, and with every hot pixel.
    """
    if image.dtype == np.uint8:
        return 255.0
    height, width = (min(8, max(1, length // 4)) for length in image.shape)  # at least 4 blocks
    rows, columns = image.shape[0] // height, image.shape[1] // width
    blocks = image[: rows * height, : columns * width].reshape(rows, height, columns, width)
    low, high = np.percentile(blocks.mean(axis=(1, 3), dtype=np.float64), [0.1, 99.9])
    return float(high - low)


def _chosen_recipe(
    method: str | Recipe, image: npt.NDArray[Any], sigma: float, data_range: float | None
) -> Recipe:
    if isinstance(method, Recipe):
        return method
    if not isinstance(method, str):
        raise TypeError(f"method is {method!r}; expected the name of a recipe, or a Recipe")
    return recipe(method, sigma, typical_range(image) if data_range is None else data_range)


def _scale(image: npt.NDArray[Any], sigma: float) -> float:
    """The power of two that brings sigma near 1, where float32 is at its best."""
    largest = max(abs(float(image.max())), abs(float(image.min())))
    if largest > 1e12 * sigma:
        raise ValueError(
            f"sigma is {sigma}; expected at least 1e-12 of the image's largest value, {largest}"
        )
    return math.ldexp(1.0, -round(math.log2(sigma)))


def _checked_image(image: npt.ArrayLike) -> npt.NDArray[Any]:
    pixels = np.asarray(image)
    if pixels.dtype.kind not in "uif":
        raise TypeError(f"image has dtype {pixels.dtype}; expected integers or floats")
    if pixels.ndim != 2:
        raise ValueError(
            f"image has shape {pixels.shape}; expected two dimensions, (height, width)"
        )
    if pixels.size == 0:
        raise ValueError(f"image has shape {pixels.shape}; expected at least one pixel")
    if pixels.dtype.kind == "f":
        bad = pixels.size - int(np.count_nonzero(np.isfinite(pixels)))
        if bad:
            raise ValueError(f"image has {bad} pixels that are NaN or infinite; expected none")
    return pixels


def _checked_positive(name: str, value: Any) -> float:
    if np.ndim(value) != 0:
        raise ValueError(f"{name} has shape {np.shape(value)}; expected a single positive number")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}; expected a positive number") from None
    if not 1e-300 < number < 1e300:
        raise ValueError(f"{name} is {value!r}; expected a positive number")
    return number


def _checked_workers(workers: int | None) -> int:
    if workers is None:
        if hasattr(os, "sched_getaffinity"):
            return len(os.sched_getaffinity(0))
        return os.cpu_count() or 1
    try:
        number = operator.index(workers)
    except TypeError:
        raise TypeError(f"workers is {workers!r}; expected a whole number or None") from None
    if number < 1:
        raise ValueError(f"workers is {workers}; expected at least 1")
    return number


def _count_blocks(chosen: Recipe, shape: tuple[int, int]) -> int:
    steps = filter(None, (chosen.first, chosen.second))
    return sum(len(list(cpu.blocks(shape, step))) for step in steps)


@contextmanager
def _ticking(progress: Progress, total: int) -> Iterator[Callable[[], None]]:
    """A function that is to be called `total` times, and passes that on as the caller wants it."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if callable(progress):
            progress(done, total)

    if progress is True:
        with tqdm(total=total, desc="denoising", unit="block", leave=False) as bar:

            def advance() -> None:
                bar.update()

            yield advance
    else:
        yield tick
