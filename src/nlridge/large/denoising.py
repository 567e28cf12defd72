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
    checked_tile,
    is_dask,
)
from ..job import Job, float_type
from ..noise import Noise
from .frames import Frame, decided
from .running import run
from .spreading import CarryOut, here, on_cluster
from .stores import SUFFIXES, Opened, Plan, opened

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
    if not all(hasattr(image, name) for name in ("shape", "dtype", "__getitem__")):
        image = np.asarray(image)
    layout = checked_layout(tuple(image.shape), np.dtype(image.dtype), stack_axis, channel_axis)
    tile = checked_tile(tile)
    decide = deciding(layout, sigma, noise, strength, method, mask, data_range)
    if out is None:
        from .graph import denoised_later

        return denoised_later(image, layout, decide, tile)
    if is_dask(image):
        raise ValueError(
            "image is a Dask array and out is given; expected a Zarr array, or no out and to_zarr of the result"
        )
    place = checked_out(out, client)
    plan = Plan(layout.shape, float_type(np.dtype(image.dtype)), layout.axes, tile, Opened(image))
    with carrying_out(client, workers, image) as carry_out:
        run(image, place, plan, decide, carry_out, ticking, as_floats)
    return opened(place).array


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
    place = Path(out)
    if place.suffix.lower() not in SUFFIXES:
        raise ValueError(f"out is {place}; expected a name that ends in {', '.join(SUFFIXES)}")
    if client is not None and place.suffix.lower() != ".zarr":
        raise ValueError(
            f"out is {place}; expected a name that ends in .zarr, which workers of a cluster can write to "
            "side by side"
        )
    if place.exists() and not overwrite:
        raise FileExistsError(f"{place} exists; expected a new name")
    return place


@contextmanager
def carrying_out(client: Any, workers: int, image: Any) -> Iterator[CarryOut]:
    """Who does the work; a client is closed if it was made for it."""
    if client is None:
        yield partial(here, workers=workers)
        return
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
        with Client(client, timeout=_PATIENCE) as connected:
            yield partial(on_cluster, client=connected)
    else:
        yield partial(on_cluster, client=client)


def as_floats(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """What `denoise` gives is stored as it is."""
    return values
