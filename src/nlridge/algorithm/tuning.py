"""Adjustments that apply to any recipe."""

from dataclasses import dataclass

from ..checks import checked_positive, shown


@dataclass(frozen=True)
class Tuning:
    """Adjustments to a recipe, which every pass over an image receives, whatever the engine."""

    strength: float = 1.0
    """The factor by which the noise is treated as stronger (above 1) or weaker (below 1) than it is."""

    def __post_init__(self) -> None:
        strength = checked_positive("strength", self.strength)
        if not 0.01 <= strength <= 100:
            raise ValueError(
                f"strength is {shown(self.strength)}; expected a number from 0.01 to 100"
            )
        object.__setattr__(self, "strength", strength)


DEFAULT = Tuning()
