"""Files of other microscopes, read with bioio and whichever of its plug-ins are installed: each scene is a layer."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import not_installed
from ..damage import refuse_too_large
from ..picture import Layer, Picture, checked_spacing

NAME = "bioio"
SUFFIXES = (".dv", ".r3d", ".ims", ".oib", ".oif", ".oir", ".vsi", ".zvi", ".sld", ".stk")
KEEPS = ()


def recognises(head: bytes) -> bool:
    return True  # the library decides


def read(path: Path, axes: str | None) -> Picture:
    try:
        from bioio import BioImage
    except ImportError:
        raise not_installed(f"{path.suffix.lower()} files need", "bioio") from None
    image = BioImage(path)
    layers, names = [], set()
    for scene in image.scenes:
        image.set_scene(scene)
        layers.append(_layer(image, path.stat().st_size))
        names.add(tuple(map(str, image.channel_names or ())))
    channels = list(names.pop()) if len(names) == 1 else []
    return Picture("bioio", layers, channels=channels)


def _layer(image: Any, size: int) -> Layer:
    shape, letters = tuple(image.shape), str(image.dims.order)
    what = f"{' x '.join(map(str, shape))} pixels"
    refuse_too_large(what, math.prod(shape) * np.dtype(image.dtype).itemsize, size)
    if "S" in letters:  # samples of colors; channels of colors are a stack
        letters = letters.replace("C", "Q").replace("S", "C")
    single = tuple(k for k, a in enumerate(letters) if shape[k] == 1 and a not in "YX")
    kept = "".join(a for k, a in enumerate(letters) if k not in single)
    sizes = image.physical_pixel_sizes
    spacing = checked_spacing(sizes.Z, sizes.Y, sizes.X)
    pixels = np.asarray(image.data).squeeze(single)
    return Layer(pixels, kept, spacing, "µm" if spacing else "")
