"""Settings: what the two steps are made of, the paper's Table 1, and the named recipes."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeAlias, TypeVar

from .families import Family
from .families.bayes import bayes
from .families.bm3d import bm3d, haar
from .families.ridge import ridge
from .families.two_sided import two_sided
from .pyramid import coarser_shape
from .wording import number, shown


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
class Coarse:
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
    >>> both = replace(fine, coarse=nlridge.Coarse(small))
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
    coarse: Coarse | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.family, Family):
            raise TypeError(f"family is {shown(self.family)}; expected a Family")
        if not isinstance(self.first, Step):
            raise TypeError(f"first is {shown(self.first)}; expected a Step")
        if not (self.second is None or isinstance(self.second, Step)):
            raise TypeError(f"second is {shown(self.second)}; expected a Step or None")
        if not isinstance(self.rounds, Rounds):
            raise TypeError(f"rounds is {shown(self.rounds)}; expected Rounds")
        if not (self.coarse is None or isinstance(self.coarse, Coarse)):
            raise TypeError(f"coarse is {shown(self.coarse)}; expected Coarse or None")
        if self.second is not None and self.family.refine is None:
            raise ValueError(
                f"second is {self.second}; expected None, since the family {self.family.name!r} has one step"
            )

    def within(self, shape: tuple[int, int]) -> "Recipe":
        """This recipe for an image of the given shape."""
        second = None if self.second is None else self.second.within(shape)
        coarse = self.coarse
        if coarse is not None:
            coarse = replace(coarse, recipe=coarse.recipe.within(coarser_shape(shape)))
        return replace(self, first=self.first.within(shape), second=second, coarse=coarse)


def recipe(name: str, sigma: float, data_range: float = 255.0) -> Recipe:
    """The recipe that a method's name stands for at a noise level.

    Parameters
    ----------
    name : str
        One of `recipe_names()`.
    sigma : float
        Standard deviation of the noise, in the image's own units.
    data_range : float
        The range of the image's values, in the same units.

    Returns
    -------
    Recipe

    Examples
    --------
    Look twice as closely as the paper does:

    >>> from dataclasses import replace
    >>> import nlridge
    >>> paper = nlridge.recipe("nl-ridge", sigma=25)
    >>> paper.second
    Step(patch_size=9, group_size=90, stride=4, window=45, chroma_group_size=120)
    >>> closer = replace(paper, second=replace(paper.second, stride=2))
    >>> clean = nlridge.denoise([[10.0, 12.0], [11.0, 9.0]], sigma=1, method=closer)
    """
    if not isinstance(name, str) or name not in _RECIPES:
        names = ", ".join(map(repr, _RECIPES))
        raise ValueError(f"method is {shown(name)}; expected one of {names}, or a Recipe")
    noise, spread = number("sigma", sigma), number("data_range", data_range)
    for argument, value in (("sigma", noise), ("data_range", spread)):
        if not 0 <= value < 1e301:
            raise ValueError(f"{argument} is {value:g}; expected a number that is not negative")
    level = 255 * noise / spread if spread > 0 else float("inf")
    return _RECIPES[name](float(f"{level:.6g}"))  # at the edge of a row rounding shall not matter


def recipe_names() -> tuple[str, ...]:
    """The names that `denoise` takes as `method`.

    Examples
    --------
    >>> import nlridge
    >>> nlridge.recipe_names()
    ('fast', 'standard', 'best', 'nl-ridge', 'nl-bayes', 'bm3d')
    """
    return tuple(_RECIPES)


# Settings of the two steps for noise up to a level, on a scale of 0 to 255; the last row holds above
# its level too.
_Row = TypeVar("_Row")
_Rows: TypeAlias = dict[int, tuple[Step, Step]]

# Table 1 of the paper, which has no colour: larger groups of that in the second step.
_TABLE_1: _Rows = {
    15: (Step(7, 18), Step(7, 55, chroma_group_size=72)),
    35: (Step(9, 18), Step(9, 90, chroma_group_size=120)),
    50: (Step(11, 20), Step(9, 120, chroma_group_size=168)),
}

# Ours, chosen on the odd-numbered images of BSD68: a better conditioned step 1, an adaptive rank in
# step 2, and a smaller window or larger strides where that costs little.  Patches of 8 x 8 are as good
# as larger ones where they stand, and fill whole vectors, as do most groups.
_FAST: _Rows = {
    15: (Step(8, 16, 6, 29), Step(7, 64, 7, chroma_group_size=80)),
    35: (Step(8, 16, 6, 29), Step(8, 80, 8, chroma_group_size=112)),
    50: (Step(11, 16, 6, 29), Step(8, 112, 8, chroma_group_size=144)),
}

# NL-Bayes: patches that are small, and groups that are larger than n in the first step as the variance
# of SURE demands; chosen on the odd-numbered images of BSD68.  Larger groups lose in the second step.
_NL_BAYES: _Rows = {
    15: (Step(7, 80, window=31), Step(5, 32, stride=3, chroma_group_size=48)),
    35: (Step(7, 80, window=31), Step(6, 40, stride=3, chroma_group_size=64)),
    50: (Step(8, 112, window=37), Step(7, 50, chroma_group_size=80)),
}

# BM3D: the published stride, and groups and patches near the published ones (16 and 32 patches of 8 x 8).
_BM3D: _Rows = {
    15: (Step(6, 16, stride=3), Step(8, 16, stride=3, chroma_group_size=32)),
    35: (Step(7, 16, stride=3), Step(8, 16, stride=3, chroma_group_size=32)),
    50: (Step(10, 16, stride=3), Step(8, 32, stride=3, chroma_group_size=64)),
}


# The two-sided family in rounds, chosen on the same images: "best" for quality, "standard" to be no slower than
# "nl-ridge".  They have the help of a coarse image, which has half the noise, and so the settings of half the
# level; at low noise that is hardly any help, and "standard" does without it.
_STANDARD: dict[int, Recipe] = {
    10: Recipe(two_sided(penalty=0.45), Step(7, 24, 6, 31), Step(6, 48, 5, 31), Rounds(2, 0.5, 0.0)),
    15: Recipe(two_sided(penalty=0.46), Step(7, 16, 6, 29), Step(6, 56, 6, 29), Rounds(3, 0.6, 0.05)),
    35: Recipe(two_sided(penalty=0.42), Step(9, 24, 6, 37), Step(6, 56, 6, 37), Rounds(4, 0.55, 0.1)),
    50: Recipe(two_sided(penalty=0.48), Step(11, 24, 6, 37), Step(6, 64, 5, 37), Rounds(4, 0.45, 0.25)),
}  # fmt: skip
_BEST: dict[int, Recipe] = {
    10: Recipe(two_sided(penalty=0.45), Step(7, 24, 4, 55), Step(6, 48, 3, 65), Rounds(3, 0.5, 0.0)),
    20: Recipe(two_sided(penalty=0.46), Step(7, 24, 4, 55), Step(6, 64, 3, 65), Rounds(4, 0.5, 0.1)),
    30: Recipe(two_sided(penalty=0.44), Step(9, 24, 4, 55), Step(6, 64, 3, 65), Rounds(4, 0.5, 0.1)),
    40: Recipe(two_sided(penalty=0.43), Step(11, 24, 4, 55), Step(6, 64, 3, 65), Rounds(4, 0.5, 0.15)),
    50: Recipe(two_sided(penalty=0.48), Step(13, 24, 4, 55), Step(6, 80, 3, 65), Rounds(4, 0.45, 0.25)),
}  # fmt: skip


def _row(rows: dict[int, _Row], level: float) -> _Row:
    return rows[min((top for top in rows if level <= top), default=max(rows))]


def _two_scales(rows: dict[int, Recipe], level: float) -> Recipe:
    return replace(_row(rows, level), coarse=Coarse(_row(rows, level / 2)))


_RECIPES: dict[str, Callable[[float], Recipe]] = {
    "fast": lambda level: Recipe(ridge(noisier=0.2, tolerance=2.0), *_row(_FAST, level)),
    "standard": lambda level: (
        _two_scales(_STANDARD, level) if level > 15 else _row(_STANDARD, level)
    ),
    "best": lambda level: _two_scales(_BEST, level),
    "nl-ridge": lambda level: Recipe(ridge(), *_row(_TABLE_1, level)),
    "nl-bayes": lambda level: Recipe(bayes(), *_row(_NL_BAYES, level)),
    "bm3d": lambda level: Recipe(bm3d(group_transform=haar), *_row(_BM3D, level)),
}
