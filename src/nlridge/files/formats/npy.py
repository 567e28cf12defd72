"""NPY files: a plain NumPy array, whose axes have no names."""

from pathlib import Path

import numpy as np

from ..damage import UnnamedAxes
from ..picture import Layer, Picture

NAME = "NPY"
SUFFIXES = (".npy",)
KEEPS = ()


def recognises(head: bytes) -> bool:
    return head.startswith(b"\x93NUMPY")


def read(path: Path, axes: str | None) -> Picture:
    # Mapped before it is read, since a header may claim more than the file holds.
    mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if mapped.offset + mapped.nbytes < path.stat().st_size:
        raise ValueError("the file is damaged: there are data after its end")
    pixels = np.array(mapped)
    return Picture("npy", [Layer(pixels, named_axes(pixels.shape, axes))])


def write(path: Path, picture: Picture, name: Path) -> None:
    if len(picture.layers) > 1:
        raise ValueError(
            "NPY files store one array; expected a TIFF file for images of several shapes"
        )
    pixels = picture.layers[0].pixels
    if picture.alpha is not None:
        pixels = np.concatenate([np.atleast_3d(pixels), picture.alpha[..., None]], axis=-1)
    with open(path, "wb") as file:
        np.lib.format.write_array(file, pixels, allow_pickle=False)


def named_axes(shape: tuple[int, ...], axes: str | None) -> str:
    """Return the letters of the axes: YX for two dimensions; more must be given."""
    letters = axes or "YX"
    if len(letters) != len(shape):
        if axes is None:
            raise UnnamedAxes(shape)
        raise ValueError(
            f"it has {len(shape)} dimensions, {shape}; expected {len(letters)}, or other axes"
        )
    return letters
