"""The command `noise`."""

import json
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

from ...files.apart import read_apart
from ...files.video import is_video_name
from ...noise import Noise
from ..jobs.axes import axes_of, notes_on_axes
from ..jobs.clips import noise_in_clip
from ..jobs.commands import with_command
from ..jobs.paths import is_zarr_name, sources
from ..jobs.pictures import noise_in
from ..jobs.tiled import noise_in_sample
from ..jobs.words import printable, recorded_warnings
from .printing import failing_alone, print_skipped, report_error, report_note
from .results import noise_as_json


def noise(options: Namespace) -> int:
    """Print the noise of each file."""
    axes = axes_of(options.channel_axis, options.stack_axis)
    failed = False
    unknown: list[Path] = []
    given = sources(options.input, options.recursive, unknown=unknown)
    print_skipped(options, unknown)
    for source in given:
        models: list[tuple[Noise, str, int, int]] = []
        notes: list[str] = []
        failures: list[str] = []
        with failing_alone(source.path, failures), recorded_warnings() as left:
            found, notes = _noise_in(source.path, axes, options.dataset, options.kind)
            models.extend(found)
        for note in notes + [with_command(sentence, source.path, None, {}) for sentence in left]:
            report_note(f"{source.path}: {note}")
        for model, words, frame, frames in models:
            if options.json:
                line = {"input": str(source.path), "frame": frame, "frames": frames}
                line |= {"noise": noise_as_json(model), "in_words": words}
                print(json.dumps(line), flush=True)
            else:
                which = f" (frame {frame} of {frames})" if frames > 1 else ""
                print(printable(f"{source.path}{which}: {words}; {model}"), flush=True)
        for sentence in failures:
            failed = True
            if options.json:
                print(json.dumps({"input": str(source.path), "error": sentence}), flush=True)
            report_error(sentence)
    return 1 if failed else 0


def _noise_in(
    path: Path, axes: str | None, dataset: str | None, kind: str
) -> tuple[Iterable[tuple[Noise, str, int, int]], list[str]]:
    """Return the noise in a file (see `noise_in`), and notes."""
    if is_video_name(path):
        return [noise_in_clip(path, kind)], notes_on_axes(axes, [""])
    if is_zarr_name(path):
        model, words, frame, frames, notes = noise_in_sample(path, axes, kind)
        return [(model, words, frame, frames)], notes
    picture = read_apart(path, axes, dataset)
    return noise_in(picture, kind), notes_on_axes(axes, (layer.axes for layer in picture.layers))
