"""What is done in each stage of the work on an image; see `tasks`."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ... import denoise, to_dtype
from ...files import Picture
from ..jobs.clips import clean_clip
from ..jobs.pictures import clean_picture
from .clips import ClipFrames
from .errors import Cancelled
from .events import Events
from .gallery import Gallery
from .images import IMPRESSION, Opened, Preview, Wanted, result_key
from .messages import Rectangle, Settings
from .opening import as_shown, reading
from .parts import (
    Choice,
    Progress,
    arguments_of,
    denoise_on_disk_together,
    denoised,
    denoised_on_disk,
    glance,
    measure,
    measure_raw,
    noise_arguments,
    with_noise_of,
)
from .results import Result
from .saving import target_of
from .tasks import GAIN, Task, is_wanted, known_of, result_of, whole_of
from .tiles import reduced_part
from .words import REMOVED

_ROWS = 256  # rounded at a time, which takes several times their memory
_SOME = 2**22  # pixels of a large image that what was removed is computed from


def warm_up(method: str, progress: Progress) -> None:
    """Load what a method needs, so that the first image need not wait for it."""
    planes = np.random.default_rng(0).normal(100, 20, (3, 128, 128)).astype(np.uint8)
    denoise(planes, method=method, channel_axis=0, progress=progress)


class Stages:
    """A method for each stage; `progress` is called often, and raises `Cancelled` if the result is no longer wanted."""

    def __init__(self, gallery: Gallery, events: Events) -> None:
        self.gallery, self.events = gallery, events

    def noise(self, task: Task, progress: Progress) -> None:
        image, settings = task.image, task.wanted.settings
        planes, choice = image.measurable(task.frame), image.choice(settings)
        if image.raw:
            developed = glance(image.planes(task.frame), "auto")
            measured = measure_raw(image.raw.layers[0], planes, choice, developed)
        else:
            measured = measure(planes, choice, sampled=image.is_large)
        image.measured[task.frame, settings.noise] = image.with_words(task.frame, measured)
        self._say_noise(task)

    def glance(self, task: Task, progress: Progress) -> None:
        """Estimate the noise from a few pixels."""
        image, settings = task.image, task.wanted.settings
        planes, choice = image.measurable(task.frame), image.choice(settings)
        if image.raw:
            planes, choice = image.planes(task.frame), "auto"
        known = image.with_words(task.frame, glance(planes, choice))
        image.glances[task.frame, 0, settings.noise] = known
        self._say_noise(task)

    def preview(self, task: Task, progress: Progress) -> None:
        """Denoise a reduced copy of what is visible, for a first impression."""
        image, settings = task.image, task.wanted.settings
        planes = reduced_part(
            image, image.layer.pixels, task.frame, task.rectangle, task.level, image.overviews
        )
        key = (task.frame, task.level, settings.noise)
        if key not in image.glances:
            image.glances[key] = glance(planes, self._reduced_choice(task))
        place = (*key, task.rectangle)
        if image.reduced is None or image.reduced[0] != place:
            image.reduced = (place, with_noise_of(planes, image.glances[key].prepared))
        result = denoised(image.reduced[1], settings, IMPRESSION, progress)
        rough = result_key(settings, IMPRESSION, True)
        image.preview = Preview(rough, task.frame, task.level, task.rectangle, result)
        self._say_tiles(task, task.rectangle, "fast")

    def _reduced_choice(self, task: Task) -> Choice:
        """Return the choice of noise for an image that is reduced.

        Testing noise for correlation is slow. Until it has been measured, noise is assumed to be white, which is
        nearly true of a reduced image.
        """
        image, settings = task.image, task.wanted.settings
        if not (image.raw or isinstance(settings.noise, str)):
            given = noise_arguments(image.measurable(task.frame), image.choice(settings))["sigma"]
            return float(np.sqrt(np.mean(np.square(given)))) * 0.5**task.level  # white noise
        if settings.noise != "auto" and not image.raw:
            return settings.noise
        known = known_of(image, task.frame, settings.noise)
        if known is None:
            return "gaussian"
        return "auto" if known.kind == "correlated" else known.kind

    def quick(self, task: Task, progress: Progress) -> None:
        """Denoise what is visible, for a first impression: quickly, or without the frames around it."""
        image, settings = task.image, task.wanted.settings
        result = result_of(image, task.wanted, task.method, rough=True)
        if image.clip:
            noise = noise_arguments(image.measurable(task.frame), image.choice(settings))
            shown = image.clip.denoised(task.frame, settings, noise, task.method, progress)
            self._put(task, result, np.moveaxis(shown, -1, 0))
            self._say_tiles(task, task.rectangle, "fast")
            return
        measured = known_of(image, task.frame, settings.noise)
        assert measured is not None
        pixels = denoised(measured.prepared, settings, task.method, progress, task.rectangle)
        self._put(task, result, pixels)
        self._say_tiles(task, image.seen(task.rectangle), "fast")

    def visible(self, task: Task, progress: Progress) -> None:
        """Denoise exactly."""
        image, settings = task.image, task.wanted.settings
        prepared, method = image.measured[task.frame, settings.noise].prepared, task.method
        result = result_of(image, task.wanted, method)
        if task.rectangle != whole_of(image):
            pixels = denoised(prepared, settings, method, progress, task.rectangle)
        elif image.is_large:
            planes = image.planes(task.frame)
            pixels = denoised_on_disk(
                planes, prepared.noise, settings, method, image.folder, progress
            )
        else:
            pixels = denoised(prepared, settings, method, progress)
            if pixels.size <= GAIN:
                image.floats = ((task.frame, result_key(settings, method)), pixels)
        if not is_wanted(task, self.gallery):
            raise Cancelled
        self._put(task, result, pixels)
        self._say_tiles(task, image.seen(task.rectangle), "exact")
        self.gallery.keep_within_bounds(image)

    whole = visible

    def together(self, task: Task, progress: Progress) -> None:
        """Denoise what can only be denoised as a whole: frames that belong together, or a raw image."""
        image = task.image
        settings = replace(task.wanted.settings, method=task.method)
        if image.raw:
            self._develop(task, image.raw, settings, progress)
            return
        arguments = arguments_of(image.planes(0), settings, image.choice(settings))
        result = result_of(image, task.wanted, task.method)
        if isinstance(image.layer.pixels, np.memmap):
            denoise_on_disk_together(
                image.layer,
                image.axis,
                image.together,
                result.pixels,
                image.folder,
                arguments,
                progress,
            )
        else:
            after, _ = clean_picture(
                image.single(image.layer.pixels),
                lambda share: progress(round(1000 * share), 1000),
                "auto",
                **arguments,
            )
            result.pixels[...] = after.layers[0].pixels
        for frame in range(len(image.indices)):
            result.mark(frame, whole_of(image))
        for frame in range(len(image.indices)):
            self._say_tiles(task, image.seen(whole_of(image)), "exact", frame)

    def _develop(self, task: Task, raw: Picture, settings: Settings, progress: Progress) -> None:
        """Denoise a raw image, and develop it for the screen as it was developed before."""
        image = task.image
        arguments = arguments_of(image.measurable(0), settings, image.choice(settings))
        after, details = clean_picture(
            raw, lambda share: progress(round(1000 * share), 1000), "auto", **arguments
        )
        result = result_of(image, task.wanted, task.method)
        result.raw, result.details = after, details[0]
        with reading:
            result.pixels[...] = as_shown(after).layers[0].pixels
        result.mark(0, whole_of(image))
        self._say_tiles(task, whole_of(image), "exact")

    def export(self, task: Task, progress: Progress) -> None:
        """Denoise a whole video into a file."""
        image, settings = task.image, task.wanted.settings
        target = image.folder / "denoised" / target_of(image.path).name
        given = arguments_of(image.measurable(0), settings, image.choice(settings))
        made = clean_clip(
            image.path,
            target,
            overwrite=True,
            frames="auto",
            codec=None,
            quality=None,
            progress=lambda share, speed: progress(round(1000 * share), 1000),
            **{"sigma": None, "noise": None, **given},
        )
        key = result_key(settings, task.method)
        image.exported = (key, target)
        frames: Any = ClipFrames(target)
        image.results[key] = Result(frames, len(image.indices), *image.size)
        image.results[key].done[:] = True
        for frame in range(len(image.indices)):
            self._say_tiles(task, whole_of(image), "exact", frame)
        self._say_finished(image, task.wanted, REMOVED.format(removed=made.removed))

    def finish(self, task: Task, progress: Progress) -> None:
        """Say what was removed."""
        image, wanted = task.image, task.wanted
        settings = wanted.settings
        result = result_of(image, wanted, settings.method)
        if result.details:
            self._say_finished(image, wanted, result.details.describe_removed())
            return
        prepared = image.measured[task.frame, settings.noise].prepared
        after = image.planes(task.frame, result.pixels)
        if image.is_large:  # some of the rows suffice
            planes = image.planes(task.frame)
            step = -(-planes[0].size // _SOME)
            prepared, after = with_noise_of(planes[:, ::step], prepared), after[:, ::step]
        floats = after if after.dtype.kind == "f" else after.astype(np.float32)
        summary = prepared.summary(floats, method="fast", **settings.arguments)
        self._say_finished(image, wanted, summary.describe_removed())

    def gain(self, task: Task, progress: Progress) -> None:
        """Estimate how much better the result is."""
        image, settings = task.image, task.wanted.settings
        key = (task.frame, result_key(settings, task.method))
        if key not in image.gains:
            image.gains[key] = self._estimated_gain(task, key, progress)
        gain = image.finished[task.wanted.revision]["gain"] = image.gains[key]
        self.say("gain", image, task.wanted.revision, gain=gain)

    def _estimated_gain(self, task: Task, key: Any, progress: Progress) -> str:
        """Return the gain in words; an empty string if the noise is no basis for an estimate."""
        image, settings = task.image, task.wanted.settings
        prepared = image.measured[task.frame, settings.noise].prepared
        if image.floats is None or image.floats[0] != key:  # only rounded pixels were kept
            image.floats = (key, denoised(prepared, settings, task.method, progress))
        how: dict[str, Any] = {"method": task.method, "progress": progress, **settings.arguments}
        try:
            return prepared.quality(denoised=image.floats[1], **how).describe_gain()
        except ValueError:
            return ""

    def _say_finished(self, image: Opened, wanted: Wanted, removed: str) -> None:
        seconds = round(time.monotonic() - wanted.since, 3)
        said: dict[str, Any] = {"removed": removed, "gain": None, "seconds": seconds}
        image.finished[wanted.revision] = said
        self.say("done", image, wanted.revision, **said)

    def _put(self, task: Task, result: Result, pixels: Any) -> None:
        """Store pixels as they will be saved."""
        left, top, width, height = task.rectangle
        stored = task.image.planes(task.frame, result.pixels)
        part = stored[:, top : top + height, left : left + width]
        for row in range(0, height, _ROWS):
            some = slice(row, row + _ROWS)
            part[:, some] = to_dtype(pixels[:, some], part.dtype)
        result.mark(task.frame, task.rectangle)

    def say(self, kind: str, image: Opened, revision: int, **facts: Any) -> None:
        self.events.publish(type=kind, image=image.id, revision=revision, **facts)

    def _say_noise(self, task: Task) -> None:
        image = task.image
        noise = image.noise_described(task.frame)
        self.events.publish(type="noise", image=image.id, frame=task.frame, noise=noise)

    def _say_tiles(
        self, task: Task, rectangle: Rectangle, state: str, frame: int | None = None
    ) -> None:
        """Tell the page that a rectangle, as shown, has new pixels."""
        frame = task.frame if frame is None else frame
        revision = task.image.wanted.revision
        facts = {"frame": frame, "rectangle": rectangle, "state": state}
        self.say("tiles", task.image, revision, **facts)
