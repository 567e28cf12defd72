"""Zarr stores of versions 2 and 3, and OME-Zarr, with damaged metadata and chunks."""

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr

import nlridge
from nlridge.apps.jobs.tiled import clean_tiled
from nlridge.large.disk import open_array

_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup")
_VALUES = (
    None, True, False, -1, 0, 1, 3, 10**12, 10**30, -(10**30), 0.5, 1e308, "", "x", "../..", "/", "0/0", "NaN",
    "\n", "ß", "é" * 1000, [], [[]], [None], [1, 2, 3], [10**6, 10**6], [-5, 7], ["y", "x"], {}, {"a": 1},
    {"name": 5}, {"name": "zyx"}, "<f8", "|O", "|S9", ">i2", "<M8[ns]", "float128", "blosc", "gzip",
)  # fmt: skip


def run(seed: int, folder: Path) -> None:
    """Build a store, damage it and clean it: the package refuses it, or the result is right."""
    rng = np.random.default_rng(seed)
    source, out = folder / "in.zarr", folder / "out.zarr"
    image = _build(rng, source)
    damages = rng.integers(0, 4)
    for _ in range(damages):
        _damage(rng, source)
    before = _digest(source)
    sigma = None if rng.random() < 0.2 else 20.0
    array = _opened(source) if rng.random() < 0.3 else None
    stack_axis = 0 if image.ndim == 3 else None
    try:
        if array is not None:
            result = nlridge.denoise_to_disk(
                array, out, sigma, method="fast", workers=1, stack_axis=stack_axis, tile=64
            )
        else:
            result = _clean(source, out, sigma, "YX" if stack_axis is None else "TYX")
        assert np.isfinite(result[:]).all(), "the result is not finite"
        if not damages:
            expected = nlridge.denoise(image, sigma, method="fast", stack_axis=stack_axis)
            if array is None:
                expected = np.clip(np.rint(expected), 0, 255).astype(np.uint8)
            assert np.array_equal(result[:], expected), "the result of an intact store is wrong"
    except Exception:
        assert not out.exists(), "a run that failed left an output"
        raise
    finally:
        assert _digest(source) == before, "the input was written to"


def _opened(source: Path) -> Any:
    """The array as a caller opens it; None if Zarr cannot."""
    if not all(path.is_file() or path.is_dir() for path in source.rglob("*")):
        return None  # Zarr would wait for a pipe
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return zarr.open_array(source, mode="r")
    except Exception:
        return None


def _clean(source: Path, out: Path, sigma: float | None, axes: str) -> Any:
    """Clean it as the command line does."""
    given = {
        "frames": "independent",
        "noise": None,
        "method": "fast",
        "strength": 1.0,
        "workers": 1,
        "tile": 64,
    }
    clean_tiled(
        source, out, overwrite=False, axes=axes, sigma=sigma, scheduler=None, progress=False, **given
    )  # fmt: skip
    store = zarr.open(out, mode="r")
    return store if isinstance(store, zarr.Array) else store[open_array(out).levels[0]]


def _build(rng: np.random.Generator, path: Path) -> Any:
    version = int(rng.integers(2, 4))
    shape = tuple(int(n) for n in rng.integers(8, 90, 2))
    chunks: tuple[int, ...] = tuple(int(n) for n in rng.integers(8, 70, 2))
    pyramid = rng.random() < 0.5
    if rng.random() < 0.3 or pyramid:
        shape, chunks = (2, *shape), (1, *chunks)
    image = np.clip(rng.normal(100, 20, shape), 0, 255).astype(np.uint8)
    compressors = rng.choice(["auto", "none"])
    options = {"chunks": chunks, "compressors": None if compressors == "none" else "auto"}
    names = None if version == 2 else [f"axis{k}" for k in range(len(shape))]
    if not pyramid:
        zarr.create_array(
            path, data=image, zarr_format=version, dimension_names=names, attributes={"by": "a scanner"}, **options
        )  # fmt: skip
        return image
    axes = [{"name": name, "type": "space"} for name in ("t", "y", "x")]
    scales = [{"version": "0.4", "axes": axes, "datasets": [{"path": "0"}, {"path": "1"}]}]
    about = {"multiscales": scales} if version == 2 else {"ome": {"multiscales": scales}}
    group = zarr.create_group(path, zarr_format=version, attributes=about)
    group.create_array("0", data=image, dimension_names=names, **options)
    group.create_array("1", data=image[:, ::2, ::2], dimension_names=names, **options)
    return image


def _damage(rng: np.random.Generator, path: Path) -> None:
    files = sorted(file for file in path.rglob("*") if file.is_file())
    metadata = [file for file in files if file.name in _METADATA]
    chunks = [file for file in files if file.name not in _METADATA]
    if metadata and (not chunks or rng.random() < 0.6):
        _damage_metadata(rng, metadata[rng.integers(len(metadata))])
    elif chunks:
        _damage_file(rng, chunks[rng.integers(len(chunks))])


def _damage_metadata(rng: np.random.Generator, file: Path) -> None:
    try:
        about = json.loads(file.read_text())
    except (ValueError, RecursionError):
        about = None
    if not about or rng.random() < 0.15:
        if rng.random() < 0.3:
            file.write_text("[" * 100_000)
        else:
            _damage_file(rng, file)
        return
    places = list(_places(about))
    parent, key = places[rng.integers(len(places))]
    if isinstance(parent, dict) and rng.random() < 0.25:
        del parent[key]
    else:
        parent[key] = _VALUES[rng.integers(len(_VALUES))]
    file.write_text(json.dumps(about))


def _places(node: Any) -> Any:
    """Each value in a tree of lists and dictionaries, as its parent and its key."""
    for key in node if isinstance(node, dict) else range(len(node)):
        yield node, key
        if isinstance(node[key], dict | list):
            yield from _places(node[key])


def _damage_file(rng: np.random.Generator, file: Path) -> None:
    data = file.read_bytes()
    how = rng.choice(
        ["cut", "garbage", "flip", "longer", "empty", "gone", "folder", "pipe", "link"]
    )
    if how == "cut":
        file.write_bytes(data[: rng.integers(len(data) + 1)])
    elif how == "garbage":
        file.write_bytes(rng.bytes(int(rng.integers(1, 3 * len(data) + 2))))
    elif how == "flip" and data:
        changed = bytearray(data)
        for _ in range(rng.integers(1, 9)):
            changed[rng.integers(len(data))] = rng.integers(256)
        file.write_bytes(changed)
    elif how == "longer":
        file.write_bytes(data + rng.bytes(100))
    elif how == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()
        if how == "folder":
            file.mkdir()
        elif how == "pipe" and hasattr(os, "mkfifo"):
            os.mkfifo(file)
        elif how == "link":
            file.symlink_to(file if rng.random() < 0.5 else "nowhere")


def _bytes(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _digest(folder: Path) -> str:
    """A digest of everything in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(os.fsencode(path.relative_to(folder)))
        digest.update(_bytes(path))
    return digest.hexdigest()
