"""Settings: what the two steps, the rounds and the coarser scale are made of."""

import operator
from dataclasses import dataclass, fields, replace

from ..checks import shown
from ..families import Family
from .pyramid import coarser_shape


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; expected a whole number") from None


def _expect(name: str, value: float, low: int, high: int, why: str = "") -> None:
    if not (isinstance(value, int | float) and low <= value <= high):
        raise ValueError(f"{name} is {shown(value)}; expected a number from {low} to {high}{why}")


@dataclass(frozen=True)
class Step:
    """The settings of one step of the algorithm.

    Parameters
    ----------
    patch_size : int
        Side of the square patches, in pixels (√n in the paper), at most 64. In a small image, a
        patch is at most half as wide as the image.
    group_size : int
        Number of similar patches that are denoised together (m), the reference patch included. Where
        the window holds fewer patches, the group is smaller.
    stride : int
        Distance between reference patches, in pixels (δ), at most `patch_size`.
    window : int
        Side of the square that is searched for similar patches, in pixels (w): odd, at most 255.
    chroma_group_size : int, optional
        `group_size` for the colours of an image of several channels, as opposed to its brightness; by
        default the same.

    Examples
    --------
    >>> from nlridge import Step
    >>> Step(patch_size=9, group_size=90)
    Step(patch_size=9, group_size=90, stride=4, window=45, chroma_group_size=None)
    """

    patch_size: int
    group_size: int
    stride: int = 4
    window: int = 45
    chroma_group_size: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None or field.name != "chroma_group_size":
                object.__setattr__(self, field.name, _whole(field.name, value))
        _expect("patch_size", self.patch_size, 1, 64)
        why = " (patch_size), so that patches cover the image"
        _expect("stride", self.stride, 1, self.patch_size, why)
        _expect("window", self.window, 1, 255)
        if self.window % 2 == 0:
            raise ValueError(f"window is {self.window}; expected an odd number")
        why = " (all patches of the window)"
        _expect("group_size", self.group_size, 1, self.window**2, why)
        if self.chroma_group_size is not None:
            _expect("chroma_group_size", self.chroma_group_size, 1, self.window**2, why)

    @property
    def size_of_chroma_groups(self) -> int:
        """`chroma_group_size`, or `group_size` by default."""
        return self.chroma_group_size or self.group_size

    def within(self, shape: tuple[int, int]) -> "Step":
        """These settings for an image of the given shape, which has to hold some patches side by side."""
        patch = min(self.patch_size, (min(shape) + 1) // 2)
        return replace(self, patch_size=patch, stride=min(self.stride, patch))


@dataclass(frozen=True)
class Rounds:
    """How often the second step is done, and how much of the noise it leaves each time.

    Parameters
    ----------
    count : int
        The number of rounds; 1 is the paper's second step, in which nothing is kept or blended.
    keep : float
        The share of the noise that rounds leave in the image, less and less of it: after the k-th of them
        keep (1 - k / count), so that the last leaves none.
    blend : float
        Where similar patches are sought: in the result of the round before (1), in the image that it left some
        noise in (0), or in a mixture of both.

    Examples
    --------
    NL-Ridge with its second step done three times:

    >>> from dataclasses import replace
    >>> import numpy as np
    >>> import nlridge
    >>> paper = nlridge.recipe("nl-ridge", sigma=25)
    >>> thrice = replace(paper, rounds=nlridge.Rounds(3, keep=0.75))
    >>> noise = np.random.default_rng(0).normal(0, 25, (40, 40))
    >>> bool(np.std(nlridge.denoise(noise, sigma=25, method=thrice)) < 5)
    True
    """

    count: int = 1
    keep: float = 0.0
    blend: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", _whole("count", self.count))
        _expect("count", self.count, 1, 100)
        _expect("keep", self.keep, 0, 1)
        _expect("blend", self.blend, 0, 1)


@dataclass(frozen=True)
class CoarseScale:
    """The help of an image of half the size, which has half the noise.

    Parameters
    ----------
    recipe : Recipe
        What that image is denoised by.
    pilot_level, result_level : int
        What is taken from it, for the pilot and for the result: all (1), or only what is left of it at half
        its size (2), a quarter (3) and so on. Without a second step the pilot is the result.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import numpy as np
    >>> import nlridge
    >>> fine, small = (nlridge.recipe("nl-ridge", sigma) for sigma in (50, 25))
    >>> both = replace(fine, coarse=nlridge.CoarseScale(small))
    >>> noise = np.random.default_rng(0).normal(0, 50, (40, 40))
    >>> bool(np.std(nlridge.denoise(noise, sigma=50, method=both)) < 10)
    True
    """

    recipe: "Recipe"
    pilot_level: int = 1
    result_level: int = 3

    def __post_init__(self) -> None:
        if not isinstance(self.recipe, Recipe):
            raise TypeError(f"recipe is {shown(self.recipe)}; expected a Recipe")
        for name in ("pilot_level", "result_level"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
            _expect(name, getattr(self, name), 1, 10)


@dataclass(frozen=True)
class Recipe:
    """A whole algorithm for one noise level: a family of local denoisers and the settings of both steps.

    Without a second step the pilot is the result.

    Get one by name from `recipe`, change it with `dataclasses.replace`, and pass it to `denoise` as
    its `method`.
    """

    family: Family
    first: Step
    second: Step | None = None
    rounds: Rounds = Rounds()
    coarse: CoarseScale | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.family, Family):
            raise TypeError(
                f"family is {shown(self.family)}; expected a Family such as nlridge.families.Ridge()"
            )
        if not isinstance(self.first, Step):
            raise TypeError(f"first is {shown(self.first)}; expected a Step")
        if not (self.second is None or isinstance(self.second, Step)):
            raise TypeError(f"second is {shown(self.second)}; expected a Step or None")
        if not isinstance(self.rounds, Rounds):
            raise TypeError(f"rounds is {shown(self.rounds)}; expected Rounds")
        if not (self.coarse is None or isinstance(self.coarse, CoarseScale)):
            raise TypeError(f"coarse is {shown(self.coarse)}; expected a CoarseScale or None")
        if self.second is not None and self.family.refine is None:
            raise ValueError(
                f"second is {self.second}; expected None, since {self.family!r} has one step"
            )

    def within(self, shape: tuple[int, int]) -> "Recipe":
        """This recipe for an image of the given shape."""
        second = None if self.second is None else self.second.within(shape)
        coarse = self.coarse
        if coarse is not None:
            coarse = replace(coarse, recipe=coarse.recipe.within(coarser_shape(shape)))
        return replace(self, first=self.first.within(shape), second=second, coarse=coarse)
