"""The command `denoise`."""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from tqdm import tqdm

from ... import Calibration
from ...errors import ArgumentError
from ...files.video import is_video_name
from ...files.video.streams import StreamFormat
from ..jobs.arguments import check_arguments
from ..jobs.axes import axes_of, notes_on_axes
from ..jobs.bursts import clean_burst, reference_of
from ..jobs.clips import clean_clip
from ..jobs.commands import with_command
from ..jobs.frames import DenoisedClip
from ..jobs.paths import Source, expect_no_collisions, sources, targets
from ..jobs.pictures import DenoisedFile, calibration_from, clean_file
from ..jobs.pipes import clean_piped, clean_stream
from ..jobs.tiled import clean_tiled, is_tiled, target_of
from ..options import ADJUSTMENTS, ARGUMENTS, PIPE
from .printing import failing_alone, print_line, print_skipped, print_warnings, report_error
from .reporting import Report
from .results import details, joined, noise_as_json, summary

_MAPS = ("offset_map", "gain_map", "sigma_map")


def denoise(options: Namespace) -> int:
    """Denoise files; a file that fails does not stop the others."""
    # Wrong options are reported once, before any file is read.
    names = ("sigma", "method", *ADJUSTMENTS, "workers")
    check_arguments(**{name: getattr(options, name) for name in names})
    if is_tiled(options.input, options.tile, options.scheduler):
        return _denoise_tiled(options)
    axes = axes_of(options.channel_axis, options.stack_axis)
    calibration = calibration_from(
        **{name: getattr(options, name) for name in _MAPS}, sigma=options.sigma
    )
    clean: Callable[..., DenoisedFile | DenoisedClip]
    if _is_piped(options):
        clean = partial(_clean_piped, options, axes, calibration)
        given, outputs = [Source(Path(options.input[0]))], [Path(options.output)]
    else:
        unknown: list[Path] = []
        given = sources(options.input, options.recursive, options.output, unknown)
        print_skipped(options, unknown)
        clean = partial(_clean, options, axes, calibration)
        if options.burst:
            frames = [source.path for source in given]
            clean = partial(_clean_burst, options, frames)
            given = [Source(reference_of(frames))]
        outputs = targets(given, options.output, options.format, options.develop)
        expect_no_collisions(given, outputs, options.report)
        _expect_videos(options, outputs)
    silent = options.quiet or options.json
    failures: list[str] = []
    counts = dict.fromkeys(("done", "skipped", "failed"), 0)
    try:
        with Report(options) as report, _bar(len(given), silent) as bar:
            for k, (source, target) in enumerate(zip(given, outputs, strict=True)):
                line: dict[str, Any] = {"input": str(source.path), "output": str(target)}
                status, sentence = "failed", ""
                result: DenoisedFile | DenoisedClip | None = None
                with failing_alone(source.path, failures):
                    if options.skip_existing and target.exists():
                        status, sentence = "skipped", f"{source.path}: already done"
                    else:
                        result = clean(source.path, target, progress=partial(bar.to, k))
                        result.warnings[:] = [
                            with_command(warning, source.path, target, vars(options))
                            for warning in result.warnings
                        ]
                        result = report.with_time(source.path, target, result, failures)
                        sentence = f"{source.path} -> {target}: {summary(result)}"
                        line |= {**details(result), "method": options.method}
                        status = "done"
                if status == "failed":
                    line["error"] = failures[-1]
                elif result is not None:
                    print_warnings(options, source.path, result.warnings)
                counts[status] += 1
                print_line(options, {"status": status, **line}, sentence)
                bar.to(k + 1)
    finally:  # also after Ctrl-C
        for sentence in failures:
            report_error(sentence)
    if len(given) > 1 and not silent:
        rest = "".join(f", {counts[name]} {name}" for name in ("skipped", "failed") if counts[name])
        print(f"{counts['done']} of {len(given)} files done{rest}")
    return 1 if failures else 0


def _expect_videos(options: Namespace, outputs: Iterable[Path]) -> None:
    """Refuse options for videos if there is none."""
    for name in ("codec", "quality"):
        value = getattr(options, name)
        if value is not None and not any(map(is_video_name, outputs)):
            raise ArgumentError(name, value, "none, as there is no video", "is {value}")


def _clean(
    options: Namespace,
    axes: str | None,
    calibration: Calibration | None,
    source: Path,
    target: Path,
    progress: Callable[..., None],
) -> DenoisedFile | DenoisedClip:
    """Denoise one file; `axes` names the axes of plain arrays, and `calibration` holds the maps of the camera."""
    common = {**_common(options), "frames": options.frames, "progress": progress}
    if not is_video_name(source):
        special = {
            "axes": axes,
            "dataset": options.dataset,
            "calibration": calibration,
            "brightness": options.restore_brightness,
        }
        return clean_file(source, target, **special, **common)
    _expect_no_image_options(options, calibration)
    result = clean_clip(source, target, codec=options.codec, quality=options.quality, **common)
    result.notes.extend(notes_on_axes(axes, [""]))
    return result


def _expect_no_image_options(options: Namespace, calibration: Calibration | None) -> None:
    """Refuse options that videos do not have."""
    if calibration is not None:
        raise ValueError("it is a video; expected images for the maps of a camera")
    for name in ("keep_outliers", "restore_brightness"):
        if getattr(options, name):
            raise ValueError(f"it is a video; expected images for --{name.replace('_', '-')}")


def _is_piped(options: Namespace) -> bool:
    """Return whether the input or the output is a pipe, with options that make sense for one."""
    if PIPE not in (*options.input, options.output) and options.raw_video is None:
        return False
    if len(options.input) > 1:
        raise ArgumentError(
            "input", options.input, "one for a pipe", found=f"has {len(options.input)} names"
        )
    if options.output is None:
        raise ArgumentError("output", None, "-o - or -o NAME for a pipe", found="is not given")
    for name in ("recursive", "skip_existing", "burst", "develop", "report", "codec", "quality"):
        if getattr(options, name):
            raise ValueError(f"--{name.replace('_', '-')} is given; expected none for a pipe")
    return True


def _clean_piped(
    options: Namespace,
    axes: str | None,
    calibration: Calibration | None,
    source: Path,
    target: Path,
    progress: Callable[..., None],
) -> DenoisedFile | DenoisedClip:
    """Denoise an image, as `_clean` does, or a stream of frames, one of whose ends is a pipe."""

    def clean_image(source: Path, target: Path) -> DenoisedFile | DenoisedClip:
        return _clean(options, axes, calibration, source, target, progress)

    def clean_frames(
        source: BinaryIO, target: BinaryIO, stream: StreamFormat
    ) -> DenoisedFile | DenoisedClip:
        _expect_no_image_options(options, calibration)
        common = {name: value for name, value in _common(options).items() if name != "overwrite"}
        return clean_stream(
            source, target, stream, frames=options.frames, progress=progress, **common
        )

    return clean_piped(
        source,
        target,
        clean_image,
        clean_frames,
        raw_video=options.raw_video,
        format=options.format,
        overwrite=options.overwrite,
    )


def _clean_burst(
    options: Namespace,
    frames: list[Path],
    source: Path,
    target: Path,
    progress: Callable[..., None],
) -> DenoisedFile:
    """Denoise the file `source` with the help of the other frames of its scene."""
    if any(map(is_video_name, frames)):
        raise ValueError("--burst is given with a video; expected image files")
    for name in ("keep_outliers", "restore_brightness"):
        if getattr(options, name):
            raise ValueError(f"--{name.replace('_', '-')} is given; expected none for a burst")
    return clean_burst(frames, target, progress=progress, **_common(options))


def _common(options: Namespace) -> dict[str, Any]:
    """Return the options that are the same for all kinds of files."""
    names = ("overwrite", "workers", *ARGUMENTS)
    trusted = {"mask": False} if options.keep_outliers else {}
    return {**{name: getattr(options, name) for name in names}, **trusted}


def _denoise_tiled(options: Namespace) -> int:
    """Denoise one file in tiles."""
    if len(options.input) > 1:
        raise ArgumentError(
            "input", len(options.input), "one for processing in tiles", "has {value} names"
        )
    for name in ("report", "format", "codec", "quality", "dataset", *_MAPS):
        if getattr(options, name) is not None:
            raise ArgumentError(
                name, getattr(options, name), f"no {name} for processing in tiles", "is {value}"
            )
    for name in ("recursive", "develop", "burst", "restore-brightness"):
        if getattr(options, name.replace("-", "_")):
            raise ValueError(f"--{name} is given; expected no --{name} for processing in tiles")
    if options.scheduler is not None and options.workers is not None:
        raise ValueError(f"--workers is {options.workers}; expected none with --scheduler")
    source = Path(options.input[0])
    target = target_of(source, options.output)
    line = {"input": str(source), "output": str(target)}
    if options.skip_existing and target.exists():
        print_line(options, {"status": "skipped", **line}, f"{source}: already done")
        return 0
    start = time.perf_counter()
    failures: list[str] = []
    with failing_alone(source, failures):
        result = clean_tiled(
            source,
            target,
            axes=axes_of(options.channel_axis, options.stack_axis),
            frames=options.frames,
            **_common(options),
            tile=options.tile,
            scheduler=options.scheduler,
            progress=sys.stderr.isatty() and not (options.quiet or options.json),
        )
    if failures:
        print_line(options, {"status": "failed", **line, "error": failures[0]}, "")
        report_error(failures[0])
        return 1
    seconds = time.perf_counter() - start
    origin = "estimated" if options.sigma is None else "given"
    print_warnings(options, source, result.warnings)
    noise = f"{result.in_words}; {result.noise} ({origin})"
    if result.together:
        noise = f"{result.frames} frames, denoised together in {result.together}, with {noise}"
    facts = {
        "noise": noise_as_json(result.noise),
        "noise_given": options.sigma is not None,
        "in_words": result.in_words,
        "seconds": round(seconds, 3),
        "notes": [*result.warnings, *result.notes],
    }
    print_line(
        options,
        {"status": "done", **line, **facts, "method": options.method},
        f"{source} -> {target}: {noise}, {seconds:.2f} s{joined(result.notes)}",
    )
    return 0


class _Bar:
    """One progress bar for all files."""

    def __init__(self, bar: Any, total: int) -> None:
        self.bar = bar
        self.total = total

    def to(self, files: int, share: float | None = 0.0, speed: str = "") -> None:
        """Show that a number of files are done, a share of the next one if it is known, and how fast its frames are."""
        self.bar.bar_format = (
            f"denoising: {speed} [{{elapsed}}]"
            if share is None
            else _bar_format(files, self.total, speed)
        )
        self.bar.update(max(files + (share or 0.0) - self.bar.n, 0))


@contextmanager
def _bar(files: int, quiet: bool) -> Iterator[_Bar]:
    hidden = quiet or not sys.stderr.isatty()
    with tqdm(total=files, leave=False, disable=hidden, bar_format=_bar_format(0, files)) as bar:
        yield _Bar(bar, files)


def _bar_format(files: int, total: int, speed: str = "") -> str:
    count = f" {files}/{total} files" if total > 1 else ""
    count += f" {speed}" if speed else ""
    return f"denoising: {{percentage:3.0f}}% |{{bar}}|{count} [{{elapsed}}, {{remaining}} left]"
