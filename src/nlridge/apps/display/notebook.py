"""The stage in a notebook."""

import html
from string import Template

import numpy as np

from ...types import Pixels
from . import (
    NOTHING_REMOVED,
    black_and_white,
    finite_values,
    images_of,
    middle,
    policy,
    removed_in_shades,
    resource,
    stages,
    zoom_buttons,
)

_SIDE = 768  # largest side of the part of an image that is shown
# On a usual screen, in pixels: the width of a stage, and the height of what is below it.
_COLUMN = 440
_CONTROLS = 92


def notebook_view(after: Pixels, removed: Pixels, axes: str, words: str) -> str:
    """Return HTML that shows a denoised image and what was removed from it.

    The stage is a page in a frame of its own, so it neither depends on the page around it nor affects it. Where frames
    or scripts are not allowed, only the words are shown.

    Parameters
    ----------
    after, removed
        The denoised image, and the noisy one minus it.
    axes
        A letter for each axis: Y and X, C for channels, T for frames. The middle frame is shown, in color if there are
        three channels, and otherwise the first channel.
    words
        A sentence about the image, which is shown as text.
    """
    sentence = f"<p>{html.escape(words)}</p>"
    if after.size == 0:
        return sentence
    height, width = (after.shape[axes.index(axis)] for axis in "YX")
    after, part = _plane(after, axes)
    removed, _ = _plane(removed, axes)
    if after.shape[:2] != (height, width):
        part.append(f"the central {after.shape[1]} × {after.shape[0]} of {width} × {height} pixels")
    with np.errstate(over="ignore", invalid="ignore"):
        before = after.astype(np.float64) + removed
    white, caption = removed_in_shades(finite_values([removed]))
    ends = black_and_white(after.dtype, [after])
    images = images_of(before, after, removed, ends, white)
    rows, columns = after.shape[:2]
    label = "nothing removed" if caption == NOTHING_REMOVED else "removed"
    style = "\n".join(map(resource, ("colors.css", "stage.css", "notebook.css")))
    script = "\n".join(map(resource, ("stage.js", "notebook.js")))
    page = Template(resource("notebook.html")).substitute(
        policy=policy(style, script),
        style=style,
        script=script,
        width=columns,
        height=rows,
        stages=stages("image", images, (columns, rows), ("; ".join(part), caption), label),
        zoom=zoom_buttons("image"),
    )
    ratio = (2 * _COLUMN) / (_COLUMN * rows / columns + _CONTROLS)
    look = (
        f"width: 100%; aspect-ratio: {ratio:.3f}; min-height: 18rem; max-height: 44rem; border: 0"
    )
    return (
        f'<iframe sandbox="allow-scripts" title="before and after" style="{look}" '
        f'srcdoc="{html.escape(page)}"></iframe>\n{sentence}'
    )


def _plane(image: Pixels, axes: str) -> tuple[Pixels, list[str]]:
    """Return the part of an image that is shown, (height, width) or (height, width, 3), and its description."""
    part = []
    for axis, name in (("T", "frame"), ("C", "channel")):
        if axis not in axes:
            continue
        place = axes.index(axis)
        count = image.shape[place]
        if axis == "C" and count == 3:
            image = np.moveaxis(image, place, -1)
            continue
        chosen = count // 2 if axis == "T" else 0
        image, axes = image.take(chosen, place), axes.replace(axis, "")
        if count > 1:
            part.append(f"{name} {chosen + 1} of {count}")
    return middle(image, _SIDE), part
