"""nlridge in scripts for napari: a function of the pixels of a layer, annotated as napari expects it."""

from typing import TYPE_CHECKING

from .apps.napari.denoising import Task, denoise_pixels
from .errors import ArgumentError

if TYPE_CHECKING:
    import napari

__all__ = ["denoise_image"]


def denoise_image(
    image: "napari.types.ImageData",
    method: str = "standard",
    strength: float = 1.0,
    rgb: bool = False,
    axes: str = "",
) -> "napari.types.ImageData":
    """Remove noise from the pixels of an image layer.

    napari makes a widget of this function with ``viewer.window.add_function_widget(denoise_image)``, and adds its result
    as a layer. napari is not needed to call it.

    Parameters
    ----------
    image : array or Dask array
        The pixels.
    method : str, optional
        The algorithm, as for `nlridge.denoise`.
    strength : float, optional
        A factor on the noise level.
    rgb : bool, optional
        Whether the last axis has three colors, or three colors and transparency, which is left unchanged.
    axes : str, optional
        A letter for each axis, such as "TYX": "Y" and "X" for rows and columns, which are the last two axes apart from that
        of the channels, "C" for channels, which are denoised together, "T" for the frames of a video or else "Z" for the
        slices of a volume, which belong together. Images along all other axes are denoised independently, and so are those
        along all axes before rows and columns if `axes` is empty.

    Returns
    -------
    array or Dask array
        Floats, neither rounded nor clipped. RGB images keep their type, because napari expects RGB floats to range from
        0 to 1. For a Dask array, the result is a Dask array.

    See Also
    --------
    nlridge.denoise : Has more options, such as the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from nlridge.napari import denoise_image
    >>> noisy = np.random.default_rng(0).normal(100, 5, (2, 3, 32, 32))  # 2 series of 3 images
    >>> bool(denoise_image(noisy, method="fast").std() < 2)
    True
    """
    if image.ndim < 2 + rgb:
        raise ArgumentError("image", image.shape, f"at least {2 + rgb} axes", "has shape {value}")
    known = not axes or (
        len(axes) == len(set(axes)) == image.ndim
        and axes.replace("C", "").endswith("YX")
        and (not rgb or axes.endswith("C"))
    )
    if not known:
        colors = ", with C as the last one for RGB" if rgb else ""
        raise ArgumentError(
            "axes", axes, f"{image.ndim} letters that end in YX, apart from C{colors}"
        )
    place = {letter: axis for axis, letter in enumerate(axes)}
    task = Task(
        image,
        {"method": method, "strength": strength},
        rgb=rgb,
        channel_axis=None if rgb else place.get("C"),
        time_axis=place.get("T"),
        depth_axis=None if "T" in place else place.get("Z"),
    )
    return denoise_pixels(task, lambda _: None).pixels
