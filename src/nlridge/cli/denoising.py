"""The command `denoise`."""

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..algorithm.tuning import Tuning
from ..api.arguments import checked_workers
from ..files.video import is_video_name
from ..jobs.axes import axes_of, notes_on_axes
from ..jobs.bursts import clean_burst, reference_of
from ..jobs.clips import DenoisedClip, clean_clip
from ..jobs.commands import with_command
from ..jobs.maps import calibration_from
from ..jobs.paths import Source, expect_no_collisions, sources, targets
from ..jobs.pictures import DenoisedFile, clean_file
from ..jobs.tiled import clean_tiled, is_tiled, target_of
from ..planning.calibration import Calibration
from ..planning.options import checked_options
from .printing import failing_alone, print_line, print_skipped, print_warnings, report_error
from .reporting import Report
from .results import details, joined, noise_as_json, summary

_MAPS = ("offset_map", "gain_map", "sigma_map")


def denoise(options: Namespace) -> int:
    """Denoise files; a file that fails does not stop the others."""
    # Wrong options are reported once, before any file is read.
    checked_options(
        options.sigma, options.noise, options.method, None, Tuning(options.strength, options.colour)
    )
    checked_workers(options.workers)
    if is_tiled(options.input, options.tile, options.scheduler):
        return _denoise_tiled(options)
    unknown: list[Path] = []
    given = sources(options.input, options.recursive, options.output, unknown)
    print_skipped(options, unknown)
    axes = axes_of(options.channel_axis, options.stack_axis)
    calibration = calibration_from(
        **{name: getattr(options, name) for name in _MAPS}, sigma=options.sigma
    )
    clean: Callable[..., DenoisedFile | DenoisedClip] = partial(_clean, options, axes, calibration)
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
            raise ValueError(f"{name} is {value}; expected none, as there is no video")


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
        special = {"axes": axes, "dataset": options.dataset, "calibration": calibration}
        return clean_file(source, target, **special, **common)
    if calibration is not None:
        raise ValueError("it is a video; expected images for the maps of a camera")
    if options.keep_outliers:
        raise ValueError("it is a video; expected images for --keep-outliers")
    result = clean_clip(source, target, codec=options.codec, quality=options.quality, **common)
    result.notes.extend(notes_on_axes(axes, [""]))
    return result


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
    if options.keep_outliers:
        raise ValueError("--keep-outliers is given; expected none for a burst")
    return clean_burst(frames, target, progress=progress, **_common(options))


def _common(options: Namespace) -> dict[str, Any]:
    """Return the options that are the same for all kinds of files."""
    names = ("overwrite", "noise", "sigma", "method", "strength", "colour", "workers")
    trusted = {"mask": False} if options.keep_outliers else {}
    return {**{name: getattr(options, name) for name in names}, **trusted}


def _denoise_tiled(options: Namespace) -> int:
    """Denoise one file in tiles."""
    if len(options.input) > 1:
        raise ValueError(
            f"input has {len(options.input)} names; expected one for processing in tiles"
        )
    for name in ("report", "format", "codec", "quality", "dataset", *_MAPS):
        if getattr(options, name) is not None:
            raise ValueError(
                f"{name} is {getattr(options, name)}; expected no {name} for processing in tiles"
            )
    for name in ("recursive", "develop", "burst"):
        if getattr(options, name):
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
            overwrite=options.overwrite,
            axes=axes_of(options.channel_axis, options.stack_axis),
            frames=options.frames,
            noise=options.noise,
            sigma=options.sigma,
            method=options.method,
            strength=options.strength,
            colour=options.colour,
            outliers=not options.keep_outliers,
            workers=options.workers,
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

    def to(self, files: int, share: float = 0.0, speed: str = "") -> None:
        """Show that a number of files are done, a share of the next one, and how fast its frames are done."""
        self.bar.bar_format = _bar_format(files, self.total, speed)
        self.bar.update(max(files + share - self.bar.n, 0))


@contextmanager
def _bar(files: int, quiet: bool) -> Iterator[_Bar]:
    hidden = quiet or not sys.stderr.isatty()
    with tqdm(total=files, leave=False, disable=hidden, bar_format=_bar_format(0, files)) as bar:
        yield _Bar(bar, files)


def _bar_format(files: int, total: int, speed: str = "") -> str:
    count = f" {files}/{total} files" if total > 1 else ""
    count += f" {speed}" if speed else ""
    return f"denoising: {{percentage:3.0f}}% |{{bar}}|{count} [{{elapsed}}, {{remaining}} left]"
