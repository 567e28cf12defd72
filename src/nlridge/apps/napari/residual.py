"""The command that shows what was removed from a layer."""

from typing import TYPE_CHECKING, Any

import numpy as np
from napari.utils.notifications import show_info

from .layers import appearance, is_dask, origins, pixels_of

if TYPE_CHECKING:
    import napari

_PLACE = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels")
_SAMPLE = 2**20  # pixels from which the contrast limits are computed
_SHOWN = 4  # standard deviations to either side of 0


def show_residual(viewer: "napari.viewer.Viewer") -> None:
    """Add a layer with what was removed: the source of the selected layer minus the layer."""
    result = viewer.layers.selection.active
    origin = origins.get(result) if result is not None else None
    if result is None or origin is None:
        show_info("Select a layer that nlridge has denoised, to show what was removed from it.")
        return
    before, after = pixels_of(origin.layer), pixels_of(result)
    if origin.plane is not None:
        before = before[origin.plane]
    before = before.reshape(after.shape)
    if result.rgb:
        before, after = before[..., :3], after[..., :3]
    floats = np.result_type(after.dtype, np.float32)
    residual = before.astype(floats) - after.astype(floats)
    if result.rgb:
        residual = residual.mean(axis=-1)  # napari shows colors from 0 to 1 only
    kept = {name: value for name, value in appearance(result).items() if name in _PLACE}
    limit = _SHOWN * _deviation(residual) or 1.0
    viewer.add_image(
        residual, name=f"{origin.layer.name} removed", contrast_limits=(-limit, limit), **kept
    )


def _deviation(residual: Any) -> float:
    """Return the root mean square of the middle image, the only one that a Dask array then computes."""
    image = residual[tuple(n // 2 for n in residual.shape[:-2])]
    image = np.asarray(image.compute() if is_dask(image) else image)
    step = max(1, round((image.size / _SAMPLE) ** 0.5))
    values = image[::step, ::step]
    return float(np.sqrt(np.nanmean(np.square(values, dtype=np.float64))))
