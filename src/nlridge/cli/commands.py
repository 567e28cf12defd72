"""The commands of the command line: each takes the options and returns the exit code."""

import json
import math
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from ..algorithm.recipes import PURPOSES, method_names
from ..algorithm.tuning import Tuning
from ..api.arguments import checked_workers
from ..api.denoising import denoise as denoise_image
from ..api.details import Denoised, in_words, noise_in_words, removed_in_words
from ..checks import checked_positive
from ..files import Picture, broken_plugins, read
from ..files.atomic import expect_new
from ..files.orientation import upright
from ..files.video import is_video_name
from ..jobs.batch import (
    DenoisedFile,
    Source,
    axes_of,
    calibration_from,
    clean_file,
    expect_no_collisions,
    is_zarr_name,
    noise_in,
    notes_on_axes,
    sources,
    targets,
)
from ..jobs.bursts import clean_burst, reference_of
from ..jobs.clips import DenoisedClip, clean_clip, noise_in_clip
from ..jobs.tiled import DiskPlanes, clean_tiled, is_tiled, noise_in_sample, target_of
from ..jobs.words import option_of, printable, with_options
from ..kernels.compile import announcing
from ..noise import Noise
from ..noise.correlated import CorrelatedNoise
from ..planning.calibration import Calibration
from ..planning.options import checked_options
from .metrics import difference
from .printing import report_error, report_note

_FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError)  # reported in one sentence
_MAPS = ("offset_map", "gain_map", "sigma_map")
_ROWS = 512  # read at a time to compute the range of an image


def run(options: Namespace) -> int:
    """Run the command named in the options; returns its exit code."""
    commands = {f.__name__: f for f in (denoise, noise, compare, methods, demo, studio)}
    if not (getattr(options, "quiet", False) or options.command == "methods"):
        for sentence in broken_plugins():
            report_note(sentence)
    with _announce_compilation(getattr(options, "quiet", False)):
        return commands[options.command](options)


def denoise(options: Namespace) -> int:
    """Denoise files; a file that fails does not stop the others."""
    # Wrong options are reported once, before any file is read.
    checked_options(
        options.sigma, options.noise, options.method, None, Tuning(options.strength, options.colour)
    )
    checked_workers(options.workers)
    if is_tiled(options.input, options.tile, options.scheduler):
        return _denoise_tiled(options)
    given = sources(options.input, options.recursive, options.output)
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
        with _Report(options) as report, _bar(len(given), silent) as bar:
            for k, (source, target) in enumerate(zip(given, outputs, strict=True)):
                line: dict[str, Any] = {"input": str(source.path), "output": str(target)}
                try:
                    if options.skip_existing and target.exists():
                        status, sentence = "skipped", f"{source.path}: already done"
                    else:
                        result = clean(source.path, target, progress=partial(bar.to, k))
                        _print_warnings(options, source.path, result.warnings)
                        status, sentence = "done", f"{source.path} -> {target}: {_summary(result)}"
                        line |= {**_details(result), "method": options.method}
                        report.add(source.path, target, result, failures)
                except BrokenPipeError:
                    raise
                except _FAILURES as error:
                    status, sentence = "failed", ""
                    failures.append(_sentence(source.path, error))
                    line["error"] = failures[-1]
                counts[status] += 1
                _print_line(options, {"status": status, **line}, sentence)
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
    return clean_burst(frames, target, progress=progress, **_common(options))


def _common(options: Namespace) -> dict[str, Any]:
    """Return the options that are the same for all kinds of files."""
    names = ("overwrite", "noise", "sigma", "method", "strength", "colour", "workers")
    return {name: getattr(options, name) for name in names}


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
        _print_line(options, {"status": "skipped", **line}, f"{source}: already done")
        return 0
    start = time.perf_counter()
    try:
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
            workers=options.workers,
            tile=options.tile,
            scheduler=options.scheduler,
            progress=sys.stderr.isatty() and not (options.quiet or options.json),
        )
    except _FAILURES as error:
        sentence = _sentence(source, error)
        _print_line(options, {"status": "failed", **line, "error": sentence}, "")
        report_error(sentence)
        return 1
    seconds = time.perf_counter() - start
    origin = "estimated" if options.sigma is None else "given"
    _print_warnings(options, source, result.warnings)
    noise = f"{result.noise} ({origin})"
    if result.together:
        noise = f"{result.frames} frames, denoised together in {result.together}, with {noise}"
    details = {
        "noise": _as_json(result.noise),
        "noise_given": options.sigma is not None,
        "seconds": round(seconds, 3),
        "notes": [*result.warnings, *result.notes],
    }
    _print_line(
        options,
        {"status": "done", **line, **details, "method": options.method},
        f"{source} -> {target}: {noise}, {seconds:.2f} s{_joined(result.notes)}",
    )
    return 0


class _Report:
    """The page of `--report`, if one is asked for: written file by file, and complete even after Ctrl-C."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.page = ExitStack()
        self.write: Callable[[Any], None] | None = None
        path = options.report
        if path:
            expect_new("report", path, overwrite=options.overwrite, alternatives=" or --overwrite")
            Path(path).parent.mkdir(parents=True, exist_ok=True)

    def add(
        self,
        source: Path,
        target: Path,
        result: DenoisedFile | DenoisedClip,
        failures: list[str],
    ) -> None:
        """Add a file to the page; if that fails, add a sentence to `failures`."""
        if not self.options.report:
            return
        from ..pages.report import clip_entry, entry, page_at

        try:
            if isinstance(result, DenoisedClip):
                new_entry = clip_entry(
                    source, target, result.sample, result.frames, _facts(result), self.options
                )
            else:
                new_entry = entry(source, target, result, self.options)
            if self.write is None:  # the page is created with its first entry
                self.write = self.page.enter_context(page_at(Path(self.options.report)))
            self.write(new_entry)
        except _FAILURES as error:
            failures.append(f"report: {_sentence(source, error)}")

    def __enter__(self) -> "_Report":
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()  # completes the page, whatever has happened
        if self.write is not None and not (self.options.quiet or self.options.json):
            print(printable(f"report: {self.options.report}"))


def noise(options: Namespace) -> int:
    """Print the noise of each file."""
    axes = axes_of(options.channel_axis, options.stack_axis)
    failed = False
    for source in sources(options.input, options.recursive):
        try:
            models, notes = _noise_in(source.path, axes, options.dataset, options.kind)
            for note in notes:
                report_note(f"{source.path}: {note}")
            for model, frame, frames in models:
                if options.json:
                    line = {"input": str(source.path), "frame": frame, "frames": frames}
                    print(json.dumps({**line, "noise": _as_json(model)}), flush=True)
                else:
                    which = f" (frame {frame} of {frames})" if frames > 1 else ""
                    print(printable(f"{source.path}{which}: {model}"), flush=True)
        except BrokenPipeError:
            raise
        except _FAILURES as error:
            failed = True
            if options.json:
                line = {"input": str(source.path), "error": _sentence(source.path, error)}
                print(json.dumps(line), flush=True)
            report_error(_sentence(source.path, error))
    return 1 if failed else 0


def _noise_in(
    path: Path, axes: str | None, dataset: str | None, kind: str
) -> tuple[Iterable[tuple[Noise, int, int]], list[str]]:
    """Return the noise in a file (see `noise_in`), and notes."""
    if is_video_name(path):
        return [noise_in_clip(path, kind)], notes_on_axes(axes, [""])
    if is_zarr_name(path):
        model, frame, frames, notes = noise_in_sample(path, axes, kind)
        return [(model, frame, frames)], notes
    picture = read(path, axes, dataset)
    return noise_in(picture, kind), notes_on_axes(axes, (layer.axes for layer in picture.layers))


def compare(options: Namespace) -> int:
    """Print how much two files differ."""
    axes = axes_of(options.channel_axis, options.stack_axis)
    names = [Path(name) for name in (options.first, options.second)]
    on_disk = any(map(is_zarr_name, names))
    planes: list[Any] = []
    for name in names:
        try:
            if on_disk:
                planes.append(DiskPlanes(name, axes))
                notes = planes[-1].notes
            else:
                picture = read(name, axes, options.dataset)
                planes.append(_planes(upright(picture)))
                notes = notes_on_axes(axes, (layer.axes for layer in picture.layers))
        except (ValueError, OSError) as error:
            raise ValueError(_sentence(name, error)) from None
        for note in notes:
            report_note(f"{name}: {note}")
    a, b = planes
    if a.shape != b.shape:
        raise ValueError(f"images have shapes {a.shape} and {b.shape}; expected the same shape")
    peak = _peak(a) if options.peak is None else checked_positive("peak", options.peak)
    result = difference(a, b, peak)
    if options.json:
        values = {
            name: value if math.isfinite(value) else None for name, value in asdict(result).items()
        }
        print(json.dumps({"a": options.first, "b": options.second, "peak": peak, **values}))
        return 0
    print(f"PSNR                {result.psnr:.2f} dB (for a peak of {peak:g})")
    print(f"SSIM                {result.ssim:.4f}")
    print(f"RMSE                {result.rmse:.4g}")
    print(f"largest difference  {result.largest:.4g}")
    return 0


def methods(options: Namespace) -> int:
    """Print what each method is for, and how fast it is on this machine."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:256, :256]
    noisy = (128 + 60 * np.sin(x / 9) * np.cos(y / 7) + rng.normal(0, 25, x.shape)).astype(
        np.float32
    )
    print("method     megapixels/s  for", flush=True)
    for name in method_names():  # compile before measuring
        denoise_image(noisy[:64, :64], 25.0, method=name, data_range=255)
    for name in method_names():
        best = math.inf
        for _ in range(3):
            start = time.perf_counter()
            denoise_image(noisy, 25.0, method=name, data_range=255)
            best = min(best, time.perf_counter() - start)
        print(f"{name:10s} {noisy.size / best / 1e6:12.2f}  {PURPOSES[name]}", flush=True)
    print("measured just now on a gray image of 256 x 256 pixels, sigma 25 of 255, all cores")
    return 0


def demo(options: Namespace) -> int:
    """Denoise an image and save it beside the noisy one."""
    from .demo import demonstrate

    print(demonstrate(options.image, options.sigma, options.method, options.output))
    return 0


def studio(options: Namespace) -> int:
    """Show the studio in a browser until Ctrl-C."""
    from ..studio.server import serve

    serve(options.path, options.port, options.address, not options.no_browser)
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


@contextmanager
def _announce_compilation(quiet: bool) -> Iterator[None]:
    def announce() -> None:
        if not quiet:
            tqdm.write("compiling for this CPU, once ...", file=sys.stderr)

    with announcing(announce):
        yield


def _print_line(options: Namespace, line: dict[str, Any], sentence: str) -> None:
    if options.json:
        print(json.dumps(line), flush=True)
    elif sentence and not options.quiet:
        tqdm.write(printable(sentence), file=sys.stdout)
        sys.stdout.flush()


def _print_warnings(options: Namespace, path: Path, sentences: Iterable[str]) -> None:
    if not options.quiet:
        for sentence in sentences:
            report_note(f"{path}: {sentence}")


def _summary(result: DenoisedFile | DenoisedClip) -> str:
    if isinstance(result, DenoisedClip):
        how = "denoised together in time, with" if result.together else "the first with"
        words = f"{_noise_of_clip(result)}; removed {removed_in_words(result, option_of)}"
        return f"{result.frames} frames, {how} {words}, {_speed(result)}{_joined(result.notes)}"
    k, details = result.first
    noise = in_words(details, option_of)
    if len(result.frames) > 1:
        which = f"frame {k + 1}" if k else "the first"
        how = (
            f"denoised together in {result.together}, with" if result.together else f"{which} with"
        )
        noise = f"{len(result.frames)} frames, {how} {noise}"
    return f"{noise}, {result.seconds:.2f} s{_joined(result.notes)}"


def _facts(result: DenoisedClip) -> dict[str, str]:
    """What the report says of a video."""
    facts = {
        "noise": _noise_of_clip(result),
        "removed": removed_in_words(result, option_of),
        "time": _speed(result),
    }
    if not result.together:
        facts["noise"] += " in the first frame"
    if result.warnings or result.notes:
        facts["notes"] = "; ".join([*result.warnings, *result.notes])
    return facts


def _noise_of_clip(result: DenoisedClip) -> str:
    words = noise_in_words(result)
    return (
        words
        if result.chroma_noise is None
        else f"{words} in luma, {result.chroma_noise} in chroma"
    )


def _speed(result: DenoisedClip) -> str:
    return f"{result.seconds:.2f} s, {result.frames / result.seconds:.2g} frames/s"


def _joined(notes: Iterable[str]) -> str:
    return "".join(f"; {note}" for note in notes)


def _details(result: DenoisedFile | DenoisedClip) -> dict[str, Any]:
    if isinstance(result, DenoisedClip):
        chroma = result.chroma_noise
        return {
            "frames": result.frames,
            **_frame_details(result),
            **({} if chroma is None else {"chroma_noise": _as_json(chroma)}),
            "seconds": round(result.seconds, 3),
            "notes": [*result.warnings, *result.notes],
        }
    frames = [frame and _frame_details(frame) for frame in result.frames]
    facts = {
        name: [frame and frame[name] for frame in frames]
        for name in _frame_details(result.first[1])
    }
    return {
        **{name: values[0] if len(values) == 1 else values for name, values in facts.items()},
        "seconds": round(result.seconds, 3),
        "notes": [*result.warnings, *result.notes],
    }


def _frame_details(frame: Denoised | DenoisedClip) -> dict[str, Any]:
    """Return what JSON says of a frame, or of all frames of a clip."""
    return {
        "noise": _as_json(frame.noise),
        "noise_given": frame.noise_given,
        "removed": frame.removed,
        "unchanged": frame.unchanged,
    }


def _as_json(noise: Noise) -> dict[str, Any]:
    """Return the fields of a noise model: the lengths of a correlation, and the median of a map."""
    fields: dict[str, Any]
    if isinstance(noise, CorrelatedNoise):
        fields = {
            "noise": _as_json(noise.noise),
            "lengths": noise.lengths,
            "share": noise.share,
        }
    else:
        fields = {
            name: float(np.nanmedian(value)) if isinstance(value, np.ndarray) else value
            for name, value in asdict(noise).items()  # type: ignore[call-overload]
        }
    return {"kind": type(noise).__name__, **fields, "words": str(noise)}


def _sentence(path: Path, error: BaseException) -> str:
    """Return the message of an error, preceded by the name of the file."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename}: no such file"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or path}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"{path}: the image does not fit into memory"
    words = with_options(" ".join(str(error).split()))
    return words if " ".join(str(path).split()) in words else f"{path}: {words}"


def _planes(picture: Picture) -> Any:
    """Return all pixels of a picture, with height and width last."""
    if len(picture.layers) > 1:
        raise ValueError("the file holds images of several shapes; expected a single shape")
    layer = picture.layers[0]
    return np.moveaxis(layer.pixels, [layer.axes.index(axis) for axis in "YX"], (-2, -1))


def _peak(planes: Any) -> float:
    """Return the largest value of an integer type, or the range of the values of floats."""
    if planes.dtype.kind in "ui":
        return float(np.iinfo(planes.dtype).max)
    low, high = math.inf, -math.inf
    for plane in np.ndindex(*planes.shape[:-2]):
        for top in range(0, planes.shape[-2], _ROWS):
            index = (*plane, slice(top, top + _ROWS))
            rows = planes[index].astype(np.float64)
            low = min(low, float(rows.min(initial=math.inf, where=np.isfinite(rows))))
            high = max(high, float(rows.max(initial=-math.inf, where=np.isfinite(rows))))
    return high - low if high >= low else 1.0
