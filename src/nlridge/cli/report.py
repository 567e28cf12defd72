"""The report: one page, with everything in it, to look at what was done."""

import base64
import html
import io
import json
import math
import os
import shlex
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from .. import __version__
from ..api.quality import Quality, quality_of
from ..files import Layer, Picture
from ..files.atomic import replacing
from ..files.orientation import upright
from .batch import Cleaned, as_floats
from .printing import printable

Pixels = npt.NDArray[Any]

_SIDE = 1024  # of what is shown of a large image; less in colour, or if there are several to choose from
_LEAST_SIDE = 256
_FRAMES, _CHANNELS = 8, 6  # that can be chosen
_UNSURE = 5.0  # dB: an estimate that is less sure than this is not shown
_COARSE = 16  # shades between those of what was removed: half the standard deviation of noise


@dataclass(frozen=True)
class View:
    """A frame and a channel of a file."""

    images: tuple[str, str, str]
    """Data addresses of what was before, after, and what was removed."""
    captions: tuple[str, str]


@dataclass(frozen=True)
class Entry:
    """A file of the report."""

    name: str
    facts: dict[str, str]
    width: int
    height: int
    frames: list[str]
    """That can be chosen, by their names."""
    channels: list[str]
    views: list[View]
    """Frame by frame, each with its channels."""


def entry(source: Path, target: Path, cleaned: Cleaned, options: Namespace) -> Entry:
    """What the page shows of a file: a few frames and channels, or the middle of them if they are large."""
    layer = cleaned.before.layers[0]
    frames = list(layer.frames())
    known = options.sigma is not None
    quality = quality_of(
        as_floats(layer.pixels[frames[0]]),
        cleaned.found[0],
        noise_given=known,
        channel_axis=layer.channel_axis,
        strength=options.strength,
        workers=options.workers,
    )
    chosen = _spread(len(frames), _FRAMES)
    channels = _channels(cleaned.before)
    in_colour = channels[0][0] is None and "C" in layer.axes
    planes = len(chosen) * (3 if in_colour else len(channels))
    side = max(_LEAST_SIDE, min(_SIDE, int(_SIDE * math.sqrt(2 / planes))))
    stages = [_stage(cleaned, frames[k], side) for k in chosen]
    noises = [cleaned.found[k].noise for k in chosen]
    shown_height, shown_width = stages[0][0].shape[:2]
    height, width = (layer.pixels.shape[layer.axes.index(axis)] for axis in "YX")
    if cleaned.before.turn >= 5:
        height, width = width, height
    part = f"; its middle, {shown_width} × {shown_height}, is shown" if max(height, width) > side else ""  # fmt: skip
    several = f" for {len(cleaned.found)} frames" if len(cleaned.found) > 1 else ""
    facts = {
        "noise": f"{noises[0]} ({'given' if known else 'estimated'})",
        "method": f"{options.method}, strength {options.strength:g}",
        "estimated gain": _gain(quality, known),
        "time": f"{cleaned.seconds:.2f} s{several}",
        "image": f"{width} × {height} pixels, {layer.pixels.dtype}{part}",
        "written to": printable(str(target)),
        "to repeat it": _command(source, target, options),
    }
    if several:
        facts["noise"] += ", in the first frame"
        facts["estimated gain"] += ", in the first frame"
    if cleaned.notes:
        facts["not kept"] = "; ".join(cleaned.notes)
    views = [_views(stages, noises, k, layer.pixels.dtype) for k, _ in channels]
    return Entry(
        name=printable(source.name),
        facts=facts,
        width=shown_width,
        height=shown_height,
        frames=[f"{k + 1} of {len(frames)}" for k in chosen],
        channels=[name for _, name in channels],
        views=[view for one_frame in zip(*views, strict=True) for view in one_frame],
    )


@contextmanager
def page_at(path: Path) -> Iterator[Callable[[Entry], None]]:
    """Write the page file by file, so that no more than one of them is in memory: a function that adds one."""
    head, tail = _page()
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial, partial.open("w+b") as file:

        def add(found: Entry) -> None:
            end = file.tell()
            try:
                file.write(_figure(found).encode())
                file.flush()
            except BaseException:  # the page stays whole
                file.seek(end)
                file.truncate()
                raise

        file.write(head.encode())
        yield add
        file.write(tail.encode())


def _page() -> tuple[str, str]:
    """What comes before the figures and after them.

    Nothing but its own style and script is allowed to do anything in the page, whatever files are called.
    """
    folder = resources.files(__package__) / "page"

    def joined(ending: str) -> str:
        return "\n".join((folder / f"{n}.{ending}").read_text("utf-8") for n in ("stage", "report"))

    style, script = joined("css"), joined("js")
    allowed = {"img": "data:", "style": _digest(style), "script": _digest(script)}
    policy = "; ".join(
        ["default-src 'none'", *(f"{kind}-src {source}" for kind, source in allowed.items()), "base-uri 'none'", "form-action 'none'"]
    )  # fmt: skip
    page = Template((folder / "report.html").read_text("utf-8")).substitute(
        policy=policy,
        style=style,
        script=script,
        version=html.escape(__version__),
        date=datetime.now().strftime("%Y-%m-%d %H:%M"),
        figures="\0",
    )
    head, _, tail = page.partition("\0")
    return head, tail


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _figure(found: Entry) -> str:
    name = html.escape(found.name)
    rows = "\n".join(
        f"<div><dt>{html.escape(key)}</dt><dd>{_fact(key, value)}</dd></div>"
        for key, value in found.facts.items()
    )
    size = f'width="{found.width}" height="{found.height}"'
    before, after, removed = found.views[0].images
    which, scale = map(html.escape, found.views[0].captions)
    return f"""
<article class="figure">
  <h2>{name}</h2>
  <div class="views">
    <figure>
      <div class="stage" tabindex="0" role="group" aria-label="{name}, before and after; plus and minus zoom, arrows move">
        <img class="layer" src="{before}" {size} alt="{name} before" draggable="false">
        <img class="layer after" src="{after}" {size} alt="{name} after" draggable="false">
        <div class="divider" aria-hidden="true"></div>
        <span class="tag left">before</span><span class="tag right">after</span>
      </div>
      <input class="split" type="range" min="0" max="100" step="0.5" value="50" aria-label="{name}: where before ends and after begins">
      <figcaption aria-live="polite">{which}</figcaption>
    </figure>
    <figure>
      <div class="stage" tabindex="0" role="group" aria-label="{name}, what was removed; plus and minus zoom, arrows move">
        <img class="layer" src="{removed}" {size} alt="what was removed from {name}" draggable="false">
        <span class="tag left">removed</span>
      </div>
      <figcaption>{scale}</figcaption>
    </figure>
  </div>
  <div class="zoom" role="group" aria-label="zoom of {name}">
    <button type="button" data-zoom="out" aria-label="smaller">−</button>
    <button type="button" data-zoom="in" aria-label="larger">+</button>
    <button type="button" data-zoom="one">1:1</button>
    <button type="button" data-zoom="fit">fit</button>
    <output></output>
    {_choice("frame", found.frames)}{_choice("channel", found.channels)}
  </div>
  <dl>{rows}</dl>
  {_more(found.views[1:])}
</article>"""


def _choice(what: str, names: list[str]) -> str:
    if len(names) == 1:
        return ""
    options = "".join(f"<option>{html.escape(name)}</option>" for name in names)
    return f'<label>{what} <select class="{what}">{options}</select></label>'


def _more(views: list[View]) -> str:
    """Views that can be chosen, as data for the script of the page."""
    if not views:
        return ""
    data = json.dumps([{"images": view.images, "captions": view.captions} for view in views])
    return f'<script type="application/json" class="more">{data.replace("<", chr(92) + "u003c")}</script>'


def _fact(key: str, value: str) -> str:
    text = html.escape(value)
    return f"<code>{text}</code>" if key == "to repeat it" else text


def _gain(quality: Quality, known: bool) -> str:
    if quality.standard_error > _UNSURE:
        return "cannot be told: too little noise is left, or too little is known of it"
    if quality.gain == 0:
        return "none: there was no noise to remove"
    condition = "" if known else ", if the noise is what it was taken for"
    return f"{quality.gain:+.1f} ± {quality.standard_error:.1f} dB{condition}"


def _command(source: Path, target: Path, options: Namespace) -> str:
    words = ["nlridge", "denoise"]
    if options.sigma is not None:
        sigma = options.sigma if isinstance(options.sigma, list) else [options.sigma]
        words += ["--sigma", ",".join(map(repr, sigma))]
    for name in ("noise", "method", "strength", "format", "channel_axis", "stack_axis"):
        value = getattr(options, name)
        usual = {"noise": "auto", "method": "standard", "strength": 1.0}.get(name)
        if value != usual:
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += [f"--output={target}"] if str(target).startswith("-") else ["-o", str(target)]
    words += ["--", str(source)] if str(source).startswith("-") else [str(source)]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """A word for a shell; one that cannot be shown in the way of Bash and Z shell."""
    if word.isprintable():
        return shlex.quote(word)
    shown = (
        c
        if c.isprintable() and c not in "\\'"
        else "".join(f"\\x{byte:02x}" for byte in os.fsencode(c))
        for c in word
    )
    return f"$'{''.join(shown)}'"


def _spread(number: int, most: int) -> list[int]:
    """Some of a number of things, evenly spread from the first to the last."""
    return sorted({round(k) for k in np.linspace(0, number - 1, min(number, most))})


def _channels(picture: Picture) -> list[tuple[int | None, str]]:
    """Channels that can be chosen, and their names; None for gray, or for red, green and blue at once."""
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


def _stage(cleaned: Cleaned, index: Any, side: int) -> tuple[Pixels, Pixels, Pixels]:
    """The middle of a frame before and after, and what was removed, as they are to be seen; channels last."""
    crops = []
    for picture in (cleaned.before, cleaned.after):
        layer = picture.layers[0]
        frame = layer.pixels[index]
        if layer.channel_axis is not None:
            frame = np.moveaxis(frame, layer.channel_axis, -1)
        top, left = (max(0, (n - side) // 2) for n in frame.shape[:2])
        crops.append(frame[top : top + side, left : left + side])
    before, after = crops
    removed = before.astype(np.float64) - after.astype(np.float64)
    axes = "YX" if before.ndim == 2 else "YXC"

    def seen(image: Pixels, negative: bool) -> Pixels:
        picture = replace(
            cleaned.before, layers=[Layer(image, axes)], alpha=None, negative=negative
        )
        return upright(picture).layers[0].pixels

    negative = cleaned.before.negative
    return seen(before, negative), seen(after, negative), seen(removed, False)


def _views(
    stages: list[tuple[Pixels, Pixels, Pixels]],
    noises: Iterable[Any],
    channel: int | None,
    dtype: np.dtype[Any],
) -> list[View]:
    """A channel of each frame; black and white are the same in all of them."""
    if channel is not None:
        stages = [
            (before[..., channel], after[..., channel], removed[..., channel])
            for before, after, removed in stages
        ]
    low, high = _black_and_white(dtype, [after for _, after, _ in stages])
    removed_values = _numbers([removed for _, _, removed in stages])
    level = float(np.std(removed_values)) or 1.0
    # The noise hides how coarse the shades are, and half the page is saved.
    coarse = 2 ** int(np.clip(math.log2(level * 255 / (high - low)) - 1, 0, 4))
    scale = f"what was removed: black is {-4 * level:.3g}, white {4 * level:.3g}"
    return [
        View(
            images=(
                _address(before, low, high, coarse),
                _address(after, low, high),
                _address(removed, -4 * level, 4 * level, _COARSE),
            ),
            captions=(str(noise) if len(stages) > 1 else "", scale),
        )
        for (before, after, removed), noise in zip(stages, noises, strict=True)
    ]


def _numbers(images: list[Pixels]) -> npt.NDArray[np.float64]:
    """All pixels that are there, or a zero if there are none."""
    values = np.concatenate([image.ravel() for image in images]).astype(np.float64)
    there = values[np.isfinite(values)]
    return there if there.size else np.zeros(1)


def _black_and_white(dtype: np.dtype[Any], images: list[Pixels]) -> tuple[float, float]:
    """The values that are shown as black and white: all of 8 bits, and what there is of others."""
    if dtype == np.uint8:
        return 0.0, 255.0
    low, high = np.percentile(_numbers(images), [0.1, 99.9])
    return float(low), float(high) if high > low else float(low) + max(1.0, abs(float(low)))


def _address(image: Pixels, low: float, high: float, coarse: int = 1) -> str:
    """An image as the address of itself: lossless WebP of 8 bits, gray or in colour, `coarse` shades apart."""
    values = np.nan_to_num((image.astype(np.float64) - low) * (255 / (high - low)), nan=0.0)
    shades = np.clip(np.rint(values / coarse) * coarse, 0, 255).astype(np.uint8)
    data = io.BytesIO()
    Image.fromarray(shades).save(data, "WEBP", lossless=True, quality=20, method=1)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"
