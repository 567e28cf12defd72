"""Which files to read, and where to write their results."""

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ArgumentError
from ...files import format_of, output_suffix, suffix_of, suffixes
from ...files.video import SUFFIXES as VIDEO_SUFFIXES
from ...files.video import is_video_name

MARK = "_denoised"
"""The end of the names of results, unless an output is given."""
INSTEAD_OF_EXISTING = ", --overwrite or --skip-existing"
"""What to suggest if an output exists; see `expect_new`."""
_SYNONYMS = {".jpeg": ".jpg", ".tiff": ".tif", ".ome.tiff": ".tif", ".ome.tif": ".tif", ".fit": ".fits", ".fts": ".fits", ".jpe": ".jpg", ".jfif": ".jpg"}  # fmt: skip
_UNSUPPORTED = (".exr", ".gpr", ".hdr", ".psd", ".pdf")
_NAMED = 5  # files of unknown formats that a sentence names


@dataclass(frozen=True)
class Source:
    """An input file, and the folder in which it was found, unless the file itself was given."""

    path: Path
    folder: Path | None = None


def sources(
    inputs: Sequence[str],
    recursive: bool,
    output: str | None = None,
    unknown: list[Path] | None = None,
) -> list[Source]:
    """Return the input files, given by name, by a pattern, or by their folder.

    Files found in a folder or by a pattern are skipped if they are results: marked as such, or in the output folder.
    Files in a folder whose format is not known are added to `unknown`.
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
            if hidden or not file.is_file() or (is_result(file) and not in_place):
                continue
            if suffix_of(file) in known_suffixes():
                found.setdefault(file, Source(file, folder))
            elif unknown is not None and not _is_in_zarr(file):
                unknown.append(file)

    for name in inputs:
        path = Path(name)
        if not name:
            raise ArgumentError("input", "", "a file, a folder or a pattern", "is an empty name")
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
        raise ArgumentError(
            "input",
            ", ".join(inputs),
            f"files that end in {', '.join(known_suffixes())}",
            "is {value}, without any image files",
        )
    return list(found.values())


def on_unknown(files: Sequence[Path]) -> str:
    """Return a sentence on files in folders that were skipped; empty if there are none."""
    if not files:
        return ""
    several = len(files) > 1
    count = f"{len(files)} files were" if several else "1 file was"
    words = ", ".join(file.name for file in files[:_NAMED])
    if len(files) > _NAMED:
        endings = sorted({suffix_of(file) or "no suffix" for file in files[_NAMED:]})
        more = ", ..." if len(endings) > _NAMED else ""
        words += f" and {len(files) - _NAMED} others ({', '.join(endings[:_NAMED])}{more})"
    whose = "their formats are" if several else "its format is"
    return f"{count} skipped, as {whose} not known: {words}"


def _is_in_zarr(file: Path) -> bool:
    """Return whether a file is a part of a Zarr array."""
    return any(is_zarr_name(folder) for folder in file.parents)


def known_suffixes() -> tuple[str, ...]:
    """Return the suffixes of all files that can be denoised, except those of Zarr arrays."""
    return *suffixes(), *VIDEO_SUFFIXES


def _in_words(endings: Iterable[str]) -> str:
    """Return a list, in words, of the suffixes of files that can be written."""
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
            raise ArgumentError(
                "output",
                output,
                "another name",
                f"of {source.path} is {output}, which is also an input",
            )
        if path in taken:
            raise ArgumentError(
                "output",
                output,
                "different names",
                f"of {taken[path]} and of {source.path} is {output}",
            )
        taken[path] = source.path
    if report is not None:
        if Path(report).suffix.lower() not in (".html", ".htm"):
            raise ArgumentError("report", report, "a name that ends in .html", "is {value}")
        if Path(report).resolve() in inputs | set(taken):
            raise ArgumentError(
                "report", report, "another name", "is {value}, which is also an input or an output"
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
        raise ArgumentError("output", "", "a file or a folder", "is an empty name")
    unsupported = set(_UNSUPPORTED) - set(known_suffixes())
    if (
        output is not None
        and Path(output).suffix.lower() in unsupported
        and not Path(output).is_dir()
    ):
        raise ArgumentError(
            "output", output, f"one of {_in_words(known_suffixes())}, or a folder", "is {value}"
        )
    if output is not None and len(given) == 1 and given[0].folder is None:
        path = Path(output)
        if suffix_of(path) in known_suffixes() and not path.is_dir():
            if suffix and _usual(suffix_of(path)) != _usual(suffix):
                raise ArgumentError(
                    "output", output, "them to agree", f"is {output} and `format` is {format}"
                )
            _expect_same_kind(given[0].path, path, develop)
            return [path]
    if (
        output is not None
        and suffix_of(Path(output)) in known_suffixes()
        and not Path(output).is_dir()
    ):
        raise ArgumentError("output", output, f"a folder for {len(given)} inputs", "is {value}")
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
            raise ArgumentError("output", output, instead, f"of {source} is {output}")
    if is_video_name(source) != is_video_name(output):
        expected = VIDEO_SUFFIXES if is_video_name(source) else suffixes()
        raise ArgumentError(
            "output",
            output,
            f"a name that ends in {_in_words(expected)}",
            f"of {source} is {output}",
        )


def _expect_folder(path: Path) -> None:
    """Check that a folder is writable, or can be created."""
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise ArgumentError("output", path, "a folder", f"is {path}, but {existing} is a file")
    if not os.access(existing, os.W_OK):
        raise ArgumentError("output", path, "a writable folder")


def _stem(path: Path) -> tuple[str, str]:
    """Split a name into its stem and its suffix, which may be double, as in .ome.tif."""
    length = len(suffix_of(path))
    return path.name[: len(path.name) - length], path.name[len(path.name) - length :]


def _usual(suffix: str) -> str:
    """Return the usual suffix of the format that a suffix stands for."""
    return _SYNONYMS.get(suffix, suffix)
