"""The settings of the algorithm: its two steps, rounds, coarse scale, and recipes, which combine all of them."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Real

from ...errors import ArgumentError, ArgumentTypeError
from ..families import Family
from .pyramid import coarser_shape


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(name, value, "a whole number") from None


def _expect(name: str, value: float, low: int, high: int, why: str = "") -> None:
    if not (isinstance(value, Real) and low <= value <= high):
        raise ArgumentError(name, value, f"a number from {low} to {high}{why}")


@dataclass(frozen=True)
class Step:
    """Settings of one step of the algorithm.

    Parameters
    ----------
    patch_size : int
        Side of the square patches in pixels (√n in the paper), at most 64. For small images it is reduced to at most
        half of the image's shorter side, rounded up.
    group_size : int
        Number of similar patches that are denoised together (m in the paper), including the reference patch. Groups
        are smaller where the window contains fewer patches, such as at the borders of an image.
    stride : int, optional
        Distance between neighbouring reference patches in pixels (δ in the paper), at most twice `patch_size`. If it is
        larger than `patch_size`, the patches that cover the gap between a reference and the next always belong to its
        group. This takes groups of at least 4 patches, and windows that reach them.
    window : int, optional
        Side of the square window in which similar patches are searched for, in pixels (w in the paper). An odd
        number, at most 255.
    chroma_group_size : int, optional
        The group size for the color planes of an image of several channels. The default is `group_size`.
    every : int, optional
        Patches are compared at every n-th pixel along both axes, where n is at most `patch_size`. The default is 1: all
        pixels. In the second step, whose guide has little noise, 2 is faster, and often better with one-sided
        families.
    nearness : float, optional
        How much nearer patches are preferred to others that are equally similar. A patch r pixels away counts as if the
        square of each of its differences were larger by `nearness` (r / 32)² times the variance of the noise. In a large
        window, this keeps patches with similar noise from being taken for similar ones. It has no effect on patches of
        several frames. The default is 0.

    See Also
    --------
    Recipe : Combines the settings of two steps with a family.

    Examples
    --------
    >>> from nlridge import Step
    >>> Step(patch_size=9, group_size=90)
    Step(patch_size=9, group_size=90, stride=4, window=45, chroma_group_size=None, every=1, nearness=0.0)
    """

    patch_size: int
    group_size: int
    stride: int = 4
    window: int = 45
    chroma_group_size: int | None = None
    every: int = 1
    nearness: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int or (value is not None and field.name == "chroma_group_size"):
                object.__setattr__(self, field.name, _whole(field.name, value))
        _expect("nearness", self.nearness, 0, 1000)
        _expect("patch_size", self.patch_size, 1, 64)
        _expect("every", self.every, 1, self.patch_size, " (patch_size)")
        _expect("window", self.window, 1, 255)
        if self.window % 2 == 0:
            raise ArgumentError("window", self.window, "an odd number")
        why = " (all patches of the window)"
        _expect("group_size", self.group_size, 1, self.window**2, why)
        if self.chroma_group_size is not None:
            _expect("chroma_group_size", self.chroma_group_size, 1, self.window**2, why)
        gap, what = 0, "patch_size"
        if min(self.group_size, self.size_of_chroma_groups) >= 4:
            gap = min(self.patch_size, self.window // 2)
            what = "twice patch_size" if gap == self.patch_size else "patch_size + window // 2"
        why = f" ({what}), so that patches cover the image"
        _expect("stride", self.stride, 1, self.patch_size + gap, why)

    @property
    def size_of_chroma_groups(self) -> int:
        """`chroma_group_size`, or `group_size` by default."""
        return self.chroma_group_size or self.group_size

    def within(self, shape: tuple[int, int]) -> "Step":
        """The settings for an image of the given shape, with patches small enough for a small image."""
        patch = min(self.patch_size, (min(shape) + 1) // 2)
        if patch == self.patch_size:
            return self
        return replace(
            self, patch_size=patch, stride=min(self.stride, patch), every=min(self.every, patch)
        )


@dataclass(frozen=True)
class Rounds:
    """The number of rounds of the second step, and how much noise each of them leaves.

    Parameters
    ----------
    count : int, optional
        The number of rounds, from 1 to 100. With the default of 1, the second step is that of the paper, and the other
        parameters have no effect.
    keep : float, optional
        The share of the noise that the rounds leave in the image, from 0 to 1. It decreases from round to round: after
        round k it is keep (1 - k / count), so that the last round leaves no noise.
    blend : float, optional
        The image in which a round searches for similar patches: the denoised result of the previous round (1), the
        result with some noise left in it (0), or a weighted mean of both.
    later : Step, optional
        The settings of the rounds from the third on. By default, they are those of the first two rounds.

    See Also
    --------
    Recipe : Takes rounds as one of its settings.

    Examples
    --------
    Run the second step of NL-Ridge three times:

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
    later: Step | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", _whole("count", self.count))
        _expect("count", self.count, 1, 100)
        _expect("keep", self.keep, 0, 1)
        _expect("blend", self.blend, 0, 1)
        if not (self.later is None or isinstance(self.later, Step)):
            raise ArgumentTypeError("later", self.later, "a Step or None")


@dataclass(frozen=True)
class CoarseScale:
    """Also denoise an image of half the size, and take the broad structures of the result from it.

    The image of half the size has half the noise.

    Parameters
    ----------
    recipe : Recipe
        The recipe for the image of half the size.
    pilot_level, result_level : int, optional
        How much of that image replaces the broad structures of the pilot and of the result: all of it (1), only what
        remains of it at half its size (2), at a quarter (3), and so on up to 10. In a recipe without a second step,
        only `pilot_level` has an effect.

    See Also
    --------
    Recipe : Takes a coarse scale as one of its settings.

    Examples
    --------
    Support NL-Ridge by an image of half the size, with the settings for half the noise:

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
            raise ArgumentTypeError("recipe", self.recipe, "a Recipe")
        for name in ("pilot_level", "result_level"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
            _expect(name, getattr(self, name), 1, 10)


@dataclass(frozen=True)
class FrameSearch:
    """Where similar patches are searched for in other frames of a video, or in other slices of a volume.

    In the frame itself, the search covers the window of the `Step`; in the next frame, a window around the same place;
    and in the frames beyond, a window around the place to which the most similar patch has moved.

    Parameters
    ----------
    radius : int, optional
        The number of frames before and after, up to 64.
    near : int, optional
        Side of the window in the next frame, in pixels; an odd number, at most 63.
    far : int, optional
        Side of the windows in the frames beyond.
    depth : int, optional
        The number of frames that a patch extends over, up to 8. More than one is for volumes whose voxels are about as
        deep as they are wide; nothing may move from one frame to the next.

    See Also
    --------
    Recipe : Takes this as one of its settings.

    Examples
    --------
    Search ten frames before and after:

    >>> from dataclasses import replace
    >>> import nlridge
    >>> standard = nlridge.recipe("standard", sigma=20, kind="video")
    >>> further = replace(standard, frames=replace(standard.frames, radius=10))
    """

    radius: int = 6
    near: int = 7
    far: int = 5
    depth: int = 1

    def __post_init__(self) -> None:
        most = {"radius": (0, 64), "near": (1, 63), "far": (1, 63), "depth": (1, 8)}
        for name, bounds in most.items():
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
            _expect(name, getattr(self, name), *bounds)
        for name in ("near", "far"):
            if getattr(self, name) % 2 == 0:
                raise ArgumentError(name, getattr(self, name), "an odd number")


@dataclass(frozen=True)
class Recipe:
    """A complete algorithm for one noise level: a family of local denoisers, and the settings of its steps.

    Get a recipe by name from `recipe`, change it with `dataclasses.replace`, and pass it to `denoise` as `method`.

    Parameters
    ----------
    family : Family
        How the patches of a group are combined, such as `nlridge.families.Ridge()`.
    first : Step
        The settings of the first step, which computes the pilot.
    second : Step, optional
        The settings of the second step, in which the pilot takes the place of the unknown image. By default there is
        no second step, and the pilot is the result.
    rounds : Rounds, optional
        How often the second step is run. The default is once.
    coarse : CoarseScale, optional
        How an image of half the size is denoised to support this one. By default there is none.
    prefilter : bool, optional
        Whether to make correlated noise white by filtering the whole image, if a short filter can do so. This is much
        faster than whitening each group, and nearly as good. True by default.
    frames : FrameSearch, optional
        Where similar patches are searched for in other frames of a video, or in other slices of a volume. By default,
        each frame is denoised on its own.

    See Also
    --------
    recipe : Returns the recipe of a named method.

    Examples
    --------
    NL-Ridge with small patches:

    >>> import numpy as np
    >>> import nlridge
    >>> from nlridge.core.families import Ridge
    >>> first = nlridge.Step(patch_size=5, group_size=12)
    >>> small = nlridge.Recipe(Ridge(), first, nlridge.Step(patch_size=5, group_size=40))
    >>> noise = np.random.default_rng(0).normal(0, 10, (40, 40))
    >>> bool(np.std(nlridge.denoise(noise, sigma=10, method=small)) < 3)
    True
    """

    family: Family
    first: Step
    second: Step | None = None
    rounds: Rounds = Rounds()
    coarse: CoarseScale | None = None
    prefilter: bool = True
    frames: FrameSearch | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.family, Family):
            raise ArgumentTypeError(
                "family", self.family, "a Family such as nlridge.families.Ridge()"
            )
        if not isinstance(self.first, Step):
            raise ArgumentTypeError("first", self.first, "a Step")
        if not (self.second is None or isinstance(self.second, Step)):
            raise ArgumentTypeError("second", self.second, "a Step or None")
        if not isinstance(self.rounds, Rounds):
            raise ArgumentTypeError("rounds", self.rounds, "Rounds")
        if not (self.coarse is None or isinstance(self.coarse, CoarseScale)):
            raise ArgumentTypeError("coarse", self.coarse, "a CoarseScale or None")
        if not isinstance(self.prefilter, bool):
            raise ArgumentTypeError("prefilter", self.prefilter, "True or False")
        if not (self.frames is None or isinstance(self.frames, FrameSearch)):
            raise ArgumentTypeError("frames", self.frames, "a FrameSearch or None")
        if self.frames is not None and self.frames.depth > 1 and not self.family.stacks_planes:
            raise ArgumentError(
                "depth",
                self.frames.depth,
                f"1, since the patches of {self.family!r} have one plane",
            )
        if self.second is not None and self.family.refine is None:
            raise ArgumentError("second", self.second, f"None, since {self.family!r} has one step")

    def within(self, shape: tuple[int, int]) -> "Recipe":
        """The recipe for an image of the given shape, with patches small enough for a small image."""
        coarse = self.coarse
        if coarse is not None:
            coarse = replace(coarse, recipe=coarse.recipe.within(coarser_shape(shape)))
        first = self.first.within(shape)
        return replace(
            self.with_second(lambda step: step.within(shape)), first=first, coarse=coarse
        )

    def with_second(self, changed: Callable[[Step], Step]) -> "Recipe":
        """The recipe, with the settings of all rounds of the second step changed by a function."""
        second, later = (
            None if step is None else changed(step) for step in (self.second, self.rounds.later)
        )
        return replace(self, second=second, rounds=replace(self.rounds, later=later))
