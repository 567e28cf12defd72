"""The public functions: check the arguments, run, give back what the caller expects."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from ..algorithm.settings import Recipe
from ..arrays import is_dask, is_tensor
from ..noise import Noise
from ..planning.options import checked_options
from ..planning.pixels import restored
from ..progress import Progress, progress_reporter
from .arguments import checked_progress, checked_tile, checked_workers, expect_none
from .in_memory import denoise_array, frames_of


def denoise(
    image: npt.ArrayLike,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | None = None,
    strength: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
    out: str | PathLike[str] | None = None,
    tile: int | None = None,
    client: Any = None,
) -> Any:
    """Remove the noise from an image, or from each image of a stack.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The noisy image, of integers or floats in any range: whatever NumPy takes for an array. It has
        one more dimension for channels or for a stack of images if `channel_axis` or `stack_axis` says
        so, and two more for both. It is not written to. Pixels that are NaN, or masked in a masked
        array, are missing (see `mask`). A tensor of PyTorch gives a tensor back, on the same device (see
        `nlridge.torch`).
    sigma : float, sequence of floats or array, optional
        Standard deviation of Gaussian noise, in the image's own units: a number, one for each channel,
        or a map of the image's shape (without the axis of channels, or of the stack, if it is the same
        for all of them).
    noise : GaussianNoise or PoissonGaussianNoise, optional
        What the noise is, instead of `sigma`. With neither of them it is estimated from the image, as
        `estimate_noise` does.
    strength : float
        1 removes the noise as given or estimated; less or more counts it as that much weaker or stronger.
    method : str or Recipe
        "standard" is the best choice for most images, "fast" takes less time, and "best" more, for the
        highest quality; "nl-ridge", "nl-bayes" and "bm3d" are the published algorithms. A `Recipe` sets
        everything by hand.
    mask : array_like of bool of the image's shape, optional
        True for pixels that are missing, besides those that are NaN. Their values have no influence on
        the others, and come back as they were. Like a map of `sigma`, it may lack an axis.
    channel_axis : int, optional
        The axis of colours or other channels, if there is one. Channels that show the same things are
        denoised together, which is better than one by one.
    stack_axis : int, optional
        The axis along which images are stacked, if `image` is a stack of them. Each is denoised by
        itself, with its own estimate of the noise if it is estimated.
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
    out : path, optional
        For an image that is larger than memory, an array of Zarr or a memory map: the name of a new array for
        the result, which ends in .zarr, .npy or .tif. If the run is stopped, the same call resumes it.
        docs/large-data.md tells more.
    tile : int
        Side of the tiles that are written to `out`; rows of tiles are worked on one by one.
    client : distributed.Client or str, optional
        The Dask cluster that is to do the work for `out`, or the address of its scheduler.

    Returns
    -------
    ndarray of the image's shape
        The denoised image, in the units of the input and neither rounded nor clipped: floats of the
        input's width, float32 for integers; `to_dtype` converts it back to integers. A Dask array, not computed yet, if `image` is one; with `out`, the
        new array, opened and not read.

    See Also
    --------
    denoise_with_details : the same, and what was found and done on the way.
    to_dtype : the result in the type of the input, rounded and clipped.

    Notes
    -----
    The first call with a method compiles it for this CPU, which takes some seconds, and keeps the result on disk for
    later processes. The logger "nlridge" says so once in a process, or the progress bar if there is one.

    The time is proportional to the number of pixels. The memory taken is about five float32 images (seven
    in colour), three times that while the noise is estimated, or if it differs from pixel to pixel; "standard"
    takes two more images, and "best" five, to remember groups from one round for the next.

    Images that are smaller than the search window, or even smaller than a patch, are denoised with
    what they have: fewer patches in a group, and square patches that are at most half as wide as the
    image. An image that is only a few pixels wide changes little.

    Scaling image, sigma and data_range by the same power of two scales the result exactly.

    A channel whose noise is below a ten-thousandth of its range is given back as it is.

    Missing pixels are filled in by a mean of their neighbours for the first step, and by its result for
    the second.

    Red, green and blue, or any three channels of the same noise that show the same things, are turned
    into brightness and two differences of colours; two or more than three channels, or channels of
    different noise, into their principal components in units of the noise. Groups of similar patches are
    the same for all of them. Channels that are not correlated with the others (by less than .4) are denoised
    by themselves.

    Where `sigma` is a map, its median over the pixels with noise counts for the choice of patch and group
    sizes, and pixels count as having a hundredth of it at least. A pixel whose sigma is more than five times
    that of the pixels around it is estimated from those, as if it were missing; so is a pixel of which the map
    says that nothing is known, by a sigma of more than 10,000 times the median, or of more than four times the
    range of the image and five times the median of the others. The level of several channels is the root of
    their mean square.

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
    named = {"mask": mask, "stack_axis": stack_axis, "channel_axis": channel_axis}
    if is_tensor(image):
        expect_none("for a tensor", out=out, tile=tile, client=client)
        from .tensors import denoise_tensor, on_host  # PyTorch is imported only if it is used

        options = checked_options(on_host(sigma), noise, strength, method, data_range)
        return denoise_tensor(image, options, workers=workers, progress=progress, **named)
    options = checked_options(sigma, noise, strength, method, data_range)
    if is_dask(image) or out is not None:
        from ..large.entry import denoise_large

        if is_dask(image):
            expect_none("for a Dask array", client=client, workers=workers, progress=progress)
        elif client is not None:
            expect_none("with client", workers=workers)
        return denoise_large(
            image,
            options,
            out=out,
            tile=checked_tile(tile),
            client=client,
            workers=checked_workers(workers),
            progress=checked_progress(progress),
            **named,
        )
    expect_none("without out", tile=tile, client=client)
    threads, progress = checked_workers(workers), checked_progress(progress)
    return denoise_array(frames_of(image, options, **named), threads, progress)


@dataclass(frozen=True, eq=False)
class Denoised:
    """A denoised image, and what was found and done on the way."""

    image: npt.NDArray[np.floating[Any]]
    """The result, as `denoise` gives it."""
    pilot: npt.NDArray[np.floating[Any]]
    """The result of the first step."""
    residual: npt.NDArray[np.floating[Any]]
    """What was removed: the input less the result; 0 where pixels are missing."""
    noise: Noise
    """The noise that was removed, as given or as estimated; `print` says what it is."""
    recipe: Recipe
    """The settings that were used."""


def denoise_with_details(
    image: npt.ArrayLike,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | None = None,
    strength: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Denoised:
    """Remove the noise from an image, and tell what was found and done.

    Parameters
    ----------
    image, sigma, noise, strength, method, mask, channel_axis, data_range, workers, progress
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
    if is_tensor(image) or is_dask(image):
        kind = "tensor" if is_tensor(image) else "Dask array"
        raise TypeError(f"image is a {kind}; expected an array in memory, or use denoise")
    options = checked_options(sigma, noise, strength, method, data_range)
    threads, progress = checked_workers(workers), checked_progress(progress)
    frames = frames_of(image, options, mask=mask, stack_axis=None, channel_axis=channel_axis)
    frame = frames[0]
    with progress_reporter(progress, frame.blocks(), "block") as tick:
        found = list(frame.run(threads, tick)) or [restored(frame.plan, frame.pixels, ())]
    pilot, result = found[0], found[-1]
    if pilot is result:  # of a recipe with one step
        pilot = result.copy()
    known = True if frame.missing is None else ~frame.missing
    residual = np.zeros_like(result)
    with np.errstate(over="ignore", invalid="ignore"):
        np.subtract(
            frame.pixels, result, out=residual, where=known, dtype=np.float64, casting="unsafe"
        )
    largest = np.finfo(residual.dtype).max
    np.clip(residual, -largest, largest, out=residual)
    result, pilot, residual = (
        frames.layout.like_image(image[None]) for image in (result, pilot, residual)
    )
    return Denoised(result, pilot, residual, frame.plan.noise, frame.plan.recipe)
