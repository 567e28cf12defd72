"""What can be asked of the algorithm beside a recipe."""

from dataclasses import dataclass

from ..checks import checked_positive, shown


@dataclass(frozen=True)
class Tuning:
    """Adjustments that reach every pass over an image, whatever the recipe and the engine."""

    strength: float = 1.0
    """1 removes the noise as given or estimated; less or more counts it as that much weaker or stronger."""

    def __post_init__(self) -> None:
        strength = checked_positive("strength", self.strength)
        if not 0.01 <= strength <= 100:
            raise ValueError(
                f"strength is {shown(self.strength)}; expected a number from 0.01 to 100"
            )
        object.__setattr__(self, "strength", strength)


DEFAULT = Tuning()
