"""The report: one page, with everything in it, to look at what was done."""

import base64
import html
import json
import shlex
from argparse import Namespace
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import imagecodecs
import numpy as np
import numpy.typing as npt

from . import __version__
from .batch import Cleaned, as_floats
from .files import Layer
from .files.atomic import writing
from .files.seen import upright
from .quality import Quality, quality_of

Pixels = npt.NDArray[Any]

_SIDE = 1024  # of what is shown of a large image
_UNSURE = 5.0  # dB: an estimate that is less sure than this is not shown


@dataclass(frozen=True)
class Entry:
    """A file of the report."""

    name: str
    facts: dict[str, str]
    images: dict[str, str]
    """Data addresses of what was before, after, and what was removed."""
    width: int
    height: int
    caption: str


def entry(source: Path, target: Path, cleaned: Cleaned, options: Namespace) -> Entry:
    """What the page shows of a file: its first frame, or the middle of it if it is large."""
    first = cleaned.found[0]
    layer = cleaned.before.layers[0]
    index = next(layer.frames())
    noisy = as_floats(layer.pixels[index])
    known = options.sigma is not None
    quality = quality_of(
        noisy,
        first,
        known=known,
        channel_axis=layer.channel_axis,
        strength=options.strength,
        workers=options.workers,
    )
    shown = [_upright(image, cleaned, layer) for image in (noisy, first.image, first.residual)]
    height, width = shown[0].shape[:2]
    before, after, residual = (_middle(image) for image in shown)
    low, high = _black_and_white(layer.pixels.dtype, after)
    level = float(np.nanstd(residual)) or 1.0
    part = (
        ""
        if max(height, width) <= _SIDE
        else f"; its middle, {after.shape[1]} × {after.shape[0]}, is shown"
    )
    frames = len(cleaned.found)
    facts = {
        "noise": f"{first.noise} ({'given' if known else 'estimated'})",
        "method": f"{options.method}, strength {options.strength:g}",
        "estimated gain": _gain(quality, known),
        "time": f"{cleaned.seconds:.2f} s"
        + (f" for {frames} frames; the first is shown" if frames > 1 else ""),
        "image": f"{width} × {height} pixels, {layer.pixels.dtype}{part}",
        "written to": str(target),
        "to repeat it": _command(source, target, options),
    }
    if cleaned.notes:
        facts["not kept"] = "; ".join(cleaned.notes)
    return Entry(
        name=source.name,
        facts=facts,
        images={
            "before": _address(before, low, high),
            "after": _address(after, low, high),
            "removed": _address(residual, -4 * level, 4 * level),
        },
        width=after.shape[1],
        height=after.shape[0],
        caption=f"what was removed: black is {-4 * level:.3g}, white {4 * level:.3g}",
    )


def save(path: Path, entries: list[Entry]) -> None:
    """Write the page."""
    template = Template(resources.files(__package__).joinpath("report.html").read_text("utf-8"))
    page = template.substitute(
        version=html.escape(__version__),
        date=datetime.now().strftime("%Y-%m-%d %H:%M"),
        count=f"{len(entries)} {'image' if len(entries) == 1 else 'images'}",
        figures="\n".join(_figure(number, entry) for number, entry in enumerate(entries)),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path) as file:
        file.write(page.encode("utf-8", "replace"))  # names of files may be anything


def _figure(number: int, found: Entry) -> str:
    name = html.escape(found.name)
    rows = "\n".join(
        f"<div><dt>{html.escape(key)}</dt><dd>{_fact(key, value)}</dd></div>"
        for key, value in found.facts.items()
    )
    size = f'width="{found.width}" height="{found.height}"'
    images = found.images
    return f"""
<article class="figure" data-size="{html.escape(json.dumps([found.width, found.height]))}">
  <h2>{name}</h2>
  <div class="views">
    <figure>
      <div class="stage" tabindex="0" role="group" aria-label="{name}, before and after; plus and minus zoom, arrows move">
        <img class="layer" src="{images["before"]}" {size} alt="{name} before" draggable="false">
        <img class="layer after" src="{images["after"]}" {size} alt="{name} after" draggable="false">
        <div class="divider" aria-hidden="true"></div>
        <span class="tag left">before</span><span class="tag right">after</span>
      </div>
      <input class="split" type="range" min="0" max="100" step="0.5" value="50" aria-label="{name}: where before ends and after begins">
    </figure>
    <figure>
      <div class="stage" tabindex="0" role="group" aria-label="{name}, what was removed; plus and minus zoom, arrows move">
        <img class="layer" src="{images["removed"]}" {size} alt="what was removed from {name}" draggable="false">
        <span class="tag left">removed</span>
      </div>
      <figcaption>{html.escape(found.caption)}</figcaption>
    </figure>
  </div>
  <div class="zoom" role="group" aria-label="zoom of {name}">
    <button type="button" data-zoom="out" aria-label="smaller">−</button>
    <button type="button" data-zoom="in" aria-label="larger">+</button>
    <button type="button" data-zoom="one">1:1</button>
    <button type="button" data-zoom="fit">fit</button>
    <output></output>
  </div>
  <dl>{rows}</dl>
</article>"""


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
    words = ["nlridge", "denoise", str(source), "-o", str(target)]
    if options.sigma is not None:
        sigma = options.sigma if isinstance(options.sigma, list) else [options.sigma]
        words += ["--sigma", ",".join(map(repr, sigma))]
    for name in ("noise", "method", "strength", "format", "channel_axis", "stack_axis"):
        value = getattr(options, name)
        usual = {"noise": "auto", "method": "standard", "strength": 1.0}.get(name)
        if value != usual:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)


def _upright(image: Pixels, cleaned: Cleaned, layer: Layer) -> Pixels:
    """A frame with its channels last, turned as it is to be seen."""
    if layer.channel_axis is not None:
        image = np.moveaxis(image, layer.channel_axis, -1)
    seen = Layer(image, "YX" if image.ndim == 2 else "YXC")
    turned: Pixels = upright(replace(cleaned.before, layers=[seen], alpha=None)).layers[0].pixels
    return turned


def _middle(image: Pixels) -> Pixels:
    top, left = (max(0, (n - _SIDE) // 2) for n in image.shape[:2])
    return image[top : top + _SIDE, left : left + _SIDE]


def _black_and_white(dtype: np.dtype[Any], after: Pixels) -> tuple[float, float]:
    """The values that are shown as black and white: all of 8 bits, and what there is of others."""
    if dtype == np.uint8:
        return 0.0, 255.0
    low, high = np.nanpercentile(after.astype(np.float64), [0.1, 99.9])
    return float(low), float(high) if high > low else float(low) + max(1.0, abs(float(low)))


def _address(image: Pixels, low: float, high: float) -> str:
    """An image as the address of itself: PNG of 8 bits, gray or in colour; more channels as their mean."""
    if image.ndim == 3 and image.shape[-1] != 3:
        image = image[..., 0] if image.shape[-1] < 3 else image.mean(axis=-1)
    values = np.nan_to_num((image.astype(np.float64) - low) * (255 / (high - low)), nan=0.0)
    shades = np.ascontiguousarray(np.rint(np.clip(values, 0, 255)).astype(np.uint8))
    data = imagecodecs.png_encode(shades)
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"
