"""What every file format must do; a new format is one line in `FORMATS` of format_examples.py.

A plug-in can use this file for its own tests: describe an example of the format, and call `checks`.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nlridge.files import format_of, output_suffix, read, suffix_of, write
from nlridge.files.picture import Picture

SPACING = 0.5, 0.1, 0.2
CHANNELS = ["DAPI", "GFP"]


@dataclass(frozen=True)
class Example:
    """A file of a format, and what must be read from it."""

    suffix: str
    make: Callable[[Path, Any, str], Any]
    """Writes a file with these pixels and axes, by another library than the package uses, or by hand."""
    dtype: str = "u2"
    axes: str = "YX"
    given: bool = False
    """Whether the axes must be given, as the file does not name them."""
    spacing: Any = None
    unit: str = ""
    channels: Any = ()
    library: str = ""
    """The optional library that it needs."""
    metadata: Callable[[Path], Any] = lambda path: None
    """Returns what must be the same in the file that is written."""
    tolerance: float = 0.0
    """How much pixels may change by lossy compression."""
    padding: float = 0.0
    """The share of the file, at its end, that nobody misses."""

    def __str__(self) -> str:
        return f"{self.suffix}-{self.axes}-{self.dtype}"

    @property
    def pixels(self) -> Any:
        sizes = {"Y": 24, "X": 36, "C": 3 if self.axes.endswith("C") else 2, "Z": 3, "T": 2, "Q": 4}
        shape = [sizes[axis] for axis in self.axes]
        rng = np.random.default_rng(0)
        ramp = np.linspace(50, 150, int(np.prod(shape))).reshape(shape)
        return (ramp + rng.normal(0, 5, shape)).astype(self.dtype)

    def file(self, folder: Path, name: str = "example") -> Path:
        path = folder / f"{name}{self.suffix}"
        self.make(path, self.pixels, self.axes)
        return path

    def read(self, path: Path) -> Picture:
        return read(path, self.axes if self.given else None)


def module_has_all_names(example: Example, folder: Path) -> None:
    module = format_of(example.suffix)
    assert isinstance(module.NAME, str)
    assert example.suffix in module.SUFFIXES
    assert all(s.startswith(".") and s == s.lower() for s in module.SUFFIXES)
    assert set(module.KEEPS) <= {"exif", "profile", "iptc"}
    path = example.file(folder)
    assert suffix_of(path) == example.suffix
    assert module.recognises(path.read_bytes()[:512])


def pixels_type_axes_and_sizes_are_read(example: Example, folder: Path) -> None:
    path = example.file(folder)
    content = path.read_bytes()
    picture = example.read(path)
    assert_same(example, picture, example.pixels)
    assert picture.format == format_of(example.suffix).__name__.rpartition(".")[2]
    assert path.read_bytes() == content


def written_again_only_the_pixels_differ(example: Example, folder: Path) -> None:
    path = example.file(folder)
    content = path.read_bytes()
    picture = example.read(path)
    (layer,) = picture.layers
    flipped = np.ascontiguousarray(layer.pixels[..., ::-1, :])
    object.__setattr__(layer, "pixels", flipped)
    target = folder / f"again{output_suffix(example.suffix)}"
    write(target, picture)
    again = read(target, example.axes if example.given else None)
    assert_same(example, again, flipped)
    if target.suffix == path.suffix:
        assert example.metadata(target) == example.metadata(path)
    assert path.read_bytes() == content
    assert {file.name for file in folder.iterdir()} == {path.name, target.name}


def truncated_files_are_refused(example: Example, folder: Path) -> None:
    path = example.file(folder)
    content = path.read_bytes()
    for share in (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97):
        path.write_bytes(content[: int(share * len(content))])
        assert is_refused(example, path) or share > 1 - example.padding, share


def damaged_files_are_read_or_refused_in_one_sentence(example: Example, folder: Path) -> None:
    path = example.file(folder)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for k in range(40):
        damaged = bytearray(content)
        for place in rng.integers(min(len(content), 600 if k % 2 else len(content)), size=3):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        is_refused(example, path)


def without_its_library_the_message_says_how_to_install_it(example: Example, folder: Path) -> None:
    if not example.library:
        return
    path = example.file(folder)
    known = {
        name: module
        for name, module in sys.modules.items()
        if name.split(".")[0] == example.library
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in [example.library, *known]:
            patch.setitem(sys.modules, name, None)
        with pytest.raises(ImportError, match=f"need {example.library}, .*pip install"):
            example.read(path)


checks = [
    module_has_all_names,
    pixels_type_axes_and_sizes_are_read,
    written_again_only_the_pixels_differ,
    truncated_files_are_refused,
    damaged_files_are_read_or_refused_in_one_sentence,
    without_its_library_the_message_says_how_to_install_it,
]


def assert_same(example: Example, picture: Picture, pixels: Any) -> None:
    (layer,) = picture.layers
    assert layer.axes == example.axes
    assert layer.pixels.dtype.newbyteorder("=") == pixels.dtype.newbyteorder("=")
    np.testing.assert_allclose(layer.pixels, pixels, rtol=0, atol=example.tolerance)
    if example.spacing is None:
        assert layer.spacing is None
    else:
        assert layer.spacing == pytest.approx(example.spacing, nan_ok=True)
        assert layer.unit == example.unit
    assert picture.channels == list(example.channels)


def is_refused(example: Example, path: Path) -> bool:
    """Whether reading raises an error; if so, it is one sentence. Nothing is left open or behind."""
    message = ""
    try:
        example.read(path)
    except (ValueError, OSError) as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 1000
    return message != ""
