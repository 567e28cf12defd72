"""The work: one thread that always does what is most urgent, and drops what nobody wants any more.

There is no queue. What is to be done next follows from what the page wants at the moment (`Opened.wanted`) and from what
has been done. Work on what is visible interrupts work on a whole image, which continues afterwards. The noise is
measured in a thread of its own, since that cannot be interrupted.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..api.details import removed_in_words, summary_of
from ..api.quality import gain_in_words, quality_of
from ..jobs.batch import clean_picture, with_exact_floats
from ..jobs.clips import clean_clip
from ..kernels.compile import announcing
from .clips import ClipFrames
from .errors import Cancelled, in_one_sentence
from .events import Events
from .images import Gallery, Opened, Preview, Wanted, methods_of, result_key
from .limits import Limits
from .messages import Rectangle, View
from .parts import (
    arguments_of,
    as_saved,
    denoise_on_disk_together,
    denoised,
    denoised_on_disk,
    glance,
    measure,
    noise_arguments,
    planned,
)
from .results import SIDE, Result, snapped
from .saving import target_of
from .tiles import reduced_part

_EVERY = 0.1  # seconds between reports of progress
_SMALL = 2**19  # pixels of a frame whose noise is measured at once
_GAIN = 3 * 2**22  # numbers in the largest image whose gain is estimated, which takes another run
_AT_ONCE = 2**21  # pixels that are denoised for a view; larger views are denoised reduced


@dataclass(frozen=True)
class Task:
    """One thing to do for an image."""

    stage: str
    """One of `STAGES`."""
    image: Opened
    wanted: Wanted
    frame: int
    method: str = ""
    rectangle: Rectangle = (0, 0, 0, 0)
    """What to denoise, as stored; as shown for "preview"."""

    @property
    def is_urgent(self) -> bool:
        return self.stage in URGENT or self.wanted.saving


URGENT = ("glance", "preview", "quick", "visible")
"""Stages of work on what is visible."""
STAGES = (*URGENT, "noise", "whole", "together", "export", "finish", "gain")


class Worker:
    """The threads that measure and denoise."""

    def __init__(self, gallery: Gallery, events: Events, limits: Limits) -> None:
        self.gallery, self.events, self.limits = gallery, events, limits
        self.background: Callable[[Callable[[], None]], bool] = lambda interrupt: False
        """Does some work that is less urgent than all images, and returns whether there was any."""
        self._changed = threading.Condition()
        self._version = self._looked = 0
        self._closing = False
        self._threads = [
            threading.Thread(target=self._loop, args=(find,), name=f"nlridge {name}", daemon=True)
            for name, find in (("studio", self._step), ("noise", self._measure_next))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def changed(self) -> None:
        """Something else may be wanted now."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop soon, and wait for it."""
        self._closing = True
        self.changed()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(2)

    def _loop(self, step: Callable[[], bool]) -> None:
        while not self._closing:
            version = self._version
            if not step():
                with self._changed:
                    self._changed.wait_for(lambda: self._version != version, 60)  # noqa: B023

    def _step(self) -> bool:
        """Do the next thing, and return whether there was any."""
        task = self._next(lambda task: task.stage != "noise")
        if task is None:
            return self.background(self._interrupt)
        self._do(task)
        return True

    def _measure_next(self) -> bool:
        task = self._next(lambda task: task.stage == "noise")
        if task is not None:
            self._do(task)
            self.changed()
        return task is not None

    def _next(self, fits: Callable[[Task], bool], most: int | None = None) -> Task | None:
        """Return what to do next, for the images that were used last."""
        for image in self.gallery.by_use()[:most]:
            task = next(filter(fits, tasks(image, self.limits)), None)
            if task is not None:
                return task
        return None

    def _interrupt(self) -> None:
        """Do what has become urgent; called while something less urgent is under way."""
        if self._closing:
            raise Cancelled
        if self._version == self._looked:
            return
        self._looked = self._version
        while (
            not self._closing and (task := self._next(lambda task: task.is_urgent, 1)) is not None
        ):
            if task.stage == "noise":
                return  # the other thread is at it
            self._do(task)
        if self._closing:
            raise Cancelled

    def _do(self, task: Task) -> None:
        image = task.image
        try:
            with announcing(lambda: self._say_progress(task, 0.0, "compiling for this CPU, once")):
                getattr(self, f"_{task.stage}")(task)
        except Cancelled:
            pass
        except Exception as error:
            sentence = in_one_sentence(error, image.path, image.name)
            image.failed[task.wanted.revision] = sentence
            self._say("failed", image, task.wanted.revision, error=sentence)

    def _noise(self, task: Task) -> None:
        image, settings = task.image, task.wanted.settings
        planes = image.measurable(task.frame)
        measured = measure(planes, image.choice(settings), sampled=image.is_large)
        image.measured[task.frame, settings.noise] = measured
        self.events.publish(
            type="noise", image=image.id, frame=task.frame, noise=measured.described()
        )

    def _glance(self, task: Task) -> None:
        image, settings = task.image, task.wanted.settings
        measured = glance(image.measurable(task.frame), image.choice(settings))
        image.glances[task.frame, 0, settings.noise] = measured
        self.events.publish(
            type="noise", image=image.id, frame=task.frame, noise=measured.described()
        )

    def _preview(self, task: Task) -> None:
        """Denoise a reduced copy of what is visible, for a first impression."""
        image, settings = task.image, task.wanted.settings
        view = task.wanted.view
        assert view is not None
        planes = reduced_part(
            image, image.layer.pixels, task.frame, task.rectangle, view.level, image.overviews
        )
        key = (task.frame, view.level, settings.noise)
        if key not in image.glances:
            choice = settings.noise
            if not isinstance(choice, str):  # white noise
                level = image.glances[task.frame, 0, settings.noise].level
                choice = level / 2**view.level
            image.glances[key] = glance(planes, choice)
        frame = planned(planes, image.glances[key], settings, "fast")
        result = denoised(frame, self._progress(task))
        rough = result_key(settings, "fast", True)
        image.preview = Preview(rough, task.frame, view.level, task.rectangle, result)
        self._say_tiles(task, task.rectangle, "fast")

    def _quick(self, task: Task) -> None:
        """Denoise what is visible, for a first impression: quickly, or without the frames around it."""
        image, settings = task.image, task.wanted.settings
        result = result_of(image, task.wanted, task.method, rough=True)
        if image.clip:
            noise = noise_arguments(image.measurable(task.frame), image.choice(settings))
            progress = self._progress(task)
            shown = image.clip.denoised(task.frame, settings, noise, task.method, progress)
            self._put(task, result, np.moveaxis(shown, -1, 0))
            self._say_tiles(task, task.rectangle, "fast")
            return
        planes = image.planes(task.frame)
        measured = known_of(image, task.frame, settings.noise)
        assert measured is not None
        frame = planned(planes, measured, settings, task.method)
        pixels = denoised(frame, self._progress(task), task.rectangle)
        self._put(task, result, pixels)
        self._say_tiles(task, image.seen(task.rectangle), "fast")

    def _visible(self, task: Task) -> None:
        """Denoise exactly."""
        image, settings = task.image, task.wanted.settings
        planes = image.planes(task.frame)
        measured = image.measured[task.frame, settings.noise]
        result = result_of(image, task.wanted, task.method)
        frame = planned(planes, measured, settings, task.method)
        progress = self._progress(task)
        if task.rectangle != whole_of(image):
            pixels = denoised(frame, progress, task.rectangle)
        elif image.is_large:
            pixels = denoised_on_disk(planes, frame, settings, task.method, image.folder, progress)
        else:
            pixels = denoised(frame, progress)
            if pixels.size <= _GAIN:
                image.floats = ((task.frame, result_key(settings, task.method)), pixels)
        self._check(task)
        self._put(task, result, pixels)
        self._say_tiles(task, image.seen(task.rectangle), "exact")
        self.gallery.keep_within_bounds(image)

    _whole = _visible

    def _together(self, task: Task) -> None:
        """Denoise all frames that belong together."""
        image, settings = task.image, task.wanted.settings
        progress = self._progress(task)
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

    def _export(self, task: Task) -> None:
        """Denoise a whole video into a file."""
        image, settings = task.image, task.wanted.settings
        progress = self._progress(task)
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
        self._say_finished(image, task.wanted, f"{made.removed:.3g} (rms)")

    def _finish(self, task: Task) -> None:
        """Say what was removed."""
        image, wanted = task.image, task.wanted
        settings = wanted.settings
        planes = image.planes(task.frame)
        after = image.planes(task.frame, result_of(image, wanted, settings.method).pixels)
        if image.is_large:  # some of the rows suffice
            step = -(-planes[0].size // self.limits.in_memory)
            planes, after = planes[:, ::step], after[:, ::step]
        frame = planned(planes, image.measured[task.frame, settings.noise], settings, "fast")
        floats = after if after.dtype.kind == "f" else after.astype(np.float32)
        given = image.measured[task.frame, settings.noise].given
        self._say_finished(image, wanted, removed_in_words(summary_of(frame, floats, given), str))

    def _gain(self, task: Task) -> None:
        """Estimate how much better the result is."""
        image, settings = task.image, task.wanted.settings
        said = image.finished[task.wanted.revision]
        said["gain"] = ""  # once is enough
        assert image.floats is not None
        planes, floats = with_exact_floats(image.planes(task.frame)), image.floats[1]
        measured = image.measured[task.frame, settings.noise]
        frame = planned(planes, measured, settings, task.method)
        details = replace(
            summary_of(frame, floats, measured.given), image=floats, residual=planes - floats
        )
        progress = self._progress(task)
        with suppress(ValueError):  # noise that is no basis for an estimate
            quality = quality_of(
                planes,
                details,
                channel_axis=0,
                strength=settings.strength,
                colour=settings.colour,
                progress=progress,
            )
            said["gain"] = gain_in_words(quality)
            self._say("gain", image, task.wanted.revision, gain=said["gain"])

    def _say_finished(self, image: Opened, wanted: Wanted, removed: str) -> None:
        seconds = round(time.monotonic() - wanted.since, 3)
        said: dict[str, Any] = {"removed": removed, "gain": None, "seconds": seconds}
        image.finished[wanted.revision] = said
        self._say("done", image, wanted.revision, **said)

    def _put(self, task: Task, result: Result, pixels: Any) -> None:
        """Store pixels as they will be saved."""
        left, top, width, height = task.rectangle
        stored = task.image.planes(task.frame, result.pixels)
        part = stored[:, top : top + height, left : left + width]
        part[...] = as_saved(pixels, part.dtype)
        result.mark(task.frame, task.rectangle)

    def _progress(self, task: Task) -> Callable[[int, int], None]:
        """Return a function that reports progress, does what is more urgent, and raises if the task is out of date."""
        seen, said = self._version, time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal seen, said
            if self._closing:
                raise Cancelled
            if self._version != seen:
                seen = self._version
                self._check(task)
                if task.stage not in URGENT:
                    self._interrupt()
                    self._check(task)
            if time.monotonic() - said > _EVERY:
                said = time.monotonic()
                self._say_progress(task, done / total)

        return progress

    def _check(self, task: Task) -> None:
        """Raise if the result of a task is not wanted any more."""
        if self._closing or not is_wanted(task, self.gallery):
            raise Cancelled
        first = self.gallery.by_use()[0]
        if not task.is_urgent and first is not task.image:
            others = tasks(first, self.limits)
            if any(other.stage != "noise" for other in others):
                raise Cancelled  # the page has turned to another image

    def _say(self, kind: str, image: Opened, revision: int, **facts: Any) -> None:
        self.events.publish(type=kind, image=image.id, revision=revision, **facts)

    def _say_progress(self, task: Task, done: float, words: str = "") -> None:
        doing = f"denoising with {task.method}" if task.method else "estimating the noise"
        stage = "visible" if task.stage in URGENT else "whole"
        revision = task.image.wanted.revision
        facts = {"stage": stage, "done": round(done, 3), "words": words or doing}
        self._say("progress", task.image, revision, **facts)

    def _say_tiles(
        self, task: Task, rectangle: Rectangle, state: str, frame: int | None = None
    ) -> None:
        """Tell the page that a rectangle, as shown, has new pixels."""
        frame = task.frame if frame is None else frame
        revision = task.image.wanted.revision
        facts = {"frame": frame, "rectangle": rectangle, "state": state}
        self._say("tiles", task.image, revision, **facts)


def tasks(image: Opened, limits: Limits) -> Iterator[Task]:
    """Yield what is left to do for an image, the most urgent first."""
    wanted = image.wanted
    settings, view = wanted.settings, wanted.view
    if wanted.revision in image.failed:
        return
    frame = view.frame if view else 0
    measured = image.measured.get((frame, settings.noise))
    if measured is None:
        yield Task("noise", image, wanted, frame)
    if view:
        yield from _first_impression(image, wanted)
    if measured is None:
        return
    whole = whole_of(image)
    chosen = result_of(image, wanted, settings.method)
    others = [settings.other] if settings.other and view and not image.together else []
    if view and not image.together:
        for name in [settings.method, *others]:
            part = _missing(image, result_of(image, wanted, name), view)
            if part:
                yield Task("visible", image, wanted, frame, name, part)
    if image.clip:
        if wanted.saving and wanted.revision not in image.finished:
            yield Task("export", image, wanted, frame, settings.method)
        return
    if (view or wanted.saving) and not chosen.is_complete:
        if image.together:
            yield Task("together", image, wanted, frame, settings.method)
            return
        for k in [frame, *range(len(image.indices))]:
            if not chosen.covers(k, whole):
                if (k, settings.noise) not in image.measured:
                    yield Task("noise", image, wanted, k)
                    return
                yield Task("whole", image, wanted, k, settings.method, whole)
    for name in others:
        if not result_of(image, wanted, name).covers(frame, whole):
            yield Task("whole", image, wanted, frame, name, whole)
    if chosen.is_complete and wanted.revision not in image.finished:
        yield Task("finish", image, wanted, frame)
    said = image.finished.get(wanted.revision)
    key = (frame, result_key(settings, settings.method))
    if said and said["gain"] is None and image.floats and image.floats[0] == key:
        yield Task("gain", image, wanted, frame, settings.method)


def _missing(image: Opened, result: Result, view: View) -> Rectangle | None:
    """Return what is missing in a view, as stored; None if nothing is, or if it is so much that it has to wait."""
    part = result.missing(view.frame, image.stored(view.rectangle), image.size)
    if part is None or (part[2] * part[3] > _AT_ONCE and view.level):
        return None
    # What a part depends on is larger than the part.
    return whole_of(image) if math.prod(image.size) <= _SMALL else part


def _first_impression(image: Opened, wanted: Wanted) -> Iterator[Task]:
    """Yield what is to be done for a view, unless something better has been done."""
    settings, view = wanted.settings, wanted.view
    assert view is not None
    frame, part = view.frame, image.stored(view.rectangle)
    if known_of(image, frame, settings.noise) is None:
        if math.prod(image.size) > _SMALL:
            yield Task("glance", image, wanted, frame)
        return
    is_measured = (frame, settings.noise) in image.measured
    exact_soon = settings.method == "fast" and is_measured and not image.together
    if exact_soon or result_of(image, wanted, settings.method).covers(frame, part):
        return
    names = list(dict.fromkeys(("fast", settings.method) if image.together else ("fast",)))
    cells = snapped(part, image.size)
    if cells[2] * cells[3] > _AT_ONCE and view.level:
        if (frame, 0, settings.noise) not in image.glances:
            yield Task("glance", image, wanted, frame)
        elif not (image.preview and image.preview.covers(result_key(settings, "fast", True), view)):
            part = snapped(view.rectangle, image.shown_size, SIDE << view.level)
            yield Task("preview", image, wanted, frame, "fast", part)
        return
    for k, name in enumerate(names):
        if any(result_of(image, wanted, n, rough=True).covers(frame, part) for n in names[k:]):
            continue
        yield Task("quick", image, wanted, frame, name, cells)


def known_of(image: Opened, frame: int, noise: Any) -> Any:
    """Return what is known of a frame, or at least a first estimate; None if nothing is."""
    return image.measured.get((frame, noise)) or image.glances.get((frame, 0, noise))


def whole_of(image: Opened) -> Rectangle:
    height, width = image.size
    return 0, 0, width, height


def result_of(image: Opened, wanted: Wanted, method: str, rough: bool = False) -> Result:
    """Return the result with a method, which may be incomplete."""
    key = result_key(wanted.settings, method, rough)
    result = image.results.get(key)
    if result is None:
        result = image.results[key] = image.new_result()
    return result


def is_wanted(task: Task, gallery: Gallery) -> bool:
    """Return whether the page still wants the result of a task."""
    image = task.image
    settings, view = image.wanted.settings, image.wanted.view
    if gallery.get(image.id) is not image:
        return False
    if task.stage in ("noise", "glance"):
        return settings.noise == task.wanted.settings.noise
    key = result_key(task.wanted.settings, task.method)
    if key not in [result_key(settings, name) for name in methods_of(settings)]:
        return False
    return task.stage not in URGENT or view is None or view.frame == task.frame
