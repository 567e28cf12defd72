"""Batches of files: which files to read, where to write the results, and the denoising of each file."""

import glob
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..api.conversion import to_dtype
from ..api.details import Denoised, denoise_with_details
from ..api.estimating import estimate_noise
from ..checks import shown
from ..files import (
    Layer,
    Picture,
    format_of,
    output_suffix,
    read,
    suffix_of,
    suffixes,
    write,
)
from ..files.atomic import expect_new
from ..files.video import SUFFIXES as VIDEO_SUFFIXES
from ..files.video import is_video_name
from ..noise import Noise
from ..noise.poisson import PoissonGaussianNoise
from ..planning.calibration import Calibration
from ..planning.plan import float_type
from .words import recorded_warnings

MARK = "_denoised"
"""What the names of results end in, unless an output is given."""
INSTEAD_OF_EXISTING = ", --overwrite or --skip-existing"
"""What to suggest if an output exists; see `expect_new`."""
_LEAST_LEFT = 0.01  # share of the variance of the noise that is taken to be left in a result
# Neighbours that are compared to choose between time and depth: so many pairs, and so many pixels in all.
_PAIRS = 64
_SAMPLE = 2**20
_SYNONYMS = {".jpeg": ".jpg", ".tiff": ".tif", ".ome.tiff": ".tif", ".ome.tif": ".tif", ".fit": ".fits", ".fts": ".fits"}  # fmt: skip
_UNSUPPORTED = (".gif", ".jp2", ".exr", ".hdr", ".psd", ".pdf")  # fmt: skip


@dataclass(frozen=True)
class Source:
    """An input file, and the folder in which it was found, if it was not named itself."""

    path: Path
    folder: Path | None = None


@dataclass(frozen=True, eq=False)
class DenoisedFile:
    """The result of denoising a file."""

    before: Picture
    after: Picture
    frames: list[Denoised | None]
    """The details of each frame, or None for a frame without valid pixels; only the first details have images."""
    warnings: list[str]
    """What was doubtful about the options."""
    notes: list[str]
    """What could not be preserved."""
    seconds: float
    together: str = ""
    """How frames belong together that were denoised together: "time" or "depth"; then they share their details."""

    @property
    def first(self) -> tuple[int, Denoised]:
        """The index and the details of the first frame that was denoised."""
        return next((k, details) for k, details in enumerate(self.frames) if details is not None)


def sources(inputs: Sequence[str], recursive: bool, output: str | None = None) -> list[Source]:
    """Return the input files, which are given by name, by a pattern, or by their folder.

    Files found in a folder or by a pattern are skipped if they are results: marked as such, or in the output folder.
    """
    found: dict[Path, Source] = {}
    output_path = None if output is None else Path(output).resolve()

    def is_result(file: Path) -> bool:
        in_output = (
            output_path is not None
            and output_path.is_dir()
            and output_path in file.resolve().parents
        )
        return in_output or _stem(file)[0].endswith(MARK)

    def add_folder(folder: Path) -> None:
        in_place = output_path is not None and output_path == folder.resolve()
        for file in sorted(folder.rglob("*") if recursive else folder.glob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
            is_known = suffix_of(file) in known_suffixes() and file.is_file()
            if is_known and not hidden and (in_place or not is_result(file)):
                found.setdefault(file, Source(file, folder))

    for name in inputs:
        path = Path(name)
        if not name:
            raise ValueError("input is an empty name; expected a file, a folder or a pattern")
        if path.is_dir() and not is_zarr_name(path):
            add_folder(path)
        elif not path.exists() and glob.has_magic(name):
            matches = [Path(match) for match in sorted(glob.glob(name, recursive=recursive))]
            for match in matches or [path]:
                if match.is_dir() and not is_zarr_name(match):
                    add_folder(match)
                elif not is_result(match):
                    found.setdefault(match, Source(match))
        else:
            found.setdefault(path, Source(path))
    if not found:
        raise ValueError(
            f"input is {', '.join(inputs)}, without any image files; "
            f"expected files that end in {_in_words(known_suffixes())}"
        )
    return list(found.values())


def known_suffixes() -> tuple[str, ...]:
    """Return the suffixes of all files that can be denoised, except those of Zarr arrays."""
    return *suffixes(), *VIDEO_SUFFIXES


def _in_words(endings: Iterable[str]) -> str:
    """Return suffixes as a list, the many of raw files only as that of DNG."""
    return ", ".join(ending for ending in endings if output_suffix(ending) == ending)


def is_zarr_name(path: Path) -> bool:
    """Return whether a path names a Zarr array: a folder that holds one image."""
    return path.suffix.lower() == ".zarr"


def expect_no_collisions(
    given: Sequence[Source], outputs: Sequence[Path], report: str | None
) -> None:
    """Check that no result replaces another input or another result, and that the report replaces neither."""
    inputs = {source.path.resolve() for source in given}
    taken: dict[Path, Path] = {}
    for source, output in zip(given, outputs, strict=True):
        path = output.resolve()
        if path in inputs and path != source.path.resolve():
            raise ValueError(
                f"output of {source.path} is {output}, which is also an input; expected another name"
            )
        if path in taken:
            raise ValueError(
                f"output of {taken[path]} and of {source.path} is {output}; expected different names"
            )
        taken[path] = source.path
    if report is not None:
        if Path(report).suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"report is {report}; expected a name that ends in .html")
        if Path(report).resolve() in inputs | set(taken):
            raise ValueError(
                f"report is {report}, which is also an input or an output; expected another name"
            )


def targets(
    given: Sequence[Source], output: str | None, format: str | None, develop: bool = False
) -> list[Path]:
    """Return the path of each result: the output file, in the output folder, or beside the input.

    With `develop`, the results of raw files are TIFF files unless a format is given.
    """
    if develop and not any(is_raw_name(source.path) for source in given):
        raise ValueError("--develop is given, but no raw file; expected at least one")
    suffix = None if format is None else f".{format.lower().removeprefix('.')}"
    if suffix is not None and suffix not in VIDEO_SUFFIXES:
        format_of(suffix)
    if output == "":
        raise ValueError("output is an empty name; expected a file or a folder")
    unsupported = set(_UNSUPPORTED) - set(known_suffixes())
    if (
        output is not None
        and Path(output).suffix.lower() in unsupported
        and not Path(output).is_dir()
    ):
        raise ValueError(
            f"output is {output}; expected one of {_in_words(known_suffixes())}, or a folder"
        )
    if output is not None and len(given) == 1 and given[0].folder is None:
        path = Path(output)
        if suffix_of(path) in known_suffixes() and not path.is_dir():
            if suffix and _usual(suffix_of(path)) != _usual(suffix):
                raise ValueError(
                    f"output is {output} and format is {format}; expected them to agree"
                )
            _expect_same_kind(given[0].path, path, develop)
            return [path]
    if (
        output is not None
        and suffix_of(Path(output)) in known_suffixes()
        and not Path(output).is_dir()
    ):
        raise ValueError(f"output is {output}; expected a folder for {len(given)} inputs")
    if output is not None:
        _expect_folder(Path(output))
    outputs = []
    for source in given:
        stem, ending = _stem(source.path)
        developed = develop and is_raw_name(source.path)
        ending = suffix or (".tif" if developed else output_suffix(ending))
        name = stem + ending
        if output is None:
            outputs.append(source.path.with_name(f"{stem}{MARK}{ending}"))
        elif source.folder is None:
            outputs.append(Path(output) / name)
        else:
            outputs.append(Path(output) / source.path.relative_to(source.folder).with_name(name))
    for source, path in zip(given, outputs, strict=True):
        _expect_same_kind(source.path, path, develop)
    return outputs


def is_raw_name(path: Path) -> bool:
    """Return whether a path names a raw file of a camera."""
    return output_suffix(path.suffix) == ".dng"


def _expect_same_kind(source: Path, output: Path, develop: bool) -> None:
    """Check that a video becomes a video, an image an image, and that only raw files become raw files: DNG."""
    if is_raw_name(output):
        wrong = develop or not is_raw_name(source)
        if wrong or output.suffix.lower() != output_suffix(output.suffix):
            instead = "a developed format, such as .tif" if wrong else ".dng"
            raise ValueError(f"output of {source} is {output}; expected {instead}")
    if is_video_name(source) != is_video_name(output):
        expected = VIDEO_SUFFIXES if is_video_name(source) else suffixes()
        raise ValueError(
            f"output of {source} is {output}; expected a name that ends in {_in_words(expected)}"
        )


def _expect_folder(path: Path) -> None:
    """Check that a folder is writable, or can be created."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise ValueError(f"output is {path}, but {existing} is a file; expected a folder")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"output is {path}; expected a writable folder")


def _stem(path: Path) -> tuple[str, str]:
    """Split a name into its stem and its suffix, which may be double, as in .ome.tif."""
    length = len(suffix_of(path))
    return path.name[: len(path.name) - length], path.name[len(path.name) - length :]


def _usual(suffix: str) -> str:
    """Return the usual suffix of the format that a suffix stands for."""
    return _SYNONYMS.get(suffix, suffix)


def axes_of(channel_axis: int | None, stack_axis: int | None) -> str | None:
    """Return one letter for each axis of a plain array, or None if no axis is named."""
    if channel_axis is None and stack_axis is None:
        return None
    dimensions = 2 + (channel_axis is not None) + (stack_axis is not None)
    letters = [""] * dimensions
    for name, axis, letter in (
        ("--channel-axis", channel_axis, "C"),
        ("--stack-axis", stack_axis, "Q"),
    ):
        if axis is None:
            continue
        if not -dimensions <= axis < dimensions:
            raise ValueError(
                f"{name} is {axis}; expected a number from {-dimensions} to {dimensions - 1}"
            )
        if letters[axis]:
            raise ValueError(
                f"--stack-axis and --channel-axis are both {axis % dimensions}; expected different axes"
            )
        letters[axis] = letter
    rest = iter("YX")
    return "".join(letter or next(rest) for letter in letters)


def notes_on_axes(given: str | None, used: Iterable[str]) -> list[str]:
    """Return a note if the given axes differ from those of the file, which take precedence."""
    if given is None or all(axes == given for axes in used):
        return []
    return ["the given axes were ignored, as the file names its own"]


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
    before = read(source, axes, dataset)
    with recorded_warnings() as warnings:
        after, details = clean_picture(before, progress, frames, **options)
    target.parent.mkdir(parents=True, exist_ok=True)
    notes = [*after.notes, *write(target, after)]
    seconds = time.perf_counter() - start
    kind = next((kind for _, kind in map(partial(sequence_of, frames=frames), before.layers)), "")
    return DenoisedFile(before, after, details, warnings, notes, seconds, kind)


def calibration_from(
    offset_map: str | None, gain_map: str | None, sigma_map: str | None, sigma: Any = None
) -> Calibration | None:
    """Read the maps of a calibrated camera; `sigma` is its read-out noise, if it is a number.  None without maps."""
    names = {"offset_map": offset_map, "gain_map": gain_map, "sigma_map": sigma_map}
    if not any(names.values()):
        return None
    offset, gain, level = (
        None if file is None else _map(name, Path(file)) for name, file in names.items()
    )
    if sigma is not None and np.ndim(sigma):
        raise ValueError(f"sigma is {shown(sigma)}; expected one number with maps of a camera")
    return Calibration(offset, gain, sigma if level is None else level)


def _map(name: str, path: Path) -> npt.NDArray[Any]:
    """Read a map, which is an image of one channel."""
    try:
        (layer,) = read(path).layers
        pixels = layer.pixels.squeeze()
    except FileNotFoundError:
        raise ValueError(
            f"{name} is {path}, which does not exist; expected an image file"
        ) from None
    except ValueError as error:
        raise ValueError(f"{name} is {path}; expected an image of one channel: {error}") from None
    if pixels.ndim != 2:
        raise ValueError(
            f"{name} is {path} of shape {pixels.shape}; expected an image of one channel"
        )
    values = pixels.astype(np.float64)
    valid = values[np.isfinite(values)]
    if name != "offset_map" and (
        not np.any(valid > 0) or (name == "sigma_map" and valid.min() < 0)
    ):
        raise ValueError(f"{name} is {path}, with values that are not positive; expected positive")
    return values


def clean_picture(
    picture: Picture,
    progress: Callable[[float], None],
    frames: str = "independent",
    calibration: Calibration | None = None,
    rounded: bool = True,
    **options: Any,
) -> tuple[Picture, list[Denoised | None]]:
    """Denoise all frames of a picture; returns the new picture and the details of each frame.

    `frames` says how they belong together (see `sequence_of`).  Frames of a stack that have no valid pixels are kept as
    they are, and have no details.  With a `calibration`, pixels are equalised, and the noise is that of the camera.
    Pixels are `rounded` to the type of the picture, or remain floats.
    """
    notes = [*picture.notes]
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
        raise ValueError("image has no valid pixels; expected at least one")
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
        arguments = with_mosaic(layer, arguments)
        if together:
            arguments[f"{kind}_axis"] = layer.axis_of(together, together)
        if calibration is not None:
            letters = "".join(axis for axis in layer.axes if axis in "YXC" + together)
            pixels = calibration.equalised(pixels, letters)
            noise = calibration.noise_in(pixels, letters)
            arguments |= {} if noise is None else {"noise": noise, "sigma": None}
        if kind == "depth" and layer.voxel is not None:
            arguments["spacing"] = layer.voxel
        details = denoise_with_details(
            with_exact_floats(pixels), progress=sequence_progress, **arguments
        )
        results[id(layer)][index] = to_dtype(details.image, types[id(layer)])
        if any(all_details.values()):  # only the images of the first frame are used later
            empty = np.empty(0, np.float32)
            details = replace(details, image=empty, pilot=empty, residual=empty)
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


def with_mosaic(layer: Layer, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `denoise_with_details` with what a raw file says of its image."""
    if layer.mosaic is None:
        return arguments
    stated: dict[str, Any] = {}
    if layer.noise is not None and arguments.get("sigma") is arguments.get("noise") is None:
        stated["noise"] = layer.noise
    others = {name: value for name, value in arguments.items() if name != "channel_axis"}
    return {**others, "mosaic": layer.mosaic, **stated}


def _first(layer: Layer, details: dict[tuple[Any, ...], Denoised | None]) -> Denoised | None:
    """Return the first details of the frames of a layer."""
    return next((one for (own, *_), one in details.items() if own == id(layer) and one), None)


def noise_left(layer: Layer, details: Denoised | None) -> Noise | None:
    """Return what is left of the noise that a file states, by how much of its variance was removed."""
    if details is None or not isinstance(layer.noise, PoissonGaussianNoise) or details.level == 0:
        return layer.noise
    share = 1 - min(details.removed / details.level, 1.0) ** 2
    return layer.noise.weakened(math.sqrt(max(share, _LEAST_LEFT)))


def sequence_of(layer: Layer, frames: str) -> tuple[str, str]:
    """Return the axis along which the frames of a layer belong together, and how: in "time" or in "depth".

    Both are empty if they are independent, as are frames of which the file does not say otherwise if `frames` is "auto".
    With both T and Z, that along which neighbours are more similar is chosen: both have the same noise.
    """
    sizes = dict(zip(layer.axes, layer.pixels.shape, strict=True))
    stacked = [axis for axis in layer.axes if axis not in "YXC" and sizes[axis] > 1]
    if frames == "auto":
        named = [axis for axis in "TZ" if axis in stacked]
        choice = min(named, key=partial(_difference, layer)) if len(named) > 1 else "".join(named)
        return choice, {"T": "time", "Z": "depth"}.get(choice, "")
    if frames == "independent" or not stacked:
        return "", ""
    # The axis of that name, or one without a name, or that of another: ImageJ takes any stack for slices.
    wanted = "T" if frames == "time" else "Z"
    unnamed = [axis for axis in stacked if axis not in "TZ"]
    return (wanted if wanted in stacked else [*stacked, *unnamed][-1]), frames


def _difference(layer: Layer, axis: str) -> float:
    """Return the mean squared difference of neighbours along an axis, in a sample of their pixels.

    The pixels may be on disk; only some pairs of frames are read.
    """
    sizes = dict(zip(layer.axes, layer.pixels.shape, strict=True))
    starts = [1 if a in "YXC" else n - (a == axis) for a, n in sizes.items()]
    total = math.prod(starts)
    chosen = np.linspace(0, total - 1, min(total, _PAIRS)).astype(int)
    pixels = len(chosen) * math.prod(sizes[a] for a in sizes if a in "YXC")
    step = max(1, round(math.sqrt(pixels / _SAMPLE)))
    some = tuple(slice(None, None, step if a in "YX" else None) for a in layer.axes)
    square, count = 0.0, 0
    for place in zip(*np.unravel_index(chosen, starts), strict=True):
        index = tuple(
            slice(None) if a in "YXC" else slice(int(k), int(k) + (2 if a == axis else 1))
            for a, k in zip(layer.axes, place, strict=True)
        )
        pair = np.asarray(layer.pixels[index])[some].astype(np.float64)
        with np.errstate(invalid="ignore"):
            difference = np.diff(pair, axis=layer.axes.index(axis))
        valid = difference[np.isfinite(difference)]
        square, count = square + float(np.sum(valid**2)), count + valid.size
    return square / count if count else math.inf


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
    return float_type(with_exact_floats(np.empty(0, dtype)).dtype)


def noise_in(picture: Picture, kind: str) -> Iterator[tuple[Any, int, int]]:
    """Estimate the noise in the middle frame of each layer.

    Yields the noise, the number of the frame (from 1), and the number of frames.
    """
    for layer in picture.layers:
        frames = list(layer.frames())
        middle = len(frames) // 2
        frame = with_exact_floats(layer.pixels[frames[middle]])
        if layer.mosaic is not None:
            model = layer.noise or estimate_noise(frame, mosaic=layer.mosaic)
        else:
            model = estimate_noise(frame, channel_axis=layer.channel_axis, kind=kind)
        yield model, middle + 1, len(frames)
