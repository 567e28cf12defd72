"""What can be combined: kinds of images, and what can be asked for. ``python tests/combinations.py`` writes the table.

Each combination is tried on a small image. It works, or it is refused in one sentence.
"""

import tempfile
import warnings
from pathlib import Path

import numpy as np

import nlridge

PAGE = Path(__file__).parents[1] / "docs" / "combinations.md"
SHAPE = (24, 28)
Y, X = np.mgrid[: SHAPE[0], : SHAPE[1]]
CLEAN = 100 + 40 * np.sin(X / 4) * np.cos(Y / 5)
IMAGE = (CLEAN + np.random.default_rng(0).normal(0, 10, SHAPE)).astype(np.float32)
FRAMES = (CLEAN + np.random.default_rng(1).normal(0, 10, (4, *SHAPE))).astype(np.float32)
REGION = np.s_[4:12, 6:20]


def _tensor(requires_grad):
    import torch

    return torch.tensor(IMAGE, requires_grad=requires_grad)


def _dask():
    import dask.array as da

    return da.from_array(IMAGE)


def _zarr():
    import zarr

    array = zarr.create_array(
        store=zarr.storage.MemoryStore(), shape=SHAPE, chunks=SHAPE, dtype=IMAGE.dtype
    )
    array[...] = IMAGE
    return array


KINDS = {
    "array": (lambda: IMAGE, {}),
    "stack": (lambda: FRAMES, {"stack_axis": 0}),
    "video": (lambda: FRAMES, {"time_axis": 0}),
    "volume": (lambda: FRAMES, {"depth_axis": 0}),
    "tensor": (lambda: _tensor(False), {}),
    "tensor with gradient": (lambda: _tensor(True), {}),
    "Dask array": (_dask, {}),
    "Zarr array": (_zarr, {}),
}
KERNEL = np.outer([1, 2, 1], [1, 2, 1]) / 16
GIVEN = {
    "mask": {"sigma": 10, "mask": (X + Y) % 17 == 0},
    "map of sigma": {"sigma": np.where(X < 12, 8.0, 14.0)},
    "Poisson noise": {"noise": nlridge.PoissonGaussianNoise(1.0)},
    "correlated noise": {"noise": nlridge.CorrelatedNoise.from_kernel(10.0, KERNEL)},
}
ASKED = {
    "region": lambda prepared: prepared.denoise(REGION),
    "details": lambda prepared: prepared.details().image,
    "quality": lambda prepared: prepared.quality().denoised.image,
}
FEATURES = [*GIVEN, *ASKED]


def outcome(kind, feature):
    """The result of a combination as an array, or the message with which it is refused."""
    make, axes = KINDS[kind]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an image so small says little about its noise
            if feature in ASKED:
                result = ASKED[feature](nlridge.prepare(make(), 10, method="fast", **axes))
            elif kind == "Zarr array":
                with tempfile.TemporaryDirectory() as folder:
                    out = Path(folder) / "out.npy"
                    stored = nlridge.denoise_to_disk(make(), out, method="fast", **GIVEN[feature])
                    result = np.array(stored)
            else:
                result = nlridge.denoise(make(), method="fast", **axes, **GIVEN[feature])
    except (TypeError, ValueError) as error:
        return str(error)
    return np.asarray(result.detach() if hasattr(result, "detach") else result)


def table():
    """The table of the page, in Markdown."""
    rows = [f"| | {' | '.join(FEATURES)} |", "|---" * (1 + len(FEATURES)) + "|"]
    notes = []
    for kind in KINDS:
        cells = []
        for feature in FEATURES:
            found = outcome(kind, feature)
            if isinstance(found, str) and found not in notes:
                notes.append(found)
            cells.append(f"no [{notes.index(found) + 1}]" if isinstance(found, str) else "yes")
        rows.append(f"| {kind} | {' | '.join(cells)} |")
    messages = [f"{k}. `{note}`" for k, note in enumerate(notes, 1)]
    return "\n".join([*rows, "", *messages]) + "\n"


BEGIN, END = "<!-- the table -->\n", "<!-- its end -->\n"


def page_with(rows):
    """The page, with these rows."""
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{rows}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with(table()), "utf-8")
