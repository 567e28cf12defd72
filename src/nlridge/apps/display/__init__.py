"""How pixels are shown: as shades of a screen, and on the stage, which shows two images under a slider."""

import base64
import html
import io
import math
from collections.abc import Sequence
from hashlib import sha256
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from ...types import Pixels

# The step between shades in the image of the removed noise: half of its standard deviation.
_COARSE = 16

NOTHING_REMOVED = "nothing was removed: before and after are the same"
"""The caption of an image of what was removed, if nothing was."""


def finite_values(images: Sequence[Pixels]) -> npt.NDArray[np.float64]:
    """Return all finite pixels, or a single zero if there are none."""
    values = np.concatenate([image.ravel() for image in images]).astype(np.float64)
    finite = values[np.isfinite(values)]
    return finite if finite.size else np.zeros(1)


def black_and_white(dtype: np.dtype[Any], images: Sequence[Pixels]) -> tuple[float, float]:
    """Return the values shown as black and white: 0 and 255 for uint8, otherwise the range of the pixels."""
    if dtype == np.uint8:
        return 0.0, 255.0
    low, high = np.percentile(finite_values(images), [0.1, 99.9])
    return float(low), float(high) if high > low else float(low) + max(1.0, abs(float(low)))


def shades(image: Pixels, low: float, high: float, coarse: int = 1) -> npt.NDArray[np.uint8]:
    """Return an image for a screen: 0 is black, at `low`, and 255 is white, at `high`, in steps of `coarse`."""
    values = np.nan_to_num((image.astype(np.float64) - low) * (255 / (high - low)), nan=0.0)
    rounded: npt.NDArray[np.uint8] = np.clip(np.rint(values / coarse) * coarse, 0, 255).astype(
        np.uint8
    )
    return rounded


def data_url(
    image: Pixels,
    low: float,
    high: float,
    coarse: int = 1,
    quality: int | None = None,
    most: int | None = None,
) -> str:
    """Return the `shades` of an image as a data URL: WebP, lossless if no quality is given.

    It is reduced to at most `most` rows and columns.
    """
    from PIL import Image

    picture = Image.fromarray(shades(image, low, high, coarse))
    if most is not None:
        picture.thumbnail((most, most))
    data = io.BytesIO()
    lossless = quality is None
    picture.save(data, "WEBP", lossless=lossless, quality=20 if lossless else quality, method=1)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"


def images_of(
    before: Pixels,
    after: Pixels,
    removed: Pixels,
    ends: tuple[float, float],
    white: float,
    exact: bool = True,
) -> tuple[str, str, str]:
    """Return the images of a stage as data URLs.

    `ends` are the values of black and white before and after, and `white` is that of white in the image of what was
    removed. `exact` images show every pixel of the result unchanged, and take three times the space.
    """
    low, high = ends
    # The noise hides the coarser shades, which halve the size of the page.
    coarse = 2 ** int(np.clip(math.log2(white / 4 * 255 / (high - low)) - 1, 0, 4))
    # Noise also hides compression errors; it needs no higher quality than this.
    qualities = (None, None, None) if exact else (60, 90, 40)
    return (
        data_url(before, low, high, coarse if exact else 1, qualities[0]),
        data_url(after, low, high, quality=qualities[1]),
        data_url(removed, -white, white, _COARSE if exact else 1, qualities[2]),
    )


def removed_in_shades(values: npt.NDArray[np.float64]) -> tuple[float, str]:
    """Return the value shown as white in an image of what was removed, whose negative is black, and its caption."""
    largest = float(np.abs(values).max()) or 1.0
    level = largest * float(np.std(values / largest)) or 1.0  # squares of the values may overflow
    if not values.any():
        return 4 * level, NOTHING_REMOVED
    return 4 * level, f"removed noise: black is {-4 * level:.3g}, white is {4 * level:.3g}"


def middle(image: Pixels, side: int) -> Pixels:
    """Return the middle of an image of (height, width, ...), with at most `side` rows and columns."""
    top, left = (max(0, (length - side) // 2) for length in image.shape[:2])
    return image[top : top + side, left : left + side]


def stages(name: str, images: tuple[str, str, str], size: tuple[int, int], captions: tuple[str, str], removed: str = "removed") -> str:  # fmt: skip
    """Return two stages in HTML: the images before and after under a slider, and what was removed.

    Parameters
    ----------
    name
        The name of the image.
    images
        The addresses of the image before, the image after, and what was removed.
    size
        The width and the height of all of them.
    captions
        What is written below each stage.
    removed
        The label of the second stage.
    """
    name = html.escape(name)
    before, after, difference = images
    which, scale = map(html.escape, captions)
    width, height = size
    layer = f'width="{width}" height="{height}" draggable="false"'
    keys = "plus and minus keys zoom, arrow keys move"
    return f"""<div class="views">
    <figure>
      <div class="stage" tabindex="0" role="group" aria-label="{name}, before and after; {keys}">
        <img class="layer" src="{before}" {layer} alt="{name} before">
        <img class="layer after" src="{after}" {layer} alt="{name} after">
        <div class="divider" aria-hidden="true"></div>
        <span class="tag left">before</span><span class="tag right">after</span>
      </div>
      <input class="split" type="range" min="0" max="100" step="0.5" value="50" aria-label="{name}: divider between before and after">
      <figcaption aria-live="polite">{which}</figcaption>
    </figure>
    <figure>
      <div class="stage" tabindex="0" role="group" aria-label="{name}, removed noise; {keys}">
        <img class="layer" src="{difference}" {layer} alt="noise removed from {name}">
        <span class="tag left">{html.escape(removed)}</span>
      </div>
      <figcaption>{scale}</figcaption>
    </figure>
  </div>"""


def zoom_buttons(name: str, more: str = "") -> str:
    """Return the buttons that zoom the stages, in HTML; `more` follows them."""
    return f"""<div class="zoom" role="group" aria-label="zoom for {html.escape(name)}">
    <button type="button" data-zoom="out" aria-label="zoom out">−</button>
    <button type="button" data-zoom="in" aria-label="zoom in">+</button>
    <button type="button" data-zoom="one">1:1</button>
    <button type="button" data-zoom="fit">fit</button>
    <output></output>
    {more}
  </div>"""


def resource(name: str) -> str:
    """Return a style sheet or script of this folder."""
    return (resources.files(__package__) / name).read_text("utf-8")


def policy(style: str, script: str) -> str:
    """Return a content security policy that allows no style or script but these, whatever names contain."""
    allowed = {"img": "data:", "style": digest(style), "script": digest(script)}
    rules = [f"{kind}-src {source}" for kind, source in allowed.items()]
    return "; ".join(["default-src 'none'", *rules, "base-uri 'none'", "form-action 'none'"])


def digest(text: str) -> str:
    """Return the name of a style or script in a content security policy."""
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"
