"""Opened images: their pixels, their frames and channels, and what is known and wanted of them."""

import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import numpy as np

from ... import Prepared
from ...files import Layer, Picture
from ...files.orientation import turned
from ...types import Pixels
from ..display import black_and_white
from ..jobs.axes import sequence_of
from ..jobs.grain import plain_words, words_for
from ..jobs.words import printable
from . import words
from .clips import ClipFrames, FewFrames
from .messages import Rectangle, Settings, View
from .parts import Choice, Measured
from .results import Result

_SAMPLE = 2**20  # pixels that black and white are chosen from


IMPRESSION = "preview"
"""The method of first impressions."""


@dataclass(frozen=True)
class Wanted:
    """What the page wants of an image, at one moment."""

    settings: Settings = field(default_factory=Settings)
    revision: int = 1
    view: View | None = None
    saving: float | None = None
    """Since when somebody has waited for the whole result; None if nobody does."""
    since: float = field(default_factory=time.monotonic)
    """When the settings were chosen."""


@dataclass(frozen=True, eq=False)
class Preview:
    """The result of a reduced copy of what is visible."""

    key: tuple[Any, ...]
    """The settings that it depends on."""
    frame: int
    level: int
    """How far the copy was reduced; perhaps more than the screen needs."""
    rectangle: Rectangle
    """What it shows, in pixels of the image as shown."""
    planes: Pixels

    def covers(self, key: tuple[Any, ...], view: View) -> bool:
        """Return whether it shows what a view shows, with these settings."""
        x, y, width, height = self.rectangle
        left, top, columns, rows = view.rectangle
        return (
            (self.key, self.frame) == (key, view.frame)
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
    """What is shown."""
    path: Path
    """Where it was read."""
    folder: Path
    """A folder of its own, for temporary files."""
    beside: bool = False
    """Whether it was read where it belongs, so that results can be saved beside it."""
    is_large: bool = False
    """Whether a single frame is too large to be denoised in memory."""
    raw: Picture | None = None
    """The raw picture that `picture` was developed from, if it is one of a camera."""
    axes: str | None = None
    """The axes, if the file does not name them."""
    id: str = field(default_factory=lambda: token_urlsafe(9))
    wanted: Wanted = field(default_factory=Wanted)
    touched: float = field(default_factory=time.monotonic)
    measured: dict[tuple[int, Choice], Measured] = field(default_factory=dict)
    """What is known about frames, by their number and the choice of noise."""
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
    gains: dict[Any, str] = field(default_factory=dict)
    """Estimated gains in words, by frame and by what the result depends on."""
    exported: tuple[tuple[Any, ...], Path] | None = None
    """The video that was written last, with what it depends on."""
    finished: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What the page was told about finished revisions."""
    reduced: tuple[Any, Prepared] | None = None
    """The latest reduced copy that was denoised, with what it depends on."""
    overviews: dict[int, Pixels] = field(default_factory=dict)
    """Reduced copies of frames, as shown."""

    def __post_init__(self) -> None:
        self.layer: Layer = self.picture.layers[0]
        self.indices = list(self.layer.frames())
        pixels: Any = self.layer.pixels
        self.clip: ClipFrames | None = pixels if isinstance(pixels, ClipFrames) else None
        """The frames, if this is a video."""
        self.axis, self.together = ("T", "time") if self.clip else sequence_of(self.layer, "auto")
        self.size = height_and_width(self.layer)
        """The height and width as stored."""
        self.low, self.high = black_and_white(self.layer.pixels.dtype, [self._sample()])
        self.revisions[self.wanted.revision] = self.wanted.settings
        self._making = threading.Lock()

    @property
    def waiting(self) -> float:
        """For how many seconds somebody has waited for the whole result."""
        wanted = self.wanted
        if wanted.saving is None or wanted.revision in self.finished:
            return 0.0
        return time.monotonic() - wanted.saving

    @property
    def shown_size(self) -> tuple[int, int]:
        """The height and width as shown."""
        height, width = self.size
        return (width, height) if self.picture.turn >= 5 else (height, width)

    @property
    def only_whole(self) -> bool:
        """Whether no part of the result can be computed without the rest of it."""
        return bool(self.together) or self.raw is not None

    @property
    def in_color(self) -> bool:
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
        return self._bytes(on_disk=False) + self.kept

    @property
    def kept(self) -> int:
        """Bytes of memory for what need not be computed again when the strength is changed."""
        return sum(prepared.nbytes for prepared in self._prepared())

    def forget(self, most: int = 0) -> None:
        """Keep at most this many bytes of that; what was measured first is forgotten first."""
        for prepared in self._prepared():
            if self.kept > most:
                prepared.forget()

    def _prepared(self) -> list[Prepared]:
        known = [*self.glances.copy().values(), *self.measured.copy().values()]
        reduced = [self.reduced[1]] if self.reduced else []
        return [*reduced, *(measured.prepared for measured in known)]

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of pixels that are on the disk, rather than in memory."""
        return self._bytes(on_disk=True)

    def _bytes(self, on_disk: bool) -> int:
        results = list(self.results.values())
        pictures = [self.picture, self.raw, *(result.raw for result in results)]
        held = [(layer.pixels, 1.0) for picture in pictures if picture for layer in picture.layers]
        for result in results:
            is_array = isinstance(result.pixels, np.ndarray)
            held.append((result.pixels, result.done.mean() if is_array else 1.0))
        if self.floats:
            held.append((self.floats[1], 1.0))
        counted = [pair for pair in held if isinstance(pair[0], np.memmap) == on_disk]
        return round(sum(pixels.nbytes * share for pixels, share in counted))

    def planes(self, frame: int, pixels: Pixels | None = None) -> Pixels:
        """Return a frame of the image, or of a result, as a view of (channels, height, width)."""
        image: Pixels = (self.layer.pixels if pixels is None else pixels)[self.indices[frame]]
        axis = self.layer.channel_axis
        return image[None] if axis is None else np.moveaxis(image, axis, 0)

    def measurable(self, frame: int) -> Pixels:
        """Return the planes that the noise of a frame is measured in: its own, those of a mosaic, the luma of a video."""
        if self.raw:
            layer = self.raw.layers[0]
            assert layer.mosaic is not None
            return turned(layer.mosaic.planes(layer.pixels), "CYX", self.raw.turn)
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
        """Return the choice of noise; a rectangle as it is in `measurable`."""
        noise = settings.noise
        if not isinstance(noise, tuple):
            return noise
        x, y, width, height = self.stored(noise)
        return (x // 2, y // 2, width // 2, height // 2) if self.raw else (x, y, width, height)

    def result(self, key: tuple[Any, ...]) -> Result:
        """Return the result of a key, which may be incomplete; threads that ask at the same time get the same one."""
        with self._making:
            result = self.results.get(key)
            if result is None:
                result = self.results[key] = self._new_result()
            return result

    def _new_result(self) -> Result:
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
        if axis is None or self.in_color:
            return []
        count = self.channels
        given = self.picture.channels
        return [
            printable(given[k]) if len(given) == count else words.CHANNEL.format(number=k + 1)
            for k in range(count)
        ]

    def frame_names(self) -> list[str]:
        """Return the numbers of the frames, along each of the axes if there are several."""
        layer = self.layer
        sizes = [
            (axis, size)
            for axis, size in zip(layer.axes, layer.pixels.shape, strict=True)
            if axis not in "YXC" and size > 1
        ]
        if len(sizes) < 2:
            count = len(self.indices)
            return [words.FRAME.format(number=k + 1, count=count) for k in range(count)]
        return [
            ", ".join(
                words.FRAME_OF_AXIS.format(axis=axis, number=k + 1, count=n)
                for (axis, n), k in zip(sizes, place, strict=True)
            )
            for place in np.ndindex(*(size for _, size in sizes))
        ]

    def want(self, **changes: Any) -> Wanted:
        """Change what is wanted. A change of the settings is a new revision."""
        wanted = replace(self.wanted, **changes)
        if wanted.settings != self.wanted.settings:
            wanted = replace(
                wanted, revision=self.wanted.revision + 1, since=time.monotonic(), saving=None
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
        several = len(self.picture.layers) > 1
        return {
            "id": self.id,
            "name": self.name,
            "width": width,
            "height": height,
            "dtype": self.layer.pixels.dtype.name,  # in whatever order of bytes
            "color": self.in_color,
            "channels": self.channel_names(),
            "frames": self.frame_names(),
            "together": self.together,
            "low": self.low,
            "high": self.high,
            "file_type": self.path.suffix[1:].upper(),
            "can_save_beside": self.beside,
            "notes": [
                *self.picture.notes,
                *self._notes_on_axes(),
                *([words.RAW_IS_DEVELOPED] if self.raw else []),
                *([words.SEVERAL_SHAPES] if several else []),
            ],
            "noise": self.noise_described(wanted.view.frame if wanted.view else 0),
            "finished": self.finished.get(wanted.revision),
            "failed": self.failed.get(wanted.revision),
            "settings": wanted.settings.as_json(),
            "revision": wanted.revision,
        }

    def _notes_on_axes(self) -> list[str]:
        if self.axes is None:
            return []
        return [words.AXES_AS_COLORS if "C" in self.axes else words.AXES_AS_STACK]

    def noise_described(self, frame: int) -> dict[str, Any] | None:
        """Return what the page is told about the noise of a frame; None if nothing is known yet."""
        noise = self.wanted.settings.noise
        known = self.measured.get((frame, noise))
        if known is None and not self.raw:  # a glance tells nothing of a raw image
            known = self.glances.get((frame, 0, noise))
        return known.described() if known else None

    def with_words(self, frame: int, measured: Measured) -> Measured:
        """Return what is known of a frame, with how strong its noise is in plain words."""
        noise, level = measured.noise_and_level
        if self.clip:
            plain = plain_words(noise, level, (0.0, self.clip.peak), given=measured.given)
        else:
            picture = self.raw if self.raw and measured.raw else self.picture
            layer = picture.layers[0]
            pixels = layer.pixels if picture is self.raw else self.planes(frame)
            plain = words_for(picture, layer, pixels, noise, level, measured.given)
        return measured._replace(plain=plain)

    def _sample(self) -> Pixels:
        """Return some of the pixels of the first frame."""
        planes = self.planes(0)
        step = max(1, round((planes.size / _SAMPLE) ** 0.5))
        return planes[:, ::step, ::step]


def methods_of(settings: Settings) -> list[str]:
    """Return the methods whose results are shown with these settings."""
    names = [IMPRESSION, settings.method, settings.other]
    return list(dict.fromkeys(name for name in names if name is not None))


def result_key(settings: Settings, method: str, rough: bool = False) -> tuple[Any, ...]:
    """Return what a result depends on; `rough` ones are for a first impression."""
    return method, settings.adjustments, settings.noise, rough


def height_and_width(layer: Layer) -> tuple[int, int]:
    height, width = (layer.pixels.shape[layer.axes.index(axis)] for axis in "YX")
    return height, width
