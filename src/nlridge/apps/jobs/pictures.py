"""Files of images: each is read, denoised frame by frame or with its frames together, and written."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import (
    Calibration,
    Denoised,
    PoissonGaussianNoise,
    Prepared,
    estimate_noise,
    prepare,
    prepare_mosaic,
    restore_brightness,
    to_dtype,
)
from ...atomic import expect_new
from ...errors import ArgumentError
from ...files import Layer, Picture, write
from ...files.apart import read_apart
from ...noise import Noise
from .axes import note_on_frames, sequence_of
from .grain import level_in, words_for
from .paths import INSTEAD_OF_EXISTING
from .words import recorded_warnings

# Share of the variance of the noise that a result is assumed to have at least.
_MIN_VARIANCE_LEFT = 0.01
_EMPTY = np.empty(0, np.float32)


@dataclass(frozen=True, eq=False)
class DenoisedFile:
    """The result of denoising a file."""

    before: Picture
    after: Picture
    frames: list[Denoised | None]
    """The details of each frame, or None for a frame without valid pixels; only the first have an image, and no others."""
    warnings: list[str]
    """What was doubtful about the options, and what other options may do better."""
    notes: list[str]
    """What could not be preserved."""
    seconds: float
    together: str = ""
    """How the frames belong together, "time" or "depth", if they were denoised together; they then share their details."""

    @property
    def first(self) -> tuple[int, Denoised]:
        """The index and the details of the first frame that was denoised."""
        return next((k, details) for k, details in enumerate(self.frames) if details is not None)

    @property
    def in_words(self) -> str:
        """How strong the noise of that frame is, in plain words."""
        number, details = self.first
        places = [(layer, index) for layer in self.before.layers for index in layer.frames()]
        layer, index = places[number]
        frame, given = layer.pixels[index], details.noise_given
        return words_for(self.before, layer, frame, details.noise, details.level, given)


def clean_file(
    source: Path,
    target: Path,
    *,
    overwrite: bool,
    axes: str | None,
    frames: str,
    progress: Callable[[float], None],
    dataset: str | None = None,
    **options: Any,
) -> DenoisedFile:
    """Read, denoise and write a file; `progress` is called with the fraction that is done."""
    expect_new("output", target, overwrite=overwrite, alternatives=INSTEAD_OF_EXISTING)
    start = time.perf_counter()
    before = read_apart(source, axes, dataset)
    with recorded_warnings() as warnings:
        after, details = clean_picture(before, progress, frames, **options)
    target.parent.mkdir(parents=True, exist_ok=True)
    notes = [*after.notes, *write(target, after)]
    seconds = time.perf_counter() - start
    alike = (note_on_frames(layer, frames) for layer in before.layers)
    warnings.extend(sorted({note for note in alike if note}))
    kind = next((kind for _, kind in map(partial(sequence_of, frames=frames), before.layers)), "")
    return DenoisedFile(before, after, details, warnings, notes, seconds, kind)


def clean_picture(
    picture: Picture,
    progress: Callable[[float], None],
    frames: str = "independent",
    calibration: Calibration | None = None,
    rounded: bool = True,
    brightness: bool = False,
    **options: Any,
) -> tuple[Picture, list[Denoised | None]]:
    """Denoise all frames of a picture; returns the new picture and the details of each frame.

    `frames` is how they belong together (see `sequence_of`). Frames of a stack that have no valid pixels are kept as they
    are, and have no details. With a `calibration`, pixels are equalised, and the noise is that of the camera. Pixels are
    `rounded` to the type of the picture, or remain floats. If asked for, the `brightness` that noise took is restored.
    """
    notes = [*picture.notes]
    if brightness:
        _expect_photographs(picture)
    if calibration is not None:
        for layer in picture.layers:
            size = tuple(layer.pixels.shape[layer.axes.index(axis)] for axis in "YX")
            calibration.expect_size(size)
        notes += calibration.notes
    sequences = [
        (layer, index, *sequence_of(layer, frames))
        for layer in picture.layers
        for index in layer.frames(sequence_of(layer, frames)[0])
    ]
    types = {
        id(layer): layer.pixels.dtype if rounded else exact_floats(layer.pixels.dtype)
        for layer in picture.layers
    }
    results = {id(layer): np.empty_like(layer.pixels, types[id(layer)]) for layer in picture.layers}
    all_details: dict[tuple[Any, ...], Denoised | None] = {}
    missing = [_is_missing(layer.pixels[index]) for layer, index, *_ in sequences]
    if all(missing):
        raise ArgumentError("image", None, "at least one", "has no valid pixels")
    for k, (layer, index, together, kind) in enumerate(sequences):

        def sequence_progress(done: int, total: int, k: int = k) -> None:
            progress((k + done / total) / len(sequences))

        pixels = layer.pixels[index]
        key = _key(layer, index, together)
        if missing[k]:
            results[id(layer)][index] = pixels
            all_details[key] = None
            continue
        arguments: dict[str, Any] = {"channel_axis": layer.axis_of("C", together), **options}
        if together:
            arguments[f"{kind}_axis"] = layer.axis_of(together, together)
        if calibration is not None:
            letters = "".join(axis for axis in layer.axes if axis in "YXC" + together)
            pixels = calibration.equalised(pixels, letters)
            noise = calibration.noise_in(pixels, letters)
            arguments |= {} if noise is None else {"noise": noise, "sigma": None}
        if kind == "depth" and layer.voxel is not None:
            arguments["spacing"] = layer.voxel
        prepared = prepared_pixels(layer, pixels, **arguments)
        is_single = layer.mosaic is None and not together
        details = _without_pilot(prepared, sequence_progress, is_single=is_single)
        image = details.image
        if brightness:
            white = float(np.iinfo(layer.pixels.dtype).max)
            axis = arguments["channel_axis"]
            image = restore_brightness(image, details.noise, data_range=white, channel_axis=axis)
        results[id(layer)][index] = to_dtype(image, types[id(layer)])
        if any(all_details.values()):  # only the image of the first frame is used later
            details = replace(details, image=_EMPTY)
        all_details[key] = details
    layers = [
        replace(
            layer, pixels=results[id(layer)], noise=noise_left(layer, _first(layer, all_details))
        )
        for layer in picture.layers
    ]
    of_frames = [
        all_details[_key(layer, index, sequence_of(layer, frames)[0])]
        for layer in picture.layers
        for index in layer.frames()
    ]
    if any(missing):
        notes.append(unchanged_frames(of_frames.count(None), len(of_frames)))
    return replace(picture, layers=layers, notes=notes), of_frames


def _expect_photographs(picture: Picture) -> None:
    """Refuse images without a tone curve, or whose white is not known."""
    for layer in picture.layers:
        if layer.mosaic is not None:
            raise ValueError("it is a raw image; expected a photograph for --restore-brightness")
        if layer.pixels.dtype.kind == "f":
            raise ValueError(
                f"image has dtype {layer.pixels.dtype}; expected integers for --restore-brightness"
            )


def prepared_pixels(
    layer: Layer, pixels: npt.NDArray[Any], *, channel_axis: int | None, **arguments: Any
) -> Prepared:
    """Measure pixels of a layer, with the mosaic and the noise that a raw file states."""
    pixels = np.asarray(with_exact_floats(pixels))  # a memory map is read
    if layer.mosaic is None:
        return prepare(pixels, channel_axis=channel_axis, **arguments)
    if layer.noise is not None and arguments.get("sigma") is arguments.get("noise") is None:
        arguments["noise"] = layer.noise
    return prepare_mosaic(pixels, layer.mosaic, **arguments)


def _without_pilot(
    prepared: Prepared, progress: Callable[[int, int], None], *, is_single: bool
) -> Denoised:
    """The details of an image without the pilot and the residual; those of a single image take no time either."""
    if not is_single:
        details = prepared.details(progress=progress)
        return replace(details, pilot=_EMPTY, residual=_EMPTY)
    image = prepared.denoise(progress=progress)
    summary = prepared.summary(image)
    facts = {field.name: getattr(summary, field.name) for field in fields(summary)}
    images = {"image": image, "pilot": _EMPTY, "residual": _EMPTY}
    return Denoised(**facts, **images, recipe=prepared.recipe, axes=prepared.axes)


def _first(layer: Layer, details: dict[tuple[Any, ...], Denoised | None]) -> Denoised | None:
    """Return the first details of the frames of a layer."""
    return next((one for (own, *_), one in details.items() if own == id(layer) and one), None)


def noise_left(layer: Layer, details: Denoised | None) -> Noise | None:
    """Return what is left of the noise that a file states, from the share of its variance that was removed.

    For a mosaic that states none, it is what is left of the noise that was found: programs that know the camera would
    otherwise remove noise that is no longer there.
    """
    if details is None or details.level == 0:
        return layer.noise
    noise = layer.noise
    if noise is None and layer.mosaic is not None and details.removed > 0:
        noise = details.noise
    if not isinstance(noise, PoissonGaussianNoise):
        return layer.noise
    share = 1 - min(details.removed / details.level, 1.0) ** 2
    return noise.weakened(math.sqrt(max(share, _MIN_VARIANCE_LEFT)))


def _key(layer: Layer, index: tuple[int | slice, ...], together: str) -> tuple[Any, ...]:
    """Return what the frames of a sequence have in common."""
    kept = "YXC" + together
    pairs = zip(layer.axes, index, strict=True)
    return id(layer), *(number for axis, number in pairs if axis not in kept)


def unchanged_frames(count: int, total: int) -> str:
    """Return a note on frames without valid pixels."""
    return f"frames without valid pixels were left unchanged ({count} of {total})"


def _is_missing(frame: npt.NDArray[Any]) -> bool:
    """Return whether a frame has no valid pixels."""
    return frame.dtype.kind == "f" and bool(np.isnan(frame).all())


def with_exact_floats(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert integers that float32 cannot represent exactly to float64; return other pixels unchanged."""
    wide = pixels.dtype.kind in "ui" and pixels.dtype.itemsize >= 4
    return pixels.astype(np.float64) if wide else pixels


def exact_floats(dtype: "np.dtype[Any]") -> "np.dtype[Any]":
    """Return the type of results that are not rounded."""
    dtype = with_exact_floats(np.empty(0, dtype)).dtype
    return dtype.newbyteorder("=") if dtype.kind == "f" else np.dtype(np.float32)


def noise_in(picture: Picture, kind: str) -> Iterator[tuple[Noise, str, int, int]]:
    """Estimate the noise in the middle frame of each layer.

    Yields the noise, how strong it is in plain words, the number of the frame (from 1), and the number of frames.
    """
    for layer in picture.layers:
        frames = list(layer.frames())
        middle = len(frames) // 2
        frame = with_exact_floats(layer.pixels[frames[middle]])
        if layer.mosaic is not None:
            model = layer.noise or estimate_noise(frame, mosaic=layer.mosaic)
        else:
            model = estimate_noise(frame, channel_axis=layer.channel_axis, kind=kind)
        level = level_in(model, frame, layer.channel_axis)
        yield model, words_for(picture, layer, frame, model, level), middle + 1, len(frames)


def calibration_from(
    offset_map: str | None, gain_map: str | None, sigma_map: str | None, sigma: Any = None
) -> Calibration | None:
    """Read the maps of a calibrated camera; `sigma` is its read-out noise, if it is a number. None without maps."""
    names = {"offset_map": offset_map, "gain_map": gain_map, "sigma_map": sigma_map}
    if not any(names.values()):
        return None
    offset, gain, level = (
        None if file is None else _map(name, Path(file)) for name, file in names.items()
    )
    if sigma is not None and np.ndim(sigma):
        raise ArgumentError("sigma", sigma, "one number with maps of a camera")
    return Calibration(offset, gain, sigma if level is None else level)


def _map(name: str, path: Path) -> npt.NDArray[Any]:
    """Read a map, which is an image of one channel."""
    try:
        (layer,) = read_apart(path).layers
        pixels = layer.pixels.squeeze()
    except FileNotFoundError:
        raise ArgumentError(
            name, path, "an image file", "is {value}, which does not exist"
        ) from None
    except ValueError as error:
        raise ArgumentError(name, path, f"an image of one channel: {error}") from None
    if pixels.ndim != 2:
        raise ArgumentError(
            name, path, "an image of one channel", f"is {path} of shape {pixels.shape}"
        )
    values = pixels.astype(np.float64)
    valid = values[np.isfinite(values)]
    if name != "offset_map" and (
        not np.any(valid > 0) or (name == "sigma_map" and valid.min() < 0)
    ):
        raise ArgumentError(name, path, "positive", "is {value}, with values that are not positive")
    return values
