"""The passes over an image that a recipe stands for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..families import Estimator, Family
from .pyramid import coarser_shape
from .settings import Recipe, Step


class PlaneSet(NamedTuple):
    """Planes that share one Θ: their patches are stacked in the columns of a group."""

    planes: slice
    group_size: int

    @property
    def number(self) -> int:
        """Of planes."""
        return int(self.planes.stop - self.planes.start)


@dataclass(frozen=True)
class Pass:
    """One pass over an image: find groups of similar patches, denoise each, average the patches back."""

    family: Family
    is_second: bool
    """Whether it belongs to the second step, with Θ from a guide."""
    settings: Step
    is_shifted: bool = False
    """Whether reference patches stand between their usual places."""

    @property
    def estimator(self) -> Estimator:
        """What denoises its groups."""
        found: Estimator = self.family.refine if self.is_second else self.family.pilot
        return found

    def plane_sets(self, planes: int) -> list[PlaneSet]:
        """Which planes share one Θ: the first has its own, and the others go in pairs if the family can stack them."""
        step = 2 if self.family.stacks_planes else 1
        chroma = [
            PlaneSet(slice(k, min(k + step, planes)), self.settings.size_of_chroma_groups)
            for k in range(1, planes, step)
        ]
        return [PlaneSet(slice(0, 1), self.settings.group_size), *chroma]


def passes_of(recipe: Recipe) -> list[Pass]:
    """Those over the image itself: the first step, then each round of the second.

    The similar patches of one round are those of the next as well, since they hardly change; the two rounds
    after these have reference patches between those of the first two.
    """
    found = [Pass(recipe.family, False, recipe.first)]
    if recipe.second is not None:
        for k in range(recipe.rounds.count):
            found.append(Pass(recipe.family, True, recipe.second, k // 2 % 2 == 1))
    return found


def all_passes(recipe: Recipe, shape: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Pass]]:
    """Those over an image of (height, width) and over the coarser ones that help it, with the shape of each."""
    if recipe.coarse is not None:
        yield from all_passes(recipe.coarse.recipe, coarser_shape(shape))
    for some in passes_of(recipe):
        yield shape, some
