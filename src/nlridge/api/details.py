"""What was found in an image and removed from it: the noise, the settings and the residual, in figures and in words."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.algorithm.settings import Recipe
from ..core.algorithm.tuning import DEFAULT
from ..noise import Noise, level_of, rms
from ..planning.doubts import ROUNDING
from ..planning.layout import Layout
from ..planning.pixels import NoisyPixels
from ..planning.plan import Plan, share_of
from ..types import Array, Pixels

_LITTLE = 0.1  # share of the level of the noise; if less is removed, that is next to nothing
_NO_STRENGTH = "the strength is 0"


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary:
    """The noise of an image or a video, and how much of it was removed.

    `print` describes it in a sentence.

    Examples
    --------
    >>> import nlridge
    >>> summary = nlridge.Summary(
    ...     noise=nlridge.GaussianNoise(20), noise_given=True, level=20.0, removed=19.0
    ... )
    >>> print(summary)
    Gaussian noise with a standard deviation of 20 (given); removed 19 (rms), 95% of its level
    """

    noise: Noise
    """The noise model, as given or as estimated; `print` describes it."""
    noise_given: bool
    """Whether the noise was given rather than estimated."""
    level: float
    """The root mean square of the standard deviation of the noise, in the units of the image."""
    removed: float
    """The root mean square of what was removed, without missing pixels and outliers."""
    unchanged: str = ""
    """Why almost nothing was removed; empty if something was."""
    defects: int = 0
    """The number of outliers, such as hot and dead pixels, that were replaced."""

    def __str__(self) -> str:
        """Describe the noise, and how much of it was removed."""
        return self.describe()

    def describe(self, name: Callable[[str], str] = str) -> str:
        """Describe the noise, how much of it was removed, and what to try if that is next to nothing.

        `name` returns what the reader calls an argument of `denoise`.
        """
        words = f"{self.describe_noise()}; removed {self.describe_removed(name)}"
        if not self.defects:
            return words
        return f"{words}; replaced {self.defects} outlier{'s' * (self.defects > 1)} (hot or dead pixels)"

    def describe_noise(self) -> str:
        """Describe the noise, and say whether it was given."""
        return f"{self.noise} ({'given' if self.noise_given else 'estimated'})"

    def describe_removed(self, name: Callable[[str], str] = str) -> str:
        """Describe how much was removed; `name` is as in `describe`."""
        if not self.unchanged:
            share = self.removed / self.level
            words = f"{self.removed:.3g} (rms), {share:.0%} of its level"
            if share_of(self.noise, DEFAULT) == 1 or self.noise_given:
                return words
            return f"{words}, since it may be texture; a larger {name('strength')} removes more"
        if self.unchanged == _NO_STRENGTH:
            return f"nothing, since {_NO_STRENGTH}"
        if self.noise_given:
            advice = f"a larger {name('sigma')} or {name('strength')} removes more"
        else:
            advice = f"if there is visible noise, pass {name('sigma')} or {name('noise')}"
        removed = f"next to nothing ({self.removed:.2g})" if self.removed > 0 else "nothing"
        return f"{removed}, since {self.unchanged}; {advice}"

    @staticmethod
    def why_unchanged(
        level: float, removed: float, strength: float, dtype: np.dtype[Any], *, visible: bool
    ) -> str:
        """Why next to nothing was removed from a frame of some type; empty if something was."""
        if strength == 0:
            return _NO_STRENGTH
        if level == 0:
            return "the image seems to have no noise"
        if not visible:
            return "such noise is invisible beside the range of the image"
        if dtype.kind in "ui" and level < ROUNDING:
            return "such noise is below the rounding error of the pixels"
        if removed < _LITTLE * strength * level:
            return "hardly any patches of the image are similar"
        return ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Denoised(Summary):
    """A denoised image, with the noise and the settings that were used."""

    image: Array
    """The denoised image, as `denoise` returns it."""
    pilot: Array
    """The result of the first step, which guides the others."""
    residual: Array
    """What was removed: the noisy image minus the denoised one; 0 at missing pixels."""
    recipe: Recipe
    """The settings of the algorithm."""
    axes: str = "YX"
    """One letter for each axis of the image: Y and X for height and width, C for channels, T for frames."""

    def _repr_html_(self) -> str:
        """Show the image before and after in a notebook, under a slider, and what was removed."""
        from ..apps.display.notebook import notebook_view

        return notebook_view(self.image, self.residual, self.axes, str(self))


class FrameDetails(NamedTuple):
    """The details of an image, or of a frame of a video; all images are (channels, height, width)."""

    result: Pixels
    pilot: Pixels
    residual: Pixels
    plan: Plan
    has_pixels: bool
    """Whether some pixels are not missing."""
    level: float
    removed: float
    outliers: int


def frame_details(frame: NoisyPixels, steps: Sequence[Pixels]) -> FrameDetails:
    """The details of an image, from its pilot and its result."""
    pilot, result = steps[0], steps[-1]
    if pilot is result:  # a recipe with one step
        pilot = result.copy()
    residual = _residual(frame, frame.pixels, result)
    has_pixels = frame.missing is None or not frame.missing.all()
    return FrameDetails(
        result,
        pilot,
        residual,
        frame.plan,
        has_pixels,
        level_of(frame.plan.noise, frame.levels.all, result, frame.missing) if has_pixels else 0.0,
        _removed(frame, result, residual) if has_pixels else 0.0,
        frame.repaired.outliers,
    )


def details_of(
    frames: Sequence[FrameDetails],
    layout: Layout,
    noise_given: bool,
    dtype: np.dtype[Any],
    counts: tuple[int, ...] | None = None,
) -> Denoised:
    """The details of an image of some type, from those of its frames; `counts` are the lengths of the axes of these.

    The noise and the recipe are those of the first frame that has pixels.
    """
    filled = [frame for frame in frames if frame.has_pixels]
    plan = filled[0].plan if filled else frames[0].plan
    level, removed = (
        math.hypot(*values) / math.sqrt(max(len(values), 1))
        for values in ([frame.level for frame in filled], [frame.removed for frame in filled])
    )
    image, pilot, residual = (
        layout.like_image(images.reshape(*(counts or (len(frames),)), *images.shape[1:]))
        for images in map(np.stack, zip(*(frame[:3] for frame in frames), strict=True))
    )
    visible = any(frame.plan.planes for frame in frames)
    unchanged = Summary.why_unchanged(level, removed, _strength_of(plan), dtype, visible=visible)
    return Denoised(
        image=image,
        pilot=pilot,
        residual=residual,
        noise=plan.noise,
        noise_given=noise_given,
        recipe=plan.recipe,
        level=level,
        removed=removed,
        unchanged=unchanged,
        axes=layout.axes,
        defects=sum(frame.outliers for frame in frames),
    )


def summary_of(frame: NoisyPixels, result: Pixels, noise_given: bool) -> Summary:
    """The details of a denoised frame that has valid pixels, without any images."""
    plan = frame.plan
    level = level_of(plan.noise, frame.levels.all, result, frame.missing)
    removed = _removed(frame, result)
    return Summary(
        noise=plan.noise,
        noise_given=noise_given,
        level=level,
        removed=removed,
        unchanged=Summary.why_unchanged(
            level, removed, _strength_of(plan), frame.pixels.dtype, visible=bool(plan.planes)
        ),
        defects=frame.repaired.outliers,
    )


def _strength_of(plan: Plan) -> float:
    """The factor on the level of the noise with which some of it is removed."""
    return plan.tuning.strength * max(plan.share, 1e-9)


def _removed(frame: NoisyPixels, result: Pixels, residual: Pixels | None = None) -> float:
    """The root mean square of the noise that was removed, without outliers; `residual` is with them, if it is known."""
    if residual is None or frame.repaired.outliers:
        residual = _residual(frame, frame.repaired.pixels, result)
    return rms(residual, frame.missing)


def _residual(frame: NoisyPixels, pixels: Pixels, result: Pixels) -> Pixels:
    """What was removed from pixels; 0 at missing ones."""
    valid = True if frame.missing is None else ~frame.missing
    residual = np.zeros_like(result)
    with np.errstate(over="ignore", invalid="ignore"):
        np.subtract(pixels, result, out=residual, where=valid, dtype=np.float64, casting="unsafe")
    largest = np.finfo(residual.dtype).max
    return np.clip(residual, -largest, largest, out=residual)
