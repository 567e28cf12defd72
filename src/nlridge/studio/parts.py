"""Measuring an image once, and denoising parts of it: the same pixels, to the bit, as those of the whole result."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..algorithm.tuning import DEFAULT, Tuning
from ..api.arguments import checked_workers, missing_pixels
from ..api.conversion import to_dtype
from ..api.denoising import denoise
from ..api.details import level_of
from ..api.estimating import estimate_noise
from ..api.in_memory import Frame, denoise_frame
from ..engines.grid import Window
from ..engines.reuse import Kept
from ..files import Layer
from ..jobs.pictures import with_exact_floats
from ..jobs.words import with_options
from ..large.disk import NewArray, OpenedArray, open_read_only
from ..large.executors import LocalThreads
from ..large.frames import Frame as StoredFrame
from ..large.frames import Source, sample_of
from ..large.run import run
from ..noise import Noise
from ..noise.correlated import CorrelatedNoise
from ..noise.poisson import PoissonGaussianNoise
from ..noise.sampling import deviation_in
from ..planning.blind import estimate_of
from ..planning.doubts import ROUNDING
from ..planning.facts import facts_of
from ..planning.layout import Layout
from ..planning.levels import Levels
from ..planning.options import Options, checked_options
from ..planning.plan import Facts, plan_for, share_of
from .messages import Rectangle, Settings

Pixels = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Choice = str | float | Rectangle
"""A kind of noise, a standard deviation, or where to measure it, as stored."""
Progress = Callable[[int, int], object]

_SAMPLE = 2**18  # pixels of a channel that the level of the noise is computed from
_GLANCE = 64  # the side of the squares that a first estimate is made from
_BAND = 512  # rows of a large image that are denoised at a time


class Measured(NamedTuple):
    """What is known of a frame: all that is decided about it depends on this and on the settings."""

    facts: Facts
    levels: Levels
    level: float
    """The root mean square of the standard deviation of the noise, in the units of the image."""
    given: bool
    """Whether the noise was given rather than estimated."""
    rough: bool = False
    """Whether this is a first estimate, from a few pixels."""
    raw: tuple[Noise, float] | None = None
    """The noise of the raw image, and its level, if this is about an image that was developed from it."""
    plain: str = ""
    """How strong the noise is, in plain words."""

    @property
    def kind(self) -> str:
        """The kind of the noise of what is shown."""
        return _kind_of(self.facts.noise)

    @property
    def noise_and_level(self) -> tuple[Noise, float]:
        """The noise of what is denoised, and its standard deviation."""
        return self.raw or (self.facts.noise, self.level)

    def described(self) -> dict[str, Any]:
        """Return what the page is told about the noise."""
        noise, level = self.noise_and_level
        dtype = self.facts.dtype
        coarse = dtype is not None and dtype.kind in "ui" and level < ROUNDING
        doubtful = share_of(noise, DEFAULT) < 1
        doubt = "" if self.raw else self.facts.doubt
        return {
            "plain": self.plain,
            "words": f"{noise}; {with_options(doubt)}" if doubt else str(noise),
            "kind": _kind_of(noise),
            "level": float(f"{level:.4g}"),
            "shown": float(f"{self.level:.4g}"),
            "sure": (self.given or not (coarse or doubtful)) and not self.rough,
        }


def _kind_of(noise: Noise) -> str:
    kinds: dict[type[Any], str] = {CorrelatedNoise: "correlated", PoissonGaussianNoise: "poisson"}
    return kinds.get(type(noise), "gaussian")


def measure(planes: Pixels, choice: Choice, sampled: bool = False) -> Measured:
    """Measure a frame of (channels, height, width), once for each choice of noise.

    If `sampled`, as for a large image, the noise is estimated from a part of the pixels.
    """
    options, doubt = _options(planes, choice), ""
    given = options.noise is not None
    if sampled and not given:
        pixels, missing = sample_of(_source(planes))
        noise, doubt = estimate_of(pixels, missing, options.kind, checked_workers(None))
        options = Options(noise)
    pixels = with_exact_floats(planes)
    measured = _measured(pixels, missing_pixels(pixels, None), options, given)
    return measured._replace(facts=replace(measured.facts, doubt=doubt)) if doubt else measured


def glance(planes: Pixels, choice: Choice) -> Measured:
    """Measure a few pixels of a frame, for a first impression."""
    options = _options(planes, choice)
    pixels, missing = sample_of(_source(planes), _GLANCE)
    pixels = with_exact_floats(pixels)
    missing = missing_pixels(pixels, missing)
    try:
        measured = _measured(pixels, missing, options, options.noise is not None)
    except ValueError:  # too few pixels for this kind of noise
        measured = _measured(pixels, missing, Options(), False)
    return measured._replace(rough=True)


def measure_raw(raw: Layer, planes: Pixels, choice: Choice, developed: Measured) -> Measured:
    """Measure a raw image, whose mosaic has these planes; `developed` is what is known of what is shown of it."""
    assert raw.mosaic is not None
    options = _options(planes, choice)
    noise = options.noise
    if noise is None and choice == "auto":
        noise = raw.noise
    if noise is None:
        noise = estimate_noise(raw.pixels, mosaic=raw.mosaic, kind=options.kind)
    signal = raw.mosaic.planes(raw.pixels) - raw.mosaic.black_levels
    levels = np.reshape(np.asarray(noise.level, np.float64), (-1, 1, 1))
    level = level_of(noise, levels, signal, raw.mosaic.saturated(raw.mosaic.planes(raw.pixels)))
    given = options.noise is not None
    return developed._replace(given=given, rough=False, raw=(noise, level))


def _options(planes: Pixels, choice: Choice) -> Options:
    arguments = noise_arguments(planes, choice)
    sigma, noise = arguments.get("sigma"), arguments.get("noise")
    return checked_options(sigma, noise, "standard", None, Tuning(1.0))


def _measured(pixels: Pixels, missing: Mask | None, options: Options, given: bool) -> Measured:
    levels = None
    if options.noise is not None:
        levels = np.reshape(np.asarray(options.noise.level, np.float64), (-1, 1, 1))
    facts, usable = facts_of(pixels, missing, levels, options, checked_workers(None))
    return Measured(facts, usable, _level(pixels, missing, facts.noise, usable), given)


def _source(planes: Pixels) -> Source:
    return Source(StoredFrame(planes, "CYX"))


def noise_arguments(planes: Pixels, choice: Choice) -> dict[str, Any]:
    """Return the arguments of `denoise` for a choice of noise."""
    if isinstance(choice, str):
        return {} if choice == "auto" else {"noise": choice}
    if isinstance(choice, tuple):
        left, top, width, height = choice
        return {"sigma": deviation_in(planes[:, top : top + height, left : left + width])}
    return {"sigma": choice}


def arguments_of(planes: Pixels, settings: Settings, choice: Choice) -> dict[str, Any]:
    """Return the arguments of `denoise` for settings, other than the axes."""
    return {
        "method": settings.method,
        "strength": settings.strength,
        "colour": settings.colour,
        **noise_arguments(planes, choice),
    }


def planned(planes: Pixels, measured: Measured, settings: Settings, method: str) -> Frame:
    """Return a frame with its plan."""
    pixels = with_exact_floats(planes)
    options = Options(
        measured.facts.noise if measured.given else None,
        tuning=Tuning(settings.strength, settings.colour),
        method=method,
    )
    plan = plan_for(pixels.shape, measured.facts, options)
    return Frame(pixels, missing_pixels(pixels, None, may_be_all=True), measured.levels, plan)


def denoised(
    frame: Frame,
    progress: Progress,
    rectangle: Rectangle | None = None,
    kept: Kept | None = None,
) -> Pixels:
    """Return a denoised frame, or a part of it, as floats; what was `kept` of other strengths is not computed again."""
    window = None
    if rectangle is not None:
        left, top, width, height = rectangle
        window = Window(range(top, top + height), range(left, left + width))
    return denoise_frame(frame, checked_workers(None), progress, window, kept)


def as_saved(result: Pixels, dtype: "np.dtype[Any]") -> Pixels:
    """Return pixels as they will be saved."""
    return to_dtype(result, dtype)


def denoised_on_disk(
    planes: Pixels, frame: Frame, settings: Settings, method: str, folder: Path, progress: Progress
) -> Pixels:
    """Denoise a large frame with little memory; returns a memory map of pixels as they will be saved."""
    options = Options(
        frame.plan.noise, tuning=Tuning(settings.strength, settings.colour), method=method
    )
    layout = Layout(planes.shape, None, 0)
    out = folder / "result.npy"
    out.unlink(missing_ok=True)
    spec = NewArray(layout.shape, planes.dtype, "CYX", _BAND, OpenedArray(planes))
    executor = LocalThreads(checked_workers(None))
    run([_source(planes)], layout, options, out, spec, executor, progress, to_dtype)
    result: Pixels = open_read_only(out)
    return result


def denoise_on_disk_together(
    layer: Layer,
    axis: str,
    together: str,
    result: Pixels,
    folder: Path,
    arguments: dict[str, Any],
    progress: Progress,
) -> None:
    """Denoise frames that belong together along an axis into `result`, with few of them in memory."""
    axes: dict[str, Any] = {
        f"{together}_axis": layer.axis_of(axis, axis),
        "channel_axis": layer.axis_of("C", axis),
    }
    if together == "depth" and layer.spacing is not None:
        axes["spacing"] = layer.spacing
    sequences = list(layer.frames(axis))
    for k, index in enumerate(sequences):

        def sequence_progress(done: int, total: int, k: int = k) -> None:
            progress(k * total + done, len(sequences) * total)

        out = folder / f"{together}.npy"
        out.unlink(missing_ok=True)
        made = denoise(
            layer.pixels[index], out=out, progress=sequence_progress, **axes, **arguments
        )
        for number, frame in enumerate(np.moveaxis(made, axes[f"{together}_axis"], 0)):
            target = np.moveaxis(result[index], axes[f"{together}_axis"], 0)[number]
            target[...] = to_dtype(frame, result.dtype)


def _level(pixels: Pixels, missing: Mask | None, noise: Noise, levels: Levels) -> float:
    step = max(1, round((pixels[0].size / _SAMPLE) ** 0.5))
    some = (slice(None), slice(None, None, step), slice(None, None, step))
    own = levels.all if levels.all.shape[1:] == (1, 1) else levels.all[some]
    return level_of(noise, own, pixels[some], None if missing is None else missing[some])
