"""What `denoise` does with images that are not in memory: Dask arrays, and whatever goes to `out`."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import is_dask
from ..checks import not_installed, shown
from ..planning.layout import layout_of
from ..planning.options import Options
from ..planning.plan import float_type
from ..progress import Progress
from .disk import SUFFIXES, NewArray, Opened, is_zarr, readable
from .frames import levels_for
from .limits import expect_plausible
from .resume import tidy_up
from .run import run
from .workers import Cluster, Here, Workforce

_PATIENCE = 20  # seconds until a scheduler answers


def denoise_large(
    image: Any,
    options: Options,
    *,
    mask: Any,
    stack_axis: Any,
    channel_axis: Any,
    out: str | PathLike[str] | None,
    tile: int,
    client: Any,
    workers: int,
    progress: Progress,
) -> Any:
    """See `denoise`."""
    if isinstance(getattr(image, "_meta", image), np.ma.MaskedArray):
        raise ValueError(
            "image is a masked array; expected all pixels of an image that is not held in memory"
        )
    if mask is not None:
        raise ValueError("mask is given; expected None for an image that is not held in memory")
    if not all(hasattr(image, name) for name in ("shape", "dtype", "__getitem__")):
        image = np.asarray(image)
    if is_dask(image) and np.isnan(image.shape).any():
        raise ValueError(
            f"image has shape {image.shape}; expected known sizes: image.compute_chunk_sizes()"
        )
    layout = layout_of(tuple(image.shape), np.dtype(image.dtype), stack_axis, channel_axis)
    if options.noise is not None:
        levels_for(options.noise, layout)
    if out is None:
        from .dask_graph import denoised_later

        return denoised_later(image, layout, options, tile)
    if is_dask(image):
        raise ValueError(
            "image is a Dask array and out is given; expected a Zarr array, or no out and to_zarr of the result"
        )
    place = checked_out(out, client)
    expect_plausible(image)
    dtype = float_type(np.dtype(image.dtype))
    wanted = NewArray(layout.shape, dtype, layout.axes, tile, Opened(image))
    with workforce_of(client, workers, image) as workforce:
        run(image, layout, options, place, wanted, workforce, progress, as_floats)
    return readable(place)


def checked_out(out: str | PathLike[str], client: Any, *, overwrite: bool = False) -> Path:
    try:
        place = Path(out).absolute()
    except TypeError:
        raise TypeError(f"out is {shown(out)}; expected a path") from None
    if place.suffix.lower() not in SUFFIXES:
        raise ValueError(f"out is {out}; expected a name that ends in {', '.join(SUFFIXES)}")
    if client is not None and place.suffix.lower() != ".zarr":
        raise ValueError(
            f"out is {out}; expected a name that ends in .zarr, which workers of a cluster can write to "
            "side by side"
        )
    if place.exists() and not overwrite:
        tidy_up(place)
        raise FileExistsError(f"out is {out}, which exists; expected a new name")
    if place.is_dir() and not is_zarr(place):
        raise FileExistsError(f"out is {out}, which is a folder and no Zarr; expected another name")
    return place


@contextmanager
def workforce_of(client: Any, workers: int, image: Any) -> Iterator[Workforce]:
    """Who does the work; a client is closed if it was made for it."""
    if client is None:
        yield Here(workers)
        return
    if not isinstance(client, str) and not hasattr(client, "scheduler_info"):
        raise TypeError(
            f"client is {shown(client)}; expected a distributed.Client, or the address of a scheduler"
        )
    if isinstance(image, np.ndarray):
        raise TypeError(
            "image is in the memory of this process, where workers of a cluster cannot read it; expected a "
            "Zarr array"
        )
    if isinstance(client, str):
        try:
            from distributed import Client
        except ImportError:
            raise not_installed("a cluster needs", "distributed") from None
        try:
            connected = Client(client, timeout=_PATIENCE)
        except (OSError, ValueError) as error:
            raise ConnectionError(
                f"client is {shown(client)}; expected the address of a scheduler that answers: {error}"
            ) from None
        with connected:
            yield Cluster(connected)
    else:
        yield Cluster(client)


def as_floats(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """What `denoise` gives is stored as it is."""
    return values
