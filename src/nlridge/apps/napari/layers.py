"""What a layer of a viewer says about its pixels, and what the layer of a result inherits from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

_ROLES = {
    **dict.fromkeys(("c", "ch", "channel", "channels"), "channel"),
    **dict.fromkeys(("t", "time", "frame", "frames"), "time"),
    **dict.fromkeys(("z", "depth", "slice", "slices", "plane", "planes"), "depth"),
}
"""The meaning of axes, by their labels."""
_KEPT = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels", "colormap", "contrast_limits", "gamma", "blending", "interpolation2d", "interpolation3d", "rendering", "rgb")  # fmt: skip
_WHY_NOT = {
    "labels": "the numbers of labels stand for objects",
    "shapes": "shapes have no pixels",
    "points": "points have no pixels",
}
_EVERYTHING = slice(None)


@dataclass(frozen=True)
class Origin:
    """Where a result comes from."""

    layer: Any
    plane: tuple[int | slice, ...] | None = None
    """The plane of the layer, if it is not the whole of it."""


origins: WeakKeyDictionary[Any, Origin] = WeakKeyDictionary()
"""The origins of the layers of results."""


def expect_image(layer: Any) -> None:
    """Refuse layers that are not images, in a sentence."""
    if layer is None:
        raise ValueError("There is no layer; expected an image.")
    kind = type(layer).__name__.lower()
    if kind != "image":
        article = "an" if kind[0] in "aeiou" else "a"
        why = f": {_WHY_NOT[kind]}" if kind in _WHY_NOT else ""
        raise ValueError(f"{layer.name} is {article} {kind} layer; expected an image{why}.")
    if pixels_of(layer).dtype.kind not in "uif":
        raise ValueError(
            f"{layer.name} is of type {pixels_of(layer).dtype}; expected integers or floats."
        )


def is_dask(array: Any) -> bool:
    """Return whether an array is computed only when it is needed, by Dask."""
    return type(array).__module__.partition(".")[0] == "dask"


def pixels_of(layer: Any) -> Any:
    """Return the pixels of an image layer in full resolution; as a Dask array if they may not be in memory."""
    pixels = layer.data[0] if layer.multiscale else layer.data
    if isinstance(pixels, np.ndarray) or is_dask(pixels):
        return pixels
    import dask.array as da  # which napari needs itself

    return da.from_array(pixels)


def frame_axes(layer: Any, channel_axis: int | None = None) -> list[int]:
    """Return the axes along which images are stacked: all but channels, and rows and columns, which come last."""
    return [axis for axis in range(layer.ndim) if axis != channel_axis][:-2]


def axis_in_words(layer: Any, axis: int) -> str:
    """Return the number, the label and the length of an axis."""
    label = "" if _is_default(layer.axis_labels[axis]) else f" ({layer.axis_labels[axis]})"
    return f"axis {axis}{label}, {pixels_of(layer).shape[axis]} long"


def role(layer: Any, axis: int) -> str:
    """Return the meaning of an axis by its label: "channel", "time", "depth", or empty."""
    return _ROLES.get(layer.axis_labels[axis].strip().lower(), "")


def plane_of(
    layer: Any, point: Sequence[float], channel_axis: int | None = None
) -> tuple[int | slice, ...]:
    """Return the index of the plane at a point of the world, with all of its channels."""
    place = np.rint(layer.world_to_data(point)).astype(int)
    shape = pixels_of(layer).shape
    stacked = frame_axes(layer, channel_axis)
    return tuple(
        int(np.clip(place[axis], 0, shape[axis] - 1)) if axis in stacked else _EVERYTHING
        for axis in range(len(shape))
    )


def voxel_of(layer: Any, depth_axis: int) -> tuple[float, float, float] | None:
    """Return the depth, height and width of a voxel; None if the layer does not state them."""
    depth, height, width = (abs(float(layer.scale[axis])) for axis in (depth_axis, -2, -1))
    units = {str(layer.units[axis]) for axis in (depth_axis, -2, -1)}
    is_default = depth == height == width == 1
    return None if is_default or len(units) > 1 else (depth, height, width)


def appearance(layer: Any, plane: tuple[int | slice, ...] | None = None) -> dict[str, Any]:
    """Return the arguments of a new layer with the place and the look of a layer, or of a plane of it."""
    _, everything, _ = layer.as_layer_data_tuple()
    kept = {name: everything[name] for name in _KEPT if name in everything}
    if plane is not None:
        from napari.utils.transforms import Affine

        start = [0 if isinstance(number, slice) else number for number in plane[: layer.ndim]]
        place = Affine(
            scale=layer.scale, rotate=layer.rotate, shear=layer.shear, translate=layer.translate
        )
        kept["translate"] = place(start)
    return kept


def _is_default(label: str) -> bool:
    """Return whether napari chose a label: axes are numbered from the end."""
    return label.lstrip("-").isdigit()
