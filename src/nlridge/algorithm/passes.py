"""The passes over an image that a recipe consists of."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..families import Estimator, Family
from .pyramid import coarser_shape
from .settings import Recipe, Step


class PlaneSet(NamedTuple):
    """Planes that share one Θ, with their patches stacked in the columns of a group."""

    planes: slice
    group_size: int

    @property
    def number(self) -> int:
        """The number of planes."""
        return int(self.planes.stop - self.planes.start)


@dataclass(frozen=True)
class Pass:
    """One pass over an image: find groups of similar patches, denoise each group, average the patches."""

    family: Family
    is_second: bool
    """Whether the pass belongs to the second step, in which Θ depends on a guide."""
    settings: Step
    is_shifted: bool = False
    """Whether the grid of reference patches is shifted by half a stride."""

    @property
    def estimator(self) -> Estimator:
        """The estimator that denoises the groups."""
        estimator: Estimator = self.family.refine if self.is_second else self.family.pilot
        return estimator

    def plane_sets(self, planes: int) -> list[PlaneSet]:
        """The sets of planes that share one Θ: the first alone, the others in pairs if the family stacks planes."""
        step = 2 if self.family.stacks_planes else 1
        chroma = [
            PlaneSet(slice(k, min(k + step, planes)), self.settings.size_of_chroma_groups)
            for k in range(1, planes, step)
        ]
        return [PlaneSet(slice(0, 1), self.settings.group_size), *chroma]


def passes_of(recipe: Recipe) -> list[Pass]:
    """The passes over the image itself: the first step, then each round of the second.

    Two consecutive rounds share their groups, since similar patches hardly change. The grid of reference patches is
    shifted in every other pair of rounds.
    """
    passes = [Pass(recipe.family, False, recipe.first)]
    if recipe.second is not None:
        for k in range(recipe.rounds.count):
            passes.append(Pass(recipe.family, True, recipe.second, k // 2 % 2 == 1))
    return passes


def all_passes(recipe: Recipe, shape: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Pass]]:
    """The passes over an image of (height, width) and over its coarser scales, each with the shape of its image."""
    if recipe.coarse is not None:
        yield from all_passes(recipe.coarse.recipe, coarser_shape(shape))
    for step in passes_of(recipe):
        yield shape, step
