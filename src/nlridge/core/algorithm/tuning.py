"""Adjustments that apply to any recipe."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

from ...checks import checked_positive
from ...errors import ArgumentError


@dataclass(frozen=True)
class Tuning:
    """Adjustments to a recipe, which every pass over an image receives, whatever the engine."""

    strength: float = 1.0
    """The factor by which the noise is treated as stronger (above 1) or weaker (below 1) than it is; 0 removes none."""

    color: float = 1.0
    """The factor on `strength` for the color differences."""

    outliers: bool = True
    """Whether outliers, such as hot pixels, are replaced first; see `planning/outliers.py`."""

    def __post_init__(self) -> None:
        for name in ("strength", "color"):
            given: Any = getattr(self, name)
            is_number = isinstance(given, Real) and not isinstance(given, bool)
            nothing = name == "strength" and is_number and given == 0
            factor = 0.0 if nothing else checked_positive(name, given)
            if not (nothing or 0.01 <= factor <= 100):
                raise ArgumentError(name, given, "a number from 0.01 to 100")
            object.__setattr__(self, name, factor)

    @property
    def color_strength(self) -> float:
        """The factor by which the noise of the color differences is treated as stronger or weaker."""
        return self.strength * self.color


DEFAULT = Tuning()
