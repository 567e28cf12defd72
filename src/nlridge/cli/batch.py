"""Many files: which, where to, and each of them cleaned by itself."""

import glob
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..api.conversion import to_dtype
from ..api.denoising import Denoised, denoise_with_details
from ..api.estimating import estimate_noise
from ..files import Layer, Picture, format_of, read, suffixes, write

MARK = "_denoised"
_SAME = {".jpeg": ".jpg", ".tiff": ".tif", ".fit": ".fits", ".fts": ".fits"}
_FOREIGN = (".gif", ".heic", ".avif", ".jp2", ".jxl", ".exr", ".hdr", ".dng", ".raw", ".psd", ".pdf")  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A file to be read, and the folder that it was found in, if it was."""

    path: Path
    folder: Path | None = None


@dataclass(frozen=True, eq=False)
class Cleaned:
    """What was done with a file."""

    before: Picture
    after: Picture
    found: list[Denoised]
    """Of each frame, without its images but for the first."""
    notes: list[str]
    """What could not be kept."""
    seconds: float


def sources(inputs: Sequence[str], recursive: bool, output: str | None = None) -> list[Source]:
    """The files that are named: by themselves, by patterns, or by their folders.

    What is found in a folder or by a pattern is not taken if it is a result: marked as one, or in the
    folder of the output.
    """
    found: dict[Path, Source] = {}
    results = None if output is None else Path(output).resolve()

    def is_result(file: Path) -> bool:
        inside = results is not None and results.is_dir() and results in file.resolve().parents
        return inside or _stem(file)[0].endswith(MARK)

    def add_folder(folder: Path) -> None:
        inside = (
            results is not None and results == folder.resolve()
        )  # in place: nothing is a result
        for file in sorted(folder.rglob("*") if recursive else folder.glob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
            known = file.suffix.lower() in suffixes() and file.is_file()
            if known and not hidden and (inside or not is_result(file)):
                found.setdefault(file, Source(file, folder))

    for name in inputs:
        path = Path(name)
        if not name:
            raise ValueError("an input has no name; expected a file, a folder or a pattern")
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
            f"no image files in {', '.join(inputs)}; expected files that end in {', '.join(suffixes())}"
        )
    return list(found.values())


def is_zarr_name(path: Path) -> bool:
    """Whether something is Zarr by its name: a folder, but one image."""
    return path.suffix.lower() == ".zarr"


def refuse_to_destroy(given: Sequence[Source], places: Sequence[Path], report: str | None) -> None:
    """No result may be written to a file that is yet to be read, nor two to the same, nor the report to either."""
    inputs = {source.path.resolve() for source in given}
    taken: dict[Path, Path] = {}
    for source, place in zip(given, places, strict=True):
        where = place.resolve()
        if where in inputs and where != source.path.resolve():
            raise ValueError(
                f"{source.path} would be written to {place}, which is an input as well"
            )
        if where in taken:
            raise ValueError(f"{taken[where]} and {source.path} would both be written to {place}")
        taken[where] = source.path
    if report is not None:
        if Path(report).suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"report is {report}; expected a name that ends in .html")
        if Path(report).resolve() in inputs | set(taken):
            raise ValueError(f"report is {report}, which is an image of the run as well")


def targets(given: Sequence[Source], output: str | None, format: str | None) -> list[Path]:
    """Where each result goes: a file, a folder, or beside the input."""
    suffix = None if format is None else f".{format.lower().removeprefix('.')}"
    if suffix is not None:
        format_of(suffix)
    if output == "":
        raise ValueError("output has no name; expected a file or a folder")
    foreign = set(_FOREIGN) - set(suffixes())
    if output is not None and Path(output).suffix.lower() in foreign and not Path(output).is_dir():
        raise ValueError(
            f"output is {output}; expected one of {', '.join(suffixes())}, or a folder"
        )
    if output is not None and len(given) == 1 and given[0].folder is None:
        path = Path(output)
        if path.suffix.lower() in suffixes() and not path.is_dir():
            if suffix and _SAME.get(path.suffix.lower(), path.suffix.lower()) != suffix:
                raise ValueError(
                    f"output is {output} and format is {format}; expected them to agree"
                )
            return [path]
    if (
        output is not None
        and Path(output).suffix.lower() in suffixes()
        and not Path(output).is_dir()
    ):
        raise ValueError(f"output is {output}; expected a folder for {len(given)} inputs")
    if output is not None:
        _expect_folder(Path(output))
    found = []
    for source in given:
        stem, ending = _stem(source.path)
        name = stem + (suffix or ending)
        if output is None:
            found.append(source.path.with_name(f"{stem}{MARK}{suffix or ending}"))
        elif source.folder is None:
            found.append(Path(output) / name)
        else:
            found.append(Path(output) / source.path.relative_to(source.folder).with_name(name))
    return found


def _expect_folder(path: Path) -> None:
    """A folder that results can be written to, or that can be made."""
    there = path
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise ValueError(f"output is {path}, but {there} is a file; expected a folder")
    if not os.access(there, os.W_OK):
        raise ValueError(f"output is {path}; expected a folder that may be written to")


def _stem(path: Path) -> tuple[str, str]:
    """The name without its ending, and the ending, which may be double."""
    for double in (".ome.tif", ".ome.tiff"):
        if path.name.lower().endswith(double):
            return path.name[: -len(double)], path.name[-len(double) :]
    return path.stem, path.suffix


def axes_of(channel_axis: int | None, stack_axis: int | None) -> str | None:
    """Letters for the axes of a plain array, if any are named."""
    if channel_axis is None and stack_axis is None:
        return None
    dimensions = 2 + (channel_axis is not None) + (stack_axis is not None)
    letters = [""] * dimensions
    for name, axis, letter in (
        ("channel-axis", channel_axis, "C"),
        ("stack-axis", stack_axis, "T"),
    ):
        if axis is None:
            continue
        if not -dimensions <= axis < dimensions or letters[axis]:
            raise ValueError(f"{name} is {axis}; expected one of {dimensions} axes that is free")
        letters[axis] = letter
    rest = iter("YX")
    return "".join(letter or next(rest) for letter in letters)


def clean_file(
    source: Path,
    target: Path,
    *,
    overwrite: bool,
    axes: str | None,
    noise: str,
    progress: Callable[[float], None],
    **options: Any,
) -> Cleaned:
    """Read, clean and write a file; `progress` is called with the share that is done."""
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists; use --overwrite or --skip-existing")
    start = time.perf_counter()
    before = read(source, axes)
    after, found = clean_picture(before, noise, progress, **options)
    target.parent.mkdir(parents=True, exist_ok=True)
    notes = [*before.notes, *write(target, after)]
    return Cleaned(before, after, found, notes, time.perf_counter() - start)


def clean_picture(
    picture: Picture, noise: str, progress: Callable[[float], None], **options: Any
) -> tuple[Picture, list[Denoised]]:
    """The picture without its noise, and what was found in each frame."""
    frames = [(layer, index) for layer in picture.layers for index in layer.frames()]
    layers = {id(layer): np.empty_like(layer.pixels) for layer in picture.layers}
    found: list[Denoised] = []
    for k, (layer, index) in enumerate(frames):

        def share(done: int, total: int, k: int = k) -> None:
            progress((k + done / total) / len(frames))

        frame = as_floats(layer.pixels[index])
        model = None
        if noise != "auto" and options.get("sigma") is None:
            model = estimate_noise(frame, channel_axis=layer.channel_axis, kind=noise)
            if not np.any(np.asarray(model.level) > 0):
                model = None  # nothing to remove, which is found out once more
        details = denoise_with_details(
            frame, noise=model, channel_axis=layer.channel_axis, progress=share, **options
        )
        layers[id(layer)][index] = to_dtype(details.image, layer.pixels.dtype)
        if found:  # images of the first frame are enough to look at
            nothing = np.empty(0, np.float32)
            details = replace(details, image=nothing, pilot=nothing, residual=nothing)
        found.append(details)
    cleaned = [Layer(layers[id(layer)], layer.axes) for layer in picture.layers]
    return replace(picture, layers=cleaned), found


def as_floats(pixels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers that float32 does not hold as float64, so that the result has all their digits."""
    wide = pixels.dtype.kind in "ui" and pixels.dtype.itemsize >= 4
    return pixels.astype(np.float64) if wide else pixels


def noise_in(picture: Picture) -> Iterator[tuple[Any, int, int]]:
    """The noise of each layer, in its middle frame: the model, the number of the frame, and of how many."""
    for layer in picture.layers:
        frames = list(layer.frames())
        middle = len(frames) // 2
        frame = as_floats(layer.pixels[frames[middle]])
        model = estimate_noise(frame, channel_axis=layer.channel_axis)
        yield model, middle + 1, len(frames)
