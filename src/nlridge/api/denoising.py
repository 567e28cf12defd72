"""`denoise` and `denoise_with_details`."""

from typing import Any, Protocol, TypeVar, overload

import numpy.typing as npt

from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..noise import Noise
from ..planning.elsewhere import explained
from ..progress import Progress
from ..types import Array, Pixels
from .arguments import checked_progress
from .details import Denoised
from .prepared import Given, prepared_image
from .sequences import checked_sequence


class _Tensor(Protocol):
    """A tensor of PyTorch, for type checkers that have not seen PyTorch."""

    requires_grad: bool


class _DaskArray(Protocol):
    """A Dask array, for type checkers that have not seen Dask."""

    def compute_chunk_sizes(self) -> Any: ...


_TensorT = TypeVar("_TensorT", bound=_Tensor)
_DaskArrayT = TypeVar("_DaskArrayT", bound=_DaskArray)


@overload
def denoise(image: _TensorT, sigma: Any = None, **arguments: Any) -> _TensorT: ...
@overload
def denoise(image: _DaskArrayT, sigma: Any = None, **arguments: Any) -> _DaskArrayT: ...
@overload
def denoise(
    image: npt.ArrayLike, sigma: Any = None, *, dtype: npt.DTypeLike, **arguments: Any
) -> Pixels: ...
@overload
def denoise(
    image: npt.ArrayLike,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    time_axis: int | None = None,
    depth_axis: int | None = None,
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Array: ...
# The first overloads leave the names of further arguments to the implementation.
@explained  # type: ignore[misc]
def denoise(
    image: Any,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    time_axis: int | None = None,
    depth_axis: int | None = None,
    data_range: float | None = None,
    dtype: Any = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Any:
    """Remove noise from an image, a video, a volume, or each image of a stack.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The noisy image, as integers or floats in any range. It has one more axis for each of
        `channel_axis`, `stack_axis`, and `time_axis` or `depth_axis` that is given. NaN pixels, and the
        masked pixels of a masked array, are treated as missing (see `mask`). The image is never
        modified. PyTorch tensors and Dask arrays are accepted as well.
    sigma : float, sequence of float or ndarray, optional
        Standard deviation of Gaussian noise, in the units of the image: a single number, one number per
        channel, or a map with the shape of the image. A map may omit the channel axis or the stack axis
        if it is the same for all channels or images. An implausible value, such as 25 for an image whose
        values range from 0 to 1, raises a warning.
    noise : GaussianNoise, PoissonGaussianNoise, CorrelatedNoise or str, optional
        Noise model, as an alternative to `sigma`, or the kind of noise to estimate: "gaussian",
        "poisson", "correlated" or "auto" (see `estimate_noise`). If neither is given, the noise is
        estimated as with "auto".
    strength : float, default 1.0
        Factor on the noise level, from 0.01 to 100. Values below 1 keep more detail and more noise;
        values above 1 remove more of both, and more of estimated noise that may be texture. 0 leaves the
        image unchanged.
    color : float, default 1.0
        Factor on `strength`, from 0.01 to 100, that applies to color differences only: 2 removes more
        color noise without blurring the brightness. It has no effect on gray images and on channels that
        are denoised separately; a warning is raised in that case.
    method : str or Recipe, default "standard"
        "standard" is the best choice for most images. "fast" takes less time, and "preview" a
        third of that; "best" takes more, for the highest quality. "nl-ridge", "nl-bayes" and "bm3d" are the published algorithms. A `Recipe`
        gives control over every setting.
    mask : array_like of bool, or False, optional
        Missing pixels, marked True, in addition to NaN pixels. It has the shape of the image, or omits
        the channel axis or the stack axis. Missing pixels do not influence the others and are returned
        unchanged. By default, outliers such as hot pixels are found and replaced (see Notes); with False,
        all pixels are trusted and outliers are kept.
    channel_axis : int, optional
        Axis of the channels of a color or multichannel image. Correlated channels are denoised jointly,
        which gives better results than denoising each one separately. By default, the image has no
        channel axis. Hundreds of channels are accepted, but not 0 for a shape of (512, 512, 3): that is
        almost certainly meant to be -1.
    stack_axis : int, optional
        Axis along which independent images are stacked. Each image is denoised on its own; if the noise
        is estimated, it is estimated for each image separately. By default, the image is not a stack.
    time_axis : int, optional
        Axis of the frames of a video or a time-lapse. Similar patches are also searched for in the frames
        before and after, which removes far more noise than denoising each frame on its own, and takes less
        time. The video may contain motion, flicker and cuts.
    depth_axis : int, optional
        Axis of the slices of a volume or of a z-stack, which are denoised together in the same way.
    data_range : float, optional
        Range of the values of the image. Patch and group sizes are chosen by the noise level relative to
        this range. By default it is 255 for uint8; for other types it is estimated from the image.
    dtype : dtype, optional
        Type of the result, such as ``image.dtype`` or ``numpy.uint8``, for a picture to show or to save.
        With a type of integers, values are rounded, and clipped to the range of the type, and NaN pixels are
        refused. By default, floats keep their type, and integers become float32, which is more precise.
    workers : int, optional
        Number of threads. By default, one per core available to the process. The result does not depend
        on it.
    progress : bool or callable, default False
        If True, show a progress bar. A function is called as ``progress(done, total)``. An exception that
        it raises cancels the run and is propagated.

    Returns
    -------
    ndarray
        The denoised image, with the shape and units of `image`. It consists of floats, neither rounded nor
        clipped, unless `dtype` says otherwise. For a tensor, the result is a tensor on the same device; for a
        Dask array, it is a lazy Dask array.

    See Also
    --------
    prepare : Measure an image once; denoise parts of it, or try other settings, without measuring it again.
    denoise_with_details : Also return the pilot, the residual, the noise and the settings.
    denoise_mosaic : Denoise a raw image.
    denoise_to_disk : Denoise an image that is larger than memory.
    denoise_frames : Denoise a video of any length, frame by frame as it arrives.
    to_dtype : Round and clip a result afterwards, as `dtype` does at once.
    estimate_noise : Estimate the noise in an image.

    Notes
    -----
    **Method.** Groups of similar patches are denoised jointly and averaged back into the image, in two
    steps or more; the result of the first step, the pilot, guides the others [1]_.

    **Time and memory.** The first call with a method compiles it for this CPU. This takes about ten seconds
    and is cached on disk; the logger "nlridge" or the progress bar reports it. Afterwards, the time is
    proportional to the number of pixels. Memory use is about five float32 images (seven for color), and
    three times as much while the noise is estimated or if it varies from pixel to pixel. "standard"
    takes two more images and "best" five more, to keep groups of patches from one round to the next. An
    image of fewer than about six photons per pixel takes two to three times as long.

    **Channels.** Three correlated channels with the same noise, such as red, green and blue, are
    transformed to one luminance and two chrominance channels. Other correlated channels are transformed
    to their principal components in units of the noise. In both cases all channels share the same groups
    of patches. Channels whose correlation with the others is below 0.4 are denoised separately. Channels
    that are constant, or of which at most 1 % of the pixels differ, are returned as they are.

    **Video and volumes.** One noise model is estimated for all frames, from eight of them. The methods
    "fast", "standard" and "best" have separate settings for videos and for volumes. They search 2, 6 and 6
    frames before and after (2, 3 and 3 slices of a volume).

    **Outliers.** A pixel that noise cannot explain, such as a hot or dead pixel or a cosmic ray, is replaced by
    the median of its neighbours before the noise is removed. It stands out from all eight neighbours by more
    than 5.5 standard deviations of the noise, or by more than 2.5 if many pixels around it do. It is kept if it
    may belong to the image: if it has spread to the pixels beside it, like the image of a star, or if there are
    other structures as sharp around it, as in text. `denoise_with_details` returns the number of outliers.
    They are not replaced in tensors that are denoised with PyTorch.

    **Missing pixels.** They are filled in with a mean of their neighbours in the first step, and with the
    pilot in the second.

    **Noise maps.** Patch and group sizes are chosen by the median of the map, to within 0.1 %, over the
    pixels with noise; with several channels, by the root mean square over the channels. A sigma below 1 %
    of the median is treated as 1 % of the median. A pixel is estimated from its neighbours, like a missing
    one, if its sigma is more than five times that of the pixels around it. The same holds for pixels whose
    sigma means "unknown": more than 10,000 times the median, or more than four times the range of the
    image and five times the median of the others.

    **Data range.** The noise level is looked up in the table of the method as 255 sigma / data_range. The
    estimated range is that of the means of blocks of 8 x 8 pixels (smaller in small images), without the
    extreme 0.1 % at either end. A channel whose noise is below 1e-4 of its range is returned unchanged.
    Scaling image, sigma and data_range by the same power of two scales the result exactly.

    **Small images.** Images smaller than the search window use smaller groups. Patches are at most half
    as wide as the image. An image only a few pixels wide changes little.

    **Dask arrays.** The result is the same, bit for bit, as in memory if the noise is given; otherwise the
    noise is estimated from a sample of the image. With `time_axis` or `depth_axis`, it is the same in any
    case. `mask` and a map of `sigma` may also be arrays on disk or Dask arrays, and are never read into
    memory as a whole. `workers` and `progress` are not available: the Dask scheduler computes the result.

    **Tensors.** A CPU tensor that needs no gradient is treated as an array. Other tensors are denoised
    with PyTorch, and support only Gaussian noise; `mask`, `workers` and `progress` must be left out. `dtype`
    may be a type of PyTorch or of NumPy. See `nlridge.torch` for a module.

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
    >>> photo = nlridge.to_dtype(noisy, np.uint8)
    >>> nlridge.denoise(photo, dtype=photo.dtype).dtype
    dtype('uint8')
    """
    progress = checked_progress(progress)
    sequence = checked_sequence(time_axis, depth_axis)
    given = Given(image, sigma, noise, mask, channel_axis, stack_axis, sequence)
    tuning = Tuning(strength, color, mask is not False)
    prepared = prepared_image(given, method, data_range, tuning, workers, dtype=dtype)
    return prepared.denoise(dtype=dtype, progress=progress)


@explained
def denoise_with_details(
    image: npt.ArrayLike,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    time_axis: int | None = None,
    depth_axis: int | None = None,
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Denoised:
    """Remove noise from an image, and return the noise, the residual and the settings as well.

    Parameters
    ----------
    image, sigma, noise, strength, color, method, mask, channel_axis, stack_axis, time_axis, depth_axis
        As in `denoise`. The image must not be a Dask array.
    data_range, workers, progress
        As in `denoise`.

    Returns
    -------
    Denoised
        An object with these attributes: `image`, the denoised image; `pilot`, the result of the first
        step; `residual`, what was removed; `noise`, the noise model; `noise_given`, whether it was given
        rather than estimated; `recipe`, the settings; `level` and `removed`, the root mean squares of the
        noise and of the residual; `unchanged`, why almost nothing was removed, if so; and `defects`, the
        number of outliers, such as hot and dead pixels, that were replaced. `print` describes it in a
        sentence. For a stack, `level` and `removed` are those of all images together, and `noise` and
        `recipe` are those of the first image with pixels.

    See Also
    --------
    denoise : Return only the denoised image; also for Dask arrays.
    prepare : Measure an image once; its method `details` is this function.
    estimate_quality : Also estimate the PSNR of the result.

    Notes
    -----
    The time is that of `denoise`. The pilot and the residual take two more images of memory.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> noisy = 100 + np.random.default_rng(0).normal(0, 20, (64, 64))
    >>> details = nlridge.denoise_with_details(noisy, sigma=20)
    >>> print(details.noise)
    Gaussian noise with a standard deviation of 20
    >>> bool(np.std(details.residual) > 5 * np.std(details.image))
    True
    >>> print(details)
    Gaussian noise with a standard deviation of 20 (given); removed 19.9 (rms), 99% of its level
    """
    progress = checked_progress(progress)
    sequence = checked_sequence(time_axis, depth_axis)
    given = Given(image, sigma, noise, mask, channel_axis, stack_axis, sequence)
    tuning = Tuning(strength, color, mask is not False)
    prepared = prepared_image(given, method, data_range, tuning, workers)
    return prepared.details(progress=progress)
