"""Estimate noise that is correlated from pixel to pixel, such as that of a developed photograph.

Demosaicking, sharpening, resizing and JPEG correlate the noise of a photograph, and its tone curve makes the level a
curve of the brightness. Both are measured in calm blocks of pixels (`calm`), and the level is chosen by a few trial runs on
a small part of the image (`trial`): at the right one, the result and what was removed are least alike.

Calm blocks of an image without noise show its finest texture. How probable noise is follows from what the trial runs and
the blocks show (`decision`). A field of stars is no noise either, although its calm parts are alike: the faint stars in
them are all brighter than the sky, and noise is not so one-sided. If it is more likely texture, so little is removed that
it could not be seen. If it is noise after all, that is worth more than it seems: a half of the right change removes three
quarters of the error that all of it removes.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from . import Array
from .blocks import Mask
from .calm import in_most_areas, measured_in
from .curve import CurveNoise, scaled
from .decision import Evidence, evidence_of, probability_of_noise
from .trial import Denoise, Part, best_level, of_brightness, part_of, trials_of

# The energies of blocks of noise begin abruptly: the calmest twentieth of them spans a ratio of about 1.8. Those of
# texture span more, and those of a regular pattern less than this.
_REGULAR = 1.4
_MOST_SPAN = 6.0  # of noise; if the energies of calm blocks span more, noise is no stronger than in the calmest of them
# The largest change that is made if it is probably not noise, as a share of the range of the image (rms).
_INVISIBLE = 1 / 350
# What is one-sided and grows is the faint part of the image: stars, or other spots. Noise may be one-sided, but then it is
# so everywhere, and does not grow. This is the least product of skewness and growth. What JPEG left of noise is not judged.
_ONE_SIDED = 0.15


class CorrelatedEstimate(NamedTuple):
    """The noise of an image whose noise is not white."""

    base: CurveNoise
    """The level of the noise as a curve of the value of a pixel, with a factor for each channel."""
    correlation: Array
    """Correlation of the stabilised noise, (channels, channels, 2 R + 1, 2 R + 1). Entry [c, d, R + y, R + x] is that
    between channel c of a pixel and channel d of the pixel y rows below and x columns to the right."""
    probability: float
    """The probability that this is noise, rather than the texture of an image without noise."""
    evidence: Evidence | None
    """What the probability follows from; None if it is a regular pattern or the faint part of an image of spots, such as
    stars, which is not noise."""
    cautious: CurveNoise
    """The level if it is texture: no higher than in the calmest areas."""
    invisible: float
    """The root mean square of the largest change that is not visible."""
    part: Part
    """The part of the image for trial runs."""

    @property
    def regular(self) -> bool:
        """Whether it is a regular pattern or the faint part of an image of spots."""
        return self.evidence is None

    def invisible_share(self, base: CurveNoise, denoise: Denoise) -> float:
        """How much of such noise can be removed without visible changes of the image: all of it at 1."""
        brightness = of_brightness(self.part, base, self.correlation)
        residual = (brightness.image[0] - trials_of(brightness, denoise)(1.0))[self.part.counted]
        # As much of other colors.
        removed = math.sqrt(float(np.mean(residual**2)) / brightness.variance)
        return min(1.0, self.invisible / max(removed, 1e-300))


def correlated_noise_of(
    pixels: Sequence[Array], excluded: Sequence[Mask], clipped: Sequence[Mask], denoise: Denoise
) -> CorrelatedEstimate | None:
    """Estimate the noise of an image, given channel by channel, if it is correlated.

    `excluded` marks missing and saturated pixels of each channel, and `clipped` those of them that are clipped at the dark
    end. `denoise` is used for trial runs, on a few pixels of the brightness. Returns None if the noise is white, or if
    there are too few pixels to tell.
    """
    measured = measured_in(pixels, excluded, clipped)
    if measured is None:
        return None
    part = part_of(pixels, excluded)
    base, correlation = in_most_areas(measured)
    invisible = _INVISIBLE * float(np.ptp(part.image))
    spots = not measured.sparse and measured.skewness * measured.growth > _ONE_SIDED
    if spots or measured.span < _REGULAR:
        return CorrelatedEstimate(base, correlation, 0.0, None, base, invisible, part)
    brightness = of_brightness(part, measured.base, measured.correlation)
    tried = trials_of(brightness, denoise)
    level = best_level(brightness, measured.sparse, tried)
    evidence = evidence_of(measured, brightness, level, tried)
    calmest = math.sqrt(min(_MOST_SPAN / measured.span, 1.0))
    return CorrelatedEstimate(
        scaled(base, level.factor),
        correlation,
        probability_of_noise(evidence),
        evidence,
        scaled(base, calmest * min(level.least, 1.0)),
        invisible,
        part,
    )
