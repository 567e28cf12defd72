"""The raw images of cameras: `prepare_mosaic` and `denoise_mosaic`."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy.typing as npt

from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..core.arrays import is_dask, is_tensor
from ..core.engines.reuse import Kept
from ..errors import ArgumentTypeError
from ..noise import Noise
from ..planning.conversion import to_dtype
from ..planning.elsewhere import explained
from ..planning.layout import SequenceAxis
from ..planning.mosaic import Mosaic
from ..planning.options import Options, checked_dtype, checked_options
from ..planning.plan import Plan
from ..progress import Progress, runs_reporter
from ..types import Pixels
from .arguments import checked_progress, checked_workers, expect_none, expect_pixels
from .details import Denoised
from .measured import Measured, MeasuredImages, Run
from .mosaic_planes import MosaicPlanes, mean_of_parts, mosaic_planes
from .prepared import Prepared
from .quality import Quality
from .sequences import MeasuredSequences


@explained
def prepare_mosaic(
    image: npt.ArrayLike,
    mosaic: Mosaic | str,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    time_axis: int | None = None,
    data_range: float | None = None,
    workers: int | None = None,
) -> Prepared:
    """Measure a raw image once, to denoise it as often as needed.

    Parameters
    ----------
    image, mosaic, sigma, noise, strength, color, method, mask, time_axis, data_range, workers
        As in `denoise_mosaic`.

    Returns
    -------
    Prepared
        An object with the noise of the raw image, and with the methods `denoise` and `details`. Regions and the estimated
        quality are not available.

    See Also
    --------
    denoise_mosaic : Measure a raw image and denoise it once.

    Examples
    --------
    One image of a burst, denoised with the help of the others, and how much noise was removed from it:

    >>> import numpy as np
    >>> import nlridge
    >>> burst = np.random.default_rng(0).normal(900, 30, (5, 64, 64))
    >>> prepared = nlridge.prepare_mosaic(burst, "RGGB", time_axis=0, method="fast")
    >>> details = prepared.details(frame=2)
    >>> details.image.shape, bool(25 < details.removed < 35)
    ((64, 64), True)
    """
    given = _Given(image, mosaic, sigma, noise, mask, time_axis)
    tuning = Tuning(strength, color, mask is not False)
    return _prepared(given, method, data_range, tuning, workers, Kept())


@explained
def denoise_mosaic(
    image: npt.ArrayLike,
    mosaic: Mosaic | str,
    sigma: npt.ArrayLike | None = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    mask: npt.ArrayLike | None = None,
    time_axis: int | None = None,
    data_range: float | None = None,
    dtype: npt.DTypeLike | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Pixels:
    """Remove noise from a raw image of a camera, before it is demosaicked.

    Parameters
    ----------
    image : array_like of shape (height, width)
        The raw image, with one value per pixel. With ``time_axis=0``, it is a burst of raw images.
    mosaic : Mosaic or str
        Bayer pattern, such as "RGGB", or a `Mosaic`, which also holds the black level and the white level.
    sigma : float or ndarray, optional
        Standard deviation of Gaussian noise: a number, or a map with the shape of the image.
    noise : GaussianNoise, PoissonGaussianNoise, CorrelatedNoise or str, optional
        Noise model above the black level, or the kind of noise to estimate, as in `denoise`.
    strength, color, method, data_range, dtype, workers, progress
        As in `denoise`.
    mask : array_like of bool, or False, optional
        Missing pixels, marked True. With False, hot and dead pixels are kept.
    time_axis : {None, 0}, optional
        Axis of the images of a burst.

    Returns
    -------
    ndarray
        The denoised raw image, with the shape and units of `image`, black level included. It consists of floats, unless
        `dtype` says otherwise.

    See Also
    --------
    prepare_mosaic : Also return details, one image of a burst, or results for several settings.
    denoise : Denoise any other image.
    estimate_noise : Estimate the noise of a raw image, with `mosaic`.

    Notes
    -----
    The four planes of a mosaic are denoised jointly. Unless the noise is given, it is estimated from all of them together,
    as signal-dependent noise. Hot and dead pixels are replaced by the median of their neighbours of the same color. Areas
    in which most pixels are saturated are left unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> import nlridge
    >>> raw = np.random.default_rng(0).poisson(400, (64, 64)) + 100
    >>> mosaic = nlridge.Mosaic("RGGB", black_level=100, white_level=4000)
    >>> clean = nlridge.denoise_mosaic(raw, mosaic)
    >>> bool(np.std(clean) < np.std(raw) / 4)
    True
    """
    target, progress = None if dtype is None else checked_dtype(dtype), checked_progress(progress)
    given = _Given(image, mosaic, sigma, noise, mask, time_axis)
    tuning = Tuning(strength, color, mask is not False)
    prepared = _prepared(given, method, data_range, tuning, workers, None)
    result: Pixels = prepared.denoise(dtype=target, progress=progress)
    return result


class _Given(NamedTuple):
    """The arguments that describe a mosaic."""

    image: Any
    mosaic: Any
    sigma: Any
    noise: Any
    mask: Any
    time_axis: Any


def _prepared(
    given: _Given, method: Any, data_range: Any, tuning: Tuning, workers: Any, kept: Kept | None
) -> Prepared:
    """`prepare_mosaic`."""
    image = given.image
    expect_pixels(image)
    kind = "tensor" if is_tensor(image) else "Dask array" if is_dask(image) else ""
    if kind:
        raise ArgumentTypeError("image", kind, "an array in memory for a mosaic", "is a {value}")
    options = checked_options(None, None, method, data_range, tuning)
    given = given._replace(mask=None if given.mask is False else given.mask)
    return Prepared(MeasuredMosaic(given, options, workers), options, workers, kept)


class MeasuredMosaic(Measured):
    """A mosaic, or a burst of them."""

    def __init__(self, given: _Given, options: Options, workers: int | None) -> None:
        self.given, self.workers = given, workers
        self._planes: dict[bool, MosaicPlanes] = {}
        """The planes, by whether the strength is 0: defective pixels are then kept."""
        self._measured: dict[tuple[bool, int], tuple[MosaicPlanes, Measured, Options]] = {}
        self._parts(options)

    @property
    def axes(self) -> str:
        return "YX" if self.given.time_axis is None else "TYX"

    @property
    def noise_given(self) -> bool:
        return next(iter(self._planes.values())).noise_given

    def plan(self, options: Options) -> Plan:
        _, measured, own = self._parts(options)[0]
        return measured.plan(own)

    def denoise(self, options: Options, run: Run) -> Pixels:
        expect_none("for a mosaic", region=run.region)
        target = None if run.dtype is None else checked_dtype(run.dtype)
        parts = self._parts(options)
        with runs_reporter(run.reports, len(parts)) as reports:
            results = [
                measured.denoise(own, replace(run, dtype=None, progress=report))
                for (_, measured, own), report in zip(parts, reports, strict=True)
            ]
        mean = mean_of_parts([part for part, *_ in parts], results, _frame(parts[0][0], run.frame))
        return mean if target is None else to_dtype(mean, target)

    def details(self, options: Options, run: Run) -> Denoised:
        parts = self._parts(options)
        with runs_reporter(run.reports, len(parts)) as reports:
            found = [
                measured.details(own, replace(run, progress=report))
                for (_, measured, own), report in zip(parts, reports, strict=True)
            ]
        mosaics = [part for part, *_ in parts]
        noisy = _frame(mosaics[0], run.frame)
        image = mean_of_parts(mosaics, [one.image for one in found], noisy)
        pilot = mean_of_parts(mosaics, [one.pilot for one in found], noisy)
        return replace(
            found[0],
            image=image,
            pilot=pilot,
            residual=(noisy - image).astype(image.dtype, copy=False),
            noise_given=mosaics[0].noise_given,
            axes="YX" if image.ndim == 2 else "TYX",
            defects=mosaics[0].defects,
        )

    def quality(self, options: Options, run: Run, peak: float | None, probes: int) -> Quality:
        raise ArgumentTypeError(
            "image", None, "another image to estimate the quality", "is a mosaic"
        )

    def _parts(self, options: Options) -> list[tuple[MosaicPlanes, Measured, Options]]:
        """Return the parts of the mosaic whose mean is the result, each with the options for it."""
        given, tuning = self.given, options.tuning
        keeps_all = tuning.strength == 0
        if keeps_all not in self._planes:
            self._planes[keeps_all] = mosaic_planes(
                given.image, given.mosaic, given.sigma, given.noise, tuning, given.time_axis
            )
        parts = []
        for part in self._planes[keeps_all].parts(options.method, tuning.strength):
            known = replace(tuning, outliers=False)  # those of the mosaic were replaced
            own = checked_options(None, part.noise, options.method, options.data_range, known)
            key = keeps_all, part.margin
            if key not in self._measured:
                self._measured[key] = part, self._measured_part(part, own), own
            first, measured, _ = self._measured[key]
            parts.append((first, measured, own))
        return parts

    def _measured_part(self, part: MosaicPlanes, options: Options) -> Measured:
        threads, mask = checked_workers(self.workers), part.mask(self.given.mask)
        layout: Any = {"mask": mask, "stack_axis": None, "channel_axis": part.channel_axis}
        if self.given.time_axis is None:
            return MeasuredImages(part.pixels, options, threads, **layout)
        axis = SequenceAxis("time_axis", 0)
        return MeasuredSequences(part.pixels, options, axis, threads, **layout)


def _frame(planes: MosaicPlanes, frame: int | None) -> Pixels:
    """The mosaic as it was given, or one of its frames."""
    return planes.image if frame is None else planes.image[frame]
