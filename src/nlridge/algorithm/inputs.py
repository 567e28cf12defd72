"""What one pass over an image works on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from .tuning import DEFAULT, Tuning

Image: TypeAlias = Any
"""An array of float32 of (planes, height, width); or what an engine has in its place, such as a tensor."""


@dataclass(frozen=True, eq=False)
class PlaneNoise:
    """The noise of an image of (planes, height, width)."""

    variance: float | Image
    """The same for all pixels; or an image of it, with one plane for all planes or one for each."""

    def scaled(self, factor: float) -> "PlaneNoise":
        """Noise of a multiple of the variance."""
        return PlaneNoise(factor * self.variance)

    @property
    def level(self) -> float | Image:
        """The standard deviation."""
        return self.variance**0.5


@dataclass(frozen=True, eq=False)
class Partly:
    """Says that some noise has been removed from an image already, and that some is to stay."""

    original: Image
    """The image with all of its noise."""
    keep: float
    """The share of the noise that is to be left in."""


@dataclass(frozen=True, eq=False)
class StepInputs:
    """The images that a pass reads, all of the same height and width, and their noise."""

    noisy: Image
    guide: Image
    """In place of the truth; the noisy image itself in the first step."""
    similar: Image
    """Where similar patches are searched for."""
    noise: PlaneNoise
    partly: Partly | None = None
    tuning: Tuning = DEFAULT

    @property
    def keeps_noise(self) -> bool:
        """Whether a second result is wanted, with some of the noise left in it."""
        return self.partly is not None and self.partly.keep > 0

    def images(self) -> list[Image]:
        """All images, each once."""
        found: dict[int, Image] = {}
        self.mapped(lambda image: found.setdefault(id(image), image))
        return list(found.values())

    def mapped(self, function: Callable[[Image], Any]) -> "StepInputs":
        """The same with a function of each image in its place; images that are the same stay the same."""
        known: dict[int, Any] = {}

        def once(image: Image) -> Any:
            if id(image) not in known:
                known[id(image)] = function(image)
            return known[id(image)]

        variance, partly = self.noise.variance, self.partly
        return replace(
            self,
            noisy=once(self.noisy),
            guide=once(self.guide),
            similar=once(self.similar),
            noise=self.noise if isinstance(variance, float) else PlaneNoise(once(variance)),
            partly=None if partly is None else replace(partly, original=once(partly.original)),
        )
