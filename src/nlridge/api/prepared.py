"""`prepare`: an image is measured once, and denoised as often as needed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy.typing as npt

from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..core.arrays import is_dask, is_tensor
from ..core.engines.reuse import Kept
from ..errors import ArgumentTypeError
from ..noise import Noise
from ..planning.elsewhere import explained
from ..planning.layout import SequenceAxis
from ..planning.options import Options, checked_method, checked_options
from ..progress import Progress
from .arguments import checked_workers, expect_none, expect_pixels, is_on_disk
from .details import Denoised, Summary
from .measured import Measured, MeasuredImages, Run
from .quality import Quality, checked_peak_and_probes
from .sequences import MeasuredSequences, checked_sequence


class Prepared:
    """An image that has been measured, as `prepare` returns it.

    Its methods denoise the image, or parts of it, with the settings of `prepare` or with others. The noise, the range and
    the correlation of the channels are measured only once. Work that does not depend on the strength is reused as well, as
    long as it fits into half a gigabyte.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> noisy = 100 + np.random.default_rng(0).normal(0, 20, (64, 64))
    >>> prepared = nlridge.prepare(noisy, noise="gaussian")
    >>> bool(abs(prepared.noise.sigma - 20) < 1)
    True
    >>> stronger = prepared.denoise(strength=1.5)
    >>> np.array_equal(stronger, nlridge.denoise(noisy, noise="gaussian", strength=1.5))
    True
    """

    def __init__(
        self, measured: Measured, options: Options, workers: int | None, kept: Kept | None
    ) -> None:
        self._measured = measured
        self._options = options
        self._workers = workers
        self._kept = kept

    @property
    def noise(self) -> Noise:
        """The noise model, as given or as estimated; of a stack, that of the first image. `print` describes it."""
        return self._measured.plan(self._options).noise

    @property
    def noise_given(self) -> bool:
        """Whether the noise was given rather than estimated."""
        return self._measured.noise_given

    @property
    def recipe(self) -> Recipe:
        """The settings of the algorithm for the method that was given to `prepare`."""
        return self._measured.plan(self._options).recipe

    @property
    def doubt(self) -> str:
        """Why the given noise is implausible, in a sentence, which is also raised as a warning; otherwise empty."""
        return self._measured.plan(self._options).doubt

    @property
    def axes(self) -> str:
        """One letter for each axis of the image: Y and X for height and width, C for channels, T for frames."""
        return self._measured.axes

    @property
    def nbytes(self) -> int:
        """Bytes of memory for work that is kept for another strength, without the image itself."""
        return 0 if self._kept is None else self._kept.nbytes

    def forget(self) -> None:
        """Release the memory that `nbytes` counts."""
        if self._kept is not None:
            self._kept.clear()

    @explained
    def denoise(
        self,
        region: tuple[slice, slice] | None = None,
        *,
        frame: int | None = None,
        method: str | Recipe | None = None,
        strength: float | None = None,
        color: float | None = None,
        dtype: Any = None,
        workers: int | None = None,
        progress: Progress = False,
    ) -> Any:
        """Denoise the image, or a part of it.

        Parameters
        ----------
        region : tuple of two slices, optional
            Rows and columns of the image, such as ``numpy.s_[100:200, 300:400]``. Only this part of the result is returned,
            bit for bit as in the result for the whole image. Only what it depends on is computed, which takes much less
            time; frames of a video or a volume, and tensors that need a gradient, are computed as a whole.
        frame : int, optional
            Number of the only frame of a video, or slice of a volume, to return, bit for bit as in the whole result. It is
            denoised with the help of the frames before and after.
        method, strength, color : optional
            As in `denoise`. By default, those that were given to `prepare`.
        dtype : dtype, optional
            Type of the result, as in `denoise`.
        workers : int, optional
            Number of threads. By default, that of `prepare`.
        progress : bool or callable, default False
            As in `denoise`.

        Returns
        -------
        ndarray
            The denoised image, as `denoise` returns it, or a part of it.

        Notes
        -----
        A pixel of the result depends on the pixels around it, up to a distance of 80 pixels with "fast", 120 with
        "standard" (550 if the noise is strong) and 1080 with "best".

        Examples
        --------
        >>> import numpy as np
        >>> import nlridge
        >>> noisy = 100 + np.random.default_rng(0).normal(0, 20, (64, 64))
        >>> prepared = nlridge.prepare(noisy)
        >>> part = prepared.denoise(np.s_[10:20, 30:40])
        >>> np.array_equal(part, prepared.denoise()[10:20, 30:40])
        True
        """
        run = Run(
            self._workers if workers is None else workers,
            progress,
            region,
            frame,
            dtype,
            self._kept,
        )
        return self._measured.denoise(self._changed(method, strength, color), run)

    @explained
    def details(
        self,
        *,
        frame: int | None = None,
        method: str | Recipe | None = None,
        strength: float | None = None,
        color: float | None = None,
        workers: int | None = None,
        progress: Progress = False,
    ) -> Denoised:
        """Denoise the image, and return the noise, the residual and the settings as well.

        Parameters
        ----------
        frame, method, strength, color, workers, progress : optional
            As in `Prepared.denoise`.

        Returns
        -------
        Denoised
            What `denoise_with_details` returns. For a stack, its images have the shape of the stack, `level` and `removed`
            are root mean squares over all images, and `noise` and `recipe` are those of the first image with pixels.

        Examples
        --------
        >>> import numpy as np
        >>> import nlridge
        >>> stack = 100 + np.random.default_rng(0).normal(0, 20, (3, 64, 64))
        >>> details = nlridge.prepare(stack, sigma=20, stack_axis=0).details()
        >>> details.residual.shape
        (3, 64, 64)
        """
        run = Run(self._workers if workers is None else workers, progress, frame=frame)
        return self._measured.details(self._changed(method, strength, color), run)

    @explained
    def quality(
        self,
        peak: float | None = None,
        probes: int = 1,
        *,
        denoised: npt.NDArray[Any] | None = None,
        method: str | Recipe | None = None,
        strength: float | None = None,
        color: float | None = None,
        workers: int | None = None,
        progress: Progress = False,
    ) -> Quality:
        """Denoise the image and estimate the PSNR of the result without knowing the clean image.

        Parameters
        ----------
        peak, probes : optional
            As in `estimate_quality`.
        denoised : ndarray, optional
            What `Prepared.denoise` has returned with the same settings, which then is not computed again. The pilot in
            the result is the same image.
        method, strength, color, workers, progress : optional
            As in `Prepared.denoise`.

        Returns
        -------
        Quality
            What `estimate_quality` returns. For a stack, the PSNR is that of the mean squared error over all images.

        Examples
        --------
        >>> import numpy as np
        >>> import nlridge
        >>> noisy = np.tile(100 + 50 * np.sin(np.arange(128) / 4), (128, 1))
        >>> noisy += np.random.default_rng(0).normal(0, 20, noisy.shape)
        >>> prepared = nlridge.prepare(noisy, sigma=20)
        >>> gains = {method: prepared.quality(method=method).gain for method in ("fast", "standard")}
        >>> max(gains, key=gains.get)
        'standard'
        """
        peak, probes = checked_peak_and_probes(peak, probes)
        run = Run(self._workers if workers is None else workers, progress)
        if denoised is not None:
            self._image_in_memory()
            run = replace(run, denoised=denoised)
        return self._measured.quality(self._changed(method, strength, color), run, peak, probes)

    @explained
    def summary(
        self,
        denoised: npt.NDArray[Any],
        *,
        method: str | Recipe | None = None,
        strength: float | None = None,
        color: float | None = None,
    ) -> Summary:
        """Return the noise of an image in memory, and how much of it was removed.

        Parameters
        ----------
        denoised : ndarray
            What `Prepared.denoise` has returned with the same settings.
        method, strength, color : optional
            As in `Prepared.denoise`.

        Returns
        -------
        Summary
            What `Prepared.details` returns, without the images.

        Examples
        --------
        >>> import numpy as np
        >>> import nlridge
        >>> noisy = 100 + np.random.default_rng(0).normal(0, 20, (64, 64))
        >>> prepared = nlridge.prepare(noisy, sigma=20)
        >>> print(prepared.summary(prepared.denoise()))
        Gaussian noise with a standard deviation of 20 (given); removed 19.9 (rms), 99% of its level
        """
        measured = self._image_in_memory()
        return measured.summary(self._changed(method, strength, color), denoised)

    def _image_in_memory(self) -> MeasuredImages:
        if not isinstance(self._measured, MeasuredImages):
            raise ArgumentTypeError(
                "denoised", None, "None, as the image is no array in memory", "is given"
            )
        return self._measured

    def _changed(self, method: Any, strength: Any, color: Any) -> Options:
        options = self._options
        tuning = options.tuning
        if strength is not None or color is not None:
            tuning = replace(
                tuning,
                strength=tuning.strength if strength is None else strength,
                color=tuning.color if color is None else color,
            )
        return replace(
            options,
            tuning=tuning,
            method=options.method if method is None else checked_method(method),
        )


@explained
def prepare(
    image: Any,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | Prepared | Summary | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    time_axis: int | None = None,
    depth_axis: int | None = None,
    spacing: Sequence[float] | None = None,
    data_range: float | None = None,
    workers: int | None = None,
    tile: int | None = None,
) -> Prepared:
    """Measure an image once, to denoise it, or parts of it, as often as needed.

    Parameters
    ----------
    image, sigma, mask, channel_axis, stack_axis, time_axis, depth_axis, data_range
        As in `denoise`. The image must not be changed as long as the result is in use.
    noise : Noise, str, Prepared or Denoised, optional
        As in `denoise`. The noise of another image that has been prepared or denoised is taken over, such as that of a
        larger image of which this is a part. It still counts as estimated if it was.
    strength, color, method
        As in `denoise`. Others can be given to the methods of the result.
    spacing : sequence of three floats, optional
        Depth, height and width of a voxel, in any unit, for `depth_axis`. If voxels are about as deep as they are wide,
        patches extend over several slices. By default, this is decided by how much neighbouring slices differ.
    workers : int, optional
        Number of threads. By default, one per core available to the process. Results do not depend on it.
    tile : int, optional
        Height of the bands of rows of a Dask array that are processed at a time. By default 2048; at least 64. Only for
        Dask arrays, and not with `time_axis` or `depth_axis`.

    Returns
    -------
    Prepared
        An object with the noise that was measured, and with the methods `denoise`, `details` and `quality`.

    See Also
    --------
    denoise : Measure an image and denoise it once.
    prepare_mosaic : The same for a raw image.

    Notes
    -----
    The images of a stack are measured when they are first needed.

    **Arrays on disk.** A memory map or a Zarr array is read once, in parts, to measure it. After that, only the pixels that
    a region depends on are read to denoise it. If the noise is estimated, it is estimated from a sample of the image, and
    the region is a part of the result of `denoise_to_disk`. Details and the quality need an array in memory. `noise`,
    `recipe` and `doubt` are known if the noise is estimated.

    **Dask arrays.** The result of `Prepared.denoise` is a lazy Dask array. Attributes that depend on pixels, details and
    the quality are not available.

    **Tensors.** A CPU tensor that needs no gradient is treated as an array, and results are tensors. For other tensors,
    only `Prepared.denoise` is available, for the whole image.

    Examples
    --------
    Look at a part of the image with several strengths, and then denoise all of it:

    >>> import numpy as np
    >>> import nlridge
    >>> noisy = 100 + np.random.default_rng(0).normal(0, 20, (64, 64))
    >>> prepared = nlridge.prepare(noisy)
    >>> print(prepared.noise_given, prepared.axes)
    False YX
    >>> previews = [prepared.denoise(np.s_[:16, :16], strength=s) for s in (0.5, 1, 2)]
    >>> denoised = prepared.denoise()
    >>> np.array_equal(denoised, nlridge.denoise(noisy))
    True
    """
    sequence = checked_sequence(time_axis, depth_axis, spacing)
    given = Given(image, sigma, noise, mask, channel_axis, stack_axis, sequence)
    tuning, how = Tuning(strength, color, mask is not False), (method, data_range)
    return prepared_image(given, *how, tuning, workers, tile, in_memory=False, kept=Kept())


class Given(NamedTuple):
    """The arguments that describe an image."""

    image: Any
    sigma: Any
    noise: Any
    mask: Any
    channel_axis: Any
    stack_axis: Any
    sequence: SequenceAxis | None = None


def prepared_image(
    given: Given,
    method: Any,
    data_range: Any,
    tuning: Tuning,
    workers: Any,
    tile: Any = None,
    *,
    dtype: Any = None,
    in_memory: bool = True,
    kept: Kept | None = None,
) -> Prepared:
    """`prepare`; with `in_memory`, an array on disk is read into memory.

    `dtype` is the type that will be asked for, so that it can be refused before anything is measured.
    """
    image, sigma, noise, mask, channel_axis, stack_axis, sequence = given
    expect_pixels(image)
    axes = {"channel_axis": channel_axis, "stack_axis": stack_axis}
    origin = noise if isinstance(noise, Prepared | Summary) else None
    if origin is not None:
        expect_none("as noise is that of another image", sigma=sigma)
        noise = origin.noise
    mask = None if mask is False else mask

    def options_for(sigma: Any, dtype: Any = None) -> Options:
        if origin is None:
            return checked_options(sigma, noise, method, data_range, tuning, dtype)
        options = checked_options(None, None, method, data_range, tuning, dtype)
        return replace(options, noise=noise)  # may be 0 if it was estimated

    if not is_dask(image):
        expect_none("for an image that is not a Dask array", tile=tile)
    on_disk = sequence is None and not in_memory and is_on_disk(image)
    if is_dask(image) or on_disk:
        from .unread import DaskImages, StoredImages  # the pixels are read when they are needed

        kind = DaskImages if is_dask(image) else StoredImages
        unread = kind(image, sigma, noise, mask, axes, sequence, workers, tile)
        return Prepared(unread, options_for(None if sigma is None else 1.0), workers, None)
    layout = {"mask": mask, **axes}
    if is_tensor(image):
        from .tensors import on_host, tensor_for  # imports PyTorch

        options = options_for(on_host(sigma))
        return Prepared(
            tensor_for(image, options, layout, sequence, dtype, workers), options, workers, kept
        )
    options, threads = options_for(sigma, dtype=dtype), checked_workers(workers)
    measured: Measured
    if sequence is not None:
        measured = MeasuredSequences(image, options, sequence, threads, **layout)
    else:
        measured = MeasuredImages(image, options, threads, **layout, origin=origin)
    return Prepared(measured, replace(options, dtype=None), workers, kept)
