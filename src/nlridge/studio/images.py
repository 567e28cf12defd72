"""Opened images: their pixels, their frames and channels, and what is known and wanted of them."""

import math
import re
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import numpy as np
import numpy.typing as npt

from ..display import black_and_white
from ..files import Layer, Picture, format_of, read
from ..files.orientation import turned
from ..files.video import is_video_name
from ..jobs.batch import known_suffixes, sequence_of
from ..jobs.words import printable
from .clips import ClipFrames, FewFrames
from .limits import Limits
from .messages import Rectangle, Settings, View
from .parts import Choice, Measured
from .results import Result

Pixels = npt.NDArray[Any]

_SAMPLE = 2**20  # pixels that black and white are chosen from
_LONGEST = 200  # bytes of a name
reading = threading.Lock()  # the readers change the filters for warnings, which all threads share


@dataclass(frozen=True)
class Wanted:
    """What the page wants of an image, at one moment."""

    settings: Settings = field(default_factory=Settings)
    revision: int = 1
    view: View | None = None
    saving: bool = False
    """Whether the whole result is waited for."""
    since: float = field(default_factory=time.monotonic)
    """When the settings were chosen."""


@dataclass(frozen=True, eq=False)
class Preview:
    """The result of a reduced copy of what is visible."""

    key: tuple[Any, ...]
    """The settings that it depends on."""
    frame: int
    level: int
    rectangle: Rectangle
    """What it shows, in pixels of the image as shown."""
    planes: Pixels

    def covers(self, key: tuple[Any, ...], view: View) -> bool:
        """Return whether it shows what a view shows, with these settings."""
        x, y, width, height = self.rectangle
        left, top, columns, rows = view.rectangle
        return (
            (self.key, self.frame) == (key, view.frame)
            and self.level <= view.level
            and x <= left
            and y <= top
            and left + columns <= x + width
            and top + rows <= y + height
        )


@dataclass(eq=False)
class Opened:
    """An image that the page works with. Pixels are as they are stored; what the page sees is upright."""

    name: str
    """Its name, as text."""
    picture: Picture
    path: Path
    """Where it was read."""
    folder: Path
    """A folder of its own, for temporary files."""
    beside: bool = False
    """Whether it was read where it belongs, so that results can be saved beside it."""
    is_large: bool = False
    """Whether a single frame is too large to be denoised in memory."""
    id: str = field(default_factory=lambda: token_urlsafe(9))
    wanted: Wanted = field(default_factory=Wanted)
    touched: float = field(default_factory=time.monotonic)
    measured: dict[tuple[int, Choice], Measured] = field(default_factory=dict)
    """What is known of frames, by their number and the choice of noise."""
    results: dict[tuple[Any, ...], Result] = field(default_factory=dict)
    revisions: dict[int, Settings] = field(default_factory=dict)
    """The settings of the latest revisions."""
    failed: dict[int, str] = field(default_factory=dict)
    """Why revisions failed, in a sentence."""
    glances: dict[tuple[int, int, Choice], Measured] = field(default_factory=dict)
    """First estimates, by frame, level and the choice of noise."""
    preview: "Preview | None" = None
    """The latest result of a reduced copy."""
    floats: tuple[Any, Pixels] | None = None
    """The latest result that is not rounded, with what it depends on."""
    exported: tuple[tuple[Any, ...], Path] | None = None
    """The video that was written last, with what it depends on."""
    finished: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What was said about revisions that are done."""
    overviews: dict[int, Pixels] = field(default_factory=dict)
    """Reduced copies of frames, as shown."""

    def __post_init__(self) -> None:
        self.layer: Layer = self.picture.layers[0]
        self.indices = list(self.layer.frames())
        pixels: Any = self.layer.pixels
        self.clip: ClipFrames | None = pixels if isinstance(pixels, ClipFrames) else None
        """The frames, if this is a video."""
        self.axis, self.together = ("T", "time") if self.clip else sequence_of(self.layer, "auto")
        self.size = _height_and_width(self.layer)
        """The height and width as stored."""
        self.low, self.high = black_and_white(self.layer.pixels.dtype, [self._sample()])
        self.revisions[self.wanted.revision] = self.wanted.settings

    @property
    def shown_size(self) -> tuple[int, int]:
        """The height and width as shown."""
        height, width = self.size
        return (width, height) if self.picture.turn >= 5 else (height, width)

    @property
    def in_colour(self) -> bool:
        layer = self.layer
        return layer.axes.endswith("C") and layer.pixels.shape[-1] == 3

    @property
    def channels(self) -> int:
        """The number of channels."""
        layer = self.layer
        return layer.pixels.shape[layer.axes.index("C")] if "C" in layer.axes else 1

    @property
    def nbytes(self) -> int:
        """Bytes of memory, apart from what is on the disk."""
        held = [(layer.pixels, 1.0) for layer in self.picture.layers]
        for result in list(self.results.values()):
            is_array = isinstance(result.pixels, np.ndarray)
            held.append((result.pixels, result.done.mean() if is_array else 1.0))
        if self.floats:
            held.append((self.floats[1], 1.0))
        in_memory = [pair for pair in held if not isinstance(pair[0], np.memmap)]
        return round(sum(pixels.nbytes * share for pixels, share in in_memory))

    def planes(self, frame: int, pixels: Pixels | None = None) -> Pixels:
        """Return a frame of the image, or of a result, as a view of (channels, height, width)."""
        image: Pixels = (self.layer.pixels if pixels is None else pixels)[self.indices[frame]]
        axis = self.layer.channel_axis
        return image[None] if axis is None else np.moveaxis(image, axis, 0)

    def measurable(self, frame: int) -> Pixels:
        """Return the planes of a frame that its noise is measured in: all of them, or the luma of a video."""
        return self.clip.luma(frame) if self.clip else self.planes(frame)

    def shown(self, planes: Pixels) -> Pixels:
        """Return a view of planes, upright."""
        return turned(planes, "CYX", self.picture.turn)

    def stored(self, rectangle: Rectangle) -> Rectangle:
        """Return where a rectangle of the shown image is in the stored one."""
        x, y, width, height = rectangle
        turn = self.picture.turn
        shown_height, shown_width = self.shown_size
        x = shown_width - x - width if turn in (2, 3, 6, 7) else x
        y = shown_height - y - height if turn in (3, 4, 7, 8) else y
        return (y, x, height, width) if turn >= 5 else (x, y, width, height)

    def seen(self, rectangle: Rectangle) -> Rectangle:
        """Return where a rectangle of the stored image is in the shown one."""
        x, y, width, height = rectangle
        turn = self.picture.turn
        shown_height, shown_width = self.shown_size
        if turn >= 5:
            x, y, width, height = y, x, height, width
        x = shown_width - x - width if turn in (2, 3, 6, 7) else x
        y = shown_height - y - height if turn in (3, 4, 7, 8) else y
        return x, y, width, height

    def single(self, pixels: Pixels) -> Picture:
        """Return the picture with other pixels, and with the shown layer alone."""
        return replace(self.picture, layers=[replace(self.layer, pixels=pixels)])

    def choice(self, settings: Settings) -> Choice:
        """Return the choice of noise; a rectangle as stored."""
        noise = settings.noise
        return self.stored(noise) if isinstance(noise, tuple) else noise

    def new_result(self) -> Result:
        """Return a result without any pixels."""
        pixels = self._new_pixels()
        result = Result(pixels, len(self.indices), *self.size)
        if isinstance(pixels, FewFrames):
            pixels.forget = lambda frame: result.done[frame].fill(False)
        return result

    def _new_pixels(self) -> Any:
        """Return memory for a result, or a file if it is large. Parts that are never written to cost nothing."""
        shape, dtype = self.layer.pixels.shape, self.layer.pixels.dtype
        if self.clip:
            return FewFrames(shape)
        if not isinstance(self.layer.pixels, np.memmap):
            return np.empty(shape, dtype)
        return np.memmap(self.folder / token_urlsafe(9), dtype, "w+", shape=shape)

    def channel_names(self) -> list[str]:
        """Return the names of the channels to choose from; none if there is no choice."""
        axis = self.layer.channel_axis
        if axis is None or self.in_colour:
            return []
        count = self.channels
        given = self.picture.channels
        return [
            printable(given[k]) if len(given) == count else f"channel {k + 1}" for k in range(count)
        ]

    def want(self, **changes: Any) -> Wanted:
        """Change what is wanted. A change of the settings is a new revision."""
        wanted = replace(self.wanted, **changes)
        if wanted.settings != self.wanted.settings:
            wanted = replace(
                wanted, revision=self.wanted.revision + 1, since=time.monotonic(), saving=False
            )
            self.revisions[wanted.revision] = wanted.settings
            for old in list(self.revisions)[:-32]:
                del self.revisions[old]
        self.wanted = wanted
        self.touched = time.monotonic()
        return wanted

    def described(self) -> dict[str, Any]:
        """Return what the page is told about the image."""
        wanted = self.wanted
        height, width = self.shown_size
        frame = wanted.view.frame if wanted.view else 0
        noise = wanted.settings.noise
        known = self.measured.get((frame, noise)) or self.glances.get((frame, 0, noise))
        count = len(self.indices)
        several = len(self.picture.layers) > 1
        return {
            "id": self.id,
            "name": self.name,
            "width": width,
            "height": height,
            "dtype": str(self.layer.pixels.dtype),
            "colour": self.in_colour,
            "channels": self.channel_names(),
            "frames": [f"{k + 1} of {count}" for k in range(count)],
            "together": self.together,
            "low": self.low,
            "high": self.high,
            "file_type": self.path.suffix[1:].upper()
            if self.clip
            else format_of(self.path.suffix).NAME,
            "can_save_beside": self.beside,
            "notes": [
                *self.picture.notes,
                *(
                    ["images of several shapes: the first is shown, all are saved"]
                    if several
                    else []
                ),
            ],
            "noise": known.described() if known else None,
            "finished": self.finished.get(wanted.revision),
            "failed": self.failed.get(wanted.revision),
            "settings": wanted.settings.as_json(),
            "revision": wanted.revision,
        }

    def _sample(self) -> Pixels:
        """Return some of the pixels of the first frame."""
        planes = self.planes(0)
        step = max(1, round((planes.size / _SAMPLE) ** 0.5))
        return planes[:, ::step, ::step]


class Gallery:
    """All opened images, within bounds of memory: those that were not used for longest are dropped."""

    def __init__(self, limits: Limits, say_dropped: Callable[[Opened], None]) -> None:
        self._limits = limits
        self._say_dropped = say_dropped
        self._images: dict[str, Opened] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Any:
        return iter(list(self._images.values()))

    def get(self, identity: str) -> Opened | None:
        return self._images.get(identity)

    def add(self, image: Opened) -> None:
        with self._lock:
            self._images[image.id] = image
        self.keep_within_bounds(image)

    def remove(self, image: Opened) -> None:
        with self._lock:
            self._images.pop(image.id, None)
        if image.clip:
            image.clip.close()
        shutil.rmtree(image.folder, ignore_errors=True)

    def by_use(self) -> list[Opened]:
        """Return all images, the one that was used last first."""
        return sorted(self, key=lambda image: -image.touched)

    def keep_within_bounds(self, current: Opened | None = None) -> None:
        """Forget results that nobody looks at, then drop images, until the bounds are met."""
        limit = self._limits
        images = self.by_use()
        for image in reversed(images):
            if sum(other.nbytes for other in images) <= limit.memory:
                break
            forget_old_results(image)
        while len(images) > 1 and (
            len(images) > limit.images or sum(other.nbytes for other in images) > limit.memory
        ):
            oldest = images.pop()
            if oldest is current:
                images.insert(0, oldest)
                oldest = images.pop()
            self.remove(oldest)
            self._say_dropped(oldest)


def forget_old_results(image: Opened) -> None:
    """Forget the results of other settings than the current ones."""
    settings = image.wanted.settings
    kept = {
        result_key(settings, name, alone)
        for name in methods_of(settings)
        for alone in (False, True)
    }
    for key in [key for key in image.results if key not in kept]:
        image.results.pop(key, None)


def methods_of(settings: Settings) -> list[str]:
    """Return the methods whose results are shown with these settings."""
    names = ["fast", settings.method, settings.other]
    return list(dict.fromkeys(name for name in names if name is not None))


def result_key(settings: Settings, method: str, rough: bool = False) -> tuple[Any, ...]:
    """Return what a result depends on; `rough` ones are for a first impression."""
    return method, settings.strength, settings.colour, settings.noise, rough


def opened(path: Path, name: str, folder: Path, limits: Limits, beside: bool = False) -> Opened:
    """Read a file; pixels of a large image are kept in the folder, rather than in memory."""
    folder.mkdir(exist_ok=True)
    if is_video_name(path):
        frames: Any = ClipFrames(path)
        return Opened(
            printable(name), Picture("video", [Layer(frames, "TYXC")]), path, folder, beside
        )
    with reading:
        picture = read(path)
        if any(layer.mosaic is not None for layer in picture.layers):
            raise ValueError("it is a raw image; expected a developed one, or 'nlridge denoise'")
    sizes = [math.prod(_height_and_width(layer)) for layer in picture.layers]
    layers = [
        replace(layer, pixels=_on_disk(layer.pixels, folder / f"{k}.npy"))
        if size * sum(1 for _ in layer.frames()) > limits.in_memory
        else layer
        for k, (layer, size) in enumerate(zip(picture.layers, sizes, strict=True))
    ]
    picture = replace(picture, layers=layers)
    return Opened(printable(name), picture, path, folder, beside, sizes[0] > limits.in_memory)


def _height_and_width(layer: Layer) -> tuple[int, int]:
    height, width = (layer.pixels.shape[layer.axes.index(axis)] for axis in "YX")
    return height, width


def _on_disk(pixels: Pixels, path: Path) -> Pixels:
    np.save(path, pixels)
    mapped: Pixels = np.load(path, mmap_mode="r")
    return mapped


def file_name(name: str) -> str:
    """Return the last part of a name, without anything that is special in a file system."""
    last = re.split(r"[/\\]", name)[-1].strip()
    if last.strip(".") == "":
        raise ValueError(f"name is {printable(name)!r}; expected that of a file")
    safe = "".join(c if c.isprintable() and c not in '<>:"|?*' else "_" for c in last).lstrip(".")
    suffix = next((end for end in known_suffixes() if safe.lower().endswith(end)), "")
    if not suffix:
        raise ValueError(
            f"name is {printable(last[:_LONGEST])!r}; expected one that ends in {', '.join(known_suffixes())}"
        )
    stem, ending = safe[: -len(suffix)], safe[-len(suffix) :]
    while len(stem.encode()) > _LONGEST:
        stem = stem[:-1]
    return (stem or "image") + ending
