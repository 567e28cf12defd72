"""What `denoise` does with images that are not in memory: Dask arrays, and whatever goes to `out`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import (
    Layout,
    checked_layout,
    checked_levels,
    checked_method,
    checked_noise,
    checked_positive,
    checked_strength,
    is_dask,
)
from ..job import Job, float_type
from ..noise import Noise
from ..wording import shown
from .frames import Frame, decided
from .running import run
from .spreading import Cluster, Here, Workforce
from .stores import SUFFIXES, Opened, Plan, is_zarr, readable

_PATIENCE = 20  # seconds until a scheduler answers


def denoise_large(
    image: Any,
    sigma: Any,
    noise: Any,
    strength: Any,
    method: Any,
    mask: Any,
    channel_axis: Any,
    stack_axis: Any,
    data_range: Any,
    workers: int,
    ticking: Callable[[int, str], Any],
    out: str | PathLike[str] | None,
    tile: Any,
    client: Any,
) -> Any:
    """See `denoise`."""
    if isinstance(getattr(image, "_meta", image), np.ma.MaskedArray):
        raise ValueError(
            "image is a masked array; expected all pixels of an image that is not held in memory"
        )
    if not all(hasattr(image, name) for name in ("shape", "dtype", "__getitem__")):
        image = np.asarray(image)
    if is_dask(image) and np.isnan(image.shape).any():
        raise ValueError(
            f"image has shape {image.shape}; expected known sizes: image.compute_chunk_sizes()"
        )
    layout = checked_layout(tuple(image.shape), np.dtype(image.dtype), stack_axis, channel_axis)
    decide = deciding(layout, sigma, noise, strength, method, mask, data_range)
    if out is None:
        if client is not None:
            raise ValueError(
                "client is given; expected None for a Dask array, which is computed by whoever computes it"
            )
        from .graph import denoised_later

        return denoised_later(image, layout, decide, tile)
    if is_dask(image):
        raise ValueError(
            "image is a Dask array and out is given; expected a Zarr array, or no out and to_zarr of the result"
        )
    place = checked_out(out, client)
    plan = Plan(layout.shape, float_type(np.dtype(image.dtype)), layout.axes, tile, Opened(image))
    with workforce_of(client, workers, image) as workforce:
        run(image, place, plan, decide, workforce, ticking, as_floats)
    return readable(place)


def deciding(
    layout: Layout,
    sigma: Any,
    noise: Any,
    strength: Any,
    method: Any,
    mask: Any = None,
    data_range: Any = None,
    kind: str = "auto",
) -> Callable[[Frame], Job]:
    """The arguments of `denoise`, checked: a function that decides what is to be done with a frame."""
    noise = checked_noise(sigma, noise)
    if mask is not None:
        raise ValueError("mask is given; expected None for an image that is not held in memory")

    def levels(noise: Noise) -> npt.NDArray[np.float64]:
        found = checked_levels(noise, layout)
        if found.shape[-2:] != (1, 1):
            raise ValueError(
                f"sigma has shape {np.shape(noise.level)}; expected a number, or one for each channel, for "
                "an image that is not held in memory"
            )
        first: npt.NDArray[np.float64] = found[0]
        return first

    if noise is not None:
        levels(noise)
    return partial(
        decided,
        noise=noise,
        levels=levels,
        strength=checked_strength(strength),
        method=checked_method(method),
        data_range=None if data_range is None else checked_positive("data_range", data_range),
        kind=kind,
    )


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
            raise ImportError("a cluster needs Dask: pip install nlridge[dask]") from None
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
