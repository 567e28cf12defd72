"""The command, and the lines of Python, that do the same as the page."""

from pathlib import Path
from typing import Any

from ...files.video import is_video_name
from ..jobs.commands import command_for
from ..options import is_given
from .images import Opened
from .parts import arguments_of
from .saving import target_of

_READERS = {
    ".npy": ("import numpy as np", "np.load({})", "np.save({}, {})"),
    ".tif": ("import tifffile", "tifffile.imread({})", "tifffile.imwrite({}, {})"),
    ".fits": ("from astropy.io import fits", "fits.getdata({})", "fits.writeto({}, {})"),
}
_SYNONYMS = {".tiff": ".tif", ".fit": ".fits", ".fts": ".fits"}
_PILLOW = (
    "import numpy as np\nfrom PIL import Image",
    "np.asarray(Image.open({}))",
    "Image.fromarray({1}).save({0})",
)
_TILE = 2048  # the default for large images


def commands_for(image: Opened) -> dict[str, str]:
    """Return the command for a shell, and lines of Python, with the current settings.

    An uploaded image has only a name; one of the person's own has a path.
    """
    settings = image.wanted.settings
    path = image.path if image.beside else Path(image.path.name)
    arguments = arguments_of(image.measurable(0), settings, image.choice(settings))
    tile = {"tile": _TILE} if image.is_large and _suffix(path) in (".tif", ".npy") else {}
    letters = image.axes or ""
    names = {"channel_axis": "C", "stack_axis": "Q"}
    axes = {name: letters.index(axis) for name, axis in names.items() if axis in letters}
    return {
        "shell": command_for(path, None, arguments | axes | tile),
        "python": _python(image, path, arguments),
    }


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    return _SYNONYMS.get(suffix, suffix)


def _python(image: Opened, path: Path, arguments: dict[str, Any]) -> str:
    if is_video_name(path) or image.raw:
        return ""  # only the command line reads and writes videos and raw files
    imports, reading, writing = _READERS.get(_suffix(path), _PILLOW)
    given = {name: value for name, value in arguments.items() if is_given(name, value)}
    axes = {}
    layer = image.layer
    if image.axis:
        axes[f"{image.together}_axis"] = layer.axes.index(image.axis)
    if "C" in layer.axes:
        axes["channel_axis"] = layer.axes.index("C")
    stacked = [axis for axis in layer.axes if axis not in "YXC" + image.axis]
    if stacked:
        axes["stack_axis"] = layer.axes.index(stacked[0])
    words = "".join(f", {name}={value!r}" for name, value in {**axes, **given}.items())
    target = repr(str(target_of(path)))
    return "\n".join(
        [
            f"{imports}\nimport nlridge\n",
            f"image = {reading.format(repr(str(path)))}",
            f"denoised = nlridge.denoise(image{words})",
            writing.format(target, "nlridge.to_dtype(denoised, image.dtype)"),
        ]
    )
