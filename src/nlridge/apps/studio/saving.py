"""Saving results: the same files as the command line writes."""

import shutil
from pathlib import Path

from ...atomic import expect_new, replacing
from ...files import Picture, write
from ..jobs.paths import Source, targets
from ..jobs.pictures import clean_picture
from .images import Opened, result_key
from .messages import Settings
from .opening import reading
from .parts import arguments_of
from .words import IS_LINK


def target_of(path: Path) -> Path:
    """Return where the command line would write the result of a file."""
    return targets([Source(path)], None, None)[0]


def expect_no_link(target: Path) -> None:
    """Refuse to write a result through a link, which may lead anywhere."""
    if target.is_symlink():
        raise ValueError(IS_LINK.format(name=target.name))


def saved(image: Opened, settings: Settings, target: Path, overwrite: bool = False) -> list[str]:
    """Write the complete result of an image; returns notes on what could not be preserved."""
    expect_new("output", target, overwrite=overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    if image.clip and image.exported:
        with replacing(target) as partial:
            shutil.copyfile(image.exported[1], partial)
        return []
    after = _after(image, settings)
    with reading:
        return [*after.notes, *write(target, after)]


def _after(image: Opened, settings: Settings) -> Picture:
    if len(image.picture.layers) > 1:  # only the first of them is shown
        arguments = arguments_of(image.planes(0), settings, image.choice(settings))
        return clean_picture(image.picture, lambda share: None, "auto", **arguments)[0]
    result = image.results[result_key(settings, settings.method)]
    return result.raw or image.single(result.pixels)
