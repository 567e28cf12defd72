"""The maps of a calibrated camera, read from image files."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..checks import shown
from ..files import read
from ..planning.calibration import Calibration


def calibration_from(
    offset_map: str | None, gain_map: str | None, sigma_map: str | None, sigma: Any = None
) -> Calibration | None:
    """Read the maps of a calibrated camera; `sigma` is its read-out noise, if it is a number.  None without maps."""
    names = {"offset_map": offset_map, "gain_map": gain_map, "sigma_map": sigma_map}
    if not any(names.values()):
        return None
    offset, gain, level = (
        None if file is None else _map(name, Path(file)) for name, file in names.items()
    )
    if sigma is not None and np.ndim(sigma):
        raise ValueError(f"sigma is {shown(sigma)}; expected one number with maps of a camera")
    return Calibration(offset, gain, sigma if level is None else level)


def _map(name: str, path: Path) -> npt.NDArray[Any]:
    """Read a map, which is an image of one channel."""
    try:
        (layer,) = read(path).layers
        pixels = layer.pixels.squeeze()
    except FileNotFoundError:
        raise ValueError(
            f"{name} is {path}, which does not exist; expected an image file"
        ) from None
    except ValueError as error:
        raise ValueError(f"{name} is {path}; expected an image of one channel: {error}") from None
    if pixels.ndim != 2:
        raise ValueError(
            f"{name} is {path} of shape {pixels.shape}; expected an image of one channel"
        )
    values = pixels.astype(np.float64)
    valid = values[np.isfinite(values)]
    if name != "offset_map" and (
        not np.any(valid > 0) or (name == "sigma_map" and valid.min() < 0)
    ):
        raise ValueError(f"{name} is {path}, with values that are not positive; expected positive")
    return values
