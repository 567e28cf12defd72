"""The options of all applications, in one table: the command line, the studio, napari and their messages follow it.

Nothing heavy is imported, so that help appears at once.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from ..kinds import NOISE_KINDS


@dataclass(frozen=True)
class Option:
    """An option of a command; most are arguments of `nlridge.denoise`."""

    name: str
    """The name in Python, from which the flag is made."""
    help: str
    """What it does, without its default; names of other options are in backquotes."""
    type: Callable[[str], Any] = str
    """Converts the text that follows the flag; `bool` if nothing follows."""
    default: Any = None
    choices: tuple[str, ...] = ()
    metavar: str | None = None
    nargs: str = ""
    """How many values an option without a flag takes, as in argparse."""
    letter: str = ""
    """A second flag of one letter."""
    once: bool = False
    """Whether it concerns one run only, and is left out of the command that reproduces the result."""
    slider: tuple[float, float, float] | None = None
    """The ends and the step of the slider in the studio and in napari."""
    in_color: bool = False
    """Whether the slider is shown for images with several channels only."""

    @property
    def flag(self) -> str:
        """What the command line calls it."""
        return self.name if self.nargs else f"--{self.name.replace('_', '-')}"


class Command(NamedTuple):
    """A command of the command line."""

    summary: str
    groups: Mapping[str, tuple["Option | tuple[Option, ...]", ...]] = {}
    """The options by the titles of their groups; those in a tuple of their own exclude each other."""
    examples: str = ""

    @property
    def options(self) -> Iterator[Option]:
        for group in self.groups.values():
            for entry in group:
                yield from (entry,) if isinstance(entry, Option) else entry


PIPE = "-"
"""The name of the standard input, or of the standard output."""

Adjustments: TypeAlias = tuple[tuple[str, float], ...]
"""Names of options with a slider, and their values."""


def _numbers(text: str) -> float | list[float]:
    numbers = [float(part) for part in text.split(",")]
    return numbers[0] if len(numbers) == 1 else numbers


_numbers.__name__ = "number"  # in argparse's messages

METHODS = {
    "preview": "a first look: a third of the time of fast, half of it for videos",
    "fast": "thousands of images",
    "standard": "the best choice for most images",
    "best": "the highest quality, if time does not matter",
    "nl-ridge": "NL-Ridge as published",
    "nl-bayes": "NL-Bayes, in the same framework",
    "bm3d": "BM3D, in the same framework",
}
"""What each method is for, in a few words."""

_KINDS = tuple(NOISE_KINDS)
_KINDS_IN_WORDS = "kind of noise to estimate: " + ", ".join(
    f"{name} {when}" for name, when in NOISE_KINDS.items()
)
_MAP = "image of the {}; the result has the median for all pixels"

_INPUTS = (
    Option("input", "file, folder or pattern such as '*.tif'", metavar="INPUT", nargs="+", once=True),
    Option("recursive", "include the subfolders of folders", bool, once=True),
)  # fmt: skip
_AXES = (
    Option("channel_axis", "axis of the channels in a file that does not name its axes (NPY, FITS, HDF5)", int, metavar="AXIS"),
    Option("stack_axis", "axis of the images in a stack that does not name its axes", int, metavar="AXIS"),
    Option("dataset", "path of the array inside an HDF5 file, such as /entry/data (default: the only image in it)", metavar="PATH"),
)  # fmt: skip
_METHOD = Option(
    "method",
    'method to use: "preview" for a first look, "fast" to save time, "best" for the highest quality',
    default="standard",
    choices=tuple(METHODS),
)
_JSON = Option("json", "print one line of JSON for each file", bool, once=True)

_ADJUSTMENTS = (
    Option("strength", "factor on the noise level: below 1 removes less, above 1 removes more, 0 removes nothing", float,
        1.0, slider=(0.1, 3.0, 0.05)),
    Option("color", "factor on `strength` that applies to color differences only", float, 1.0,
        slider=(0.05, 3.0, 0.05), in_color=True),
)  # fmt: skip

_DENOISE = Command(
    "denoise image and video files",
    {
        "files": (
            *_INPUTS,
            Option("output",
                "output file for a single input, or output folder; - for the standard output (default: beside each input, "
                "with _denoised added to its name)", metavar="PATH", letter="-o", once=True),
            (
                Option("overwrite", "replace existing files", bool),
                Option("skip_existing", "skip inputs whose output already exists", bool, once=True),
            ),
            Option("format", "format of the output, such as png, tif or mp4 (default: format of the input)"),
            Option("develop", "develop raw files: write 16-bit TIFF, or another `format`, instead of DNG", bool),
            Option("burst",
                "treat all inputs as frames of one scene, and write the middle one, denoised with the help of the others",
                bool, once=True),
            Option("report", "write a page that shows each image before and after, and what was removed",
                metavar="FILE.html", once=True),
            *_AXES,
            Option("frames",
                "how the frames of a video, or the images of a stack, belong together: in time, in depth (slices of a "
                "volume), or not at all; auto follows the metadata of the file, and treats images without metadata as "
                "independent", default="auto", choices=("auto", "time", "depth", "independent")),
        ),
        "noise and method": (
            (
                Option("sigma",
                    "standard deviation of the noise, in the units of the pixels; comma-separated values give one for "
                    "each channel (default: estimated from the image)", _numbers),
                Option("noise", f"{_KINDS_IN_WORDS} (default: auto)", choices=_KINDS),
                Option("sigma_map",
                    "image with the standard deviation of the noise of each pixel: of all noise, or with `gain_map` of "
                    "the read noise only", metavar="FILE"),
            ),
            Option("offset_map", _MAP.format("value of each pixel of the camera without light"), metavar="FILE"),
            Option("gain_map", _MAP.format("gray levels that a photon adds to each pixel of the camera"), metavar="FILE"),
            _METHOD,
            *_ADJUSTMENTS,
            Option("keep_outliers",
                "keep single pixels that noise cannot explain, such as hot ones, instead of replacing them; not for "
                "videos and bursts", bool),
            Option("restore_brightness",
                "restore the brightness that strong noise took from a photograph, by the tone curve of sRGB; not for "
                "videos, bursts, tiles and raw images", bool),
        ),
        "processing": (
            Option("workers", "number of threads (default: one for each core)", int, metavar="N", once=True),
            Option("tile",
                "process a Zarr, NPY or TIFF file in tiles of this size, in little memory; the same command resumes "
                "after an interruption (default for Zarr: 2048)", int, metavar="SIDE"),
            Option("scheduler",
                "address of the scheduler of a Dask cluster that does the work, such as tcp://10.0.0.1:8786 (only for "
                "Zarr)", metavar="ADDRESS", once=True),
        ),
        "video files": (
            Option("codec",
                "codec of the output (default: codec of the input if it can be written; otherwise h264, hevc for more "
                "than 8 bits, or ffv1 if the input is lossless)",
                choices=("h264", "hevc", "vp9", "av1", "prores", "mjpeg", "ffv1")),
            Option("quality",
                "constant rate factor of h264, hevc, vp9 or av1: 0 is the best and largest (default: 17 for h264, 19 "
                "for hevc, 24 for vp9 and av1)", int, metavar="CRF"),
            Option("raw_video",
                "size and pixel format of frames without a header, in FFmpeg's names, such as 1920x1080:yuv420p10le",
                metavar="SIZE:FORMAT", once=True),
        ),
        "messages": ((Option("quiet", "print only error messages", bool, once=True), _JSON),),
    },
    """An input or output called - is a pipe: an image, a Y4M stream, or raw video.

examples:
  nlridge denoise photo.jpg                   write photo_denoised.jpg
  nlridge denoise a.png b.png -o cleaned/     write into a folder
  nlridge denoise cells.tif --noise poisson   noise that grows with the signal
  nlridge denoise cube.npy --channel-axis 0   channels along the first axis
  nlridge denoise slide.zarr -o clean.zarr    larger than memory
  nlridge denoise clip.mov -o clip.mp4        a video, with its sound
  nlridge denoise IMG_0001.CR2                a raw file: write IMG_0001_denoised.dng
  nlridge denoise IMG_000*.CR2 --burst        several raw files of one scene: write one
  nlridge denoise stack.tif --frames time     pages that are frames of a video
  ffmpeg -i in.mkv -f yuv4mpegpipe - | nlridge denoise - -o - | ffmpeg -i - out.mkv
  nlridge denoise raw/ -o clean/ --recursive --skip-existing
                                              resume an interrupted batch
""",
)  # fmt: skip

COMMANDS = {
    "denoise": _DENOISE,
    "noise": Command(
        "estimate the noise in image files",
        {"": (*_INPUTS, *_AXES, Option("kind", _KINDS_IN_WORDS, default="auto", choices=_KINDS), _JSON)},
    ),
    "compare": Command(
        "compare two image files: PSNR, SSIM and RMSE",
        {
            "": (
                Option("first", "first image file", metavar="A", nargs="1"),
                Option("second", "second image file, of the same shape", metavar="B", nargs="1"),
                Option("peak",
                    "range of the values, for PSNR and SSIM (default: largest value of an integer type, or range of the "
                    "values in A for floats)", float),
                *_AXES,
                Option("json", "print one line of JSON", bool),
            )
        },
    ),
    "methods": Command("list the methods, and measure their speed on this machine"),
    "demo": Command(
        "denoise a sample photograph and save the result side by side",
        {
            "": (
                Option("image", "noisy image of your own (default: a sample photograph)", nargs="?"),
                Option("sigma",
                    "standard deviation of the noise, in the units of the image (default: 25 for the sample, estimated "
                    "for your own image)", float),
                _METHOD,
                Option("output",
                    "new file for the side-by-side image (default: demo.png, which is replaced if it exists)",
                    metavar="FILE", letter="-o"),
            )
        },
    ),
    "studio": Command(
        "denoise images interactively in the browser",
        {
            "": (
                Option("path", "image or folder to open", metavar="FILE|FOLDER", nargs="?"),
                Option("port", "port of the page (default: any that is free)", int, metavar="N"),
                Option("no_browser", "print the address of the page, but do not open it", bool),
                Option("address",
                    "IP address to listen on, for other computers on the network (default: 127.0.0.1, this computer only)",
                    metavar="A"),
            )
        },
    ),
    "completion": Command(
        "print a script for tab completion in a shell",
        {"": (Option("shell", "shell that will run the script", choices=("bash", "zsh", "tcsh"), nargs="1"),)},
    ),
}  # fmt: skip

OPTIONS = {option.name: option for option in _DENOISE.options}
"""The options of `nlridge denoise`, by their names in Python."""

ADJUSTMENTS = {option.name: option for option in _ADJUSTMENTS}
"""Those that adjust the algorithm: arguments of `denoise`, with sliders in the studio and in napari."""

ARGUMENTS = ("sigma", "noise", "method", *ADJUSTMENTS)
"""The arguments of `nlridge.denoise` that determine what is removed."""

FLAGS = {
    option.name: option.flag
    for command in COMMANDS.values()
    for option in command.options
    if option.type is not bool and not (option.nargs or option.letter)
} | {"client": "--scheduler"}
"""What the command line calls the arguments of Python. The output has a name without --output as well."""


def is_given(name: str, value: Any) -> bool:
    """Return whether the value of an option is not its default."""
    option = OPTIONS.get(name)
    is_default = value is None or value is False  # and not 0
    return not is_default and (option is None or value != option.default)


def words_about(option: Option, name: Callable[[str], str] = str) -> str:
    """Return the help of an option; `name` returns what the reader calls another option."""
    return re.sub(r"`(\w+)`", lambda match: name(match[1]), option.help)


def adjustments_in(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the adjustments in the options of a command; defaults for those that are missing."""
    return {name: values.get(name, option.default) for name, option in ADJUSTMENTS.items()}
