"""The metadata of OME and ImageJ about an image: the names of its channels, and the size of a voxel."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from .picture import checked_spacing

_UNITS = {"um": "µm", "micron": "µm", "microns": "µm", "\\u00B5m": "µm", "inch": "in"}


def channel_names(ome: str | None) -> list[str]:
    """Return the names of the channels of the first image of an OME file; none unless all have a name."""
    if ome is None:
        return []
    try:
        pixels = ElementTree.fromstring(ome).find("{*}Image/{*}Pixels")
    except ElementTree.ParseError:
        return []
    names = [] if pixels is None else [c.get("Name", "") for c in pixels.findall("{*}Channel")]
    return names if all(names) else []


def pixel_sizes(file: Any, number: int = 0) -> dict[str, tuple[float, str]]:
    """Return the size and unit of a pixel along Z, Y and X, and of a step along T, of an image in an OME or ImageJ file.

    Axes that the metadata do not mention are left out.
    """
    sizes: dict[str, tuple[Any, str]] = {}
    try:
        if file.ome_metadata is not None:
            images = ElementTree.fromstring(file.ome_metadata).findall("{*}Image/{*}Pixels")
            found = images[number].attrib if len(images) == len(file.series) else {}
            names = {"T": "TimeIncrement", **{axis: f"PhysicalSize{axis}" for axis in "ZYX"}}
            sizes = {
                axis: (found[name], found.get(f"{name}Unit", "s" if axis == "T" else "µm"))
                for axis, name in names.items()
                if name in found
            }
        elif file.imagej_metadata is not None:
            metadata, tags = file.imagej_metadata, file.pages.first.tags
            unit = metadata.get("unit", "pixel")
            sizes["T"] = metadata.get("finterval", 0), "s"
            # Without a unit, ImageJ counts in pixels, which is no information.
            if unit not in ("pixel", "pixels", ""):
                sizes["Z"] = metadata.get("spacing", 0), unit
                for axis, code in (("Y", 283), ("X", 282)):
                    sizes[axis] = tags[code].value[1] / tags[code].value[0], unit
        known = {
            axis: (float(size), _UNITS.get(unit, unit)) for axis, (size, unit) in sizes.items()
        }
    except (ElementTree.ParseError, LookupError, TypeError, ValueError, ArithmeticError):
        return {}
    return {axis: pair for axis, pair in known.items() if 0 < pair[0] < math.inf}


def spacing_of(sizes: Mapping[str, tuple[float, str]]) -> tuple[float, float, float] | None:
    """Return the size of a voxel along Z, Y and X, if all are known in the same unit."""
    if not set("ZYX") <= set(sizes) or len({sizes[axis][1] for axis in "ZYX"}) > 1:
        return None
    z, y, x = (sizes[axis][0] for axis in "ZYX")
    return z, y, x


def voxel_of(file: Any, number: int) -> tuple[tuple[float, float, float] | None, str]:
    """Return the size of a voxel along Z, Y and X, as far as it is known, and its unit."""
    sizes = {axis: pair for axis, pair in pixel_sizes(file, number).items() if axis in "ZYX"}
    units = {unit for _, unit in sizes.values()}
    if len(units) != 1:
        return None, ""
    return checked_spacing(*(sizes.get(axis, (math.nan,))[0] for axis in "ZYX")), units.pop()


def ome_metadata(
    axes: str, sizes: Mapping[str, tuple[float, str]], channels: Sequence[str]
) -> dict[str, Any]:
    """Return the metadata of a new file, in the form in which `tifffile` takes them."""
    names = {"T": "TimeIncrement", **{axis: f"PhysicalSize{axis}" for axis in "ZYX"}}
    metadata: dict[str, Any] = {"axes": axes}
    for axis, (size, unit) in sizes.items():
        metadata[names[axis]] = size
        metadata[f"{names[axis]}Unit"] = unit
    return metadata | ({"Channel": {"Name": list(channels)}} if channels else {})
