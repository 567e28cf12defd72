"""What the caller asked for."""

from dataclasses import dataclass

from ..algorithm.settings import Recipe
from ..noise import Noise


@dataclass(frozen=True)
class Options:
    """The arguments of `denoise` that decide what is done with an image, after they have been checked."""

    noise: Noise | None = None
    """As given; None if it is to be estimated."""
    kind: str = "auto"
    """What kind of noise is estimated: "auto", "gaussian" or "poisson"."""
    strength: float = 1.0
    method: str | Recipe = "standard"
    data_range: float | None = None
