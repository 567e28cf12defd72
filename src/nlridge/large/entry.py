"""`denoise` for images that are not held in memory: Dask arrays, and any image with `out`."""

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arrays import is_dask
from ..checks import not_installed, shown
from ..files.atomic import expect_new
from ..planning.layout import layout_of
from ..planning.options import Options
from ..planning.plan import float_type
from ..progress import Progress
from .disk import SUFFIXES, NewArray, OpenedArray, is_zarr, open_read_only
from .executors import Cluster, Executor, LocalThreads
from .frames import levels_for
from .limits import expect_plausible
from .resume import remove_finished_work
from .run import run

_TIMEOUT = 20  # seconds to wait for a scheduler


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
            "image is a masked array; expected no missing pixels in an image that is not held in memory"
        )
    if mask is not None:
        raise ValueError("mask is given; expected None for an image that is not held in memory")
    if not all(hasattr(image, name) for name in ("shape", "dtype", "__getitem__")):
        image = np.asarray(image)
    if is_dask(image) and np.isnan(image.shape).any():
        raise ValueError(
            f"image has shape {image.shape}; expected known chunk sizes: call image.compute_chunk_sizes()"
        )
    layout = layout_of(tuple(image.shape), np.dtype(image.dtype), stack_axis, channel_axis)
    if options.noise is not None:
        levels_for(options.noise, layout)
    if out is None:
        from .dask_graph import denoise_dask

        return denoise_dask(image, layout, options, tile)
    if is_dask(image):
        raise ValueError(
            "image is a Dask array and out is given; expected a Zarr array, or no out (write the result with to_zarr)"
        )
    path = checked_out("out", out, client)
    expect_plausible(image)
    dtype = float_type(np.dtype(image.dtype))
    spec = NewArray(layout.shape, dtype, layout.axes, tile, OpenedArray(image))
    with executor_for(client, workers, image) as executor:
        run(image, layout, options, path, spec, executor, progress, _keep_floats)
    return open_read_only(path)


def checked_out(
    name: str,
    out: str | PathLike[str],
    client: Any,
    *,
    overwrite: bool = False,
    alternatives: str = "",
) -> Path:
    """Return the absolute path of a new array; `name` is what messages call it (see `expect_new`)."""
    try:
        path = Path(out).absolute()
    except TypeError:
        raise TypeError(f"{name} is {shown(out)}; expected a path") from None
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{name} is {out}; expected a name that ends in {', '.join(SUFFIXES)}")
    if client is not None and path.suffix.lower() != ".zarr":
        raise ValueError(
            f"{name} is {out}; expected a name that ends in .zarr, which the workers of a cluster can "
            "write in parallel"
        )
    if path.exists() and not overwrite:
        remove_finished_work(path)
    expect_new(name, out, overwrite=overwrite, alternatives=alternatives)
    if path.is_dir() and not is_zarr(path):
        raise FileExistsError(
            f"{name} is {out}, which is a folder but not a Zarr array; expected another name"
        )
    return path


@contextmanager
def executor_for(client: Any, workers: int, image: Any) -> Iterator[Executor]:
    """Provide the executor; a client that is created for it is closed at the end."""
    if client is None:
        yield LocalThreads(workers)
        return
    if not isinstance(client, str) and not hasattr(client, "scheduler_info"):
        raise TypeError(
            f"client is {shown(client)}; expected a distributed.Client, or the address of a scheduler"
        )
    if isinstance(image, np.ndarray):
        raise TypeError(
            "image is in the memory of this process, which the workers of a cluster cannot read; expected a "
            "Zarr array"
        )
    if isinstance(client, str):
        try:
            from distributed import Client
        except ImportError:
            raise not_installed("a cluster needs", "distributed") from None
        try:
            connected = Client(client, timeout=_TIMEOUT)
        except (OSError, ValueError) as error:
            raise ConnectionError(
                f"client is {shown(client)}; expected the address of a running scheduler: {error}"
            ) from None
        with connected:
            yield Cluster(connected)
    else:
        yield Cluster(client)


def _keep_floats(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return values
