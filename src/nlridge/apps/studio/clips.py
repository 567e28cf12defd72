"""Video files: frames are decoded when they are looked at, and each of them is denoised alone until the clip is saved."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ... import denoise, estimate_noise
from ...files.video import open_clip
from ...files.video.pixels import Images, Parts, as_shown, images_of, parts_of, planar, put_images
from ...types import Pixels
from ..jobs.frames import adjustments_of, sigma_of
from .messages import Settings

_KEPT = 8  # frames that are kept in memory
_MOST = 100_000  # frames to choose from


class _Decoded(NamedTuple):
    frame: Any
    parts: Parts
    images: Images
    shown: Pixels


class FewFrames:
    """Pixels of (frames, height, width, 3), of which only the frames that were used last are in memory."""

    dtype = np.dtype(np.uint8)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.forget: Callable[[int], None] = lambda number: None
        """Is called with the number of a frame that is no longer in memory."""
        self._frames: OrderedDict[int, Pixels] = OrderedDict()

    @property
    def nbytes(self) -> int:
        return sum(frame.nbytes for frame in list(self._frames.values()))

    def __getitem__(self, index: tuple[Any, ...]) -> Pixels:
        number = index[0]
        if number not in self._frames:
            self._frames[number] = np.zeros(self.shape[1:], self.dtype)
            if len(self._frames) > _KEPT:
                self.forget(self._frames.popitem(last=False)[0])
        self._frames.move_to_end(number)
        frame: Pixels = self._frames[number][index[1:]]
        return frame


class ClipFrames:
    """The frames of a video file as they are shown, of (frames, height, width, 3), decoded when they are indexed."""

    dtype = np.dtype(np.uint8)
    nbytes = 0

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._kept: OrderedDict[int, _Decoded] = OrderedDict()
        self._noises: dict[Any, list[Any]] = {}
        self._open = ExitStack()
        self._frames: Iterator[Any] = iter(())
        self._next = 0
        count = self._rewind()
        first = self._decoded(0)
        self.shape = (min(count or 1, _MOST), *first.shown.shape)
        self.peak = first.parts.peak
        """The largest value of a pixel of a part of a frame."""

    def __getitem__(self, index: tuple[Any, ...]) -> Pixels:
        frame: Pixels = self._decoded(index[0]).shown[index[1:]]
        return frame

    def close(self) -> None:
        with self._lock:
            self._open.close()

    def luma(self, number: int) -> Pixels:
        """Return the first part of a frame as (channels, height, width), upright: its luma, its gray or its colors."""
        decoded = self._decoded(number)
        image = decoded.images[0]
        planes = image if image.ndim == 3 else image[None]
        return np.rot90(planes, round(decoded.frame.rotation / 90), axes=(1, 2))

    def denoised(
        self,
        number: int,
        settings: Settings,
        arguments: dict[str, Any],
        method: str,
        progress: Callable[[int, int], object],
    ) -> Pixels:
        """Return a frame, denoised without the others, as it is shown; `arguments` name the noise."""
        decoded = self._decoded(number)
        parts, images = decoded.parts, decoded.images
        axes = [0 if image.ndim == 3 else None for image in images]
        key = (number, settings.noise)
        if key not in self._noises:
            sigma, kind = arguments.get("sigma"), arguments.get("noise", "auto")
            self._noises[key] = [
                {"noise": estimate_noise(image, channel_axis=axis, kind=kind)}
                if sigma is None
                else {"sigma": sigma_of(sigma, parts, k)}
                for k, (image, axis) in enumerate(zip(images, axes, strict=True))
            ]
        results = tuple(
            denoise(
                image,
                **noise,
                method=method,
                **adjustments_of(settings.arguments, parts, k),
                channel_axis=axis,
                data_range=parts.peak,
                progress=progress,
            )
            for k, (image, axis, noise) in enumerate(
                zip(images, axes, self._noises[key], strict=True)
            )
        )
        with self._lock:
            put_images(decoded.frame, parts, results)
            shown = as_shown(decoded.frame)
            put_images(decoded.frame, parts, images)  # as it was
        return shown

    def _decoded(self, number: int) -> _Decoded:
        with self._lock:
            if number not in self._kept:
                frame = planar(self._read(number))
                parts = parts_of(frame)
                images = images_of(frame, parts)
                self._kept[number] = _Decoded(frame, parts, images, as_shown(frame))
                if len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(number)
            return self._kept[number]

    def _read(self, number: int) -> Any:
        """Decode a frame; the last one if there are not as many as the header claims."""
        if number < self._next:
            self._rewind()
        frame = None
        for frame in self._frames:
            self._next += 1
            if self._next > number:
                return frame
        if frame is None:
            self._rewind()
            *_, frame = self._frames
        return frame

    def _rewind(self) -> int | None:
        """Begin with the first frame; returns the number of frames according to the header."""
        self._open.close()
        self._open = ExitStack()
        clip = self._open.enter_context(open_clip(self.path))
        self._frames, self._next = clip.frames(), 0
        return clip.count
