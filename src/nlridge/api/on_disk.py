"""`denoise_to_disk`."""

from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any

import numpy.typing as npt

from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import Tuning
from ..core.arrays import is_dask, is_tensor
from ..errors import ArgumentTypeError
from ..large.entry import denoise_to, large_image
from ..noise import Noise
from ..planning.elsewhere import explained
from ..planning.options import checked_options
from ..progress import Progress
from .arguments import checked_progress, checked_tile, checked_workers, expect_none, expect_pixels
from .sequences import checked_sequence


@explained
def denoise_to_disk(
    image: Any,
    out: str | PathLike[str],
    sigma: Any = None,
    *,
    noise: Noise | str | None = None,
    strength: float = 1.0,
    color: float = 1.0,
    method: str | Recipe = "standard",
    mask: Any = None,
    channel_axis: int | None = None,
    stack_axis: int | None = None,
    time_axis: int | None = None,
    depth_axis: int | None = None,
    spacing: Sequence[float] | None = None,
    data_range: float | None = None,
    dtype: npt.DTypeLike | None = None,
    tile: int | None = None,
    client: Any = None,
    workers: int | None = None,
    progress: Progress = False,
) -> Any:
    """Remove noise from an image that may be larger than memory, and write the result to disk.

    Parameters
    ----------
    image : array_like
        The noisy image, as in `denoise`: a Zarr array or a memory map, or an array in memory. It is processed in bands of
        rows, with intermediate results in a folder beside `out`; with `time_axis` or `depth_axis`, it is processed frame
        by frame.
    out : str or path
        Path of a new array for the result, ending in .zarr, .npy, .tif or .tiff. If a run is interrupted, the same call
        resumes it. An existing `out` is never overwritten.
    sigma, mask : optional
        As in `denoise`. A map or a mask may also be an array on disk or a Dask array, and is never read into memory as a
        whole.
    noise, strength, color, method, channel_axis, stack_axis, time_axis, depth_axis, data_range, dtype : optional
        As in `denoise`.
    spacing : sequence of three floats, optional
        Depth, height and width of a voxel, as in `prepare`.
    tile : int, optional
        Height of the bands of rows that are processed at a time, and side of the chunks of a Zarr array created at `out`.
        By default 2048; at least 64. With `time_axis` or `depth_axis` it is only the side of the chunks.
    client : distributed.Client or str, optional
        Dask cluster that does the work, or the address of its scheduler. Only with an `out` that ends in .zarr. `image`,
        `mask` and a map of `sigma` must be Zarr arrays. They and `out` must be accessible to the workers. Not with
        `time_axis` or `depth_axis`.
    workers, progress : optional
        As in `denoise`; `workers` not with `client`.

    Returns
    -------
    array
        The new array, opened but not read: a Zarr array or a memory map.

    See Also
    --------
    denoise : Denoise an image in memory, or a Dask array.
    prepare : Denoise parts of an array on disk.

    Notes
    -----
    The result is the same, bit for bit, as in memory if the noise is given; otherwise the noise is estimated from a sample
    of the image. With `time_axis` or `depth_axis`, it is the same in any case, and a few dozen frames are in memory.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import nlridge
    >>> noisy = 100 + np.random.default_rng(0).normal(0, 20, (96, 64))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clean = nlridge.denoise_to_disk(noisy, os.path.join(folder, "clean.npy"), sigma=20)
    ...     same = np.array_equal(clean, nlridge.denoise(noisy, sigma=20))
    ...     del clean
    >>> same
    True
    """
    expect_pixels(image)
    if is_tensor(image):
        raise ArgumentTypeError("image", None, "an array, such as image.numpy()", "is a tensor")
    if is_dask(image):
        raise ArgumentTypeError(
            "image",
            None,
            "a Zarr array: write the result of nlridge.denoise(image) with to_zarr",
            "is a Dask array",
        )
    sequence = checked_sequence(time_axis, depth_axis, spacing)
    if sequence is not None:
        expect_none(f"with {sequence.name}", client=client)
    if client is not None:
        expect_none("with client", workers=workers)
    options_for = partial(
        checked_options,
        noise=noise,
        method=method,
        data_range=data_range,
        tuning=Tuning(strength, color, mask is not False),
        dtype=dtype,
    )
    side, threads, progress = (
        checked_tile(tile),
        checked_workers(workers),
        checked_progress(progress),
    )
    large = large_image(
        image,
        sigma,
        options_for,
        mask=None if mask is False else mask,
        stack_axis=stack_axis,
        channel_axis=channel_axis,
        sequence=sequence,
    )
    return denoise_to(large, out, side, client, threads, progress)
