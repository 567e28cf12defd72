"""Images that may be larger than memory: their arguments are checked, and they are denoised to disk."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..atomic import expect_new
from ..checks import not_installed
from ..core.arrays import is_dask, is_sliceable, is_tensor
from ..core.engines.grid import split_range
from ..errors import ArgumentError, ArgumentTypeError, shown
from ..images.executors import Cluster, Executor, LocalThreads
from ..noise.gaussian import GaussianNoise
from ..planning.layout import Layout, SequenceAxis, layout_of
from ..planning.levels import INSTEAD_OF_MAP, levels_of
from ..planning.missing import expect_numbers
from ..planning.options import Options
from ..planning.plan import float_type
from ..progress import Progress
from .disk import SUFFIXES, OpenedArray, is_zarr, open_read_only
from .frames import Source, frames_of, sources_of
from .limits import expect_plausible
from .new import NewArray
from .resume import remove_finished_work
from .run import run
from .sequences import run_sequences, sequences_of

_TIMEOUT = 20  # seconds to wait for a scheduler


class LargeImage(NamedTuple):
    """An image that may be larger than memory, whose arguments have been checked."""

    image: Any
    arrays: list[tuple[str, Any]]
    """Masks and the map of levels, with the names of their arguments."""
    layout: Layout
    options: Options
    sequence: SequenceAxis | None
    """The axis of frames that belong together, if there is one."""

    def sources(self, readable: Callable[[Any], Any] | None = None) -> list[Source]:
        """Return the frames of the image, with those of its masks and its map; `readable` converts the arrays."""
        readable = readable or _eager_if_dask
        frames = [
            (name, frames_of(readable(array), _axes_of(name, array, self.layout), name))
            for name, array in self.arrays
        ]
        masks = [mask for name, mask in frames if name == "mask"]
        levels = [level for name, level_map in frames if name == "sigma" for level in level_map]
        return sources_of(frames_of(readable(self.image), self.layout.axes), masks, levels)

    def expect_plausible(self) -> None:
        """Refuse arrays that claim more pixels than are stored."""
        for name, array in [("image", self.image), *self.arrays]:
            if not is_dask(array):
                expect_plausible(array, name)


def large_image(
    image: Any,
    sigma: Any,
    options_for: Callable[[Any], Options],
    *,
    mask: Any,
    stack_axis: Any,
    channel_axis: Any,
    sequence: SequenceAxis | None,
) -> LargeImage:
    """Check the arguments of `denoise`; `options_for` returns the options for a sigma that is not a map."""
    image = _sliceable(image)
    arrays = [] if mask is None else [("mask", _checked_mask(mask))]
    if _is_masked(image):
        module = _masked_module(image)
        arrays.append(("mask", module.getmaskarray(image)))
        image = module.getdata(image)
    level_map = _checked_map(sigma)
    # The levels of the map take the place of the 1.
    options = options_for(sigma if level_map is None else 1.0)
    if options.noise is not None and np.ndim(options.noise.level) > 1:
        level_map = options.noise.level
        if type(options.noise) is GaussianNoise:
            options = replace(options, noise=GaussianNoise(1.0))
    if level_map is not None:
        arrays.append(("sigma", level_map))
    for name, array in [("image", image), *arrays]:
        if is_dask(array) and np.isnan(array.shape).any():
            expected = f"known chunk sizes: call {name}.compute_chunk_sizes()"
            raise ArgumentError(name, array.shape, expected, "has shape {value}")
    shape, dtype = tuple(image.shape), np.dtype(image.dtype)
    layout = layout_of(shape, dtype, stack_axis, channel_axis, sequence)
    if options.noise is not None:
        levels_of(options.noise, layout)
    for name, array in arrays:
        _axes_of(name, array, layout)
    return LargeImage(image, arrays, layout, options, sequence)


def denoise_to(
    large: LargeImage, out: Any, tile: int, client: Any, workers: int, progress: Progress
) -> Any:
    """Denoise an image into a new array on disk, which is returned; see `denoise_to_disk`."""
    image, arrays, layout, options, sequence = large
    path = checked_out("out", out, client)
    large.expect_plausible()
    dtype = float_type(np.dtype(image.dtype)) if options.dtype is None else options.dtype
    axes = layout.axes if sequence is None or sequence.is_time else layout.axes.replace("T", "Z")
    spec = NewArray(layout.shape, dtype, axes, tile, OpenedArray(image))
    sources = large.sources()
    if dtype.kind != "f" and np.dtype(image.dtype).kind == "f":
        for frame in (source.image for source in sources):
            for rows in split_range(range(frame.shape[1]), frame.rows_at_once):
                expect_numbers(frame.read(rows), dtype)
    if sequence is not None:
        run_sequences(
            sequences_of(sources, "T"), layout, options, sequence, path, spec, workers, progress
        )
    else:
        with executor_for(client, workers, [("image", image), *arrays]) as executor:
            run(sources, layout, options, path, spec, executor, progress)
    return open_read_only(path)


def _sliceable(value: Any) -> Any:
    """Return an array that can be sliced, without reading it, or anything else as an array in memory."""
    return value if is_sliceable(value) and not is_tensor(value) else np.asarray(value)


def _is_masked(array: Any) -> bool:
    return isinstance(getattr(array, "_meta", array), np.ma.MaskedArray)


def _masked_module(array: Any) -> Any:
    """Return the functions for a masked array of NumPy or Dask."""
    if is_dask(array):
        import dask.array as da

        return da.ma
    return np.ma


def _checked_mask(mask: Any) -> Any:
    """Return a mask as an array that can be sliced."""
    try:
        array = _sliceable(mask)
    except ValueError:  # a ragged list
        array = np.array(None)
    if array.dtype != bool:
        raise ArgumentTypeError(
            "mask", array.dtype, "bool, True for missing pixels", "has dtype {value}"
        )
    return array


def _checked_map(sigma: Any) -> Any:
    """Return a map of levels as an array that can be sliced; None if sigma is something else."""
    try:
        array = _sliceable(sigma)
    except Exception:  # to be refused with the other options
        return None
    if len(array.shape) < 2 or math.prod(array.shape) == 1:
        return None
    if _is_masked(array):
        array = _masked_module(array).filled(array.astype(np.float64), np.nan)
    if np.dtype(array.dtype).kind not in "uif":
        raise ArgumentTypeError("sigma", array.dtype, "numbers", "has dtype {value}")
    return array


def _axes_of(name: str, array: Any, layout: Layout) -> str:
    """Return one letter for each axis of a mask or a map, which may lack some of those of the image."""
    instead = INSTEAD_OF_MAP if name == "sigma" else ""
    lacking = layout.lacking(name, tuple(array.shape), instead)
    return "".join(letter for k, letter in enumerate(layout.axes) if k not in lacking)


def _eager_if_dask(array: Any) -> Any:
    if not is_dask(array):
        return array
    from .graphs import as_eager

    return as_eager(array)


def checked_out(
    name: str,
    out: str | PathLike[str],
    client: Any,
    *,
    overwrite: bool = False,
    alternatives: str = "",
) -> Path:
    """Return the absolute path of a new array; `name` is its name in messages (see `expect_new`)."""
    try:
        path = Path(out).absolute()
    except TypeError:
        raise ArgumentTypeError(name, out, "a path") from None
    if path.suffix.lower() not in SUFFIXES:
        raise ArgumentError(name, out, f"a name that ends in {', '.join(SUFFIXES)}", "is {value}")
    if client is not None and path.suffix.lower() != ".zarr":
        raise ArgumentError(
            name,
            out,
            "a name that ends in .zarr, which the workers of a cluster can write in parallel",
            "is {value}",
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
def executor_for(
    client: Any, workers: int, arrays: Sequence[tuple[str, Any]]
) -> Iterator[Executor]:
    """Provide the executor for arrays with names; a client that is created for it is closed at the end."""
    if client is None:
        yield LocalThreads(workers)
        return
    if not isinstance(client, str) and not hasattr(client, "scheduler_info"):
        raise ArgumentTypeError(
            "client", client, "a distributed.Client, or the address of a scheduler"
        )
    for name, array in arrays:
        if isinstance(array, np.ndarray):
            raise ArgumentTypeError(
                name,
                None,
                "a Zarr array",
                "is in the memory of this process, which the workers of a cluster cannot read",
            )
        if is_dask(array):
            raise ArgumentTypeError(
                name, None, "a Zarr array", "is a Dask array and `client` is given"
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
