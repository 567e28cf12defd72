"""`denoise`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Protocol, TypeVar, overload

import numpy as np
import numpy.typing as npt

from ..algorithm.settings import Recipe
from ..algorithm.tuning import Tuning
from ..arrays import is_dask, is_sliceable, is_tensor
from ..noise import Noise
from ..planning.elsewhere import explained
from ..planning.layout import window_of
from ..planning.mosaic import Mosaic
from ..planning.options import Options, checked_dtype, checked_options
from ..progress import Progress, runs_reporter
from ..video.planning import SequenceAxis
from .arguments import checked_progress, checked_tile, checked_workers, expect_none, expect_pixels
from .conversion import to_dtype
from .in_memory import denoise_array, frames_of
from .mosaics import mean_of_parts, mosaic_planes
from .sequences import checked_sequence, denoise_sequences, sequences_of


class _Tensor(Protocol):
    """A tensor of PyTorch, for type checkers that have not seen PyTorch."""

    requires_grad: bool


class _DaskArray(Protocol):
    """Likewise a Dask array."""

    def compute_chunk_sizes(self) -> Any: ...


_TensorT = TypeVar("_TensorT", bound=_Tensor)
_DaskArrayT = TypeVar("_DaskArrayT", bound=_DaskArray)


@overload
def denoise(image: _TensorT, sigma: Any = None, **arguments: Any) -> _TensorT: ...
@overload
def denoise(image: _DaskArrayT, sigma: Any = None, **arguments: Any) -> _DaskArrayT: ...
@overload
def denoise(
    image: Any, sigma: Any = None, *, out: str | PathLike[str], **arguments: Any
) -> Any: ...
@overload
def denoise(
    image: npt.ArrayLike, sigma: Any = None, *, dtype: npt.DTypeLike, **arguments: Any
) -> npt.NDArray[Any]: ...
@overload
def denoise(
    image: npt.ArrayLike,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    colour: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    mosaic: Mosaic | str | None = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    time_axis: int | None = None,
    depth_axis: int | None = None,
    spacing: Sequence[float] | None = None,
    data_range: float | None = None,
    region: tuple[slice, slice] | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> npt.NDArray[np.floating[Any]]: ...
# The first overloads leave the names of further arguments to the implementation.
@explained  # type: ignore[misc]
def denoise(
    image: Any,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    colour: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    mosaic: Mosaic | str | None = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    time_axis: int | None = None,
    depth_axis: int | None = None,
    spacing: Sequence[float] | None = None,
    data_range: float | None = None,
    dtype: Any = None,
    region: tuple[slice, slice] | None = None,
    workers: int | None = None,
    progress: Progress = False,
    out: str | PathLike[str] | None = None,
    tile: int | None = None,
    client: Any = None,
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
    colour : float, default 1.0
        Factor on `strength`, from 0.01 to 100, that applies to colour differences only: 2 removes more
        colour noise without blurring the brightness. It has no effect on gray images and on channels that
        are denoised separately; a warning is raised in that case.
    method : str or Recipe, default "standard"
        "standard" is the best choice for most images. "fast" takes less time; "best" takes more, for the
        highest quality. "nl-ridge", "nl-bayes" and "bm3d" are the published algorithms. A `Recipe`
        gives control over every setting.
    mask : array_like of bool, or False, optional
        Missing pixels, marked True, in addition to NaN pixels. It has the shape of the image, or omits
        the channel axis or the stack axis. Missing pixels do not influence the others and are returned
        unchanged. By default, outliers such as hot pixels are found and replaced (see Notes); with False,
        all pixels are trusted and outliers are kept.
    mosaic : Mosaic or str, optional
        Bayer pattern of a raw image, such as "RGGB", or a `Mosaic`, which also holds the black level and the
        white level. The image is not yet demosaicked, with one value per pixel. With ``time_axis=0``, it is
        a burst of raw images.
    channel_axis : int, optional
        Axis of the channels of a colour or multichannel image. Correlated channels are denoised jointly,
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
        Axis of the slices of a volume or of a z-stack, which are denoised together likewise.
    spacing : sequence of three floats, optional
        Depth, height and width of a voxel, in any unit, for `depth_axis`. If voxels are about as deep as
        they are wide, patches extend over several slices. By default, this is decided by how much
        neighbouring slices differ.
    data_range : float, optional
        Range of the values of the image. Patch and group sizes are chosen by the noise level relative to
        this range. By default it is 255 for uint8; for other types it is estimated from the image.
    dtype : dtype, optional
        Type of the result, such as ``image.dtype`` or ``numpy.uint8``, for a picture to show or to save.
        With a type of integers, values are rounded, and clipped to the range of the type, and NaN pixels are
        refused. By default, floats keep their type, and integers become float32, which is more precise.
    region : tuple of two slices, optional
        Rows and columns of the image, such as ``numpy.s_[100:200, 300:400]``. Only this part of the result
        is returned, bit for bit as in the result for the whole image. Only what it depends on is computed,
        which takes much less time. Not with `time_axis` or `depth_axis`.
    workers : int, optional
        Number of threads. By default, one per core available to the process. The result does not depend
        on it.
    progress : bool or callable, default False
        If True, show a progress bar. A function is called as ``progress(done, total)``. An exception that
        it raises cancels the run and is propagated.
    out : str or path, optional
        Path of a new array for the result, ending in .zarr, .npy, .tif or .tiff. Use it with a Zarr array
        or a memory map that is larger than memory: the image is then processed in bands of rows, with
        intermediate results in a folder beside `out`; with `time_axis` or `depth_axis`, it is processed
        frame by frame. If a run is interrupted, the same call resumes it. An existing `out` is never
        overwritten.
    tile : int, optional
        Height of the bands of rows that are processed at a time, and side of the chunks of a Zarr array
        created at `out`. By default 2048; at least 64. Only for Dask arrays and with `out`. With
        `time_axis` or `depth_axis` it is only the side of the chunks, and cannot be given for Dask arrays.
    client : distributed.Client or str, optional
        Dask cluster that does the work, or the address of its scheduler. Only with an `out` that ends in
        .zarr. `image`, `mask` and a map of `sigma` must be Zarr arrays. They and `out` must be accessible to
        the workers. Not with `time_axis` or `depth_axis`.

    Returns
    -------
    ndarray
        The denoised image, with the shape and units of `image`. It consists of floats, neither rounded nor
        clipped, unless `dtype` says otherwise. For a tensor, the result is a tensor on the same device; for a
        Dask array, it is a lazy Dask array. With `out`, it is the new array, opened but not read.

    See Also
    --------
    denoise_with_details : Also return the pilot, the residual, the noise and the settings.
    denoise_frames : Denoise a video of any length, frame by frame as it arrives.
    to_dtype : Round and clip a result afterwards, as `dtype` does at once.
    estimate_noise : Estimate the noise in an image.

    Notes
    -----
    **Method.** Groups of similar patches are denoised jointly and averaged back into the image, in two
    steps or more; the result of the first step, the pilot, guides the others [1]_.

    **Time and memory.** The first call with a method compiles it for this CPU. This takes about ten seconds
    and is cached on disk; the logger "nlridge" or the progress bar reports it. Afterwards, the time is
    proportional to the number of pixels. Memory use is about five float32 images (seven for colour), and
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

    **Raw images.** The four planes of a mosaic are denoised jointly. Unless the noise is given, it is
    estimated from all of them together, as signal-dependent noise. Hot and dead pixels are replaced by the
    median of their neighbours of the same colour. Areas in which most pixels are saturated are left
    unchanged.

    **Outliers.** A pixel that noise cannot explain, such as a hot or dead pixel or a cosmic ray, is replaced by
    the median of its neighbours before the noise is removed. It stands out from all eight neighbours by more
    than 5.5 standard deviations of the noise, or by more than 2.5 if many pixels around it do. It is kept if it
    may belong to the image: if it has spread to the pixels beside it, like the image of a star, or if there are
    other structures as sharp around it, as in text. `denoise_with_details` returns the number of outliers.
    They are not looked for in tensors that are denoised with PyTorch.

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

    **Large images.** With `out`, and for Dask arrays, the result is the same, bit for bit, as in memory if
    the noise is given; otherwise the noise is estimated from a sample of the image. With `time_axis` or
    `depth_axis`, it is the same in any case, and a few dozen frames are in memory. `mask` and a map of
    `sigma` may also be arrays on disk or Dask arrays, and are never read into memory as a whole. For Dask
    arrays, `out`, `client`, `workers` and `progress` are not available: the Dask scheduler computes the
    result.

    **Regions.** The noise, the range and the correlation of the channels are estimated from the whole
    image. A pixel of the result depends on the pixels around it, up to a distance of 80 pixels with "fast",
    120 with "standard" (550 if the noise is strong) and 1080 with "best". From a memory map or a Zarr array,
    only these are read after the estimates have been made; the result is then a part of the one with `out`.

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
    >>> part = nlridge.denoise(noisy, sigma=20, region=np.s_[10:20, 30:40])
    >>> np.array_equal(part, denoised[10:20, 30:40])
    True
    """
    expect_pixels(image)
    tuning = Tuning(strength, colour, mask is not False)
    mask = None if mask is False else mask
    if mosaic is not None:
        kind = "tensor" if is_tensor(image) else "Dask array" if is_dask(image) else ""
        if kind:
            raise TypeError(f"image is a {kind}; expected an array in memory for a mosaic")
        refused = {"channel_axis": channel_axis, "stack_axis": stack_axis, "depth_axis": depth_axis}
        expect_none("for a mosaic", **refused, region=region, out=out, tile=tile, client=client)
        target = None if dtype is None else checked_dtype(dtype)
        planes = mosaic_planes(image, mosaic, sigma, noise, tuning, time_axis)
        parts = planes.parts(method, tuning.strength)
        known = replace(tuning, outliers=False)  # those of the mosaic were replaced
        with runs_reporter(checked_progress(progress), len(parts)) as reports:
            results = [
                _denoise_in_memory(
                    part.pixels,
                    checked_options(None, part.noise, method, data_range, known),
                    checked_sequence(None if time_axis is None else 0, None, None),
                    checked_workers(workers),
                    report,
                    mask=part.mask(mask),
                    stack_axis=None,
                    channel_axis=part.channel_axis,
                )
                for part, report in zip(parts, reports, strict=True)
            ]
        mean = mean_of_parts(parts, results, planes.image)
        return mean if target is None else to_dtype(mean, target)
    options_for = partial(
        checked_options,
        noise=noise,
        method=method,
        data_range=data_range,
        tuning=tuning,
        dtype=None if is_tensor(image) else dtype,
    )
    axes = {"stack_axis": stack_axis, "channel_axis": channel_axis}
    layout: dict[str, Any] = {"mask": mask, **axes}
    sequence = checked_sequence(time_axis, depth_axis, spacing)
    if sequence is not None:
        expect_none(f"with {sequence.name}", client=client, region=region)
    if is_tensor(image):
        expect_none("for a tensor", out=out, tile=tile, client=client, region=region)
        from .tensors import denoise_tensor, on_host  # imports PyTorch

        options = options_for(on_host(sigma))
        return denoise_tensor(
            image,
            options,
            sequence=sequence,
            dtype=dtype,
            workers=workers,
            progress=progress,
            **layout,
        )
    if sequence is not None and out is None and not is_dask(image):
        expect_none("without out", tile=tile)
        threads, progress = checked_workers(workers), checked_progress(progress)
        return _denoise_in_memory(image, options_for(sigma), sequence, threads, progress, **layout)
    if is_dask(image):
        expect_none("for a Dask array, of whose result slices can be computed", region=region)
    if region is not None:
        expect_none("with region", out=out, tile=tile, client=client)
    if is_dask(image) or out is not None or (region is not None and _is_on_disk(image)):
        from ..large.entry import denoise_large

        if is_dask(image):
            expect_none("for a Dask array", client=client, workers=workers, progress=progress)
            if sequence is not None:
                expect_none(f"for a Dask array with {sequence.name}", tile=tile)
        elif client is not None:
            expect_none("with client", workers=workers)
        result = denoise_large(
            image,
            sigma,
            options_for,
            out=out,
            region=region,
            tile=checked_tile(tile),
            client=client,
            workers=checked_workers(workers),
            progress=checked_progress(progress),
            sequence=sequence,
            store=to_dtype,
            **layout,
        )
        return result if out is not None or dtype is None else _as_type(result, dtype)
    expect_none("without out", tile=tile, client=client)
    threads, progress = checked_workers(workers), checked_progress(progress)
    return _denoise_in_memory(
        image, options_for(sigma), None, threads, progress, region=region, **layout
    )


def _denoise_in_memory(
    image: Any,
    options: Options,
    sequence: SequenceAxis | None,
    workers: int,
    progress: Progress,
    *,
    region: tuple[slice, slice] | None = None,
    **layout: Any,
) -> npt.NDArray[Any]:
    """Denoise an array in memory; the arguments have been checked."""
    if sequence is not None:
        sequences = sequences_of(image, options, sequence, workers=workers, **layout)
        return denoise_sequences(sequences, workers, progress)
    frames = frames_of(image, options, workers=workers, **layout)
    window = None if region is None else window_of(region, frames.layout)
    return denoise_array(frames, workers, progress, window)


def _as_type(result: Any, dtype: Any) -> Any:
    """Convert a result in memory, or one of Dask when it is computed."""
    target = checked_dtype(dtype)
    if is_dask(result):
        return result.map_blocks(to_dtype, target, dtype=target)
    return to_dtype(result, target)


def _is_on_disk(image: Any) -> bool:
    """Whether an image may be larger than memory: a memory map, a Zarr array, or anything else that can be sliced."""
    in_memory = isinstance(image, np.ndarray) and not isinstance(image, np.memmap)
    return is_sliceable(image) and not in_memory
