"""The recipe of each named method at a noise level: Table 1 of the paper, and our own tables."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias, TypeVar

from ...checks import number
from ...errors import ArgumentError
from ..families import BM3D, Bayes, Family, Ridge, TwoSided
from ..families.bm3d import biorthogonal, haar
from .settings import CoarseScale, FrameSearch, Recipe, Rounds, Step

IMAGE_KINDS = ("image", "video", "volume")


def recipe(
    name: str,
    sigma: float,
    data_range: float = 255.0,
    *,
    correlation: str = "none",
    kind: str = "image",
) -> Recipe:
    """Return the recipe of a named method for a noise level.

    Parameters
    ----------
    name : str
        The name of the method, one of `method_names`.
    sigma : float
        Standard deviation of the noise, in the units of the image.
    data_range : float, optional
        The range of the image's values, in the same units.
    correlation : {"none", "short", "long", "narrow"}, optional
        How far the noise is correlated: not at all; over so few pixels that a short filter makes it white, as in most
        photographs; or further. It is "narrow" if it also has hardly any power at most frequencies, like stripes and
        waves.
    kind : {"image", "video", "volume"}, optional
        What is denoised: single images; frames that belong together, such as those of a video or the slices of a
        volume that are far apart; or a volume whose voxels are about as deep as they are wide.

    Returns
    -------
    recipe : Recipe
        The family and the settings that `denoise` would use for this method and noise level.

    See Also
    --------
    method_names : The names of the methods.
    denoise : Takes a recipe as `method`.

    Examples
    --------
    Halve the distance between the reference patches of the paper's second step:

    >>> from dataclasses import replace
    >>> import nlridge
    >>> paper = nlridge.recipe("nl-ridge", sigma=25)
    >>> paper.second
    Step(patch_size=9, group_size=90, stride=4, window=45, chroma_group_size=120, every=1, nearness=0.0)
    >>> closer = replace(paper, second=replace(paper.second, stride=2))
    >>> clean = nlridge.denoise([[10.0, 12.0], [11.0, 9.0]], sigma=1, method=closer)
    """
    if not isinstance(name, str) or name not in _RECIPES:
        names = ", ".join(map(repr, _RECIPES))
        raise ArgumentError("name", name, f"one of {names}")
    for argument, value in (("sigma", sigma), ("data_range", data_range)):
        if not 0 <= number(argument, value) < 1e301:
            raise ArgumentError(argument, value, "a finite non-negative number")
    if correlation not in ("none", "short", "long", "narrow"):
        kinds = "'none', 'short', 'long' or 'narrow'"
        raise ArgumentError("correlation", correlation, kinds)
    if kind not in IMAGE_KINDS:
        raise ArgumentError("kind", kind, "'image', 'video' or 'volume'")
    level = table_level(sigma, data_range)
    white = _recipe(name, kind, level)
    if correlation == "none":
        return white
    if correlation == "short" and white.prefilter:
        return _for_short_correlation(name, kind, level)
    white = _comparing_all(white)
    if kind != "image" and name == "standard":  # one-sided families hardly remove lines from frames
        white = _recipe("best", kind, level)
    fine = _for_groups(white)
    if kind != "image" or correlation != "narrow" or not isinstance(fine.family, TwoSided):
        return _with_large_groups(fine)
    count = 3 if name == "standard" else fine.rounds.count
    return replace(fine, rounds=replace(fine.rounds, count=count, keep=0.7))


def _recipe(name: str, kind: str, level: float) -> Recipe:
    """The recipe for white noise."""
    table = {"image": _RECIPES, "video": _VIDEO, "volume": _VOLUME}[kind]
    if name in table:
        return table[name](level)
    image = _RECIPES[name](level)
    # The patches of BM3D are square, and NL-Bayes needs groups of more patches than a patch has pixels.
    has_depth = kind == "volume" and isinstance(image.family, Ridge)
    return _across_frames(_comparing_all(image), 3 if has_depth else 1)


def table_level(sigma: float, data_range: float) -> float:
    """The noise level on a scale of 0 to 255, by which a row of a table is chosen.

    It is rounded, so that rounding errors, even those of float32, cannot decide between two rows.
    """
    level = 255 * float(sigma) / float(data_range) if data_range > 0 else float("inf")
    return float(f"{level:.6g}")


def method_names() -> tuple[str, ...]:
    """Return the names of the methods that `denoise` accepts.

    Returns
    -------
    names : tuple of str
        The names: our own methods first, then the published ones.

    See Also
    --------
    recipe : Returns the settings of a method.

    Examples
    --------
    >>> import nlridge
    >>> nlridge.method_names()
    ('preview', 'fast', 'standard', 'best', 'nl-ridge', 'nl-bayes', 'bm3d')
    """
    return tuple(_RECIPES)


# Settings of the two steps for noise up to a level, on a scale of 0 to 255. The last row also applies above its level.
_Row = TypeVar("_Row")
_Rows: TypeAlias = dict[int, tuple[Step, Step]]

# Table 1 of the paper. The paper has no color images; the group sizes for color in the second step are ours.
_TABLE_1: _Rows = {
    15: (Step(7, 18), Step(7, 55, chroma_group_size=72)),
    35: (Step(9, 18), Step(9, 90, chroma_group_size=120)),
    50: (Step(11, 20), Step(9, 120, chroma_group_size=168)),
}

# Chosen on the odd-numbered images of BSD68: a better conditioned step 1, an adaptive rank in step 2, and a smaller
# window or larger strides where that costs little quality. Patches of 8 x 8, where used, are as good as larger ones and
# fill whole vectors, as do most of the groups. Comparing patches of the pilot at every other pixel along both axes is
# not only faster but better. At medium noise, too, it would gain 0.01 to 0.02 dB, but would cost more in smooth images
# with missing pixels.
_FAST: _Rows = {
    15: (Step(8, 16, 6, 29), Step(7, 64, 7, chroma_group_size=80, every=2)),
    35: (Step(8, 16, 6, 29), Step(8, 80, 8, chroma_group_size=112)),
    50: (Step(11, 16, 6, 29), Step(8, 112, 8, chroma_group_size=144, every=2)),
}

# A third of the time of "fast": few patches in small windows, and gaps between references. Chosen on crops of nine
# odd-numbered images of BSD68, where it costs 0.25 to 0.33 dB; on Set12 at 25 it costs 0.54 dB.
_PREVIEW = Step(12, 8, 13, 9), Step(8, 32, 10, 11, every=4)

# NL-Bayes, chosen on the odd-numbered images of BSD68: small patches and, in the first step, groups of more than n
# patches, which the variance of SURE requires. In the second step, larger groups are worse.
_NL_BAYES: _Rows = {
    15: (Step(7, 80, window=31), Step(5, 32, stride=3, chroma_group_size=48)),
    35: (Step(7, 80, window=31), Step(6, 40, stride=3, chroma_group_size=64)),
    50: (Step(8, 112, window=37), Step(7, 50, chroma_group_size=80)),
}

# BM3D: the published transforms, Kaiser window, stride and patches. The threshold (2.7), and the groups of the second
# step at low noise (32), are a little smaller than the published ones, which was better on odd-numbered images of BSD68.
_BM3D_FAMILY = BM3D(2.6, group_transform=haar, pilot_transform=biorthogonal, kaiser=2.0)
_BM3D: _Rows = {
    35: (Step(8, 16, stride=3), Step(8, 16, stride=3, chroma_group_size=32)),
    50: (Step(12, 16, stride=3), Step(8, 32, stride=3, chroma_group_size=64)),
}


def _two_sided(
    penalty: float, first: Step, second: Step, rounds: Rounds, kaiser: float = 0.0
) -> Recipe:
    return Recipe(TwoSided(penalty=penalty, kaiser=kaiser), first, second, rounds)


# The two-sided family in rounds, chosen on the same images: "best" for quality, "standard" to be faster than
# "nl-ridge". Both use a coarse scale, which has half the noise, and therefore the settings of half the level. At low
# noise it hardly helps, and "standard" does without it. Later rounds, which have little noise left to remove, need fewer
# patches (more for colors than for brightness), and compare them at some pixels only, which is faster, and better where
# images are smooth. In the first rounds that would cost 0.05 dB on Urban100. In "best", whose patches overlap the most,
# those of the later rounds are smaller, and the pixels in the middle of a patch count more.
_STANDARD: dict[int, Recipe] = {
    7: _two_sided(0.52, Step(7, 24, 6, 31), Step(6, 48, 5, 31), Rounds(2, 0.6, 0.0)),
    15: _two_sided(0.5, Step(8, 16, 6, 31), Step(6, 64, 7, 33), Rounds(3, 0.65, 0.0, Step(6, 48, 7, 33, 72, 2))),
    30: _two_sided(0.48, Step(10, 16, 8, 37), Step(6, 56, 7, 37), Rounds(4, 0.65, 0.2, Step(6, 40, 7, 37, 72, 3))),
    40: _two_sided(0.48, Step(10, 16, 8, 37), Step(6, 64, 7, 37), Rounds(4, 0.6, 0.2, Step(6, 48, 7, 37, 80, 3))),
    50: _two_sided(0.5, Step(12, 16, 8, 37), Step(6, 72, 6, 37), Rounds(4, 0.55, 0.4, Step(6, 56, 7, 37, 80, 3))),
}  # fmt: skip
_weighted = partial(_two_sided, kaiser=2.0)
_BEST: dict[int, Recipe] = {
    7: _weighted(0.52, Step(7, 24, 4, 55), Step(6, 48, 3, 65, 64), Rounds(3, 0.6, 0.0, Step(5, 40, 3, 65, 64, 2))),
    20: _weighted(0.5, Step(8, 16, 4, 45), Step(6, 56, 3, 65, 64), Rounds(4, 0.65, 0.05, Step(5, 44, 3, 65, 72, 2))),
    30: _weighted(0.48, Step(10, 16, 5, 45), Step(6, 56, 3, 65, 64), Rounds(4, 0.65, 0.2, Step(5, 40, 3, 55, 72, 2))),
    40: _weighted(0.48, Step(11, 16, 5, 45), Step(6, 64, 3, 65, 72), Rounds(4, 0.6, 0.25, Step(5, 40, 3, 45, 80, 3))),
    50: _weighted(0.5, Step(13, 16, 5, 45), Step(6, 80, 3, 55), Rounds(4, 0.55, 0.45, Step(6, 64, 4, 45, 80, 3))),
}  # fmt: skip


# In photographs, for noise up to this level, the largest groups. Chosen on every tenth image of PolyU.
_WEAK, _GROUP, _CHROMA_GROUP = 6, 40, 32


def _row(rows: dict[int, _Row], level: float) -> _Row:
    return rows[min((top for top in rows if level <= top), default=max(rows))]


def _two_scales(rows: dict[int, Recipe], level: float) -> Recipe:
    return replace(_row(rows, level), coarse=CoarseScale(_row(rows, level / 2)))


def _comparing_all(recipe: Recipe) -> Recipe:
    """The recipe, with patches compared at all pixels."""
    return recipe.with_second(lambda step: replace(step, every=1))


def _best(level: float) -> Recipe:
    # The larger a window, the more of the patches chosen from it have similar noise rather than a similar signal, above
    # all in smooth images. Among patches that are equally similar, near ones are therefore better; if the noise is very
    # strong, small windows are better still.
    changed = partial(_with_windows, window=37) if level > 50 else _preferring_near
    rows = {top: changed(row) for top, row in _BEST.items()}
    small = _row(rows, level / 2)
    if 20 < level <= 50:  # a third scale, for what changes slowly
        small = replace(small, coarse=CoarseScale(_row(rows, level / 4), pilot_level=2))
    return replace(_row(rows, level), coarse=CoarseScale(small), prefilter=False)


def _preferring_near(recipe: Recipe) -> Recipe:
    """The recipe, with near patches preferred in the second step."""
    return recipe.with_second(lambda step: replace(step, nearness=0.15))


def _with_windows(recipe: Recipe, window: int) -> Recipe:
    """The recipe, with windows of the given side in both steps."""
    recipe = replace(recipe, first=replace(recipe.first, window=window))
    return recipe.with_second(lambda step: replace(step, window=window))


def _for_short_correlation(name: str, kind: str, level: float) -> Recipe:
    """The recipe for noise that a filter makes white.

    A coarse scale helps at all levels, since such noise has much power at low frequencies.
    """
    own = name in ("preview", "fast", "standard") and kind == "image"
    white, small = (
        _for_photographs(_recipe(name, kind, one), level)
        if own
        else _comparing_all(_recipe(name, kind, one))
        for one in (level, level / 2)
    )
    return replace(white, coarse=CoarseScale(replace(small, coarse=None)))


def _for_photographs(white: Recipe, level: float) -> Recipe:
    """The recipe for one scale of a photograph whose noise has the given level.

    Its noise is never quite white after filtering. So patches are better compared at every other pixel at most, where
    noise is less alike. If the noise is weak, smaller groups are as good.
    """

    def changed(step: Step) -> Step:
        step = replace(step, every=max(step.every, 2))
        if level > _WEAK:
            return step
        chroma = min(step.size_of_chroma_groups, _CHROMA_GROUP)
        return replace(step, group_size=min(step.group_size, _GROUP), chroma_group_size=chroma)

    return white.with_second(changed)


def _for_groups(white: Recipe) -> Recipe:
    """The recipe for noise that is whitened group by group.

    The two-sided family needs a larger penalty and, in images, larger groups in the first step and rounds that leave
    less noise; two rounds are not enough. Windows are smaller: the larger a window, the more of the patches chosen from
    it have similar noise rather than a similar signal. The coarse scale, if there is one, has nearly as much noise as
    the image itself, and the same settings.
    """
    fine = replace(white, coarse=None)
    if fine.frames is not None:  # the matrices of larger patches would be too large
        patch = min(fine.first.patch_size, 10)
        fine = replace(
            fine, first=replace(fine.first, patch_size=patch, stride=round(0.75 * patch), window=15)
        )
    if isinstance(fine.family, TwoSided):
        penalty = (1.5 if fine.frames is None else 1.4) * fine.family.penalty
        fine = replace(fine, family=replace(fine.family, penalty=penalty))
        if fine.frames is None:
            rounds = Rounds(max(fine.rounds.count, 3), 0.5, 0.1)
            fine = replace(fine, first=replace(fine.first, group_size=24), rounds=rounds)
            fine = fine.with_second(lambda step: replace(step, chroma_group_size=None))
    return fine.with_second(lambda step: replace(step, window=min(step.window, 33), nearness=0.0))


def _with_large_groups(fine: Recipe) -> Recipe:
    """The recipe for noise that is not narrow, for frames, and for one-sided families.

    Neighbouring patches carry less information than their number suggests. The coarse scale removes what is left at low
    frequencies. The two-sided family in rounds needs neither for noise that has only a few frequencies.
    """

    def larger(step: Step) -> Step:
        size = min(-(-step.group_size * 12 // 7 // 8) * 8, step.window**2)
        return replace(step, group_size=size)

    fine = fine.with_second(larger)
    return replace(fine, coarse=CoarseScale(fine, pilot_level=2))


def _across_frames(image: Recipe, depth: int) -> Recipe:
    """The recipe of a published method, with similar patches from other frames as well."""
    first, second = (
        None if step is None else replace(step, window=min(step.window, 15))
        for step in (image.first, image.second)
    )
    assert first is not None
    return replace(image, first=first, second=second, frames=FrameSearch(4, 7, 5, depth))


# Frames that belong together. Other frames have so many similar patches that windows can be small. Large patches in the
# first step tell motion from noise. The coarse scale helps in smooth scenes, and hardly changes others. Smooth scenes
# and colors also need large groups.
def _video(
    family: Family,
    group_size: int,
    chroma: tuple[int, int],
    radius: int,
    level: float,
    rounds: Rounds,
) -> Recipe:
    fine, small = (
        Recipe(
            family,
            Step(patch, group_size, round(0.75 * patch), window, chroma[0]),
            Step(8, 64, 8, window, chroma[1]),
            rounds,
            frames=FrameSearch(radius),
        )
        for patch, window in (
            (_row({15: 16, 30: 20, 45: 24, 60: 28}, level), 9),
            (_row({30: 16, 60: 20, 90: 24, 120: 28}, level), 21),
        )
    )
    return replace(fine, coarse=CoarseScale(small, pilot_level=2))


_VIDEO: dict[str, Callable[[float], Recipe]] = {
    "fast": lambda level: _video(
        Ridge(noisier=0.05, tolerance=2.0), 16, (16, 64), 2, level, Rounds()
    ),
    "standard": lambda level: _video(
        Ridge(noisier=0.05, tolerance=2.0), 32, (48, 80), 6, level, Rounds()
    ),
    "best": lambda level: _video(
        TwoSided(noisier=0.05, penalty=0.4), 32, (48, 80), 6, level, Rounds(2, 0.6)
    ),
}


# Half of the time of "fast", for 0.3 to 0.6 dB less: fewer and smaller groups far apart, the same at both scales and for all
# levels. Searching one frame instead of two would cost 1 dB and hardly save time; without the coarse scale, smooth
# scenes would be up to 2.5 dB worse than frame by frame. Chosen on simulated clips; see docs/experiments.md.
_PREVIEW_OF_FRAMES = Recipe(
    Ridge(noisier=0.05, tolerance=2.0),
    Step(20, 8, 20, 9),
    Step(8, 32, 11, 9, 64, every=2),
    frames=FrameSearch(2),
)
_VIDEO["preview"] = lambda level: replace(
    _PREVIEW_OF_FRAMES, coarse=CoarseScale(_PREVIEW_OF_FRAMES, pilot_level=2)
)


# Patches of volumes extend over several slices. Many slices matter more than dense grids, large windows or rounds.
def _volume(strides: tuple[int, int], radius: int, rounds: Rounds) -> Recipe:
    return Recipe(
        TwoSided(noisier=0.05, penalty=0.4),
        Step(7, 48, strides[0], 11),
        Step(5, 64, strides[1], 11),
        rounds,
        frames=FrameSearch(radius, 9, 9, depth=3),
    )


_VOLUME: dict[str, Callable[[float], Recipe]] = {
    "fast": lambda level: Recipe(
        Ridge(noisier=0.05, tolerance=2.0),
        Step(6, 16, 5, 9),
        Step(5, 48, 5, 9),
        frames=FrameSearch(4, 7, 7, depth=3),
    ),
    "standard": lambda level: _volume((6, 5), 6, Rounds(2, 0.6)),
    "best": lambda level: _volume((5, 4), 8, Rounds(4, 0.7)),
}


_RECIPES: dict[str, Callable[[float], Recipe]] = {
    "preview": lambda level: Recipe(Ridge(noisier=0.2, tolerance=2.0), *_PREVIEW),
    "fast": lambda level: Recipe(Ridge(noisier=0.2, tolerance=2.0), *_row(_FAST, level)),
    "standard": lambda level: (
        _two_scales(_STANDARD, level) if level > 15 else _row(_STANDARD, level)
    ),
    "best": _best,
    "nl-ridge": lambda level: Recipe(Ridge(), *_row(_TABLE_1, level)),
    "nl-bayes": lambda level: Recipe(Bayes(), *_row(_NL_BAYES, level)),
    "bm3d": lambda level: Recipe(_BM3D_FAMILY, *_row(_BM3D, level)),
}
