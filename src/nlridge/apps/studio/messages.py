"""What the page sends, checked: every mistake is a ValueError of one sentence."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ...checks import checked_whole, number
from ...errors import ArgumentError, shown
from ..jobs.arguments import check_arguments
from ..options import ADJUSTMENTS, OPTIONS, Adjustments, adjustments_in
from . import words

Rectangle = tuple[int, int, int, int]
"""Left, top, width and height, in pixels of the image as it is shown."""

_LARGEST_SCALE = 1024.0  # screen pixels for a pixel of the image


@dataclass(frozen=True)
class Settings:
    """How an image is denoised."""

    method: str = OPTIONS["method"].default
    adjustments: Adjustments = tuple(adjustments_in({}).items())
    noise: str | float | Rectangle = "auto"
    """A kind of noise to estimate, a standard deviation, or where to measure it."""
    other: str | None = None
    """A second method, to compare with."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `denoise` other than the method and the noise."""
        return dict(self.adjustments)

    def as_json(self) -> dict[str, Any]:
        name = "level"
        if isinstance(self.noise, str | tuple):
            name = "kind" if isinstance(self.noise, str) else "rectangle"
        return {
            "method": self.method,
            **self.arguments,
            "noise": {name: self.noise},
            "other": self.other,
        }


@dataclass(frozen=True)
class View:
    """What a page shows of an image."""

    frame: int
    rectangle: Rectangle
    level: int
    """The image is shown reduced by 2^level."""

    def middle(self, side: int) -> Rectangle:
        """Return a square in the middle of the view, or as much of it as is visible."""
        x, y, width, height = self.rectangle
        columns, rows = min(side, width), min(side, height)
        return x + (width - columns) // 2, y + (height - rows) // 2, columns, rows


def parsed(data: bytes) -> dict[str, Any]:
    """Parse a JSON object."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(words.NOT_FINITE.format(constant=constant))

    try:
        value = json.loads(data or b"{}", parse_constant=refuse)
    except RecursionError:
        raise ValueError(words.NESTED) from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError(words.NOT_JSON) from None
    return mapping(words.THE_MESSAGE, value)


def checked_settings(message: Mapping[str, Any], width: int, height: int) -> Settings:
    """Check the settings for an image of the given size."""
    methods = OPTIONS["method"].choices
    _expect_known(message, ("method", *ADJUSTMENTS, "noise", "other"))
    method = _choice("method", message.get("method", Settings.method), methods)
    adjustments = adjustments_in(message)
    for name, value in adjustments.items():
        adjustments[name] = number(name, value)
    check_arguments(**adjustments)
    noise = _noise(mapping("noise", message.get("noise", {"kind": "auto"})), width, height)
    other = message.get("other")
    other = None if other is None else _choice("other", other, methods)
    return Settings(method, tuple(adjustments.items()), noise, other)


def checked_view(message: Mapping[str, Any], frames: int, width: int, height: int) -> View:
    """Check what is visible of an image of the given size; parts beyond its edges are cut off."""
    _expect_known(message, ("frame", "x", "y", "width", "height", "scale", "revision"))
    frame = checked_whole("frame", message.get("frame", 0), 0, frames - 1)
    values = {name: _finite(name, message.get(name)) for name in ("x", "y", "width", "height")}
    scale = _finite("scale", message.get("scale", 1))
    if not 0 < scale <= _LARGEST_SCALE:
        raise ArgumentError(
            "scale", scale, f"more than 0, up to {_LARGEST_SCALE:g}", f"is {scale:g}"
        )
    ends = []
    for start, length, size in (("x", "width", width), ("y", "height", height)):
        first = min(max(math.floor(values[start]), 0), size - 1)
        last = min(max(math.ceil(values[start] + values[length]), first + 1), size)
        ends.append((first, last - first))
    (x, shown_width), (y, shown_height) = ends
    level = max(0, math.floor(math.log2(1 / scale)))
    return View(frame, (x, y, shown_width, shown_height), min(level, 30))


def _noise(message: Mapping[str, Any], width: int, height: int) -> str | float | Rectangle:
    _expect_known(message, ("kind", "level", "rectangle"))
    if len(message) != 1:
        raise ArgumentError("noise", dict(message), "a kind, a level or a rectangle")
    if "kind" in message:
        return _choice("noise", message["kind"], OPTIONS["noise"].choices)
    if "level" in message:
        level = number("noise", message["level"])
        check_arguments(level)
        return level
    values = message["rectangle"]
    if not isinstance(values, list) or len(values) != 4:
        raise ArgumentError("rectangle", values, "x, y, width and height")
    x, y = (
        checked_whole("rectangle", value, 0, size - 1)
        for value, size in zip(values[:2], (width, height), strict=True)
    )
    least = 8
    columns, rows = (
        min(checked_whole("rectangle", value, least, 2**31), size - start)
        for value, start, size in zip(values[2:], (x, y), (width, height), strict=True)
    )
    if min(columns, rows) < least:
        raise ArgumentError(
            "rectangle",
            (columns, rows),
            f"at least {least} x {least}",
            f"has {columns} x {rows} pixels",
        )
    return x, y, columns, rows


def _choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        names = ", ".join(map(repr, choices))
        raise ArgumentError(name, value, f"one of {names}")
    return value


def _finite(name: str, value: Any) -> float:
    finite = number(name, value)
    if not abs(finite) < 1e9:
        raise ArgumentError(name, value, "a finite number")
    return finite


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise ArgumentError(name, value, "a JSON object")
    return value


def _expect_known(message: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in message:
        if name not in names:
            raise ValueError(words.UNKNOWN.format(name=shown(name), names=", ".join(names)))
