"""The work: threads that always do what is most urgent, and drop what nobody wants any more.

There is no queue. What is to be done next follows from what the page wants at the moment (`Opened.wanted`) and from what
has been done. Work on what is visible interrupts work on a whole image, which continues afterwards. First impressions
have a thread of their own, so that they need not wait until other work can be interrupted; it then waits for them. The
noise is measured in a third thread, since that cannot be interrupted at all.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import numpy as np

from ..api.details import removed_in_words, summary_of
from ..api.quality import gain_in_words, quality_of
from ..files import Picture
from ..jobs.clips import clean_clip
from ..jobs.pictures import clean_picture, with_exact_floats
from ..kernels.compile import announcing
from .clips import ClipFrames
from .errors import Cancelled, in_one_sentence
from .events import Events
from .gallery import Gallery
from .images import Opened, Preview, Wanted, result_key
from .limits import Limits
from .messages import Rectangle, Settings
from .opening import as_shown, reading
from .pace import Pace
from .parts import (
    Choice,
    arguments_of,
    as_saved,
    denoise_on_disk_together,
    denoised,
    denoised_on_disk,
    glance,
    measure,
    measure_raw,
    noise_arguments,
    planned,
)
from .results import Result
from .saving import target_of
from .tasks import (
    FIRST,
    GAIN,
    URGENT,
    Task,
    is_wanted,
    known_of,
    result_of,
    tasks,
    whole_of,
    work_after,
)
from .tiles import reduced_part

_EVERY = 0.1  # seconds between reports of progress
_ROWS = 256  # rounded at a time, which takes several times their memory
_SOME = 2**22  # pixels of a large image that what was removed is computed from


class Worker:
    """The threads that measure and denoise."""

    def __init__(self, gallery: Gallery, events: Events, limits: Limits) -> None:
        self.gallery, self.events, self.limits = gallery, events, limits
        self.background: Callable[[Callable[[], None]], bool] = lambda interrupt: False
        """Does some work that is less urgent than all images, and returns whether there was any."""
        self._changed = threading.Condition()
        self._version = self._looked = 0
        self._closing = False
        self._cold = ["fast", "standard"]  # methods whose kernels are not loaded yet
        self.is_compiling = False
        steps = {"first": self._impress, "studio": self._step, "noise": self._measure_next}
        self._threads = [
            threading.Thread(target=self._loop, args=(step,), name=f"nlridge {name}", daemon=True)
            for name, step in steps.items()
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
                self._wait(version)

    def _wait(self, version: int) -> None:
        """Wait until something has changed since a version."""
        with self._changed:
            self._changed.wait_for(lambda: self._version != version, 60)

    def _impress(self) -> bool:
        """Make the next first impression, and return whether there was anything to do."""
        task = self._next(lambda task: task.stage != "noise")
        if task is None:
            return self._cold[:1] == ["fast"] and self._warm_up()
        if task.stage in FIRST:
            self._do(task)
            self.changed()  # the others have waited for it
        return task.stage in FIRST

    def _step(self) -> bool:
        """Do the next thing, and return whether there was any."""
        task = self._next(lambda task: task.stage != "noise")
        if task is None and self._cold == ["standard"]:
            return self._warm_up()
        if task is None:
            return self.background(lambda: self._interrupt(saving=True))
        if task.stage in FIRST:
            return False
        self._do(task)
        self.changed()  # the noise may be measured now
        return True

    def _warm_up(self) -> bool:
        """Load what the next method needs, so that the first image need not wait for it."""

        def stop(*_: int) -> None:
            if self._closing:
                raise Cancelled

        planes = np.random.default_rng(0).normal(100, 20, (3, 128, 128)).astype(np.uint8)
        with suppress(Exception), self._saying_when_compiling():  # errors are told with an image
            denoised(planned(planes, measure(planes, "auto"), Settings(), self._cold[0]), stop)
        del self._cold[0]
        self.changed()
        return True

    @contextmanager
    def _saying_when_compiling(self) -> Iterator[None]:
        """Tell all pages while kernels are compiled."""

        def say(compiling: bool) -> None:
            self.is_compiling = compiling
            self.events.publish(type="compiling", compiling=compiling)

        try:
            with announcing(lambda _: say(True)):
                yield
        finally:
            if self.is_compiling:
                say(False)

    def _measure_next(self) -> bool:
        """Measure the noise of the next image; not before there is a first impression of it."""
        for image in self.gallery.by_use():
            task = next(tasks(image), None)
            if task is not None and task.stage == "noise":
                self._do(task)
                self.changed()
                return True
        return False

    def _next(self, fits: Callable[[Task], bool], most: int | None = None) -> Task | None:
        """Return what to do next, for the images that were used last."""
        for image in self.gallery.by_use()[:most]:
            task = next(filter(fits, tasks(image)), None)
            if task is not None:
                return task
        return None

    def _interrupt(self, stages: Collection[str] = URGENT, saving: bool = False) -> None:
        """Do what has become urgent, or wait for it; called while something less urgent is under way.

        With `saving`, that includes whole images that a person waits for.
        """
        if self._closing:
            raise Cancelled
        if self._version == self._looked:
            return
        self._looked = self._version

        def is_urgent(task: Task) -> bool:
            return task.stage in stages or (saving and task.wanted.saving and task.stage != "noise")

        while not self._closing:
            version = self._version
            task = self._next(is_urgent, 1)
            if task is None:
                return
            if task.stage in FIRST:
                self._wait(version)
            else:
                self._do(task)
        if self._closing:
            raise Cancelled

    def _do(self, task: Task) -> None:
        image = task.image
        try:
            with self._saying_when_compiling():
                getattr(self, f"_{task.stage}")(task)
        except Cancelled:
            pass
        except Exception as error:
            sentence = in_one_sentence(error, image.path, image.name)
            image.failed[task.wanted.revision] = sentence
            self._say("failed", image, task.wanted.revision, error=sentence)

    def _noise(self, task: Task) -> None:
        image, settings = task.image, task.wanted.settings
        planes, choice = image.measurable(task.frame), image.choice(settings)
        if image.raw:
            developed = glance(image.planes(task.frame), "auto")
            measured = measure_raw(image.raw.layers[0], planes, choice, developed)
        else:
            measured = measure(planes, choice, sampled=image.is_large)
        image.measured[task.frame, settings.noise] = image.with_words(task.frame, measured)
        self._say_noise(task)

    def _glance(self, task: Task) -> None:
        """Estimate the noise from a few pixels."""
        image, settings = task.image, task.wanted.settings
        planes, choice = image.measurable(task.frame), image.choice(settings)
        if image.raw:
            planes, choice = image.planes(task.frame), "auto"
        known = image.with_words(task.frame, glance(planes, choice))
        image.glances[task.frame, 0, settings.noise] = known
        self._say_noise(task)

    def _preview(self, task: Task) -> None:
        """Denoise a reduced copy of what is visible, for a first impression."""
        image, settings = task.image, task.wanted.settings
        planes = reduced_part(
            image, image.layer.pixels, task.frame, task.rectangle, task.level, image.overviews
        )
        key = (task.frame, task.level, settings.noise)
        if key not in image.glances:
            image.glances[key] = glance(planes, self._reduced_choice(task))
        frame = planned(planes, image.glances[key], settings, "fast")
        result = denoised(frame, self._progress(task), kept=image.kept)
        rough = result_key(settings, "fast", True)
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
        pixels = denoised(frame, self._progress(task), task.rectangle, image.kept)
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
            pixels = denoised(frame, progress, task.rectangle, image.kept)
        elif image.is_large:
            pixels = denoised_on_disk(planes, frame, settings, task.method, image.folder, progress)
        else:
            pixels = denoised(frame, progress, kept=image.kept)
            if pixels.size <= GAIN:
                image.floats = ((task.frame, result_key(settings, task.method)), pixels)
        self._check(task)
        self._put(task, result, pixels)
        self._say_tiles(task, image.seen(task.rectangle), "exact")
        self.gallery.keep_within_bounds(image)

    _whole = _visible

    def _together(self, task: Task) -> None:
        """Denoise what can only be denoised as a whole: frames that belong together, or a raw image."""
        image = task.image
        settings = replace(task.wanted.settings, method=task.method)
        progress = self._progress(task)
        if image.raw:
            self._develop(task, image.raw, settings)
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

    def _develop(self, task: Task, raw: Picture, settings: Settings) -> None:
        """Denoise a raw image, and develop it for the screen as it was developed before."""
        image, progress = task.image, self._progress(task)
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
        result = result_of(image, wanted, settings.method)
        if result.details:
            self._say_finished(image, wanted, removed_in_words(result.details, str))
            return
        planes, after = image.planes(task.frame), image.planes(task.frame, result.pixels)
        if image.is_large:  # some of the rows suffice
            step = -(-planes[0].size // _SOME)
            planes, after = planes[:, ::step], after[:, ::step]
        frame = planned(planes, image.measured[task.frame, settings.noise], settings, "fast")
        floats = after if after.dtype.kind == "f" else after.astype(np.float32)
        given = image.measured[task.frame, settings.noise].given
        self._say_finished(image, wanted, removed_in_words(summary_of(frame, floats, given), str))

    def _gain(self, task: Task) -> None:
        """Estimate how much better the result is."""
        image, settings = task.image, task.wanted.settings
        key = (task.frame, result_key(settings, task.method))
        if key not in image.gains:
            image.gains[key] = self._estimated_gain(task, key)
        gain = image.finished[task.wanted.revision]["gain"] = image.gains[key]
        self._say("gain", image, task.wanted.revision, gain=gain)

    def _estimated_gain(self, task: Task, key: Any) -> str:
        """Return the gain in words; an empty string if the noise is no basis for an estimate."""
        image, settings = task.image, task.wanted.settings
        planes = with_exact_floats(image.planes(task.frame))
        measured = image.measured[task.frame, settings.noise]
        frame = planned(planes, measured, settings, task.method)
        progress = self._progress(task)
        if image.floats is None or image.floats[0] != key:  # only rounded pixels were kept
            image.floats = (key, denoised(frame, progress))
        floats = image.floats[1]
        details = replace(
            summary_of(frame, floats, measured.given), image=floats, residual=planes - floats
        )
        try:
            quality = quality_of(
                planes,
                details,
                channel_axis=0,
                strength=settings.strength,
                colour=settings.colour,
                progress=progress,
            )
        except ValueError:
            return ""
        return gain_in_words(quality)

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
        for row in range(0, height, _ROWS):
            some = slice(row, row + _ROWS)
            part[:, some] = as_saved(pixels[:, some], part.dtype)
        result.mark(task.frame, task.rectangle)

    def _progress(self, task: Task) -> Callable[[int, int], None]:
        """Return a function that reports progress, does what is more urgent, and raises if the task is out of date."""
        seen, said, pace = self._version, time.monotonic(), Pace()

        def progress(done: int, total: int) -> None:
            nonlocal seen, said
            if self._closing:
                raise Cancelled
            if self._version != seen:
                seen = self._version
                self._check(task)
                if task.stage not in FIRST:
                    self._interrupt(FIRST if task.stage == "visible" else URGENT)
                    self._check(task)
            if time.monotonic() - said > _EVERY:
                said = time.monotonic()
                share = done / total
                self._say_progress(task, share, pace.left(share, work_after(task)))

        return progress

    def _check(self, task: Task) -> None:
        """Raise if the result of a task is not wanted any more."""
        if self._closing or not is_wanted(task, self.gallery):
            raise Cancelled
        first = self.gallery.by_use()[0]
        if not task.image.wanted.saving and first is not task.image:
            others = tasks(first)
            if any(other.stage != "noise" for other in others):
                raise Cancelled  # the page has turned to another image

    def _say(self, kind: str, image: Opened, revision: int, **facts: Any) -> None:
        self.events.publish(type=kind, image=image.id, revision=revision, **facts)

    def _say_noise(self, task: Task) -> None:
        image = task.image
        noise = image.noise_described(task.frame)
        self.events.publish(type="noise", image=image.id, frame=task.frame, noise=noise)

    def _say_progress(self, task: Task, done: float, left: float | None) -> None:
        words = f"denoising with {task.method}" if task.method else "estimating the noise"
        stage = "visible" if task.stage in URGENT else "whole"
        revision = task.image.wanted.revision
        facts = {"stage": stage, "done": round(done, 3), "words": words}
        if left is not None and task.stage not in FIRST:
            facts["left"] = round(left, 1)
        self._say("progress", task.image, revision, **facts)

    def _say_tiles(
        self, task: Task, rectangle: Rectangle, state: str, frame: int | None = None
    ) -> None:
        """Tell the page that a rectangle, as shown, has new pixels."""
        frame = task.frame if frame is None else frame
        revision = task.image.wanted.revision
        facts = {"frame": frame, "rectangle": rectangle, "state": state}
        self._say("tiles", task.image, revision, **facts)
