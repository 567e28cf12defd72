"""LIF files of Leica microscopes, read with liffile: each image in the file is a layer."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import not_installed
from ..damage import refuse_too_large
from ..picture import Layer, Picture, checked_spacing

NAME = "LIF"
SUFFIXES = (".lif",)
KEEPS = ()


def recognises(head: bytes) -> bool:
    return head.startswith(b"\x70\0\0\0") and head[8:9] == b"\x2a"


def read(path: Path, axes: str | None) -> Picture:
    try:
        import liffile
    except ImportError:
        raise not_installed("LIF files need", "liffile") from None
    try:
        opened = liffile.LifFile(path)
    except MemoryError:  # liffile does not check lengths
        raise ValueError("the file is damaged: a block is longer than the memory") from None
    with opened as file:
        images = [image for image in file.images if len(image.shape) > 1]
        claimed = sum(math.prod(image.shape) * image.dtype.itemsize for image in images)
        refuse_too_large(f"{claimed} bytes of pixels", claimed, path.stat().st_size)
        layers = [_layer(image) for image in images]
        names = {tuple(_channel_names(image)) for image in images}
    # The layers share one list of names.
    channels = list(names.pop()) if len(names) == 1 else []
    return Picture("lif", layers, channels=channels if all(channels) else [])


def _layer(image: Any) -> Layer:
    pixels = np.asarray(image.asarray())
    dims = list(image.dims)
    plane = dims[-2:] if dims[-1] != "S" else dims[-3:-1]
    # The plane of a scan through the depth is along Z and X; its Y, if any, is the axis of the slices.
    names = {plane[0]: "Y", plane[1]: "X"}
    names |= {axis: "Z" for axis in dims if axis in "ZY" and axis not in names}
    letters = [names.get(axis, axis if axis in "TC" else "Q") for axis in dims]
    if dims[-1] == "S":  # samples of colors
        letters = ["Q" if letter == "C" else letter for letter in letters[:-1]] + ["C"]
    elif "C" not in letters and letters.count("Q") == 1:  # probably a spectrum
        spectral = dims[letters.index("Q")] in "λΛ"
        letters = ["C" if letter == "Q" and spectral else letter for letter in letters]
    rest = iter("QPRUVW")
    letters = [next(rest) if letter == "Q" else letter for letter in letters]
    steps = {letter: _step(image, axis) for letter, axis in zip(letters, dims, strict=True)}
    spacing = checked_spacing(steps.get("Z"), steps["Y"], steps["X"])
    return Layer(pixels, "".join(letters), spacing, "µm" if spacing else "")


def _step(image: Any, axis: str) -> float | None:
    """Return the distance of neighbours along an axis in micrometres; None if it is unknown."""
    places = image.coords.get(axis)
    if places is None or len(places) < 2:
        return None
    return round(1e6 * abs(float(places[-1] - places[0])) / (len(places) - 1), 9)


def _channel_names(image: Any) -> list[str]:
    """Return the names of the channels of an image, by their color if they have no other."""
    found = image.xml_element.iterfind(".//ImageDescription/Channels/ChannelDescription")
    names = [channel.get("NameOfMeasuredQuantity") or channel.get("LUTName") or "" for channel in found]  # fmt: skip
    return names if len(names) > 1 else []
