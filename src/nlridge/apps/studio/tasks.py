"""What to do next, given what the page wants at the moment and what has been done, and how long it will take."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

from .gallery import Gallery
from .images import IMPRESSION, Opened, Wanted, methods_of, result_key
from .messages import Rectangle, View
from .parts import Choice, Measured
from .results import SIDE, Result, snapped

SMALL = 2**17
"""Pixels of a frame whose noise is measured at once, without a glance before."""
GAIN = 3 * 2**22
"""Numbers in the largest image whose gain is estimated, which takes another run."""
_REGION = 2**19  # pixels of a frame; smaller frames are denoised as a whole
_AT_ONCE = 2**21  # pixels that are denoised for a view; larger views are denoised reduced
_FIRST = 2**18  # pixels of the reduced copy that is denoised first
_MIN_SECONDS = 1.0  # the pace of work is unknown before
_MIN_SHARE = 0.02  # the share of the work that must be done before its pace is known

FIRST = ("preview", "glance", "quick")
"""Stages of work on a first impression of what is visible."""
URGENT = (*FIRST, "visible")
"""Stages of work on what is visible."""
STAGES = (*URGENT, "noise", "whole", "together", "export", "finish", "gain")


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
    level: int = 0
    """How far a "preview" is reduced."""


def tasks(image: Opened) -> Iterator[Task]:
    """Yield what is left to do for an image, the most urgent first."""
    wanted = image.wanted
    settings, view = wanted.settings, wanted.view
    if wanted.revision in image.failed or not (view or wanted.saving is not None):
        return
    frame = view.frame if view else 0
    if view:
        yield from _first_impression(image, wanted, view)
    if (frame, settings.noise) not in image.measured:
        yield Task("noise", image, wanted, frame)
        return
    if image.clip:
        if wanted.saving is not None and wanted.revision not in image.finished:
            yield Task("export", image, wanted, frame, settings.method)
        return
    methods = [settings.method]
    if settings.other and view:
        methods.append(settings.other)
    if image.only_whole:
        for name in methods:
            if not result_of(image, wanted, name).is_complete:
                yield Task("together", image, wanted, frame, name)
    else:
        yield from _visible_then_whole(image, wanted, methods)
    if wanted.revision not in image.finished:
        if result_of(image, wanted, settings.method).is_complete:
            yield Task("finish", image, wanted, frame, settings.method)
        return
    said = image.finished[wanted.revision]
    if said["gain"] is None and not image.only_whole and image.planes(frame).size <= GAIN:
        yield Task("gain", image, wanted, frame, settings.method)


def _visible_then_whole(image: Opened, wanted: Wanted, methods: list[str]) -> Iterator[Task]:
    """Yield what is missing of the results with some methods, the chosen one first."""
    settings, view = wanted.settings, wanted.view
    frame = view.frame if view else 0
    whole = whole_of(image)
    for name in methods:
        part = view and _missing(image, result_of(image, wanted, name), view)
        if part:
            yield Task("visible", image, wanted, frame, name, part)
    chosen, *others = methods
    for k in [frame, *range(len(image.indices))]:
        if not result_of(image, wanted, chosen).covers(k, whole):
            if (k, settings.noise) not in image.measured:
                yield Task("noise", image, wanted, k)
                return
            yield Task("whole", image, wanted, k, chosen, whole)
    for name in others:
        if not result_of(image, wanted, name).covers(frame, whole):
            yield Task("whole", image, wanted, frame, name, whole)


def _missing(image: Opened, result: Result, view: View) -> Rectangle | None:
    """Return what is missing in a view, as stored; None if nothing is, or if it is so much that it must wait."""
    part = result.missing(view.frame, image.stored(view.rectangle), image.size)
    if part is None or _is_reduced(image, view):
        return None
    # A part depends on more than its own pixels.
    return whole_of(image) if math.prod(image.size) <= _REGION else part


def _first_impression(image: Opened, wanted: Wanted, view: View) -> Iterator[Task]:
    """Yield the tasks for a first impression of a view, unless something better exists already.

    A view of many pixels is denoised at a reduced size, at first smaller than the screen needs. In any other view, the
    middle comes first.
    """
    settings, frame = wanted.settings, view.frame
    part = image.stored(view.rectangle)
    if result_of(image, wanted, settings.method).covers(frame, part):
        return
    cells = snapped(part, image.size)
    known = known_of(image, frame, settings.noise)
    if _is_reduced(image, view):
        preview, key = image.preview, result_key(settings, IMPRESSION, True)
        for k, level in enumerate(_levels(view)):
            if not (preview and preview.level <= level and preview.covers(key, view)):
                area = snapped(view.rectangle, image.shown_size, SIDE << level)
                yield Task("preview", image, wanted, frame, IMPRESSION, area, level)
            if k == 0 and known is None:
                yield Task("glance", image, wanted, frame)
        return
    if known is None:
        if math.prod(image.size) > SMALL:
            yield Task("glance", image, wanted, frame)
        return
    if settings.method == IMPRESSION and not known.rough and not image.only_whole:
        return  # the result itself takes no longer
    names = [IMPRESSION, settings.method] if image.together else [IMPRESSION]
    middle = snapped(image.stored(view.middle(SIDE)), image.size)
    for k, name in enumerate(dict.fromkeys(names)):
        for area in (middle, cells) if math.prod(image.size) > _REGION else (cells,):
            done = [result_of(image, wanted, better, rough=True) for better in names[k:]]
            if not any(result.covers(frame, area) for result in done):
                yield Task("quick", image, wanted, frame, name, area)


def _levels(view: View) -> list[int]:
    """Return the levels at which a view is denoised, one after the other: each has four times the pixels of the last."""
    *_, width, height = view.rectangle
    coarsest = view.level + 1
    while width * height >> 2 * coarsest > _FIRST:
        coarsest += 1
    return list(range(coarsest, view.level - 1, -1))


def _is_reduced(image: Opened, view: View) -> bool:
    """Return whether so much is visible that the first impression is that of a reduced copy."""
    *_, width, height = snapped(image.stored(view.rectangle), image.size)
    return view.level > 0 and width * height > _AT_ONCE


def known_of(image: Opened, frame: int, noise: Choice) -> Measured | None:
    """Return what is known about a frame, or at least a first estimate; None if nothing is."""
    return image.measured.get((frame, noise)) or image.glances.get((frame, 0, noise))


def whole_of(image: Opened) -> Rectangle:
    height, width = image.size
    return 0, 0, width, height


def result_of(image: Opened, wanted: Wanted, method: str, rough: bool = False) -> Result:
    """Return the result with a method, which may be incomplete."""
    return image.result(result_key(wanted.settings, method, rough))


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
    return task.stage not in URGENT or view is None or _is_visible(task, view)


def work_after(task: Task) -> float:
    """Return how much work follows a task until the result is complete, as a multiple of it."""
    image, whole = task.image, whole_of(task.image)
    if image.only_whole or image.clip or task.method != task.wanted.settings.method:
        return 0.0
    result = result_of(image, task.wanted, task.method)
    missing = sum(not result.covers(k, whole) for k in range(len(image.indices)))
    if task.stage == "whole":
        return missing - 1
    if task.stage == "visible" and task.rectangle != whole:
        return missing * math.prod(whole[2:]) / math.prod(task.rectangle[2:])
    return missing - 1 if task.stage == "visible" else 0.0


def _is_visible(task: Task, view: View) -> bool:
    """Return whether a view still shows most of what a task is about, in the same way."""
    image, earlier = task.image, task.wanted.view
    reduced = _is_reduced(image, view)
    if view.frame != task.frame or reduced != (task.stage == "preview"):
        return False
    if reduced:
        return earlier is not None and earlier.level == view.level
    x, y, width, height = image.seen(task.rectangle)
    left, top, columns, rows = view.rectangle
    across = min(x + width, left + columns) - max(x, left)
    down = min(y + height, top + rows) - max(y, top)
    return 2 * max(across, 0) * max(down, 0) >= min(width * height, columns * rows)


class Pace:
    """The pace of work that begins now."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def left(self, done: float, after: float = 0.0) -> float | None:
        """Return the seconds left once a share of the work is done; None if it is too early to tell.

        `after` is the work that follows, as a multiple of this one.
        """
        elapsed = time.monotonic() - self._start
        if elapsed < _MIN_SECONDS or done < _MIN_SHARE:
            return None
        return elapsed * (1 - done + after) / done
