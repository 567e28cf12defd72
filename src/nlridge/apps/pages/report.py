"""The report: a single, self-contained HTML page that shows the results."""

import html
import json
import math
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ... import Denoised, Quality, __version__, prepare
from ...atomic import replacing
from ...files import Layer, Picture
from ...files.develop import developed
from ...files.orientation import upright
from ...types import Pixels
from ..display import (
    NOTHING_REMOVED,
    black_and_white,
    data_url,
    finite_values,
    images_of,
    middle,
    policy,
    removed_in_shades,
    resource,
    stages,
    zoom_buttons,
)
from ..jobs.commands import command_for
from ..jobs.filmstrip import MOST, SIDE, FrameSample
from ..jobs.pictures import DenoisedFile, with_exact_floats
from ..jobs.words import option_of, printable
from ..options import ADJUSTMENTS, adjustments_in, is_given

_SIDE = 1024  # largest side of the part of an image that is shown; less for color or several views
_LEAST_SIDE = 256
_FRAMES, _CHANNELS = 8, 6  # the most frames and channels to choose from
_MIDDLE = 192  # side of the middle of a large image, of which the quality is estimated
_THUMBNAIL = 160  # largest side of an image of the filmstrip


@dataclass(frozen=True)
class View:
    """One frame and channel of a file, or one frame in color."""

    images: tuple[str, str, str]
    """Data URLs of the image before, the image after, and what was removed."""
    captions: tuple[str, str]


@dataclass(frozen=True)
class Entry:
    """A file in the report."""

    name: str
    facts: dict[str, str]
    width: int
    height: int
    frames: list[str]
    """The names of the frames that can be chosen."""
    channels: list[str]
    views: list[View]
    """All channels of the first frame, then those of the second, and so on."""
    thumbnails: tuple[str, ...] = ()
    """Data URLs of the frames of a clip, for a filmstrip. Frames of other files are chosen from a menu."""


def entry(source: Path, target: Path, result: DenoisedFile, options: Namespace) -> Entry:
    """Return what the page shows of a file: a few frames and channels, and only the middle of large images.

    Frames that were denoised together are shown as a filmstrip, with less exact pixels.
    """
    words = result.in_words
    gain = f"unknown, since frames were denoised together in {result.together}"
    is_raw = result.before.layers[0].mosaic is not None
    if is_raw:
        gain = "unknown, since the image was not yet developed"
        result = _developed(result)
    layer = result.before.layers[0]
    frames = list(layer.frames())
    first, details = result.first
    if first >= len(frames):
        raise ValueError("its first image has no valid pixels; expected at least one to show")
    is_clip = bool(result.together)
    if not result.together and not is_raw:
        quality, is_middle = quality_of_middle(
            with_exact_floats(layer.pixels[frames[first]]),
            details,
            channel_axis=layer.channel_axis,
            **adjustments_in(vars(options)),
            workers=options.workers,
        )
        gain = quality.describe_gain() + (", in the middle of the image" if is_middle else "")
    chosen = _spread(len(frames), MOST if is_clip else _FRAMES)
    channels = _channels(result.before)
    in_color = channels[0][0] is None and "C" in layer.axes
    planes = len(chosen) * (3 if in_color else len(channels))
    side = max(_LEAST_SIDE, min(_SIDE, int(_SIDE * math.sqrt(2 / planes))))
    if is_clip:
        side = max(_LEAST_SIDE, SIDE // math.isqrt(len(channels)))
    crops = [_crops(result, frames[k], side) for k in chosen]
    noises = [_noise_of(result.frames[k]) for k in chosen]
    shown_height, shown_width = crops[0][0].shape[:2]
    height, width = (layer.pixels.shape[layer.axes.index(axis)] for axis in "YX")
    if result.before.turn >= 5:
        height, width = width, height
    several = f" for {len(result.frames)} frames" if len(result.frames) > 1 else ""
    facts = {
        "noise": f"{words}; {details.describe_noise()}",
        "removed": details.describe_removed(option_of),
        "method": _method(options),
        "estimated gain": gain,
        "time": f"{result.seconds:.2f} s{several}",
        "image": _image(width, height, crops[0][0]),
        "output": printable(str(target)),
        "command": command_for(source, target, vars(options)),
    }
    if several:
        where = f" in frame {first + 1}" if first else " in the first frame"
        facts["noise"] += where
        facts["removed"] += where
        facts["estimated gain"] += where
    if result.warnings or result.notes:
        facts["notes"] = "; ".join([*result.warnings, *result.notes])
    views = [_views(crops, noises, k, layer.pixels.dtype, exact=not is_clip) for k, _ in channels]
    thumbnails = [after for _, after, _ in crops] if is_clip and len(crops) > 1 else []
    return Entry(
        name=printable(source.name),
        facts=facts,
        width=shown_width,
        height=shown_height,
        frames=[f"{k + 1} of {len(frames)}" for k in chosen],
        channels=[name for _, name in channels],
        views=[view for one_frame in zip(*views, strict=True) for view in one_frame],
        thumbnails=_thumbnails(thumbnails, channels[0][0], layer.pixels.dtype),
    )


def _developed(result: DenoisedFile) -> DenoisedFile:
    """Return a raw file as people see it, developed alike before and after."""
    if result.before.format != "raw":
        return result
    before, after = (developed(picture, 8) for picture in (result.before, result.after))
    return replace(result, before=before, after=after)


def clip_entry(
    source: Path,
    target: Path,
    sample: FrameSample,
    count: int,
    facts: Mapping[str, str],
    options: Namespace,
) -> Entry:
    """Return what the page shows of a clip that was denoised as a stream: a filmstrip of a few frames.

    `sample` holds these frames, and `count` is the number of all frames. `facts` are the first rows of the table, in
    words, such as the noise, what was removed and the time; rows on the method, the size of the frames, the output and
    the command follow.
    """
    if not sample.frames:
        raise ValueError("the clip has no frames; expected at least one to show")
    crops = [
        (frame.before, frame.after, frame.before.astype(np.float64) - frame.after)
        for frame in sample.frames
    ]
    height, width = crops[0][0].shape[:2]
    dtype = sample.frames[0].before.dtype
    names = [f"{frame.number + 1} of {count}" for frame in sample.frames]
    thumbnails = [frame.thumbnail for frame in sample.frames] if len(crops) > 1 else []
    return Entry(
        name=printable(source.name),
        facts={
            **facts,
            "method": _method(options),
            "frames": f"{count} of {_image(sample.width, sample.height, crops[0][0])}",
            "output": printable(str(target)),
            "command": command_for(source, target, vars(options)),
        },
        width=width,
        height=height,
        frames=names,
        channels=[""],
        views=_views(crops, [f"frame {name}" for name in names], None, dtype, exact=False),
        thumbnails=_thumbnails(thumbnails, None, dtype),
    )


def quality_of_middle(
    image: Pixels, details: Denoised, *, channel_axis: int | None, **options: Any
) -> tuple[Quality, bool]:
    """Estimate the quality from the middle of a large image, in a fraction of the time; return whether it was large."""
    how: dict[str, Any] = {"noise": details, "channel_axis": channel_axis}
    how |= {"method": details.recipe, **options}
    channels_last = image if channel_axis is None else np.moveaxis(image, channel_axis, -1)
    part = middle(channels_last, _MIDDLE)
    is_empty = part.dtype.kind == "f" and bool(np.isnan(part).all())
    # The middle is denoised twice. Noise of each pixel, or none at all, is that of the whole image.
    levels = np.asarray(details.noise.level)
    if 2 * part.size >= image.size or levels.ndim > 1 or not levels.any() or is_empty:
        return prepare(image, **how).quality(denoised=details.image), False
    part = part if channel_axis is None else np.moveaxis(part, -1, channel_axis)
    return prepare(part, **how).quality(), True


def _method(options: Namespace) -> str:
    adjusted = adjustments_in(vars(options)).items()
    words = [
        f"{name} {value:g}"
        for name, value in adjusted
        if is_given(name, value) or not ADJUSTMENTS[name].in_color
    ]
    return ", ".join([options.method, *words])


def _image(width: int, height: int, shown: Pixels) -> str:
    """Describe an image of which a part is shown."""
    part = ""
    if shown.shape[:2] != (height, width):
        part = f"; the central {shown.shape[1]} × {shown.shape[0]} are shown"
    return f"{width} × {height} pixels, {shown.dtype}{part}"


@contextmanager
def page_at(path: Path) -> Iterator[Callable[[Entry], None]]:
    """Provide a function that adds an entry to the page at once, so that only one entry is in memory."""
    head, tail = _page()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("w+b") as file:

        def add(new_entry: Entry) -> None:
            end = file.tell()
            try:
                file.write(_figure(new_entry).encode())
                file.flush()
            except BaseException:  # leave no part of the entry on the page
                file.seek(end)
                file.truncate()
                raise

        file.write(head.encode())
        yield add
        file.write(tail.encode())


def _page() -> tuple[str, str]:
    """Return the page before and after the figures.

    Its policy allows no style or script but its own, whatever the names of files contain.
    """
    folder = resources.files(__package__)
    own = {suffix: (folder / f"report.{suffix}").read_text("utf-8") for suffix in ("css", "js")}
    style = "\n".join([resource("colors.css"), resource("stage.css"), own["css"]])
    script = "\n".join([resource("stage.js"), own["js"]])
    page = Template((folder / "report.html").read_text("utf-8")).substitute(
        policy=policy(style, script),
        style=style,
        script=script,
        version=html.escape(__version__),
        date=datetime.now().strftime("%Y-%m-%d %H:%M"),
        figures="\0",
    )
    head, _, tail = page.partition("\0")
    return head, tail


def _figure(entry: Entry) -> str:
    name = html.escape(entry.name)
    rows = "\n".join(
        f"<div><dt>{html.escape(key)}</dt><dd>{_fact(key, value)}</dd></div>"
        for key, value in entry.facts.items()
    )
    first = entry.views[0]
    unchanged = all(view.captions[1] == NOTHING_REMOVED for view in entry.views)
    removed = "nothing removed" if unchanged else "removed"
    frames = "" if entry.thumbnails else _choice("frame", entry.frames)
    return f"""
<article class="figure">
  <h2>{name}</h2>
  {stages(entry.name, first.images, (entry.width, entry.height), first.captions, removed)}
  {_filmstrip(entry)}
  {zoom_buttons(entry.name, frames + _choice("channel", entry.channels))}
  <dl>{rows}</dl>
  {_more(entry.views[1:])}
</article>"""


def _filmstrip(entry: Entry) -> str:
    """Return a row of thumbnails, one of which is chosen, by the arrow keys as well."""
    if not entry.thumbnails:
        return ""
    labels = "".join(
        f'<label><input type="radio" name="frame"{"" if k else " checked"}>'
        f'<img src="{thumbnail}" alt="frame {name}" draggable="false"><span>{name}</span></label>'
        for k, (name, thumbnail) in enumerate(zip(entry.frames, entry.thumbnails, strict=True))
    )
    return f'<form class="strip" aria-label="frames of {html.escape(entry.name)}">{labels}</form>'


def _choice(what: str, names: list[str]) -> str:
    if len(names) == 1:
        return ""
    options = "".join(f"<option>{html.escape(name)}</option>" for name in names)
    return f'<label>{what} <select class="{what}">{options}</select></label>'


def _more(views: list[View]) -> str:
    """Return the other views as data for the script of the page."""
    if not views:
        return ""
    data = json.dumps([{"images": view.images, "captions": view.captions} for view in views])
    return f'<script type="application/json" class="more">{data.replace("<", chr(92) + "u003c")}</script>'


def _fact(key: str, value: str) -> str:
    text = html.escape(value)
    return f"<code>{text}</code>" if key == "command" else text


def _noise_of(frame: Denoised | None) -> str:
    return "no valid pixels" if frame is None else str(frame.noise)


def _spread(number: int, most: int) -> list[int]:
    """Return at most `most` indices out of `number`, evenly spaced from the first to the last."""
    return sorted({round(k) for k in np.linspace(0, number - 1, min(number, most))})


def _channels(picture: Picture) -> list[tuple[int | None, str]]:
    """Return the indices and names of the channels to choose from; the index is None for gray and RGB images."""
    layer = picture.layers[0]
    if "C" not in layer.axes:
        return [(None, "")]
    number = layer.pixels.shape[layer.axes.index("C")]
    if number == 3 and layer.axes.endswith("C"):
        return [(None, "")]
    names = [f"channel {k + 1}" for k in range(number)]
    if len(picture.channels) == number:
        names = picture.channels
    return [(k, printable(names[k])) for k in _spread(number, _CHANNELS)]


def _crops(result: DenoisedFile, index: Any, side: int) -> tuple[Pixels, Pixels, Pixels]:
    """Return the middle of a frame before and after, and the difference, upright and with channels last."""
    crops = []
    for picture in (result.before, result.after):
        layer = picture.layers[0]
        frame = layer.pixels[index]
        if layer.channel_axis is not None:
            frame = np.moveaxis(frame, layer.channel_axis, -1)
        crops.append(middle(frame, side))
    before, after = crops
    removed = before.astype(np.float64) - after.astype(np.float64)
    axes = "YX" if before.ndim == 2 else "YXC"

    def turned(image: Pixels, negative: bool) -> Pixels:
        picture = replace(result.before, layers=[Layer(image, axes)], alpha=None, negative=negative)
        return upright(picture).layers[0].pixels

    negative = result.before.negative
    return turned(before, negative), turned(after, negative), turned(removed, False)


def _views(
    crops: list[tuple[Pixels, Pixels, Pixels]],
    noises: Iterable[str],
    channel: int | None,
    dtype: np.dtype[Any],
    exact: bool,
) -> list[View]:
    """Return the views of one channel of each frame, with the same black and white in all of them.

    `exact` views show every pixel of the result as it is, and take three times the space.
    """
    if channel is not None:
        crops = [
            (before[..., channel], after[..., channel], removed[..., channel])
            for before, after, removed in crops
        ]
    low, high = black_and_white(dtype, [after for _, after, _ in crops])
    white, scale = removed_in_shades(finite_values([removed for _, _, removed in crops]))
    return [
        View(
            images=images_of(before, after, removed, (low, high), white, exact),
            captions=(noise if len(crops) > 1 else "", scale),
        )
        for (before, after, removed), noise in zip(crops, noises, strict=True)
    ]


def _thumbnails(images: list[Pixels], channel: int | None, dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Return small images of one channel of each frame as data URLs."""
    if not images:
        return ()
    if channel is not None:
        images = [image[..., channel] for image in images]
    low, high = black_and_white(dtype, images)
    return tuple(data_url(image, low, high, quality=60, most=_THUMBNAIL) for image in images)
