"""The passes over an image that a recipe consists of."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ..families import Estimator, Family
from .pyramid import coarser_shape
from .settings import FrameSearch, Recipe, Step

ONE_FRAME = FrameSearch(0)


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
    frames: FrameSearch = ONE_FRAME
    """Where similar patches are searched for in other frames, if there are any."""

    @cached_property
    def estimator(self) -> Estimator:
        """The estimator that denoises the groups."""
        estimator: Estimator = self.family.refine if self.is_second else self.family.pilot
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        """Without the estimator, which other processes make themselves."""
        return {name: value for name, value in vars(self).items() if name != "estimator"}

    @property
    def nearness(self) -> float:
        """How much nearer patches are preferred; 0 if there are other frames."""
        return self.settings.nearness if self.frames == ONE_FRAME else 0.0

    @property
    def ignored(self) -> int:
        """The number of rows, and of columns, at the end of a patch that are not compared."""
        return (self.settings.patch_size - 1) % self.settings.every

    @property
    def widest_window(self) -> int:
        """The side of the largest window in which patches of one frame are searched for."""
        if self.frames.radius == 0:
            return self.settings.window
        return max(self.settings.window, self.frames.near, self.frames.far)

    def plane_sets(self, planes: int) -> list[PlaneSet]:
        """The sets of planes that share one Θ: the first alone, the others in pairs if the family stacks planes.

        Planes are not stacked if patches extend over several frames.
        """
        together = 2 if self.family.stacks_planes and self.frames.depth == 1 else 1
        chroma = [
            PlaneSet(slice(k, min(k + together, planes)), self.settings.size_of_chroma_groups)
            for k in range(1, planes, together)
        ]
        return [PlaneSet(slice(0, 1), self.settings.group_size), *chroma]


def passes_of(recipe: Recipe) -> list[Pass]:
    """The passes over the image itself: the first step, then each round of the second.

    Two consecutive rounds share their groups, since similar patches hardly change. The grid of reference patches is
    shifted in every other pair of rounds.
    """
    family, frames = recipe.family, recipe.frames or ONE_FRAME
    passes = [Pass(family, False, recipe.first, frames=frames)]
    if recipe.second is not None:
        for k in range(recipe.rounds.count):
            step = recipe.second if k < 2 else recipe.rounds.later or recipe.second
            passes.append(Pass(family, True, step, k // 2 % 2 == 1, frames))
    return passes


def all_passes(recipe: Recipe, shape: tuple[int, int]) -> Iterator[tuple[tuple[int, int], Pass]]:
    """The passes over an image of (height, width) and over its coarser scales, each with the shape of its image."""
    if recipe.coarse is not None:
        yield from all_passes(recipe.coarse.recipe, coarser_shape(shape))
    for pass_ in passes_of(recipe):
        yield shape, pass_
