"""Measuring an image once, and denoising parts of it: the same pixels, to the bit, as those of the whole result."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import (
    CorrelatedNoise,
    GaussianNoise,
    PoissonGaussianNoise,
    Prepared,
    denoise_to_disk,
    estimate_noise,
    prepare,
    to_dtype,
)
from ...files import Layer
from ...noise import Noise, level_of
from ...types import Pixels
from ..jobs.grain import is_certain, level_in
from ..jobs.pictures import with_exact_floats
from ..jobs.sampling import deviation_in, squares_of
from ..jobs.words import with_options
from .messages import Rectangle, Settings

Choice = str | float | Rectangle
"""A kind of noise, a standard deviation, or where to measure it, as stored."""
Progress = Callable[[int, int], None]

_GLANCE = 64  # the side of the squares that a first estimate is made from
_ROUNDING = 1 / math.sqrt(12)  # the standard deviation of the error of rounding to integers
_BAND = 512  # rows of a large image that are denoised at a time


class Measured(NamedTuple):
    """What is known about a frame. Results depend on this and on the settings only."""

    prepared: Prepared
    level: float
    """The root mean square of the standard deviation of the noise, in the units of the image."""
    given: bool
    """Whether the noise was given rather than estimated."""
    whole: bool
    """Whether pixels are whole numbers."""
    rough: bool = False
    """Whether this is a first estimate, from a few pixels."""
    raw: tuple[Noise, float] | None = None
    """The noise of the raw image, and its level, if this is about an image that was developed from it."""
    plain: str = ""
    """How strong the noise is, in plain words."""

    @property
    def kind(self) -> str:
        """The kind of the noise of what is shown."""
        return _kind_of(self.prepared.noise)

    @property
    def noise_and_level(self) -> tuple[Noise, float]:
        """The noise of what is denoised, and its standard deviation."""
        return self.raw or (self.prepared.noise, self.level)

    def described(self) -> dict[str, Any]:
        """Return what the page is told about the noise."""
        noise, level = self.noise_and_level
        coarse = self.whole and level < _ROUNDING
        doubt = "" if self.raw or self.given else self.prepared.doubt
        return {
            "plain": self.plain,
            "words": f"{noise}; {with_options(doubt)}" if doubt else str(noise),
            "kind": _kind_of(noise),
            "level": float(f"{level:.4g}"),
            "shown": float(f"{self.level:.4g}"),
            "sure": (self.given or (is_certain(noise) and not coarse)) and not self.rough,
        }


def _kind_of(noise: Noise) -> str:
    kinds: dict[type[Any], str] = {CorrelatedNoise: "correlated", PoissonGaussianNoise: "poisson"}
    return kinds.get(type(noise), "gaussian")


def measure(planes: Pixels, choice: Choice, sampled: bool = False) -> Measured:
    """Measure a frame of (channels, height, width), once for each choice of noise.

    If `sampled`, as for a large image on disk, the noise is estimated from a part of the pixels.
    """
    source = planes if sampled and isinstance(choice, str) else _in_memory(planes)
    return _measured(planes, prepare(source, channel_axis=0, **noise_arguments(planes, choice)))


def glance(planes: Pixels, choice: Choice) -> Measured:
    """Measure a few pixels of a frame, for a first impression."""
    squares = with_exact_floats(squares_of(planes, _GLANCE))
    try:
        few = prepare(squares, channel_axis=0, **noise_arguments(planes, choice))
    except ValueError:  # too few pixels for this kind of noise
        few = prepare(squares, channel_axis=0)
    return _measured(planes, few)._replace(rough=True)


def _measured(planes: Pixels, origin: Prepared) -> Measured:
    """Return what is known of a frame whose noise was measured, perhaps in other pixels of it."""
    prepared = with_noise_of(planes, origin)
    level = level_in(prepared.noise, planes, 0)
    return Measured(prepared, level, origin.noise_given, planes.dtype.kind in "ui")


def with_noise_of(planes: Pixels, origin: Prepared) -> Prepared:
    """Return other pixels of a frame, ready to be denoised; their noise is known."""
    return prepare(_in_memory(planes), noise=origin, channel_axis=0)


def _in_memory(planes: Pixels) -> Pixels:
    """Return pixels whose noise is not sampled, even if they are on disk."""
    return np.asarray(with_exact_floats(planes))


def measure_raw(raw: Layer, planes: Pixels, choice: Choice, developed: Measured) -> Measured:
    """Measure a raw image, whose mosaic has these planes; `developed` is what is known of what is shown of it."""
    assert raw.mosaic is not None
    given = noise_arguments(planes, choice).get("sigma")
    noise: Noise | None = None if given is None else GaussianNoise(given)
    if noise is None and choice == "auto":
        noise = raw.noise
    if noise is None:
        noise = estimate_noise(raw.pixels, mosaic=raw.mosaic, kind=str(choice))
    mosaic = raw.mosaic.planes(raw.pixels)
    levels = np.reshape(np.asarray(noise.level, np.float64), (-1, 1, 1))
    signal = mosaic - raw.mosaic.black_levels
    level = level_of(noise, levels, signal, raw.mosaic.saturated(mosaic))
    return developed._replace(given=given is not None, rough=False, raw=(noise, level))


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
    noise = noise_arguments(planes, choice)
    return {"method": settings.method, **settings.arguments, **noise}


def denoised(
    prepared: Prepared,
    settings: Settings,
    method: str,
    progress: Progress,
    rectangle: Rectangle | None = None,
) -> Pixels:
    """Return a denoised frame, or a part of it, as floats."""
    region = None
    if rectangle is not None:
        left, top, width, height = rectangle
        region = np.s_[top : top + height, left : left + width]
    result: Pixels = prepared.denoise(
        region, method=method, **settings.arguments, progress=progress
    )
    return result


def denoised_on_disk(
    planes: Pixels, noise: Noise, settings: Settings, method: str, folder: Path, progress: Progress
) -> Pixels:
    """Denoise a large frame with little memory; returns a memory map of pixels as they will be saved."""
    out = folder / "result.npy"
    out.unlink(missing_ok=True)
    how: dict[str, Any] = {"channel_axis": 0, "dtype": planes.dtype, "tile": _BAND}
    result: Pixels = denoise_to_disk(
        planes, out, noise=noise, method=method, progress=progress, **how, **settings.arguments
    )
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
        made = denoise_to_disk(
            layer.pixels[index], out, progress=sequence_progress, **axes, **arguments
        )
        for number, frame in enumerate(np.moveaxis(made, axes[f"{together}_axis"], 0)):
            target = np.moveaxis(result[index], axes[f"{together}_axis"], 0)[number]
            target[...] = to_dtype(frame, result.dtype)
