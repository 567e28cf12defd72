"""`denoise_with_details`."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ..algorithm.settings import Recipe
from ..algorithm.tuning import DEFAULT, Tuning
from ..arrays import is_dask, is_tensor
from ..checks import LARGEST
from ..noise import Noise, power_of_two
from ..planning.doubts import ROUNDING, warn_about
from ..planning.elsewhere import explained
from ..planning.layout import Layout
from ..planning.levels import usable_levels
from ..planning.mosaic import Mosaic
from ..planning.options import Options, checked_options
from ..planning.pixels import restored
from ..planning.plan import SAMPLE, share_of
from ..progress import Progress, progress_reporter, runs_reporter
from ..video.planning import SequenceAxis
from .arguments import checked_progress, checked_workers, expect_none
from .in_memory import Frame, frames_of
from .mosaics import MosaicPlanes, mean_of_parts, mosaic_planes
from .sequences import checked_sequence, sequences_of

_LITTLE = 0.1  # share of the level of the noise; if less is removed, that is next to nothing
_NO_STRENGTH = "the strength is 0"


@dataclass(frozen=True, eq=False)
class Denoised:
    """A denoised image, with the noise and the settings that were used."""

    image: npt.NDArray[np.floating[Any]]
    """The denoised image, as `denoise` returns it."""
    pilot: npt.NDArray[np.floating[Any]]
    """The result of the first step, which guides the others."""
    residual: npt.NDArray[np.floating[Any]]
    """What was removed: the noisy image minus the denoised one; 0 at missing pixels."""
    noise: Noise
    """The noise model, as given or as estimated; `print` describes it."""
    noise_given: bool
    """Whether the noise was given rather than estimated."""
    recipe: Recipe
    """The settings of the algorithm."""
    level: float
    """The root mean square of the standard deviation of the noise, in the units of the image."""
    removed: float
    """The root mean square of `residual`, without missing pixels and outliers."""
    unchanged: str
    """Why almost nothing was removed; empty if something was."""
    axes: str = "YX"
    """One letter for each axis of the image: Y and X for height and width, C for channels, T for frames."""
    defects: int = 0
    """The number of outliers, such as hot and dead pixels, that were replaced."""

    def __str__(self) -> str:
        """Describe the noise, and how much of it was removed."""
        return in_words(self)

    def _repr_html_(self) -> str:
        """Show the image before and after in a notebook, under a slider, and what was removed."""
        from ..display.notebook import notebook_view

        return notebook_view(self.image, self.residual, self.axes, str(self))


class Described(Protocol):
    """What is said about the noise of an image or of a clip; see `Denoised`."""

    @property
    def noise(self) -> Noise: ...
    @property
    def noise_given(self) -> bool: ...
    @property
    def level(self) -> float: ...
    @property
    def removed(self) -> float: ...
    @property
    def unchanged(self) -> str: ...


def in_words(details: Described, name: Callable[[str], str] = str) -> str:
    """Describe the noise, how much of it was removed, and what to try if that is next to nothing.

    `name` returns what the reader calls an argument of `denoise`.
    """
    defects = details.defects if isinstance(details, Denoised) else 0
    replaced = f"; replaced {defects} outlier{'s' * (defects > 1)} (hot or dead pixels)"
    replaced = replaced if defects else ""
    return f"{noise_in_words(details)}; removed {removed_in_words(details, name)}{replaced}"


def noise_in_words(details: Described) -> str:
    return f"{details.noise} ({'given' if details.noise_given else 'estimated'})"


def removed_in_words(details: Described, name: Callable[[str], str]) -> str:
    if not details.unchanged:
        share = details.removed / details.level
        words = f"{details.removed:.3g} (rms), {share:.0%} of its level"
        if share_of(details.noise, DEFAULT) == 1 or details.noise_given:
            return words
        return f"{words}, since it may be texture; a larger {name('strength')} removes more"
    if details.unchanged == _NO_STRENGTH:
        return f"nothing, since {_NO_STRENGTH}"
    if details.noise_given:
        advice = f"a larger {name('sigma')} or {name('strength')} removes more"
    else:
        advice = f"if there is visible noise, pass {name('sigma')} or {name('noise')}"
    removed = f"next to nothing ({details.removed:.2g})" if details.removed > 0 else "nothing"
    return f"{removed}, since {details.unchanged}; {advice}"


@explained
def denoise_with_details(
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
    time_axis: int | None = None,
    depth_axis: int | None = None,
    spacing: Sequence[float] | None = None,
    data_range: float | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Denoised:
    """Remove noise from an image, and return the noise, the residual and the settings as well.

    Parameters
    ----------
    image, sigma, noise, strength, colour, method, mask, mosaic, channel_axis, time_axis, depth_axis, spacing
        As in `denoise`. The image must be an array in memory, and cannot be a stack.
    data_range, workers, progress
        Likewise.

    Returns
    -------
    Denoised
        An object with these attributes: `image`, the denoised image; `pilot`, the result of the first
        step; `residual`, what was removed; `noise`, the noise model; `noise_given`, whether it was given
        rather than estimated; `recipe`, the settings; `level` and `removed`, the root mean squares of the
        noise and of the residual; `unchanged`, why almost nothing was removed, if so; and `defects`, the
        number of outliers, such as hot and dead pixels, that were replaced. `print` describes it in a
        sentence.

    See Also
    --------
    denoise : Return only the denoised image; also for tensors, Dask arrays and stacks.
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
    Gaussian noise with a standard deviation of 20 (given); removed 19.6 (rms), 98% of its level
    """
    sequence = checked_sequence(time_axis, depth_axis, spacing)
    return _details(
        image,
        sigma,
        noise,
        mosaic,
        sequence,
        method=method,
        tuning=Tuning(strength, colour, mask is not False),
        data_range=data_range,
        mask=None if mask is False else mask,
        channel_axis=channel_axis,
        workers=workers,
        progress=progress,
    )


def denoise_burst(
    frames: npt.NDArray[Any],
    sigma: npt.ArrayLike | None = None,
    *,
    reference: int,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    colour: float = 1.0,
    method: str | Recipe = "standard",
    mosaic: Mosaic | str | None = None,
    channel_axis: int | None = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Denoised:
    """Denoise one of several frames of a scene, along the first axis, with the help of the others."""
    return _details(
        frames,
        sigma,
        noise,
        mosaic,
        SequenceAxis("time_axis", 0),
        method=method,
        tuning=Tuning(strength, colour),
        data_range=None,
        mask=None,
        channel_axis=channel_axis,
        workers=workers,
        progress=progress,
        only=reference,
    )


def _details(
    image: Any,
    sigma: Any,
    noise: Any,
    mosaic: Any,
    axis: SequenceAxis | None,
    *,
    method: Any,
    tuning: Tuning,
    data_range: Any,
    mask: Any,
    channel_axis: Any,
    workers: Any,
    progress: Any,
    only: int | None = None,
) -> Denoised:
    """`denoise_with_details`; of frames that belong together, `only` one may be wanted."""
    if is_tensor(image) or is_dask(image):
        kind = "tensor" if is_tensor(image) else "Dask array"
        raise TypeError(f"image is a {kind}; expected an array in memory, or use denoise")
    if mosaic is not None:
        expect_none("for a mosaic", channel_axis=channel_axis)
        if axis is not None and not axis.is_time:
            raise ValueError(f"depth_axis is {axis.axis}; expected None for a mosaic")
        together = None if axis is None else axis.axis
        planes = mosaic_planes(image, mosaic, sigma, noise, tuning, together)
        parts = planes.parts(method, tuning.strength)
        with runs_reporter(checked_progress(progress), len(parts)) as reports:
            found = [
                _details(
                    part.pixels,
                    None,
                    part.noise,
                    None,
                    axis and SequenceAxis("time_axis", 0),
                    method=method,
                    tuning=replace(tuning, outliers=False),
                    data_range=data_range,
                    mask=part.mask(mask),
                    channel_axis=part.channel_axis,
                    workers=workers,
                    progress=report,
                    only=only,
                )
                for part, report in zip(parts, reports, strict=True)
            ]
        return _joined(parts, found, only)
    options = checked_options(sigma, noise, method, data_range, tuning)
    threads, progress = checked_workers(workers), checked_progress(progress)
    arguments: dict[str, Any] = {"mask": mask, "channel_axis": channel_axis, "workers": threads}
    if axis is None:
        frames, steps, layout = _run_image(image, options, progress, **arguments)
    else:
        frames, steps, layout = _run_sequence(image, options, axis, progress, only, **arguments)
    plan = frames[0].plan
    denoised = [_of_frame(*both) for both in zip(frames, steps, strict=True)]
    level, removed = (
        math.hypot(*values) / math.sqrt(len(values))
        for values in zip(
            *((frame.level, frame.removed) for frame in denoised if frame.has_pixels), strict=True
        )
    )
    arrays = (np.stack(images) for images in zip(*(frame[:3] for frame in denoised), strict=True))
    result, pilot, residual = (
        layout.like_image(array if axis is None else array[None]) for array in arrays
    )
    if only is not None:
        result, pilot, residual = result[0], pilot[0], residual[0]
    return Denoised(
        result,
        pilot,
        residual,
        plan.noise,
        options.noise is not None,
        plan.recipe,
        level,
        removed,
        _why_unchanged(frames[0], level, removed),
        layout.axes,
        sum(frame.repaired.outliers for frame in frames),
    )


def _joined(parts: list[MosaicPlanes], found: list[Denoised], only: int | None) -> Denoised:
    """The details of a mosaic, from those of its parts; `only` one of several frames may be wanted."""
    planes, details = parts[0], found[0]
    noisy = planes.image if only is None else planes.image[only]
    image = mean_of_parts(parts, [one.image for one in found], noisy)
    pilot = mean_of_parts(parts, [one.pilot for one in found], noisy)
    residual = (noisy - image).astype(image.dtype, copy=False)
    return replace(
        details,
        image=image,
        pilot=pilot,
        residual=residual,
        noise_given=planes.noise_given,
        axes="YX" if image.ndim == 2 else "TYX",
        defects=planes.defects,
    )


_Run: TypeAlias = tuple[list[Frame], list[list[npt.NDArray[Any]]], Layout]
"""Frames, the pilot and the result of each, and the layout of the image."""


def _run_image(image: Any, options: Options, progress: Progress, **arguments: Any) -> _Run:
    images = frames_of(image, options, stack_axis=None, may_be_stack=False, **arguments)
    frame = images[0]
    warn_about(frame.plan.doubt)
    with progress_reporter(progress, frame.blocks(), "block") as tick:
        steps = list(frame.run(images.workers, tick))
    return [frame], [steps or [restored(frame.plan, frame.pixels, ())]], images.layout


def _run_sequence(
    image: Any,
    options: Options,
    axis: SequenceAxis,
    progress: Progress,
    only: int | None,
    **arguments: Any,
) -> _Run:
    sequences = sequences_of(image, options, axis, stack_axis=None, may_be_stack=False, **arguments)
    sequence, read = sequences.plan(0), sequences.frames(0).frame
    warn_about(sequence.plan.doubt)
    wanted = range(sequence.count) if only is None else range(only, only + 1)
    with progress_reporter(progress, sequence.ticks(), "block") as tick:
        steps = list(sequence.run(read, sequences.workers, tick, wanted))
    frames = []
    for number in wanted:
        pixels, missing, levels, _ = sequence.with_levels(read(number))
        usable = usable_levels(levels, missing, pixels)
        frames.append(Frame(pixels, missing, usable, sequence.plan))
    return frames, steps, sequences.layout


class _DenoisedFrame(NamedTuple):
    """See `Denoised`; all images are (channels, height, width)."""

    result: npt.NDArray[Any]
    pilot: npt.NDArray[Any]
    residual: npt.NDArray[Any]
    has_pixels: bool
    level: float
    removed: float


def _of_frame(frame: Frame, steps: list[npt.NDArray[Any]]) -> _DenoisedFrame:
    """The details of a frame, from its pilot and its result."""
    pilot, result = steps[0], steps[-1]
    if pilot is result:  # a recipe with one step
        pilot = result.copy()
    residual = _residual(frame, frame.pixels, result)
    has_pixels = frame.missing is None or not frame.missing.all()
    return _DenoisedFrame(
        result,
        pilot,
        residual,
        has_pixels,
        level_of(frame.plan.noise, frame.levels.all, result, frame.missing) if has_pixels else 0.0,
        _removed(frame, result, residual) if has_pixels else 0.0,
    )


def summary_of(frame: Frame, result: npt.NDArray[Any], noise_given: bool) -> Denoised:
    """The details of a denoised frame that has valid pixels, without any images."""
    plan, empty = frame.plan, np.empty(0, np.float32)
    level = level_of(plan.noise, frame.levels.all, result, frame.missing)
    removed = _removed(frame, result)
    unchanged = _why_unchanged(frame, level, removed)
    return Denoised(
        empty,
        empty,
        empty,
        plan.noise,
        noise_given,
        plan.recipe,
        level,
        removed,
        unchanged,
        defects=frame.repaired.outliers,
    )


def _why_unchanged(frame: Frame, level: float, removed: float) -> str:
    plan = frame.plan
    strength = plan.tuning.strength * max(plan.share, 1e-9)
    return why_unchanged(level, removed, strength, frame.pixels.dtype, visible=bool(plan.planes))


def _removed(
    frame: Frame, result: npt.NDArray[Any], residual: npt.NDArray[Any] | None = None
) -> float:
    """The root mean square of the noise that was removed, without outliers; `residual` is with them, if it is known."""
    if residual is None or frame.repaired.outliers:
        residual = _residual(frame, frame.repaired.pixels, result)
    return _rms(residual, frame.missing)


def _residual(frame: Frame, pixels: npt.NDArray[Any], result: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """What was removed from pixels; 0 at missing ones."""
    valid = True if frame.missing is None else ~frame.missing
    residual = np.zeros_like(result)
    with np.errstate(over="ignore", invalid="ignore"):
        np.subtract(pixels, result, out=residual, where=valid, dtype=np.float64, casting="unsafe")
    largest = np.finfo(residual.dtype).max
    return np.clip(residual, -largest, largest, out=residual)


def level_of(
    noise: Noise,
    levels: npt.NDArray[np.float64],
    result: npt.NDArray[Any],
    missing: npt.NDArray[np.bool_] | None = None,
) -> float:
    """The root mean square of the standard deviation of the noise, from some rows of a denoised frame.

    `levels` broadcast against the frame, which is (channels, height, width).
    """
    rows = slice(None, None, -(-result[0].size // SAMPLE))
    own = levels[:, rows] if levels.shape[1] > 1 else levels
    with np.errstate(over="ignore", invalid="ignore"):  # NaN of any bits
        variance = noise.variance(result[:, rows].astype(np.float64), own)
    return _rms(np.sqrt(variance), None if missing is None else missing[:, rows])


def _rms(channels: Iterable[npt.NDArray[Any]], missing: npt.NDArray[np.bool_] | None) -> float:
    """The root mean square of the channels of an image, without missing pixels; channel by channel to save memory."""
    total, count = 0.0, 0
    for k, channel in enumerate(channels):
        values = (channel if missing is None else channel[~missing[k]]).astype(np.float64)
        values = np.clip(values, -LARGEST, LARGEST)
        unit = power_of_two(float(np.abs(values).max(initial=0)))  # squares would overflow
        total = math.hypot(total, unit * float(np.linalg.norm(values / unit)))
        count += values.size
    return total / math.sqrt(count)


def why_unchanged(
    level: float, removed: float, strength: float, dtype: np.dtype[Any], *, visible: bool
) -> str:
    """Why next to nothing was removed from a frame of some type; empty if something was."""
    if strength == 0:
        return _NO_STRENGTH
    if level == 0:
        return "the image seems to have no noise"
    if not visible:
        return "such noise is invisible beside the range of the image"
    if dtype.kind in "ui" and level < ROUNDING:
        return "such noise is below the rounding error of the pixels"
    if removed < _LITTLE * strength * level:
        return "hardly any patches of the image are similar"
    return ""
