"""The axes of files: as given by the user, and those along which frames belong together."""

import math
from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from ...errors import ArgumentError
from ...files import Layer

# The numbers of pairs of neighbours, and of their pixels in all, that are compared to choose between time and depth.
_PAIRS = 64
_SAMPLE = 2**20
# Neighbours are alike if the means of blocks of _BLOCK x _BLOCK pixels have at least this correlation, as the median of
# _COMPARED pairs.
_BLOCK, _ALIKE, _COMPARED = 8, 0.9, 8


def axes_of(channel_axis: int | None, stack_axis: int | None) -> str | None:
    """Return one letter for each axis of a plain array, or None if no axis is named."""
    if channel_axis is None and stack_axis is None:
        return None
    dimensions = 2 + (channel_axis is not None) + (stack_axis is not None)
    letters = [""] * dimensions
    for name, axis, letter in (
        ("channel_axis", channel_axis, "C"),
        ("stack_axis", stack_axis, "Q"),
    ):
        if axis is None:
            continue
        if not -dimensions <= axis < dimensions:
            raise ArgumentError(name, axis, f"a number from {-dimensions} to {dimensions - 1}")
        if letters[axis]:
            raise ValueError(
                f"--stack-axis and --channel-axis are both {axis % dimensions}; expected different axes"
            )
        letters[axis] = letter
    rest = iter("YX")
    return "".join(letter or next(rest) for letter in letters)


def notes_on_axes(given: str | None, used: Iterable[str]) -> list[str]:
    """Return a note if the given axes differ from those of the file, which take precedence."""
    if given is None or all(axes == given for axes in used):
        return []
    return ["the given axes were ignored, as the file names its own"]


def sequence_of(layer: Layer, frames: str) -> tuple[str, str]:
    """Return the axis along which the frames of a layer belong together, and how: in "time" or in "depth".

    Both are empty if the frames are independent. If `frames` is "auto", they are independent unless the file says
    otherwise. With both T and Z, the axis along which neighbours are more similar is chosen: both have the same noise.
    """
    sizes = dict(zip(layer.axes, layer.pixels.shape, strict=True))
    stacked = [axis for axis in layer.axes if axis not in "YXC" and sizes[axis] > 1]
    if frames == "auto":
        named = [axis for axis in "TZ" if axis in stacked]
        choice = min(named, key=partial(_difference, layer)) if len(named) > 1 else "".join(named)
        return choice, {"T": "time", "Z": "depth"}.get(choice, "")
    if frames == "independent" or not stacked:
        return "", ""
    # The axis of that name, else one without a name, else the other one: ImageJ labels any stack as slices.
    wanted = "T" if frames == "time" else "Z"
    unnamed = [axis for axis in stacked if axis not in "TZ"]
    return (wanted if wanted in stacked else [*stacked, *unnamed][-1]), frames


def note_on_frames(layer: Layer, frames: str) -> str:
    """Return a note if frames were denoised one by one although neighbours are alike; otherwise an empty string."""
    if frames != "auto" or sequence_of(layer, frames)[0]:
        return ""
    stacked = [
        axis
        for axis, length in zip(layer.axes, layer.pixels.shape, strict=True)
        if axis not in "YXC" and length > 1
    ]
    if not stacked or _likeness(layer, stacked[-1]) < _ALIKE:
        return ""
    return (
        "neighbouring images of the stack are alike, but were denoised one by one; if they follow each other in time, "
        "--frames time removes more noise, and --frames depth if they are slices of a volume"
    )


def _likeness(layer: Layer, axis: str) -> float:
    """Return the median correlation of neighbours along an axis, between means of blocks, which have less noise."""
    found = []
    for pair in _pairs(layer, axis, _COMPARED):
        image = np.moveaxis(
            pair, [layer.axes.index(letter) for letter in (axis, "Y", "X")], (0, 1, 2)
        )
        rows, columns = (length // _BLOCK for length in image.shape[1:3])
        if min(rows, columns) < 2:
            return 0.0
        image = image[:, : rows * _BLOCK, : columns * _BLOCK].reshape(
            2, rows, _BLOCK, columns, _BLOCK, -1
        )
        means = image.mean(axis=(2, 4)).reshape(2, -1)
        means = means[:, np.isfinite(means).all(axis=0)]
        means = means - means.mean(axis=1, keepdims=True) if means.size else np.zeros((2, 1))
        power = math.sqrt(float(np.prod(np.mean(means**2, axis=1))))
        found.append(float(np.mean(means[0] * means[1])) / power if power > 0 else 0.0)
    return float(np.median(found))


def _difference(layer: Layer, axis: str) -> float:
    """Return the mean squared difference of neighbours along an axis, in a sample of their pixels."""
    pixels = _PAIRS * math.prod(
        n for a, n in zip(layer.axes, layer.pixels.shape, strict=True) if a in "YXC"
    )
    step = max(1, round(math.sqrt(pixels / _SAMPLE)))
    some = tuple(slice(None, None, step if a in "YX" else None) for a in layer.axes)
    square, count = 0.0, 0
    for pair in _pairs(layer, axis, _PAIRS):
        with np.errstate(invalid="ignore"):
            difference = np.diff(pair[some], axis=layer.axes.index(axis))
        valid = difference[np.isfinite(difference)]
        square, count = square + float(np.sum(valid**2)), count + valid.size
    return square / count if count else math.inf


def _pairs(layer: Layer, axis: str, most: int) -> Iterator[npt.NDArray[np.float64]]:
    """Yield some pairs of neighbours along an axis; the pixels may be on disk, and only these are read."""
    sizes = dict(zip(layer.axes, layer.pixels.shape, strict=True))
    starts = [1 if a in "YXC" else n - (a == axis) for a, n in sizes.items()]
    total = math.prod(starts)
    chosen = np.linspace(0, total - 1, min(total, most)).astype(int)
    for place in zip(*np.unravel_index(chosen, starts), strict=True):
        index = tuple(
            slice(None) if a in "YXC" else slice(int(k), int(k) + (2 if a == axis else 1))
            for a, k in zip(layer.axes, place, strict=True)
        )
        yield np.asarray(layer.pixels[index]).astype(np.float64)
