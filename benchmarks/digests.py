"""Check that a change leaves results the same: ``python -m benchmarks.digests record FILE``, then ``compare FILE``.

Every method runs on every kind of input, in memory, tile by tile and as a Dask array, and a digest of the bits of
each result is recorded.  For PyTorch, whose sums have no fixed order, the results themselves are recorded and
compared within a tolerance.  Bits depend on the CPU: record and compare on the same machine.
"""

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import torch

import nlridge
from nlridge.torch import NLRidge

TOLERANCE = 0.01  # of a result of PyTorch, in gray values of 255
_SHAPE = (150, 171)  # three bands of 64 rows; an odd width


def inputs() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Images by name, with the arguments of `denoise` other than the method."""
    y, x = np.mgrid[: _SHAPE[0], : _SHAPE[1]]
    clean = 128 + 50 * np.sin(x / 5 + y / 17) * np.cos(y / 7) + 40 * ((x // 30 + y // 40) % 2)
    noise = np.random.default_rng(0).normal(0, 20, (3, *_SHAPE))
    gray = (clean + noise[0]).astype(np.float32)
    color = (np.stack([clean, 0.8 * clean + 20, 255 - clean]) + noise).astype(np.float32)
    holes = gray.copy()
    holes[np.random.default_rng(1).random(_SHAPE) < 0.05] = np.nan
    uneven = np.where(x < 80, 10.0, 30.0)
    return {
        "gray": (gray, {"sigma": 20}),
        "color": (color, {"sigma": 20, "channel_axis": 0}),
        "sigma map": (gray, {"sigma": uneven}),
        "NaN": (holes, {"sigma": 20}),
        "blind": (gray, {}),
        "stack": (color, {"sigma": 20, "stack_axis": 0}),
        "float64": (gray.astype(np.float64), {"sigma": 20}),
        "uint16": ((100 * np.clip(gray, 0, 255)).astype(np.uint16), {"sigma": 2000}),
        "strength": (gray, {"sigma": 20, "strength": 1.5}),
        "poisson": (gray, {"noise": nlridge.PoissonGaussianNoise(3, 5)}),
    }


def in_memory(image: Any, method: str, options: dict[str, Any]) -> Any:
    """Denoise an array in memory."""
    return nlridge.denoise(image, method=method, **options)


def in_tiles(image: Any, method: str, options: dict[str, Any]) -> Any:
    """Denoise an array tile by tile, with `out`."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.npy"
        return np.array(nlridge.denoise_to_disk(image, out, method=method, tile=64, **options))


def by_dask(image: Any, method: str, options: dict[str, Any]) -> Any:
    """Denoise a Dask array."""
    lazy = nlridge.prepare(
        dask.array.from_array(image), method=method, tile=64, **options
    ).denoise()
    return lazy.compute(scheduler="sync")


def by_torch(image: Any, method: str, options: dict[str, Any]) -> Any:
    """Denoise a tensor with `NLRidge`, if the noise is Gaussian and known."""
    sigma, strength = options.get("sigma"), options.get("strength", 1.0)
    if sigma is None or np.isnan(image).any() or "stack_axis" in options:
        raise ValueError("not for this engine")
    images = torch.as_tensor(image.astype(np.float32)).reshape(1, -1, *_SHAPE)
    levels = torch.as_tensor(np.float32(sigma))
    levels = levels.expand(1, 1, *_SHAPE) if levels.ndim == 2 else float(levels)
    data_range = 25500 if image.dtype == np.uint16 else 255
    return NLRidge(method, data_range=data_range, strength=strength)(images, levels).numpy()


def digests() -> Iterator[tuple[str, str]]:
    """Names and digests of the results that are exact."""
    for kind, run in {"memory": in_memory, "tiles": in_tiles, "dask": by_dask}.items():
        for name, result in _results(kind, run):
            yield name, "refused" if result is None else _digest(result)


def tensors() -> dict[str, Any]:
    """The results of PyTorch by name, which are exact within a tolerance."""
    return {name: result for name, result in _results("torch", by_torch) if result is not None}


def _results(kind: str, run: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    for method in nlridge.method_names():
        for name, (image, options) in inputs().items():
            print(f"{kind}, {method}, {name}", file=sys.stderr)
            try:
                yield f"{kind}, {method}, {name}", run(image, method, options)
            except ValueError:
                yield f"{kind}, {method}, {name}", None


def _digest(result: Any) -> str:
    result = np.ascontiguousarray(result)
    return f"{result.dtype} {result.shape} {hashlib.sha256(result.tobytes()).hexdigest()[:16]}"


def record(file: Path) -> None:
    """Save digests and results to an NPZ file."""
    exact = dict(digests())
    np.savez_compressed(file, names=list(exact), digests=list(exact.values()), **tensors())
    print(f"{len(exact)} digests in {file}")


def compare(file: Path) -> int:
    """Print the differences from a saved file; returns the exit code."""
    with np.load(file) as saved:
        before = dict(zip(saved["names"].tolist(), saved["digests"].tolist(), strict=True))
        results = {name: saved[name] for name in saved if name.startswith("torch")}
    now = dict(digests())
    different = [name for name in before if now.get(name) != before[name]]
    for name in different:
        print(f"{name}: {before[name]} -> {now.get(name)}")
    again = tensors()
    scale = {name: 100 if name.endswith("uint16") else 1 for name in results}
    errors = {
        name: float(np.abs(again[name] - result).max()) / scale[name] if name in again else np.inf
        for name, result in results.items()
    }
    print(f"{len(before) - len(different)} of {len(before)} digests are the same")
    print(f"{len(errors)} results of PyTorch: largest difference {max(errors.values()):.2g}")
    return 1 if different or max(errors.values()) > TOLERANCE else 0


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    if options.what == "record":
        record(options.file)
        return 0
    return compare(options.file)


if __name__ == "__main__":
    sys.exit(main())
