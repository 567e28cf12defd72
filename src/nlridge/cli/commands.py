"""What the commands of the command line do: each takes the options and gives the exit code."""

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

from ..algorithm.recipes import method_names
from ..api.denoising import denoise as denoise_image
from ..checks import checked_positive
from ..files import Picture, read
from ..files.orientation import upright
from ..kernels.compile import announcing
from ..noise import Noise
from .batch import (
    Cleaned,
    axes_of,
    clean_file,
    is_zarr_name,
    noise_in,
    refuse_to_destroy,
    sources,
    targets,
)
from .metrics import difference
from .printing import complain, printable
from .tiled import Parts, clean_tiled, is_tiled, noise_in_parts, target_of

_FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError)  # of a file, in one sentence
_ROWS = 512  # read together to see the range of an image
_PURPOSES = {
    "fast": "a preview, or thousands of images",
    "standard": "the best choice for most images",
    "best": "the highest quality, if time does not matter",
    "nl-ridge": "NL-Ridge as published",
    "nl-bayes": "NL-Bayes, in the same framework",
    "bm3d": "BM3D, in the same framework",
}


def run(options: Namespace) -> int:
    """Run the command that the options name; returns its exit code."""
    commands = {f.__name__: f for f in (denoise, noise, compare, methods, demo)}
    with _compiling(getattr(options, "quiet", False)):
        return commands[options.command](options)


def denoise(options: Namespace) -> int:
    """Clean files; one that fails does not stop the others."""
    if is_tiled(options.input, options.tile, options.scheduler):
        return _denoise_tiled(options)
    given = sources(options.input, options.recursive, options.output)
    places = targets(given, options.output, options.format)
    refuse_to_destroy(given, places, options.report)
    axes = axes_of(options.channel_axis, options.stack_axis)
    silent = options.quiet or options.json
    failures: list[str] = []
    counts = dict.fromkeys(("done", "skipped", "failed"), 0)
    try:
        with _Report(options) as report, _bar(len(given), silent) as bar:
            for k, (source, target) in enumerate(zip(given, places, strict=True)):
                line: dict[str, Any] = {"input": str(source.path), "output": str(target)}
                try:
                    if options.skip_existing and target.exists():
                        status, sentence = "skipped", f"{source.path}: is done already"
                    else:
                        cleaned = clean_file(
                            source.path,
                            target,
                            overwrite=options.overwrite,
                            axes=axes,
                            noise=options.noise,
                            progress=partial(bar.to, k),
                            sigma=options.sigma,
                            method=options.method,
                            strength=options.strength,
                            workers=options.workers,
                        )
                        status, sentence = "done", f"{source.path} -> {target}: {_words(cleaned)}"
                        line |= {**_details(cleaned), "method": options.method}
                        report.add(source.path, target, cleaned, failures)
                except BrokenPipeError:
                    raise
                except _FAILURES as error:
                    status, sentence = "failed", ""
                    failures.append(_sentence(source.path, error))
                    line["error"] = failures[-1]
                counts[status] += 1
                _say(options, {"status": status, **line}, sentence)
                bar.to(k + 1)
    finally:  # also after Ctrl-C
        for sentence in failures:
            complain(sentence)
    if len(given) > 1 and not silent:
        rest = "".join(f", {counts[name]} {name}" for name in ("skipped", "failed") if counts[name])
        print(f"{counts['done']} of {len(given)} files done{rest}")
    return 1 if failures else 0


def _denoise_tiled(options: Namespace) -> int:
    """Clean one file tile by tile."""
    if len(options.input) > 1:
        raise ValueError(
            f"there are {len(options.input)} inputs; expected one to work tile by tile"
        )
    for name in ("report", "format"):
        if getattr(options, name):
            raise ValueError(f"{name} is given; expected none where work is done tile by tile")
    source = Path(options.input[0])
    target = target_of(source, options.output)
    line = {"input": str(source), "output": str(target)}
    if options.skip_existing and target.exists():
        _say(options, {"status": "skipped", **line}, f"{source}: is done already")
        return 0
    start = time.perf_counter()
    try:
        noise = clean_tiled(
            source,
            target,
            overwrite=options.overwrite,
            axes=axes_of(options.channel_axis, options.stack_axis),
            noise=options.noise,
            sigma=options.sigma,
            method=options.method,
            strength=options.strength,
            workers=options.workers,
            tile=options.tile,
            scheduler=options.scheduler,
            progress=sys.stderr.isatty() and not (options.quiet or options.json),
        )
    except _FAILURES as error:
        sentence = _sentence(source, error)
        _say(options, {"status": "failed", **line, "error": sentence}, "")
        complain(sentence)
        return 1
    seconds = time.perf_counter() - start
    details = {"noise": _as_json(noise), "seconds": round(seconds, 3), "method": options.method}
    _say(
        options,
        {"status": "done", **line, **details},
        f"{source} -> {target}: {noise}, {seconds:.2f} s",
    )
    return 0


class _Report:
    """The page of `--report`, if it is asked for: written file by file, and whole also after Ctrl-C."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.page = ExitStack()
        self.write: Callable[[Any], None] | None = None
        path = options.report
        if path and Path(path).exists() and not options.overwrite:
            raise FileExistsError(f"{path} exists; use --overwrite or another name for the report")
        if path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)

    def add(self, source: Path, target: Path, cleaned: Cleaned, failures: list[str]) -> None:
        if not self.options.report:
            return
        from .report import entry, page_at

        try:
            found = entry(source, target, cleaned, self.options)
            if self.write is None:  # not before there is something to show
                self.write = self.page.enter_context(page_at(Path(self.options.report)))
            self.write(found)
        except _FAILURES as error:
            failures.append(f"report: {_sentence(source, error)}")

    def __enter__(self) -> "_Report":
        return self

    def __exit__(self, *_: object) -> None:
        self.page.close()  # as if nothing had happened: what is in it is done
        if self.write is not None and not (self.options.quiet or self.options.json):
            print(printable(f"report: {self.options.report}"))


def noise(options: Namespace) -> int:
    """Say what noise files have."""
    axes = axes_of(options.channel_axis, options.stack_axis)
    failed = False
    for source in sources(options.input, options.recursive):
        try:
            for model, frame, frames in _noise_in(source.path, axes):
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
            complain(_sentence(source.path, error))
    return 1 if failed else 0


def _noise_in(path: Path, axes: str | None) -> Iterable[tuple[Noise, int, int]]:
    return [noise_in_parts(path, axes)] if is_zarr_name(path) else noise_in(read(path, axes))


def compare(options: Namespace) -> int:
    """Say how far two files are apart."""
    axes = axes_of(options.channel_axis, options.stack_axis)
    names = [Path(name) for name in (options.first, options.second)]
    in_parts = any(map(is_zarr_name, names))
    planes: list[Any] = []
    for name in names:
        try:
            planes.append(Parts(name, axes) if in_parts else _planes(upright(read(name, axes))))
        except (ValueError, OSError) as error:
            raise ValueError(_sentence(name, error)) from None
    a, b = planes
    if a.shape != b.shape:
        raise ValueError(f"the images have shapes {a.shape} and {b.shape}; expected the same")
    peak = _peak(a) if options.peak is None else checked_positive("peak", options.peak)
    found = difference(a, b, peak)
    if options.json:
        values = {
            name: value if math.isfinite(value) else None for name, value in asdict(found).items()
        }
        print(json.dumps({"a": options.first, "b": options.second, "peak": peak, **values}))
        return 0
    print(f"PSNR                {found.psnr:.2f} dB (for a peak of {peak:g})")
    print(f"SSIM                {found.ssim:.4f}")
    print(f"RMSE                {found.rmse:.4g}")
    print(f"largest difference  {found.largest:.4g}")
    return 0


def methods(options: Namespace) -> int:
    """Say what each recipe is for, and how fast it is here."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:256, :256]
    noisy = (128 + 60 * np.sin(x / 9) * np.cos(y / 7) + rng.normal(0, 25, x.shape)).astype(
        np.float32
    )
    print("method     megapixels/s  for", flush=True)
    for name in method_names():  # compiled before it is measured
        denoise_image(noisy[:64, :64], 25.0, method=name, data_range=255)
    for name in method_names():
        best = math.inf
        for _ in range(3):
            start = time.perf_counter()
            denoise_image(noisy, 25.0, method=name, data_range=255)
            best = min(best, time.perf_counter() - start)
        print(f"{name:10s} {noisy.size / best / 1e6:12.2f}  {_PURPOSES[name]}", flush=True)
    print("measured just now: gray, 256 x 256, sigma 25 of 255, all cores")
    return 0


def demo(options: Namespace) -> int:
    """Clean a picture and show it side by side."""
    from .demo import demonstrate

    print(demonstrate(options.image, options.sigma, options.method, options.output))
    return 0


class _Bar:
    """One progress bar for all files."""

    def __init__(self, bar: Any) -> None:
        self.bar = bar

    def to(self, files: int, share: float = 0.0) -> None:
        self.bar.update(max(files + share - self.bar.n, 0))


@contextmanager
def _bar(files: int, quiet: bool) -> Iterator[_Bar]:
    shape = "{desc}: {percentage:3.0f}% |{bar}| {n:.1f}/{total} files [{elapsed}, {remaining} left]"
    hidden = quiet or not sys.stderr.isatty()
    with tqdm(total=files, desc="denoising", leave=False, disable=hidden, bar_format=shape) as bar:
        yield _Bar(bar)


@contextmanager
def _compiling(quiet: bool) -> Iterator[None]:
    def announce() -> None:
        if not quiet:
            tqdm.write("compiling for this CPU, once ...", file=sys.stderr)

    with announcing(announce):
        yield


def _say(options: Namespace, line: dict[str, Any], sentence: str) -> None:
    if options.json:
        print(json.dumps(line), flush=True)
    elif sentence and not options.quiet:
        tqdm.write(printable(sentence), file=sys.stdout)
        sys.stdout.flush()


def _words(cleaned: Cleaned) -> str:
    noise = str(cleaned.found[0].noise)
    if len(cleaned.found) > 1:
        noise = f"{len(cleaned.found)} frames, the first with {noise}"
    notes = "".join(f"; {note}" for note in cleaned.notes)
    return f"{noise}, {cleaned.seconds:.2f} s{notes}"


def _details(cleaned: Cleaned) -> dict[str, Any]:
    noises = [_as_json(found.noise) for found in cleaned.found]
    return {
        "noise": noises[0] if len(noises) == 1 else noises,
        "seconds": round(cleaned.seconds, 3),
        "notes": cleaned.notes,
    }


def _as_json(noise: Noise) -> dict[str, Any]:
    fields: dict[str, Any] = asdict(noise)  # type: ignore[call-overload]
    return {"kind": type(noise).__name__, **fields, "words": str(noise)}


def _sentence(path: Path, error: BaseException) -> str:
    """What went wrong with a file, with its name in front."""
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return f"{error.filename}: no such file"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or path}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"{path}: the image does not fit into memory"
    words = " ".join(str(error).split())
    return words if " ".join(str(path).split()) in words else f"{path}: {words}"


def _planes(picture: Picture) -> Any:
    """All pixels of a picture, height and width last."""
    if len(picture.layers) > 1:
        raise ValueError("the file holds images of several shapes; expected one")
    layer = picture.layers[0]
    return np.moveaxis(layer.pixels, [layer.axes.index(axis) for axis in "YX"], (-2, -1))


def _peak(planes: Any) -> float:
    """The range of the values: that of the type, or that of the floats themselves."""
    if planes.dtype.kind in "ui":
        return float(np.iinfo(planes.dtype).max)
    low, high = math.inf, -math.inf
    for plane in np.ndindex(*planes.shape[:-2]):
        for top in range(0, planes.shape[-2], _ROWS):
            index = (*plane, slice(top, top + _ROWS))
            some = planes[index].astype(np.float64)
            low = min(low, float(some.min(initial=math.inf, where=np.isfinite(some))))
            high = max(high, float(some.max(initial=-math.inf, where=np.isfinite(some))))
    return high - low if high >= low else 1.0
