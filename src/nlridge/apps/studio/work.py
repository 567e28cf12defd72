"""The threads that do the work: always what is most urgent. What is no longer wanted is dropped.

There is no queue. What is to be done next follows from what the page wants at the moment (`Opened.wanted`) and from what
has been done. The image that was used last comes first, unless somebody has waited too long for another to be saved.
Work on what is visible interrupts work on a whole image, which continues afterwards. First impressions have a thread of
their own, so that they need not wait until other work can be interrupted; it then waits for them. The noise is measured
in a third thread, since that cannot be interrupted at all.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from ... import kernels
from .errors import Cancelled, in_one_sentence
from .events import Events
from .gallery import Gallery
from .images import IMPRESSION, Opened
from .limits import Limits
from .stages import Stages, warm_up
from .tasks import FIRST, URGENT, Pace, Task, is_wanted, tasks, work_after
from .words import DENOISING, ESTIMATING

_KEPT = 2**29  # bytes for an image of what need not be computed again
_EVERY = 0.1  # seconds between reports of progress
_PATIENCE = 5.0  # seconds after which saving comes before other images: several pages may always want something else


class Worker:
    """The threads that measure and denoise."""

    def __init__(self, gallery: Gallery, events: Events, limits: Limits) -> None:
        self.gallery, self.events, self.limits = gallery, events, limits
        self.stages = Stages(gallery, events)
        self.background: Callable[[Callable[[], None]], bool] = lambda interrupt: False
        """Does some work that is less urgent than all images, and returns whether there was any."""
        self._changed = threading.Condition()
        self._version = self._looked = 0
        self._closing = False
        self._cold = [IMPRESSION, "standard"]  # methods whose kernels are not loaded yet
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
        task = self._next(_is_denoising)
        if task is None:
            return self._cold[:1] == [IMPRESSION] and self._warm_up()
        if task.stage in FIRST:
            self._do(task)
            self.changed()  # the others have waited for it
        return task.stage in FIRST

    def _step(self) -> bool:
        """Do the next thing, and return whether there was any."""
        task = self._next(_is_exact, self._overdue()) or self._next(_is_denoising)
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

        with suppress(Exception), self._saying_when_compiling():  # errors are told with an image
            warm_up(self._cold[0], stop)
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
            with kernels.announcing(lambda _: say(True)):
                yield
        finally:
            if self.is_compiling:
                say(False)

    def _measure_next(self) -> bool:
        """Measure the noise of the next image; usually not before there is a first impression of it."""
        late = (filter(_is_needed, tasks(image)) for image in self._overdue())
        for left in (*late, *map(tasks, self.gallery.by_use())):
            task = next(left, None)
            if task is not None and task.stage == "noise":
                self._do(task)
                self.changed()
                return True
        return False

    def _next(
        self, fits: Callable[[Task], bool], images: Iterable[Opened] | None = None
    ) -> Task | None:
        """Return what to do next for some images, by default for all, those that were used last first."""
        for image in self.gallery.by_use() if images is None else images:
            task = next(filter(fits, tasks(image)), None)
            if task is not None:
                return task
        return None

    def _overdue(self) -> list[Opened]:
        """Return the images that somebody has waited for too long to be saved, the longest first."""
        images = sorted(self.gallery, key=lambda image: -image.waiting)
        return [image for image in images if image.waiting > _PATIENCE]

    def _interrupt(self, stages: Collection[str] = URGENT, saving: bool = False) -> None:
        """Do what has become urgent, or wait for it; called while something less urgent is under way.

        With `saving`, that includes whole images that a person waits for. Only one image interrupts at a time: if there
        is always a newer one, what is under way advances in between.
        """
        if self._closing:
            raise Cancelled
        if self._version == self._looked:
            return
        self._looked = self._version

        def is_urgent(task: Task) -> bool:
            return task.stage in stages or (
                saving and task.wanted.saving is not None and task.stage != "noise"
            )

        last = self.gallery.by_use()[:1]
        while not self._closing and self.gallery.by_use()[:1] == last:
            version = self._version
            task = self._next(is_urgent, last)
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
                getattr(self.stages, task.stage)(task, self._progress(task))
        except Cancelled:
            pass
        except Exception as error:
            sentence = in_one_sentence(error, image.path, image.name)
            image.failed[task.wanted.revision] = sentence
            self.stages.say("failed", image, task.wanted.revision, error=sentence)
        image.forget(_KEPT)

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
        if task.image.wanted.saving is None and first is not task.image:
            others = tasks(first)
            if any(other.stage != "noise" for other in others):
                raise Cancelled  # the page has turned to another image

    def _say_progress(self, task: Task, done: float, left: float | None) -> None:
        said = DENOISING.format(method=task.method) if task.method else ESTIMATING
        stage = "visible" if task.stage in URGENT else "whole"
        revision = task.image.wanted.revision
        facts = {"stage": stage, "done": round(done, 3), "words": said}
        if left is not None and task.stage not in FIRST:
            facts["left"] = round(left, 1)
        self.stages.say("progress", task.image, revision, **facts)


def _is_denoising(task: Task) -> bool:
    return task.stage != "noise"


def _is_needed(task: Task) -> bool:
    """Return whether a result depends on a task, rather than a first impression."""
    return task.stage not in FIRST


def _is_exact(task: Task) -> bool:
    return _is_denoising(task) and _is_needed(task)
