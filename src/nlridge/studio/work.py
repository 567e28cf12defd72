"""The work: one thread that always does what is most urgent, and drops what nobody wants any more.

There is no queue. What is to be done next follows from what the page wants at the moment (`Opened.wanted`) and from what
has been done: first the noise, then the visible part with the fast method, then with the chosen one, then the whole.
Work on what is visible interrupts work on a whole image, which continues afterwards.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..api.details import removed_in_words
from ..jobs.batch import clean_picture
from ..kernels.compile import announcing
from .errors import in_one_sentence
from .events import Events
from .images import Gallery, Opened, Wanted, methods_of, result_key
from .limits import Limits
from .messages import Rectangle
from .parts import arguments_of, as_saved, denoised, measure, planned, summary
from .results import Result

_EVERY = 0.1  # seconds between reports of progress


class Cancelled(Exception):
    """Nobody wants the result any more."""


@dataclass(frozen=True)
class Task:
    """One thing to do for an image."""

    stage: str
    """ "noise", "visible", "whole", "together" or "finish"."""
    image: Opened
    wanted: Wanted
    method: str = ""
    frame: int = 0
    rectangle: Rectangle = (0, 0, 0, 0)
    """What to denoise, as stored."""
    alone: bool = False
    """Whether the frame belongs with others, and is denoised alone for the time being."""

    @property
    def is_urgent(self) -> bool:
        return self.stage in ("noise", "visible")


class Worker:
    """The thread that denoises."""

    def __init__(self, gallery: Gallery, events: Events, limits: Limits) -> None:
        self.gallery, self.events, self.limits = gallery, events, limits
        self.background: Callable[[Callable[[], None]], bool] = lambda check: False
        """Does some work that is less urgent than all images, and returns whether there was any."""
        self._changed = threading.Condition()
        self._version = 0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="nlridge studio", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def changed(self) -> None:
        """Something else may be wanted now."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop at once, and wait for the thread to end."""
        self._closing = True
        self.changed()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._closing:
            version = self._version
            task = self._next()
            if task is not None:
                self._do(task)
            elif not self._in_background():
                with self._changed:
                    self._changed.wait_for(lambda: self._version != version or self._closing, 60)  # noqa: B023

    def _in_background(self) -> bool:
        return self.background(self._interrupt)

    def _next(self, urgent: bool = False) -> Task | None:
        """Return what to do next; if `urgent`, only for the image that was used last, and only what is visible."""
        for image in self.gallery.by_use()[: 1 if urgent else None]:
            task = next(tasks(image), None)
            if task is not None and (task.is_urgent or not urgent):
                return task
        return None

    def _interrupt(self) -> None:
        """Do what has become urgent in the meantime; called while something less urgent is under way."""
        if self._closing:
            raise Cancelled
        while (task := self._next(urgent=True)) is not None and not self._closing:
            self._do(task)

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
            self.events.publish(
                type="failed", image=image.id, revision=task.wanted.revision, error=sentence
            )

    def _noise(self, task: Task) -> None:
        image, choice = task.image, task.wanted.settings.noise
        where = image.stored(choice) if isinstance(choice, tuple) else choice
        measured = measure(image.planes(task.frame), where)
        image.measured[task.frame, choice] = measured
        self.events.publish(type="noise", image=image.id, noise=measured.described())

    def _visible(self, task: Task) -> None:
        image, settings = task.image, task.wanted.settings
        planes = image.planes(task.frame)
        measured = image.measured[task.frame, settings.noise]
        result = result_of(image, task.wanted, task.method, task.alone)
        frame = planned(planes, measured, settings, task.method)
        pixels = denoised(frame, self._progress(task))
        self._check(task)
        image.planes(task.frame, result.pixels)[...] = as_saved(pixels, planes.dtype)
        self._say_tiles(task, result, (0, 0, planes.shape[2], planes.shape[1]))
        self.gallery.keep_within_bounds(image)

    _whole = _visible

    def _together(self, task: Task) -> None:
        """Denoise all frames of sequences together."""
        image, settings = task.image, task.wanted.settings
        progress = self._progress(task)
        after, _ = clean_picture(
            image.single(image.layer.pixels),
            lambda share: progress(round(1000 * share), 1000),
            "auto",
            **arguments_of(image.planes(0), settings, image.stored),
        )
        result = result_of(image, task.wanted, task.method)
        result.pixels[...] = after.layers[0].pixels
        height, width = image.size
        for frame in range(len(image.indices)):
            result.mark(frame, (0, 0, width, height))
        for frame in range(len(image.indices)):
            self._say_tiles(task, result, (0, 0, width, height), frame)

    def _finish(self, task: Task) -> None:
        """Say what was removed."""
        image, wanted = task.image, task.wanted
        planes = image.planes(task.frame)
        measured = image.measured[task.frame, wanted.settings.noise]
        frame = planned(planes, measured, wanted.settings, wanted.settings.method)
        result = result_of(image, wanted, wanted.settings.method)
        float_type = planes.dtype if planes.dtype.kind == "f" else np.dtype(np.float32)
        details = summary(
            frame, image.planes(task.frame, result.pixels).astype(float_type), measured
        )
        said = {
            "removed": removed_in_words(details, str),
            "gain": None,
            "seconds": round(time.monotonic() - wanted.since, 3),
        }
        image.finished[wanted.revision] = said
        self.events.publish(type="done", image=image.id, revision=wanted.revision, **said)

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
                if not task.is_urgent:
                    self._interrupt()
                    self._check(task)
            if time.monotonic() - said > _EVERY:
                said = time.monotonic()
                self._say_progress(task, done / total)

        return progress

    def _check(self, task: Task) -> None:
        """Raise if the result of a task is not wanted any more."""
        if self._closing or not _is_wanted(task, self.gallery):
            raise Cancelled
        first = self.gallery.by_use()[0]
        if not task.is_urgent and first is not task.image and next(tasks(first), None) is not None:
            raise Cancelled  # the page has turned to another image

    def _say_progress(self, task: Task, done: float, words: str = "") -> None:
        stage = "visible" if task.is_urgent else "whole"
        self.events.publish(
            type="progress",
            image=task.image.id,
            revision=task.image.wanted.revision,
            stage=stage,
            done=round(done, 3),
            words=words or f"denoising with {task.method}"
            if task.method
            else "estimating the noise",
        )

    def _say_tiles(
        self, task: Task, result: Result, rectangle: Rectangle, frame: int | None = None
    ) -> None:
        """Mark a rectangle as done, and tell the page."""
        image = task.image
        frame = task.frame if frame is None else frame
        result.mark(frame, rectangle)
        settings = image.wanted.settings
        exact = task.method in (settings.method, settings.other) and not task.alone
        self.events.publish(
            type="tiles",
            image=image.id,
            revision=image.wanted.revision,
            frame=frame,
            rectangle=image.seen(rectangle),
            state="exact" if exact else "fast",
        )


def tasks(image: Opened) -> Iterator[Task]:
    """Yield what is left to do for an image, the most urgent first."""
    wanted = image.wanted
    settings, view = wanted.settings, wanted.view
    if wanted.revision in image.failed:
        return
    frame = view.frame if view else 0
    if (frame, settings.noise) not in image.measured:
        yield Task("noise", image, wanted, frame=frame)
        return
    whole = (0, 0, image.size[1], image.size[0])
    alone = bool(image.together)
    chosen = result_of(image, wanted, settings.method)
    if view:
        part = image.stored(view.rectangle)
        for name in methods_of(settings):
            result = result_of(image, wanted, name, alone)
            for better in (chosen, result_of(image, wanted, settings.method, alone)):
                if name == "fast" and better.covers(frame, part):
                    break
            else:
                if not result.covers(frame, part):
                    yield Task("visible", image, wanted, name, frame, whole, alone)
    if (view or wanted.saving) and not chosen.is_complete:
        if alone:
            yield Task("together", image, wanted, settings.method, frame)
            return
        for k in [frame, *range(len(image.indices))]:
            if not chosen.covers(k, whole):
                if (k, settings.noise) not in image.measured:
                    yield Task("noise", image, wanted, frame=k)
                    return
                yield Task("whole", image, wanted, settings.method, k, whole)
    if chosen.is_complete and wanted.revision not in image.finished:
        yield Task("finish", image, wanted, frame=frame)


def result_of(image: Opened, wanted: Wanted, method: str, alone: bool = False) -> Result:
    """Return the result with a method, which may be incomplete."""
    key = result_key(wanted.settings, method, alone)
    result = image.results.get(key)
    if result is None:
        result = Result(image.new_pixels(), len(image.indices), *image.size)
        image.results[key] = result
    return result


def _is_wanted(task: Task, gallery: Gallery) -> bool:
    image = task.image
    settings, view = image.wanted.settings, image.wanted.view
    if gallery.get(image.id) is not image:
        return False
    if task.stage == "noise":
        return settings.noise == task.wanted.settings.noise
    key = result_key(task.wanted.settings, task.method, task.alone)
    if key not in [result_key(settings, name, task.alone) for name in methods_of(settings)]:
        return False
    return task.stage != "visible" or view is None or view.frame == task.frame
